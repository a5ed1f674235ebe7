//! `hedgerow simulate`: the shipped code in worlds of virtual time. What is printed on standard
//! output follows from the arguments alone; how long it took goes to standard error.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::simulate::chance::Chance;
use crate::simulate::outcome::{self, Outcome};
use crate::simulate::plan::Poisson;
use crate::simulate::report;
use crate::simulate::run::{self, Job};
use crate::simulate::worlds::{self, Spec};

/// Options of the simulation.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run one world, by its name; without a name, list them.
    World {
        /// The world: B, W, H, Q, ...
        name: Option<String>,
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
    /// Run as many seeds, from `--seed` on; prints median and worst.
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
}

/// Runs what the arguments name.
pub fn run(options: &Options) -> ExitCode {
    let done = match &options.what {
        What::World { name: None, .. } => print(&list()),
        What::World { name: Some(name), common } => world(name, common),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hedgerow simulate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> String {
    worlds::worlds().iter().map(|spec| format!("{:8} {}\n", spec.name, spec.about)).collect()
}

fn world(name: &str, common: &Common) -> Result<(), String> {
    let specs = worlds::worlds();
    let found = specs.into_iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
    let spec = found.ok_or_else(|| format!("there is no world {name}; they are:\n{}", list()))?;
    let spec = common.apply(spec)?;
    let mut outcomes = Vec::new();
    for seed in (common.seed..).take(usize::try_from(common.seeds.max(1)).unwrap_or(1)) {
        let outcome = run_one(&spec, seed)?;
        print(&report::outcome(&outcome))?;
        outcomes.push(outcome);
    }
    if outcomes.len() > 1 {
        print(&report::seeds(&outcomes))?;
    }
    write_json(common.json.as_deref(), &outcomes)
}

fn run_one(spec: &Spec, seed: u64) -> Result<Outcome, String> {
    let chance = Chance::new(seed, 0);
    let plan = Poisson::new(chance, 0, spec.rate, spec.repeat_ratio, spec.requests);
    let job = Job {
        spec,
        seed,
        plan: Box::new(plan),
        warm_up: spec.requests * 3 / 100,
        stalls: Vec::new(),
        tick: Duration::from_secs(1),
    };
    let ran = run::run(job)?;
    Ok(Outcome::of(spec, seed, &ran))
}

fn write_json(path: Option<&Path>, outcomes: &[Outcome]) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let text = match outcomes {
        [one] => one.json(),
        several => outcome::json(&several),
    };
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn print(text: &str) -> Result<(), String> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}
