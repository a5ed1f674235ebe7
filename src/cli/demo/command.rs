//! `hedgerow demo`: the engines, an instance in front of them, and the greeting.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{SEED, config, greeting, start};
use crate::cli::{STATUS_WRONG, serve};
use crate::control::log;

/// Options of the demo.
#[derive(Debug, Args)]
pub struct Options {
    /// Search the .txt, .md and .html files of this folder instead of Hedgerow's documents.
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// Where searches are answered, on 127.0.0.1.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Where status and metrics are, on 127.0.0.1.
    #[arg(long, default_value_t = 9090)]
    admin_port: u16,
    /// How many cores to run on: all without it.
    #[arg(long)]
    cores: Option<usize>,
}

/// Runs the demo until it is interrupted.
pub fn run(options: &Options) -> ExitCode {
    let embedded = match start(options.corpus.as_deref(), SEED) {
        Ok(embedded) => embedded,
        Err(error) => {
            log::tell(&format!("hedgerow demo: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let mut text = config(&embedded, options.port, options.admin_port);
    if let Some(cores) = options.cores {
        text = text.replacen("[server]\n", &format!("[server]\ncores = \"{cores}\"\n"), 1);
    }
    let settings = match crate::config::load_text(&text, "hedgerow demo") {
        Ok(settings) => settings,
        Err(problems) => {
            log::tell(&format!("{problems}\nThis follows from --cores, --port or --admin-port."));
            return ExitCode::from(STATUS_WRONG);
        }
    };
    let hello = greeting(&embedded, options.port, options.admin_port);
    serve::serve(settings, || {
        // A greeting that nobody can read is no reason not to serve.
        let _ = std::io::stdout().write_all(hello.as_bytes());
    })
}
