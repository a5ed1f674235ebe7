//! `hedgerow check`: is this configuration right? Prints one line and ends with 0, or every problem
//! with its line on standard error and ends with 2. Opens no socket and asks no other machine.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::STATUS_WRONG;
use crate::config::{self, Settings};
use crate::metrics;

/// Checks the file at `path`, or the built-in text without one. What is right but not served by
/// this version is named on standard error and does not change the status.
pub fn run(path: Option<&Path>) -> ExitCode {
    report(path, &mut io::stdout(), &mut io::stderr())
}

/// Writes `docs/config.md` to standard output.
pub fn print_keys() -> ExitCode {
    print(&config::keys_document())
}

/// Writes `docs/metrics.md` to standard output.
pub fn print_metrics() -> ExitCode {
    print(&metrics::table::document())
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A reader of the output that went away is no concern of the status.
fn report(path: Option<&Path>, out: &mut dyn Write, errors: &mut dyn Write) -> ExitCode {
    match config::load(path) {
        Ok(settings) => {
            let _ = writeln!(out, "ok: {}", summary(&settings));
            for what in settings.unsupported() {
                let _ = writeln!(errors, "`hedgerow serve` will refuse it: {what}");
            }
            if let Some(what) = config::throttled(&settings) {
                let _ = writeln!(errors, "{what}");
            }
            ExitCode::SUCCESS
        }
        Err(problems) => {
            let _ = writeln!(errors, "{problems}");
            let count = problems.count();
            let noun = if count == 1 { "problem" } else { "problems" };
            let _ = writeln!(errors, "{count} {noun}; every key is in docs/config.md");
            ExitCode::from(STATUS_WRONG)
        }
    }
}

fn summary(settings: &Settings) -> String {
    let engines: Vec<&str> = settings.engines.iter().map(|e| e.name.as_str()).collect();
    let listeners: Vec<String> = settings.listen.iter().map(|l| l.address.to_string()).collect();
    format!(
        "{} cores, listening on {}, admin on {}, {} engines{}{}, {} plans, {} keys",
        settings.server.cpus.len(),
        listeners.join(" and "),
        settings.admin.address,
        engines.len(),
        if engines.is_empty() { "" } else { ": " },
        engines.join(", "),
        settings.plans.len(),
        settings.keys.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: Option<&Path>, expected: ExitCode, out: &str, errors: &str) {
        let (mut told, mut warned) = (Vec::new(), Vec::new());
        let status = report(path, &mut told, &mut warned);
        assert_eq!(format!("{status:?}"), format!("{expected:?}"));
        assert!(String::from_utf8_lossy(&told).contains(out), "{told:?}");
        assert!(String::from_utf8_lossy(&warned).contains(errors), "{warned:?}");
    }

    #[test]
    fn the_status_tells_right_from_wrong() {
        check(None, ExitCode::SUCCESS, "listening on 127.0.0.1:8080, admin on", "");
        let nowhere = Path::new("/nowhere/hedgerow.toml");
        check(Some(nowhere), ExitCode::from(2), "", "/nowhere/hedgerow.toml: No such file");
    }
}
