//! `hedgerow-perf`: load by an open loop, engines by a latency law, idle connections, comparison of
//! two servers, and the generator's own self-test. It speaks TCP only and never imports what it
//! measures: what it says of Hedgerow it says of any server.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    reason = "a report on standard output is what a command is for"
)]

mod chance;
mod core;
mod law;
mod arrivals;
mod queries;
mod target;
mod response;
mod connection;
mod measure;
mod process;
mod sink;
mod engine;
mod load;
mod freeze;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures servers; see docs/performance.md for what may be claimed.
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
    /// Whether the generator reports known truths
    FreezeTest(freeze::Options),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let outcome = match Arguments::parse().command {
        Command::Engine(options) => engine::run(&options),
        Command::Load(options) => load::run(&options),
        Command::FreezeTest(options) => freeze::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("hedgerow-perf: {text}");
            ExitCode::FAILURE
        }
    }
}
