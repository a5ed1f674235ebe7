//! `hedgerow simulate`: the shipped code in worlds of virtual time. What is printed on standard
//! output, and what is written, follows from the arguments alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::simulate::outcome::{self, Outcome};
use crate::simulate::run::{self, Ran};
use crate::simulate::scenario::{self, Scenario};
use crate::simulate::sweep::{self, Row};
use crate::simulate::worlds::{self, Spec};
use crate::simulate::{figure, report};

/// Options of the simulation.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run one world or scenario, by its name; without a name, list them. A scenario's checker
    /// decides the exit status.
    World {
        /// The world: B, W, H, Q, grey, dead, ...
        name: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Repeat the published sweep of hedge delays, with the deadline lifted.
    Sweep {
        /// The world it is run in.
        #[arg(long, default_value = "W")]
        world: String,
        #[command(flatten)]
        common: Common,
    },
    /// Replay the published week, or the first `--requests` of it.
    Week {
        #[command(flatten)]
        common: Common,
    },
}

/// What every run takes.
#[derive(Debug, Args)]
struct Common {
    /// From which everything is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run as many seeds, from `--seed` on, and print median and worst.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// How many requests.
    #[arg(long)]
    requests: Option<u64>,
    /// The deadline in ms, where the world lifts it; 600 is the shipped one.
    #[arg(long, value_name = "MS")]
    deadline: Option<u64>,
    /// Cores of the simulated instance.
    #[arg(long)]
    cores: Option<usize>,
    /// A setting of the instance, as `hedge.mode="percentile"`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Write the outcome as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figure as SVG; of several seeds, the first one's.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Common {
    /// The world as these options want it.
    fn apply(&self, mut spec: Spec) -> Result<Spec, String> {
        spec.requests = self.requests.unwrap_or(spec.requests);
        spec.cores = self.cores.unwrap_or(spec.cores);
        spec.deadline = self.deadline.map_or(spec.deadline, Duration::from_millis);
        for setting in &self.settings {
            let (key, value) = setting.split_once('=').ok_or_else(|| {
                format!("--set {setting}: not of the form KEY=VALUE, as hedge.delay_max_ms=450")
            })?;
            spec = spec.with(key, value);
        }
        Ok(spec)
    }

    fn seeds(&self) -> impl Iterator<Item = u64> {
        (self.seed..=u64::MAX).take(usize::try_from(self.seeds.max(1)).unwrap_or(usize::MAX))
    }
}

/// Runs what the arguments name.
pub fn run(options: &Options) -> ExitCode {
    let done = match &options.what {
        What::World { name: None, .. } => print(&list()),
        What::World { name: Some(name), common } => world(name, common),
        What::Sweep { world, common } => sweep(world, common),
        What::Week { common } => runs(worlds::week(), None, common),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody reads it: the exit status still tells.
            let _ = writeln!(std::io::stderr(), "hedgerow simulate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> String {
    let worlds = worlds::worlds().into_iter();
    let scenarios = scenario::scenarios().into_iter().map(|scenario| scenario.spec);
    worlds.chain(scenarios).map(|spec| format!("{:13} {}\n", spec.name, spec.about)).collect()
}

fn world(name: &str, common: &Common) -> Result<(), String> {
    let is_named = |spec: &Spec| spec.name.eq_ignore_ascii_case(name);
    if let Some(spec) = worlds::worlds().into_iter().find(is_named) {
        return runs(spec, None, common);
    }
    let mut scenarios = scenario::scenarios().into_iter();
    let Some(scenario) = scenarios.find(|scenario| is_named(&scenario.spec)) else {
        return Err(format!("there is no world {name}; they are:\n{}", list()));
    };
    runs(scenario.spec.clone(), Some(&scenario), common)
}

/// Runs a world once for each seed, and a scenario's checker over each.
fn runs(spec: Spec, scenario: Option<&Scenario>, common: &Common) -> Result<(), String> {
    let spec = common.apply(spec)?;
    let mut outcomes = Vec::new();
    let mut findings = Vec::new();
    for seed in common.seeds() {
        let (outcome, ran) = run_one(&spec, seed)?;
        print(&report::outcome(&outcome))?;
        if let Some(scenario) = scenario {
            let found = scenario.findings(&outcome, &ran);
            print(&report::findings(&found))?;
            findings.extend(found.into_iter().map(|found| format!("seed {seed}: {found}")));
        }
        if let Some(path) = common.svg.as_deref().filter(|_| outcomes.is_empty()) {
            write(path, &figure::run(&outcome, &ran))?;
        }
        outcomes.push(outcome);
    }
    if outcomes.len() > 1 {
        print(&report::seeds(&outcomes))?;
    }
    match outcomes.as_slice() {
        [one] => write_json(common, one)?,
        several => write_json(common, &several)?,
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("; ")) }
}

fn sweep(name: &str, common: &Common) -> Result<(), String> {
    let spec = worlds::worlds().into_iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
    let spec = spec.ok_or_else(|| format!("there is no world {name}"))?;
    let specs = sweep::worlds(&common.apply(spec)?);
    let mut rows = Vec::new();
    for (spec, published) in specs.iter().zip(sweep::PUBLISHED) {
        let (outcome, _) = run_one(spec, common.seed)?;
        rows.push(Row { published, outcome });
    }
    print(&sweep::table(&rows))?;
    if let Some(path) = &common.svg {
        write(path, &sweep::figure(&rows))?;
    }
    write_json(common, &rows)
}

fn run_one(spec: &Spec, seed: u64) -> Result<(Outcome, Ran), String> {
    let ran = run::run(spec, seed)?;
    Ok((Outcome::new(spec, seed, &ran), ran))
}

fn write_json(common: &Common, value: &impl Serialize) -> Result<(), String> {
    common.json.as_deref().map_or(Ok(()), |path| write(path, &outcome::json(value)))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn print(text: &str) -> Result<(), String> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}
