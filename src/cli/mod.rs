//! The command line: one file per command.

pub mod check;
pub mod demo;
pub mod serve;
#[cfg(feature = "sim")]
pub mod simulate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::control::log;

/// The exit status for a configuration that is wrong; 1 is left to failures of the program itself.
const STATUS_WRONG: u8 = 2;

/// A thread-per-core, shared-nothing proxy for web search and short links.
#[derive(Debug, Parser)]
#[command(name = "hedgerow", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve what the configuration says, until SIGTERM drains it.
    Serve {
        /// The configuration; without it: search on loopback, no engines.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Say whether a configuration is right; every problem with its line. Exit status 2 if not.
    Check {
        /// The configuration.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print the table of all keys (docs/config.md) instead.
        #[arg(long)]
        print_keys: bool,
        /// Print the list of all metrics (docs/metrics.md) instead.
        #[arg(long)]
        print_metrics: bool,
    },
    /// Run the whole search path on loopback with embedded engines over real text.
    Demo(demo::Options),
    /// Run the shipped code in simulated worlds, in virtual time.
    #[cfg(feature = "sim")]
    Simulate(simulate::Options),
}

/// Runs the command that the process's arguments name.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    log::init();
    let status = run_command(arguments.command);
    log::flush();
    status
}

fn run_command(command: Command) -> ExitCode {
    match command {
        Command::Serve { config } => serve::run(config.as_deref()),
        Command::Check { print_keys: true, .. } => check::print_keys(),
        Command::Check { print_metrics: true, .. } => check::print_metrics(),
        Command::Check { config, .. } => check::run(config.as_deref()),
        Command::Demo(options) => demo::run(&options),
        #[cfg(feature = "sim")]
        Command::Simulate(options) => simulate::run(&options),
    }
}
