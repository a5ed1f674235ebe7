//! What the kernel says of this process, read from `/proc`. A figure that cannot be read is 0.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::limits::is_out_of_descriptors;
use crate::metrics::render::Process;

/// `/proc` counts time in these, whatever the kernel's own rate is (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// What is read of a file in `/proc`: above all of them, but for `/proc/stat` of a machine with
/// many interrupts, whose `btime` then is not found.
const BYTES_MAX: usize = 64 * 1024;

/// The files in `/proc`, held open: they are read also when no descriptor is left.
pub(super) struct Files {
    status: Option<File>,
    stat: Option<File>,
    limits: Option<File>,
    machine: Option<File>,
}

impl Files {
    pub(super) fn open() -> Self {
        let open = |path: &str| File::open(path).ok();
        Self {
            status: open("/proc/self/status"),
            stat: open("/proc/self/stat"),
            limits: open("/proc/self/limits"),
            machine: open("/proc/stat"),
        }
    }

    /// As it stands now.
    pub(super) fn observe(&self) -> Process {
        let [status, stat, limits, machine] =
            [&self.status, &self.stat, &self.limits, &self.machine].map(read);
        let process = parse(&status, &stat, &limits, &machine);
        let open_fds = match fs::read_dir("/proc/self/fd") {
            Ok(entries) => entries.count() as u64,
            Err(error) if is_out_of_descriptors(&error) => process.max_fds,
            Err(_) => 0,
        };
        Process { open_fds, ..process }
    }
}

/// The text of a file in `/proc` as of now: reading from its beginning makes it anew.
fn read(file: &Option<File>) -> String {
    let mut bytes = vec![0; BYTES_MAX];
    let mut length = 0;
    while let (Some(file), Some(room)) = (file, bytes.get_mut(length..)) {
        match file.read_at(room, length as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => length += count,
        }
    }
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse(status: &str, stat: &str, limits: &str, machine: &str) -> Process {
    let kib = |name: &str| field(status, name) * 1024;
    // The second field is the program's name in brackets and may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |index: usize| -> u64 {
        let word = after_name.split_ascii_whitespace().nth(index);
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let span = |ticks: u64| Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND);
    Process {
        resident_bytes: kib("VmRSS:"),
        virtual_bytes: kib("VmSize:"),
        open_fds: 0,
        max_fds: field(limits, "Max open files"),
        threads: field(status, "Threads:"),
        // proc_pid_stat(5): utime is field 14, stime 15, starttime 22; the name is field 2.
        cpu: span(ticks(11) + ticks(12)),
        started: Duration::from_secs(field(machine, "btime")) + span(ticks(19)),
    }
}

/// The first number behind `name` on the line that begins with it.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_ascii_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_behind_any_program_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 3 0 2000 9 9";
        let process = parse(
            "Name:\tx\nVmSize:\t   2048 kB\nVmRSS:\t 1024 kB\nThreads:\t3\n",
            stat,
            "Limit  Soft Limit Hard Limit Units\nMax open files   1024   4096   files\n",
            "cpu 1 2\nbtime 1700000000\n",
        );
        assert_eq!(process.resident_bytes, 1 << 20);
        assert_eq!(process.virtual_bytes, 2 << 20);
        assert_eq!((process.threads, process.max_fds), (3, 1_024));
        assert_eq!(process.cpu, Duration::from_secs(2));
        assert_eq!(process.started, Duration::from_secs(1_700_000_020));
        assert_eq!(parse("", "", "", ""), Process::default());
    }

    #[test]
    fn this_process_is_observed() {
        let files = Files::open();
        let process = files.observe();
        assert!(process.resident_bytes > 0 && process.open_fds > 2 && process.max_fds > 2);
        assert!(process.started > Duration::from_secs(1_600_000_000));

        let ballast = vec![1_u8; 64 << 20];
        let later = files.observe();
        assert!(later.resident_bytes > process.resident_bytes, "it is read anew");
        drop(ballast);
    }
}
