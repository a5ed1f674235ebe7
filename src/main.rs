//! The `hedgerow` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    hedgerow::cli::run()
}
