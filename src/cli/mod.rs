//! The command line: one file per command.

pub mod check;
pub mod demo;
pub mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

/// Runs the command that the process's arguments name.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    init_log();
    match arguments.command {
        Command::Serve { config } => serve::run(config.as_deref()),
        Command::Check { print_keys: true, .. } => check::print_keys(),
        Command::Check { print_metrics: true, .. } => check::print_metrics(),
        Command::Check { config, .. } => check::run(config.as_deref()),
        Command::Demo(options) => demo::run(&options),
    }
}

/// Log lines on standard error; `HEDGEROW_LOG` filters them (`info` without it).
fn init_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("HEDGEROW_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
