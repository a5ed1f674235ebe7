//! `hedgerow-perf`: load by an open loop, engines by a latency law, idle connections, comparison of
//! two servers, and the generator's own self-test. It speaks TCP only and never imports what it
//! measures: what it says of Hedgerow it says of any server.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a report on standard output is what a command is for")]

mod engine;
mod load;
mod idle;
mod compare;
mod freeze;
mod suite;
mod report;

mod law;
mod arrivals;
mod queries;
mod target;
mod connection;
mod response;
mod measure;
mod evidence;
mod process;
mod sink;
mod core;
mod chance;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures servers; docs/performance.md says what may be claimed
#[derive(Parser)]
#[command(name = "hedgerow-perf", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A search engine whose latency follows a law
    Engine(engine::Options),
    /// Requests by a plan, or as fast as answers come
    Load(Box<load::Options>),
    /// Connections that are held without a request
    Idle(Box<idle::Options>),
    /// What a request costs on two servers, by rounds in turn
    Compare(Box<compare::Options>),
    /// Whether the generator reports known truths
    FreezeTest(freeze::Options),
    /// A measurement from a file
    Suite(suite::Options),
    /// One table of many reports
    Report(report::Options),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(text) => {
            eprintln!("hedgerow-perf: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode, String> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Engine(options) => engine::run(&options).map(done),
        Command::Load(options) => load::run(&options).map(done),
        Command::Idle(options) => idle::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::FreezeTest(options) => freeze::run(&options).map(done),
        Command::Report(options) => report::run(&options).map(done),
        Command::Suite(options) => {
            let arguments = suite::arguments(&options)?;
            match parse(arguments.iter().map(String::as_str))? {
                Command::Suite(_) => Err("a suite does not run a suite".into()),
                command => run(command),
            }
        }
    }
}

/// The command that `arguments`, without the program's name, stand for.
fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Command, String> {
    let all = std::iter::once("hedgerow-perf").chain(arguments);
    Arguments::try_parse_from(all).map(|parsed| parsed.command).map_err(|error| error.to_string())
}
