//! The scenarios: something befalls the engines, the traffic or a core, and a checker says what
//! must hold all the same. Each is a world with five equal engines of the law `warm` and the
//! shipped deadline, unless its line says otherwise. Times are in seconds after the traffic began.

use std::time::Duration;

use super::engine::{Effect, Phase};
use super::law::{Body, Law};
use super::outcome::Outcome;
use super::run::Ran;
use super::tally::Stretch;
use super::worlds::{Beside, DEADLINE, Spec, Stall, steady};

/// How long a stretch of time is, in seconds.
pub const STRETCH_S: u64 = 10;

/// How much less of the requests may be answered than before it happened.
const VALID_LOSS_MAX: f64 = 0.02;

/// Five warm engines and the shipped deadline leave 1.5 % unanswered.
const VALID_BEFORE_MIN: f64 = 0.93;

/// The greatest extra load in any 10 s.
const EXTRA_MAX: f64 = 0.12;

/// How long detection, and the way back, may take.
const NOTICED_S: u64 = 60;

/// Until the end of the run.
const END_S: u64 = u64::MAX;

/// A world and what must hold in it.
pub struct Scenario {
    /// The world.
    pub spec: Spec,
    /// What was found that must not be.
    pub check: fn(&View<'_>) -> Vec<String>,
}

/// A run as a checker sees it.
pub struct View<'a> {
    outcome: &'a Outcome,
    ran: &'a Ran,
    stretches: &'a [Stretch],
}

impl Scenario {
    /// What a run of it broke.
    pub fn findings(&self, outcome: &Outcome, ran: &Ran) -> Vec<String> {
        let tally = ran.clients.tally.borrow();
        let view = View { outcome, ran, stretches: &tally.stretches };
        let mut findings = (self.check)(&view);
        // What happens afterwards is compared with what went before: that must be worth it.
        let before = view.valid_ratio(0, 60);
        if before < VALID_BEFORE_MIN {
            findings.push(format!("answered only {before:.4} of the first minute"));
        }
        if outcome.panics > 0 {
            findings.push(format!("{} panics", outcome.panics));
        }
        findings
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn phase(from: u64, until: u64, effect: Effect) -> Phase {
    Phase { from: secs(from), until: secs(until), effect }
}

/// A world of `seconds` at `rate` requests a second.
fn base(name: &'static str, about: &'static str, rate: f64, seconds: u64) -> Spec {
    let mut spec = Spec::new(name, about, steady(Law::warm(Body::Pareto), 5)).budget(0.10);
    spec.deadline = DEADLINE;
    spec.rate = rate;
    spec.requests = (rate * seconds as f64) as u64;
    spec.warm_up_ratio = 0.0;
    spec.stretch = secs(STRETCH_S);
    spec
}

/// All scenarios.
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario { spec: grey(), check: check_grey },
        Scenario { spec: slow_episode(), check: check_slow_episode },
        Scenario { spec: all_plus_200(), check: check_all_plus_200 },
        Scenario { spec: all_times_3(), check: check_all_plus_200 },
        Scenario { spec: dead(), check: check_dead },
        Scenario { spec: flapping(), check: check_flapping },
        Scenario { spec: cold_start(), check: check_cold_start },
        Scenario { spec: batch_night(), check: check_batch_night },
        Scenario { spec: agents_40(), check: check_agents_40 },
        Scenario { spec: stalled_core(), check: check_stalled_core },
    ]
}

fn grey() -> Spec {
    let about = "1.65/s on 4 cores; from 300 to 900 s one engine answers with empty pages";
    let mut spec = base("grey", about, 1.65, 1_500);
    spec.cores = 4;
    spec.befalls(0, phase(300, 900, Effect::Empty))
}

fn check_grey(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    // By its breaker or by its score: what counts is that hardly anybody is sent to it.
    view.has_share_at_most(0, 300 + NOTICED_S, 900, 0.05, &mut findings);
    view.closes_within(0, 900, &mut findings);
    view.is_answered(300 + NOTICED_S, 900, 300, &mut findings);
    findings
}

fn slow_episode() -> Spec {
    let about = "60/s; from 120 to 240 s one engine takes five times as long";
    base("slow-episode", about, 60.0, 360).befalls(0, phase(120, 240, Effect::Times(5.0)))
}

fn check_slow_episode(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    view.has_share_at_most(0, 150, 240, 0.12, &mut findings);
    view.is_answered(130, 240, 120, &mut findings);
    view.has_share_at_least(0, 300, 360, 0.08, &mut findings);
    view.spends_little(&mut findings);
    findings
}

