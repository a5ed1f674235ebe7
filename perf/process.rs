//! What the kernel counts, read from /proc: the CPU time and memory of a process tree, and what
//! disturbed a run (steal, pressure).
//!
//! CPU time comes from each thread's `schedstat` (ns), which ticks of 10 ms would blur in rounds of
//! 2 s; the split into user and system time only exists in ticks. A thread that ended is lost from
//! `schedstat`, so the larger of both sources counts. A field that is missing reads as 0.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde::Serialize;

/// Linux counts user and system time in ticks of 10 ms, whatever the kernel's own clock.
const TICK: Duration = Duration::from_millis(10);
const PAGE_BYTES: u64 = 4096;

/// CPU time of a process tree so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    /// On a CPU, user and system, in ns steps.
    pub(crate) total: Duration,
    /// In user code, in 10 ms steps.
    pub(crate) user: Duration,
    /// In the kernel, in 10 ms steps.
    pub(crate) system: Duration,
}

impl CpuTime {
    /// What was spent since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// CPU time of `root` and all its living descendants, with all their threads.
pub(crate) fn cpu_of_tree(root: u32) -> CpuTime {
    tree(root).into_iter().map(cpu_of_one).fold(CpuTime::default(), |sum, one| CpuTime {
        total: sum.total + one.total,
        user: sum.user + one.user,
        system: sum.system + one.system,
    })
}

/// Resident memory of `root` and all its living descendants; pages shared by two are counted twice.
pub(crate) fn rss_bytes_of_tree(root: u32) -> u64 {
    let of_one = |pid| {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let pages: u64 = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
        pages.saturating_mul(PAGE_BYTES)
    };
    tree(root).into_iter().map(of_one).sum()
}

/// Whether `pid` is a living process.
pub(crate) fn is_alive(pid: u32) -> bool {
    Stat::read(pid).is_some()
}

fn cpu_of_one(pid: u32) -> CpuTime {
    let Some(stat) = Stat::read(pid) else {
        return CpuTime::default();
    };
    let ticks = stat.user + stat.system;
    CpuTime { total: scheduled(pid).max(ticks), user: stat.user, system: stat.system }
}

fn scheduled(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    threads.flatten().filter_map(of_thread).sum()
}

/// `root` and its descendants: the parent links of all processes, followed until nothing is new.
fn tree(root: u32) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Stat::read(pid).map(|stat| (pid, stat.parent)))
        .collect();
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        for (pid, parent) in &parents {
            if found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

struct Stat {
    parent: u32,
    user: Duration,
    system: Duration,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Fields 4, 14 and 15 of proc(5); the name in field 2 may hold anything, so count from its
    /// end.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |index: usize| Some(TICK * fields.get(index)?.parse::<u32>().ok()?);
        Some(Self { parent: fields.get(1)?.parse().ok()?, user: ticks(11)?, system: ticks(12)? })
    }
}

/// What the machine did besides, so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disturbance {
    steal: Duration,
    pressure: Duration,
}

/// What disturbed one run, as shares of its time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Noise {
    /// CPU time another guest of the host had, over all CPUs.
    pub(crate) steal_ratio: f64,
    /// Time in which some task waited for a CPU.
    pub(crate) pressure_ratio: f64,
}

impl Disturbance {
    /// Reads the counters.
    pub(crate) fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let steal = stat.lines().next().and_then(|line| {
            line.split_ascii_whitespace().nth(8).and_then(|ticks| ticks.parse::<u32>().ok())
        });
        let pressure = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let waited_us = pressure.lines().next().and_then(|line| {
            line.rsplit_once("total=").and_then(|(_, total)| total.parse::<u64>().ok())
        });
        Self {
            steal: TICK * steal.unwrap_or(0),
            pressure: Duration::from_micros(waited_us.unwrap_or(0)),
        }
    }

    /// What happened between `earlier` and now, `wall` apart.
    pub(crate) fn since(self, earlier: Self, wall: Duration) -> Noise {
        let share = |span: Duration| span.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        Noise {
            steal_ratio: share(self.steal.saturating_sub(earlier.steal)),
            pressure_ratio: share(self.pressure.saturating_sub(earlier.pressure)),
        }
    }
}

/// Where a run took place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Host {
    kernel: String,
    cpu: String,
    cpus: usize,
}

impl Host {
    /// This machine.
    pub(crate) fn here() -> Self {
        let first = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let info = first("/proc/cpuinfo");
        let named = |line: &&str| line.starts_with("model name");
        let cpu = info.lines().find(named).and_then(|line| line.split_once(": "));
        Self {
            kernel: first("/proc/sys/kernel/osrelease"),
            cpu: cpu.map_or_else(String::new, |(_, name)| name.to_owned()),
            cpus: std::thread::available_parallelism().map_or(0, Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = Stat::parse("7 (a) b (c) S 3 7 7 0 -1 0 0 0 0 0 250 50 0 0 20").expect("a stat");
        assert_eq!((stat.parent, stat.user), (3, Duration::from_millis(2500)));
        assert_eq!(stat.system, Duration::from_millis(500));
        assert!(Stat::parse("").is_none() && Stat::parse("7 (x) S").is_none());
    }

    #[test]
    fn this_process_has_time_and_memory() {
        let pid = std::process::id();
        assert!(is_alive(pid) && !is_alive(u32::MAX));
        assert!(cpu_of_tree(pid).total > Duration::ZERO);
        assert!(rss_bytes_of_tree(pid) > 100_000);
        assert!(tree(1).contains(&pid) || !tree(std::os::unix::process::parent_id()).is_empty());
    }
}
