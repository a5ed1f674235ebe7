//! Log lines on standard error, written by a thread of their own. A reader that stalls (a full
//! pipe, a stopped terminal) costs lines, which are counted, and never a core's time; one that is
//! gone, or a full disk, costs the lines alone. Nothing here may fail, panic or wait without end.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

/// The variable that filters log lines; `info` without it.
const FILTER_VARIABLE: &str = "HEDGEROW_LOG";

/// Lines that wait to be written; the next one is dropped and counted.
const LINES_MAX: usize = 4_096;

/// How long the end of the process waits for lines to be written, and how often it looks whether
/// there is room for its question.
const FLUSH_MAX: Duration = Duration::from_secs(1);
const FLUSH_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Where lines go; none before `init`: straight to standard error.
static WRITER: OnceLock<SyncSender<Letter>> = OnceLock::new();

/// Lines dropped since the last one that was written.
static LOST: AtomicU64 = AtomicU64::new(0);

/// What the writing thread is sent.
enum Letter {
    Line(Vec<u8>),
    /// Answer once everything before it is written.
    Flush(SyncSender<()>),
}

/// Begins to log, panics included. Once per process.
pub fn init() {
    let (sender, letters) = sync_channel(LINES_MAX);
    let thread = std::thread::Builder::new().name("log".to_owned());
    if thread.spawn(move || write_lines(&letters, &LOST, &mut io::stderr())).is_ok() {
        let _ = WRITER.set(sender);
    }
    let wanted = std::env::var_os(FILTER_VARIABLE).filter(|text| !text.is_empty());
    let filter = wanted.as_ref().and_then(|text| EnvFilter::try_new(text.to_str()?).ok());
    let is_wrong = wanted.is_some() && filter.is_none();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("info")))
        .with_ansi(io::stderr().is_terminal())
        .with_writer(|| Line)
        .log_internal_errors(false)
        .try_init();
    if is_wrong {
        tracing::warn!("{FILTER_VARIABLE} is no filter (as hedgerow=debug): info is logged");
    }
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic.payload_as_str().unwrap_or("no text");
        tracing::error!(thread = thread.name(), place, what, "a panic; please report it");
        // The process may end with it; a core's thread does not, and must not wait for a reader.
        if !thread.name().is_some_and(|name| name.starts_with("core-")) {
            flush();
        }
    }));
}

/// Waits until all lines so far are written, a second at the most.
pub fn flush() {
    let Some(writer) = WRITER.get() else { return };
    let (done, is_done) = sync_channel(1);
    for _ in 0..FLUSH_MAX.as_millis() / FLUSH_LOOK_EVERY.as_millis() {
        match writer.try_send(Letter::Flush(done.clone())) {
            Err(TrySendError::Full(_)) => {
                let _ = is_done.recv_timeout(FLUSH_LOOK_EVERY);
            }
            Err(TrySendError::Disconnected(_)) => return,
            Ok(()) => {
                let _ = is_done.recv_timeout(FLUSH_MAX);
                return;
            }
        }
    }
}

/// Says `text` on standard error, on a line of its own behind all log lines, if anybody listens.
pub fn tell(text: &str) {
    flush();
    let _ = writeln!(io::stderr(), "{text}");
}

/// The writing thread: until every sender is gone.
fn write_lines(letters: &Receiver<Letter>, lost: &AtomicU64, out: &mut dyn Write) {
    while let Ok(letter) = letters.recv() {
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(out, "{lost} log lines were lost: nobody read standard error");
        }
        match letter {
            Letter::Line(line) => drop(out.write_all(&line)),
            Letter::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// One log line on its way; the subscriber writes it at once.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match WRITER.get().map(|writer| writer.try_send(Letter::Line(bytes.to_vec()))) {
            Some(Ok(())) => {}
            Some(Err(_)) => drop(LOST.fetch_add(1, Ordering::Relaxed)),
            None => drop(io::stderr().write_all(bytes)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes nothing.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order_and_lost_ones_are_counted() {
        let (sender, letters) = sync_channel(8);
        let (done, is_done) = sync_channel(1);
        sender.send(Letter::Line(b"one\n".to_vec())).unwrap();
        sender.send(Letter::Line(b"two\n".to_vec())).unwrap();
        sender.send(Letter::Flush(done)).unwrap();
        drop(sender);
        let mut out = Vec::new();
        write_lines(&letters, &AtomicU64::new(7), &mut out);
        let expected = "7 log lines were lost: nobody read standard error\none\ntwo\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        is_done.try_recv().unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_left_out() {
        let (sender, letters) = sync_channel(8);
        sender.send(Letter::Line(b"one\n".to_vec())).unwrap();
        drop(sender);
        write_lines(&letters, &AtomicU64::new(0), &mut Full);
        assert!(letters.recv().is_err(), "everything was taken");
    }
}