fn all_plus_200() -> Spec {
    let about = "60/s; from 120 to 240 s every engine takes 200 ms longer";
    let spec = base("all-plus-200", about, 60.0, 360);
    let slower = Effect::Plus(Duration::from_millis(200));
    (0..5).fold(spec, |spec, index| spec.befalls(index, phase(120, 240, slower)))
}

fn all_times_3() -> Spec {
    let about = "60/s; from 120 to 240 s every engine takes three times as long";
    let spec = base("all-times-3", about, 60.0, 360);
    let slower = Effect::Times(3.0);
    (0..5).fold(spec, |spec, index| spec.befalls(index, phase(120, 240, slower)))
}

/// Of both ways in which all engines are slower.
fn check_all_plus_200(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    view.spends_little(&mut findings);
    view.is_answered(300, 360, 120, &mut findings);
    findings
}

fn dead() -> Spec {
    let about = "60/s; from 60 to 240 s one engine closes every connection";
    base("dead", about, 60.0, 360).befalls(0, phase(60, 240, Effect::Dead))
}

fn check_dead(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    view.opens_within(0, 60, &mut findings);
    view.closes_within(0, 240, &mut findings);
    view.is_answered(60, 360, 60, &mut findings);
    findings
}

fn flapping() -> Spec {
    let about = "60/s; from 60 to 360 s one engine is dead and alive in turn, 20 s each";
    let flaps = Effect::Flapping(secs(20));
    base("flapping", about, 60.0, 420).befalls(0, phase(60, 360, flaps))
}

fn check_flapping(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    view.is_answered(60, 360, 60, &mut findings);
    // Twice for each of its eight deaths: once when it dies, once when it dies while it is probed.
    let openings = view.outcome.engines.first().map_or(0, |engine| engine.openings);
    if openings > 16 {
        findings.push(format!("its breaker opened {openings} times in eight deaths"));
    }
    findings
}

fn cold_start() -> Spec {
    base("cold-start", "60/s from the first second on, nothing measured, nothing cached", 60.0, 180)
}

fn check_cold_start(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    let (cold, warm) = (view.valid_ratio(0, 10), view.valid_ratio(60, 180));
    if cold < warm - VALID_LOSS_MAX {
        findings.push(format!("answered {cold:.4} of the first 10 s, {warm:.4} later"));
    }
    view.turns_nobody_away(&mut findings);
    findings
}

fn batch_night() -> Spec {
    let about = "20/s; from 120 to 240 s a batch job asks 100/s in its own lane";
    let mut spec = base("batch-night", about, 20.0, 360);
    spec.beside = Beside::Batch { rate: 100.0, from: secs(120), until: secs(240) };
    spec
}

fn check_batch_night(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    view.is_answered(120, 240, 120, &mut findings);
    view.turns_nobody_away(&mut findings);
    let (before, during) = (view.quantile_ms(0.9, 0, 120), view.quantile_ms(0.9, 120, 240));
    // Either has a standard error of 4 % here.
    if during > before * 1.2 {
        findings.push(format!("people's p90 {before:.0} ms before the job, {during:.0} ms in it"));
    }
    let answers = &view.outcome.answers;
    if answers.batch_refused * 2 > answers.batch {
        let (refused, all) = (answers.batch_refused, answers.batch);
        findings.push(format!("{refused} of {all} of the job's requests were turned away"));
    }
    findings
}

fn agents_40() -> Spec {
    let about = "20/s on 4 cores; every 5 s 40 agents ask the same at the same moment";
    let mut spec = base("agents-40", about, 20.0, 300);
    spec.cores = 4;
    spec.beside = Beside::Agents { size: 40, every: secs(5), times: 48 };
    spec
}

fn check_agents_40(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    let misses = view.outcome.classes.get("longtail").map_or(0, |class| class.misses);
    // Where the first call is slow, another core makes its own rather than miss the deadline.
    if misses > 48 + 12 {
        findings.push(format!("48 bursts of 40 made {misses} upstream requests"));
    }
    view.turns_nobody_away(&mut findings);
    findings
}

fn stalled_core() -> Spec {
    let about = "60/s on 4 cores; five times a core stands still for 300 ms";
    let mut spec = base("stalled-core", about, 60.0, 240);
    spec.cores = 4;
    let span = Duration::from_millis(300);
    spec.stalls = (2..7).map(|turn| Stall { at: secs(30 * turn), span, core: 0 }).collect();
    spec
}

fn check_stalled_core(view: &View<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    view.is_answered(60, 240, 60, &mut findings);
    let longest = view.outcome.latency.max;
    if longest > 910.0 {
        findings.push(format!("{longest:.0} ms: later than the deadline and the stall together"));
    }
    // One stretch has about 25 requests on the core that stood still, and the sockets' queue.
    if view.outcome.answers.late > 5 * 25 {
        findings.push(format!("{} requests ended late", view.outcome.answers.late));
    }
    findings
}

