//! `server.cores`: which processors to run on, one core each.

use super::forms;

/// The most cores of one instance.
const CORES_MAX: usize = 1024;

/// `cores` as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cores {
    /// Every processor that this process may run on.
    All,
    /// So many.
    Count(usize),
    /// These.
    List(Vec<usize>),
}

impl Cores {
    /// Reads `all`, a count or a list as `0-3,6`. A bare number is a count; `0-0` is a list of one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        if let Ok(count) = text.parse::<usize>() {
            return match count {
                1..=CORES_MAX => Ok(Self::Count(count)),
                _ => Err(format!("a count from 1 to {CORES_MAX} is possible, not {count}")),
            };
        }
        list(text).map(Self::List)
    }

    /// What it asks of a machine that this process has not, given the processors that it may run
    /// on; none: nothing. The remedy is part of it.
    pub(super) fn excess(&self, allowed: &[usize]) -> Option<String> {
        let missing = match self {
            Self::All => return None,
            Self::Count(count) if *count <= allowed.len() => return None,
            Self::Count(count) => format!("{count} cores are too many"),
            Self::List(list) => {
                let missing: Vec<usize> =
                    list.iter().copied().filter(|cpu| !allowed.contains(cpu)).collect();
                match missing.as_slice() {
                    [] => return None,
                    [one] => format!("there is no processor {one}"),
                    more => format!("there are no processors {}", ranges(more)),
                }
            }
        };
        Some(format!(
            "{missing}: this process may run on {} (its affinity, and the cpuset of its cgroup); \
             want \"all\", a count up to \"{}\", or a list of those",
            ranges(allowed),
            allowed.len(),
        ))
    }

    /// The processors, given those that the process may run on. A count beyond them starts over
    /// from the first, so that a test's world has as many cores as it asks for anywhere.
    pub(super) fn resolve(&self, allowed: &[usize]) -> Vec<usize> {
        let allowed = if allowed.is_empty() { &[0] } else { allowed };
        match self {
            Self::All => allowed.to_vec(),
            Self::Count(count) => allowed.iter().copied().cycle().take(*count).collect(),
            Self::List(list) => list.clone(),
        }
    }
}

/// `0-3,6` as a list without repetitions.
///
/// # Errors
/// What is wrong with it.
fn list(text: &str) -> Result<Vec<usize>, String> {
    let is_none = || format!("\"{}\" is no list of processors", forms::excerpt(text));
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| is_none());
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(is_none());
        }
        if last >= CORES_MAX {
            return Err(format!("processor {last} is beyond {}, the last possible", CORES_MAX - 1));
        }
        for cpu in first..=last {
            if found.contains(&cpu) {
                return Err(format!("processor {cpu} stands there twice"));
            }
            found.push(cpu);
        }
    }
    Ok(found)
}

/// A list as `0-3,6`.
fn ranges(list: &[usize]) -> String {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for cpu in list {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => found.push((*cpu, *cpu)),
        }
    }
    let shown = found.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

/// The processors that this process may run on, as the kernel says in `/proc/self/status`.
pub(super) fn allowed() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|text| list(text.trim()).ok())
        .filter(|list| !list.is_empty())
        .unwrap_or_else(|| vec![0])
}

/// What follows where a cgroup grants this process less time than `cores` processors have; none:
/// it grants enough.
pub(super) fn throttled(cores: usize) -> Option<String> {
    let granted = std::thread::available_parallelism().map_or(cores, usize::from);
    (granted < cores.min(allowed().len())).then(|| {
        format!(
            "server.cores: {cores} cores, but the cgroup of this process grants the time of \
             {granted} processors: all cores will stand still at times; set server.cores = \
             \"{granted}\", or raise the quota"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_all_a_count_or_a_list() {
        let check = |text: &str, expected: Option<Vec<usize>>| {
            let found = Cores::parse(text).ok().map(|cores| cores.resolve(&[0, 1, 4]));
            assert_eq!(found, expected, "{text}");
        };
        check("all", Some(vec![0, 1, 4]));
        check("2", Some(vec![0, 1]));
        check("5", Some(vec![0, 1, 4, 0, 1]));
        check("0-3,6", Some(vec![0, 1, 2, 3, 6]));
        check("0-0", Some(vec![0]));
        for wrong in ["", "0", "many", "3-1", "1,1", "0-2000", "1,", "-1", "5000"] {
            check(wrong, None);
        }
    }

    #[test]
    fn what_is_wrong_with_a_list_is_told() {
        for (text, expected) in [
            ("0,1,0-1", "processor 0 stands there twice"),
            ("2-1", "\"2-1\" is no list of processors"),
            ("0-9999", "processor 9999 is beyond 1023, the last possible"),
        ] {
            assert_eq!(Cores::parse(text), Err(expected.to_owned()));
        }
    }

    #[test]
    fn what_a_machine_has_not_is_told_with_what_it_has() {
        let check = |text: &str, expected: Option<&str>| {
            let told = Cores::parse(text).unwrap().excess(&[0, 1, 4]);
            assert_eq!(told.as_deref(), expected);
        };
        let remedy = "this process may run on 0-1,4 (its affinity, and the cpuset of its cgroup); \
            want \"all\", a count up to \"3\", or a list of those";
        check("all", None);
        check("3", None);
        check("1,4", None);
        check("999", Some(&format!("999 cores are too many: {remedy}")));
        check("1-2", Some(&format!("there is no processor 2: {remedy}")));
        check("0-7", Some(&format!("there are no processors 2-3,5-7: {remedy}")));
    }

    #[test]
    fn a_quota_is_no_matter_where_it_grants_enough() {
        assert_eq!(throttled(1), None);
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!allowed().is_empty());
    }
}
