//! `hedgerow serve`: an instance, until it is drained.

use std::path::Path;
use std::process::ExitCode;

use super::STATUS_WRONG;
use crate::control::log;
use crate::{boot, config};

/// Serves the configuration at `path` (the built-in one without it) until SIGTERM, SIGINT or
/// `POST /drain`. Exit status 0 after a drain, 2 for a wrong configuration, 1 for all else.
pub fn run(path: Option<&Path>) -> ExitCode {
    let settings = match config::load(path) {
        Ok(settings) => settings,
        Err(problems) => {
            log::tell(&problems.to_string());
            return ExitCode::from(STATUS_WRONG);
        }
    };
    serve(settings, || {})
}

/// Starts an instance, calls `started` once it listens, and waits for its end.
pub fn serve(settings: config::Settings, started: impl FnOnce()) -> ExitCode {
    let listens: Vec<String> = settings.listen.iter().map(|l| l.address.to_string()).collect();
    let (cores, admin) = (settings.server.cpus.len(), settings.admin.address);
    if let Some(what) = config::throttled(&settings) {
        tracing::warn!("{what}");
    }
    let instance = match boot::start(settings) {
        Ok(instance) => instance,
        Err(error) => {
            log::tell(&format!("hedgerow cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    tracing::info!(cores, listens = listens.join(" "), %admin, "serving");
    started();
    match instance.wait() {
        Ok(()) => {
            tracing::info!("drained");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(%error, "ended");
            ExitCode::FAILURE
        }
    }
}
