//! The threads of an instance's cores: started, told apart, and waited for in the order in which
//! they end, so that one that dies is noticed at once, whatever its number.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The cores that were started.
pub(super) struct Cores {
    threads: Vec<Option<JoinHandle<io::Result<()>>>>,
    ends: Receiver<usize>,
    end: Sender<usize>,
}

/// Names a core as ended when dropped, so also when its thread panics.
struct Ends(usize, Sender<usize>);

impl Drop for Ends {
    fn drop(&mut self) {
        // Nobody listens any more when a start is given up.
        let _ = self.1.send(self.0);
    }
}

impl Cores {
    /// None yet.
    pub(super) fn new() -> Self {
        let (end, ends) = channel();
        Self { threads: Vec::new(), ends, end }
    }

    /// Starts the next core; `run` returns when it has drained.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(
        &mut self,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let index = self.threads.len();
        let ends = Ends(index, self.end.clone());
        let thread = std::thread::Builder::new().name(format!("core-{index}"));
        let thread = thread.spawn(move || {
            let _ends = ends;
            run()
        })?;
        self.threads.push(Some(thread));
        Ok(())
    }

    /// The next core that ends: its number, and why if it did not end by itself. None once all
    /// have.
    pub(super) fn next_end(&mut self) -> Option<(usize, Result<(), String>)> {
        self.threads.iter().position(Option::is_some)?;
        let index = self.ends.recv().ok()?;
        let thread = self.threads.get_mut(index)?.take()?;
        let ended = match thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("a panic outside any request (see the log)".to_owned()),
        };
        Some((index, ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_later_core_that_dies_is_noticed_while_an_earlier_one_runs() {
        let (stop, stopped) = channel::<()>();
        let mut cores = Cores::new();
        cores.start(move || stopped.recv().map_err(io::Error::other)).unwrap();
        cores.start(|| panic!("planted")).unwrap();
        let (index, ended) = cores.next_end().unwrap();
        assert_eq!((index, ended.is_err()), (1, true));
        stop.send(()).unwrap();
        assert_eq!(cores.next_end(), Some((0, Ok(()))));
        assert_eq!(cores.next_end(), None);
    }

    #[test]
    fn every_core_ends_once() {
        let all_run = std::sync::Arc::new(Barrier::new(3));
        let mut cores = Cores::new();
        for index in 0..3 {
            let all_run = all_run.clone();
            let run = move || {
                all_run.wait();
                if index == 2 { Err(io::Error::other("no ring")) } else { Ok(()) }
            };
            cores.start(run).unwrap();
        }
        let mut ends: Vec<_> = std::iter::from_fn(|| cores.next_end()).collect();
        ends.sort();
        assert_eq!(ends, [(0, Ok(())), (1, Ok(())), (2, Err("no ring".to_owned()))]);
    }
}
