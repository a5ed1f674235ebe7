//! The `hedgerow` program.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

fn main() -> ExitCode {
    hedgerow::cli::run()
}
