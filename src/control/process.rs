//! What the kernel says of this process, read from `/proc`. A figure that cannot be read is 0.

use std::fs;
use std::time::Duration;

use super::limits::with_reserve;
use crate::metrics::render::Process;

/// `/proc` counts time in these, whatever the kernel's own rate is (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// As it stands now, also when every descriptor is taken.
pub(super) fn observe() -> Process {
    let process = read();
    if process.open_fds > 0 { process } else { with_reserve(read) }
}

fn read() -> Process {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let descriptors = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    Process {
        open_fds: descriptors,
        ..parse(
            &read("/proc/self/status"),
            &read("/proc/self/stat"),
            &read("/proc/self/limits"),
            &read("/proc/stat"),
        )
    }
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
        let process = observe();
        assert!(process.resident_bytes > 0 && process.open_fds > 2 && process.max_fds > 2);
        assert!(process.started > Duration::from_secs(1_600_000_000));
    }
}
