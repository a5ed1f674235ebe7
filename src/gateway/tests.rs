//! Admission as a whole: the order of its tests, and what each refusal brings along.

use super::*;
use crate::config;
use crate::head::{Field, Method};
use shards::Lane;

const SETTINGS: &str = "
[admission]
limit_min = 4
limit_initial = 4
limit_max = 4
[plans.free]
monthly_credits = 2
[plans.free.fast]
burst = 100
per_second = 1
[plans.pro]
lane = \"batch\"
[plans.pro.lite]
burst = 3
per_second = 0.5
[plans.pro.fast]
burst = 25
per_second = 0.5
[[key]]
name = \"demo\"
sha256 = \"2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea\"
plan = \"pro\"
[[key]]
name = \"a\"
sha256 = \"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\"
plan = \"free\"
";

struct Gate {
    gateway: Gateway,
    limiter: RefCell<Limiter>,
}

impl Gate {
    fn new() -> Self {
        let settings = config::parse(SETTINGS, "t", &|_| None).unwrap_or_else(|p| panic!("{p}"));
        let words = Arc::new(Words::new(&settings));
        let limiter = RefCell::new(Limiter::new(settings.admission));
        Self { gateway: Gateway::new(&settings, words), limiter }
    }

    /// A request with these headers at `now_ms`; it leaves its lane at once if let in.
    fn ask(
        &self,
        endpoint: Endpoint,
        fields: &[(&str, &str)],
        now_ms: u64,
    ) -> Result<Admitted, (Refusal, Option<RateState>)> {
        let admitted = self.ask_and_stay(endpoint, fields, now_ms);
        if let Ok(admitted) = &admitted {
            self.limiter.borrow_mut().leave(admitted.lane);
        }
        admitted
    }

    fn ask_and_stay(
        &self,
        endpoint: Endpoint,
        fields: &[(&str, &str)],
        now_ms: u64,
    ) -> Result<Admitted, (Refusal, Option<RateState>)> {
        let fields: Vec<Field<'_>> =
            fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
        let (method, path, query) = (Method::Get, "/search/fast", b"q=x&api_key=demo".as_slice());
        let head = Head { method, path, query, headers: Headers::new(&fields), host: b"x" };
        let now = Instant::from_nanos(now_ms * 1_000_000);
        let arrived = now.before(Duration::from_millis(5));
        self.gateway.admit(&head, endpoint, arrived, now, &self.limiter)
    }
}

const DEMO: (&str, &str) = ("Authorization", "Bearer demo");
const A: (&str, &str) = ("X-API-Key", "a");

#[test]
fn a_known_key_is_let_in_with_a_deadline_from_its_first_byte() {
    let gate = Gate::new();
    let admitted = gate.ask(Endpoint::Fast, &[DEMO, ("X-Region", "EU")], 1_000).unwrap();
    assert_eq!((admitted.key, admitted.lane), (KeyId(0), Lane::Batch));
    assert_eq!(admitted.deadline, Deadline::at(Instant::from_nanos((1_000 - 5 + 585) * 1_000_000)));
    assert_eq!((admitted.rate.burst, admitted.rate.remaining), (25, 24));
    assert_eq!(admitted.rate.full_in, Duration::from_secs(2));
    assert_eq!(admitted.rate.window, Duration::from_secs(50));
}

#[test]
fn who_is_not_known_learns_nothing_else() {
    let gate = Gate::new();
    let unknown =
        [vec![], vec![("X-API-Key", "wrong")], vec![("X-API-Key", ""), ("X-Region", "x")]];
    for fields in unknown {
        let refused = gate.ask(Endpoint::Fast, &fields, 1_000).unwrap_err();
        assert_eq!(refused, (Refusal::Unauthorized, None), "{fields:?}");
    }
    let long = "k".repeat(10_000);
    let refused = gate.ask(Endpoint::Fast, &[("X-API-Key", &long)], 1_000).unwrap_err();
    assert_eq!(refused.0, Refusal::Unauthorized);
}

#[test]
fn an_endpoint_outside_the_plan_is_forbidden_and_takes_no_token() {
    let gate = Gate::new();
    let refused = gate.ask(Endpoint::Lite, &[A], 1_000).unwrap_err();
    assert!(matches!(refused, (Refusal::Forbidden(_), None)));
    let region = gate.ask(Endpoint::Fast, &[DEMO, ("X-Region", "MARS")], 1_000).unwrap_err();
    assert!(matches!(&region.0, Refusal::Invalid(errors) if errors[0].pointer == "#/X-Region"));
    let two = [DEMO, ("X-Region", "EU"), ("X-Region", "US")];
    assert!(gate.ask(Endpoint::Fast, &two, 1_000).is_err());
    assert_eq!(gate.ask(Endpoint::Fast, &[DEMO], 1_000).unwrap().rate.remaining, 24);
}