impl View<'_> {
    fn between(&self, from_s: u64, until_s: u64) -> &[Stretch] {
        let (from, until) = ((from_s / STRETCH_S) as usize, (until_s / STRETCH_S) as usize);
        self.stretches.get(from..until.min(self.stretches.len())).unwrap_or_default()
    }

    fn valid_ratio(&self, from_s: u64, until_s: u64) -> f64 {
        let stretches = self.between(from_s, until_s);
        let requests: u64 = stretches.iter().map(|stretch| stretch.requests).sum();
        let valid: u64 = stretches.iter().map(|stretch| stretch.valid).sum();
        if requests == 0 { 1.0 } else { valid as f64 / requests as f64 }
    }

    fn quantile_ms(&self, quantile: f64, from_s: u64, until_s: u64) -> f64 {
        let times = self.between(from_s, until_s).iter().flat_map(|stretch| &stretch.times);
        let all = Stretch { times: times.copied().collect(), ..Stretch::default() };
        all.quantile_ms(quantile)
    }

    /// The engine's share of all calls.
    fn share(&self, engine: usize, from_s: u64, until_s: u64) -> f64 {
        let calls = &self.ran.watched.calls;
        let (from, until) = ((from_s / STRETCH_S) as usize, (until_s / STRETCH_S) as usize);
        let stretches = calls.get(from..until.min(calls.len())).unwrap_or_default();
        let all: u64 = stretches.iter().flatten().sum();
        let own: u64 = stretches.iter().filter_map(|calls| calls.get(engine)).sum();
        if all == 0 { 0.0 } else { own as f64 / all as f64 }
    }

    fn has_share_at_most(
        &self,
        engine: usize,
        from_s: u64,
        until_s: u64,
        most: f64,
        findings: &mut Vec<String>,
    ) {
        let share = self.share(engine, from_s, until_s);
        if share > most {
            let found = format!("e{engine} has {share:.3} of the calls, {from_s} to {until_s} s");
            findings.push(found);
        }
    }

    fn has_share_at_least(
        &self,
        engine: usize,
        from_s: u64,
        until_s: u64,
        least: f64,
        findings: &mut Vec<String>,
    ) {
        let share = self.share(engine, from_s, until_s);
        if share < least {
            let until =
                if until_s == END_S { "the end".to_owned() } else { format!("{until_s} s") };
            findings.push(format!("e{engine} has only {share:.3}, {from_s} s to {until}"));
        }
    }

    /// As many are answered as in the time before `base_until_s`.
    fn is_answered(
        &self,
        from_s: u64,
        until_s: u64,
        base_until_s: u64,
        findings: &mut Vec<String>,
    ) {
        let (before, during) =
            (self.valid_ratio(0, base_until_s), self.valid_ratio(from_s, until_s));
        if during < before - VALID_LOSS_MAX {
            findings.push(format!(
                "answered validly {before:.4} before, {during:.4} from {from_s} to {until_s} s"
            ));
        }
    }

    fn opens_within(&self, engine: usize, from_s: u64, findings: &mut Vec<String>) {
        let mut changes = self.ran.watched.changes.iter();
        let limit = from_s as f64..=(from_s + NOTICED_S) as f64;
        if !changes.any(|(at, index, opens)| *index == engine && *opens && limit.contains(at)) {
            findings.push(format!("e{engine} was not out of rotation within {NOTICED_S} s"));
        }
    }

    /// Closed on every core, and asked again.
    fn closes_within(&self, engine: usize, from_s: u64, findings: &mut Vec<String>) {
        let mut changes = self.ran.watched.changes.iter();
        let last = changes.rfind(|(_, index, _)| *index == engine);
        let is_back =
            last.is_none_or(|(at, _, opens)| !opens && *at <= (from_s + NOTICED_S) as f64);
        if !is_back {
            findings.push(format!("e{engine} was not back within {NOTICED_S} s: {last:?}"));
        }
        self.has_share_at_least(engine, from_s + NOTICED_S, END_S, 0.05, findings);
    }

    fn spends_little(&self, findings: &mut Vec<String>) {
        let extra = self.outcome.extra.in_any_10_s;
        if extra > EXTRA_MAX {
            findings.push(format!("extra load {extra:.3} in some 10 s, at most {EXTRA_MAX}"));
        }
    }

    fn turns_nobody_away(&self, findings: &mut Vec<String>) {
        let refused: u64 = self.stretches.iter().map(|stretch| stretch.refused).sum();
        if refused > 0 {
            findings.push(format!("{refused} people's requests were turned away"));
        }
    }
}