#[test]
fn a_pin_to_another_region_is_refused_and_takes_no_token() {
    let gate = Gate::new();
    for region in ["US", "APAC"] {
        let fields = [DEMO, ("X-Region", region)];
        let (refusal, _) = gate.ask(Endpoint::Fast, &fields, 1_000).expect_err("pinned elsewhere");
        assert_eq!((refusal.status(), refusal.is_retryable()), (400, false));
        let Refusal::Invalid(errors) = refusal else { panic!("{refusal:?}") };
        assert_eq!(errors[0].pointer, "#/X-Region");
        assert!(errors[0].detail.contains(&format!("ask a gateway of {region}")), "{errors:?}");
        assert!(errors[0].detail.contains("this gateway serves EU"), "{errors:?}");
    }
    let ours = [DEMO, ("X-Region", "EU"), ("x-region", "EU")];
    assert_eq!(gate.ask(Endpoint::Fast, &ours, 1_000).expect("ours").rate.remaining, 24);
}

#[test]
fn an_empty_bucket_says_when_the_next_token_lands() {
    let gate = Gate::new();
    for _ in 0..3 {
        assert!(gate.ask(Endpoint::Lite, &[DEMO], 1_000).is_ok());
    }
    let (refusal, rate) = gate.ask(Endpoint::Lite, &[DEMO], 1_000).unwrap_err();
    assert_eq!(refusal, Refusal::RateLimited(Duration::from_secs(2)));
    assert_eq!(rate.map(|rate| rate.remaining), Some(0));
    assert!(gate.ask(Endpoint::Fast, &[DEMO], 1_000).is_ok(), "each endpoint has its own bucket");
    assert!(gate.ask(Endpoint::Lite, &[DEMO], 3_000).is_ok());
}

#[test]
fn the_bucket_is_one_over_all_cores() {
    let settings = config::parse(SETTINGS, "t", &|_| None).unwrap_or_else(|p| panic!("{p}"));
    let words = Arc::new(Words::new(&settings));
    let cores: Vec<Gate> = (0..4)
        .map(|_| Gate {
            gateway: Gateway::new(&settings, words.clone()),
            limiter: RefCell::new(Limiter::new(settings.admission)),
        })
        .collect();
    let let_in = (0..60).filter(|n| cores[n % 4].ask(Endpoint::Fast, &[DEMO], 1_000).is_ok());
    assert_eq!(let_in.count(), 25);
}

#[test]
fn a_months_credits_end_and_come_back() {
    let gate = Gate::new();
    let last_second = 1_709_251_199;
    gate.gateway.set_unix_time(Duration::from_secs(last_second));
    assert!(gate.ask(Endpoint::Fast, &[A], 1_000).is_ok());
    assert!(gate.ask(Endpoint::Fast, &[A], 1_000).is_ok());
    let (refusal, rate) = gate.ask(Endpoint::Fast, &[A], 1_000).unwrap_err();
    assert_eq!(refusal, Refusal::CreditsExhausted(Duration::from_secs(1)));
    assert!(rate.is_some());
    gate.gateway.set_unix_time(Duration::from_secs(last_second + 1));
    assert!(gate.ask(Endpoint::Fast, &[A], 1_000).is_ok());
}

#[test]
fn a_request_that_is_shed_keeps_its_credit() {
    let gate = Gate::new();
    while gate.limiter.borrow_mut().enter(Lane::Interactive) {}
    for _ in 0..5 {
        let (refusal, rate) = gate.ask(Endpoint::Fast, &[A], 1_000).unwrap_err();
        assert_eq!(refusal, Refusal::Overloaded);
        assert!(rate.is_some());
    }
    gate.limiter.borrow_mut().leave(Lane::Interactive);
    assert!(gate.ask_and_stay(Endpoint::Fast, &[A], 1_000).is_ok());
    assert_eq!(gate.ask(Endpoint::Fast, &[A], 1_000).unwrap_err().0, Refusal::Overloaded);
    gate.limiter.borrow_mut().leave(Lane::Interactive);
    assert!(gate.ask(Endpoint::Fast, &[A], 1_000).is_ok());
}
