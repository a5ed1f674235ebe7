//! `server.cores`: which processors to run on, one core each.

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
        list(text).map(Self::List).ok_or_else(|| format!("\"{text}\" is no list of processors"))
    }

    /// The processors, given those that the process may run on. A count beyond them starts over
    /// from the first, so that two cores can be tried on one processor.
    pub(super) fn resolve(&self, allowed: &[usize]) -> Vec<usize> {
        let allowed = if allowed.is_empty() { &[0] } else { allowed };
        match self {
            Self::All => allowed.to_vec(),
            Self::Count(count) => allowed.iter().copied().cycle().take(*count).collect(),
            Self::List(list) => list.clone(),
        }
    }
}

/// `0-3,6` as a list without repetitions; none if it is not one.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CORES_MAX {
            return None;
        }
        for cpu in first..=last {
            if found.contains(&cpu) {
                return None;
            }
            found.push(cpu);
        }
    }
    Some(found)
}

/// The processors that this process may run on, as the kernel says in `/proc/self/status`.
pub(super) fn allowed() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|text| list(text.trim()))
        .filter(|list| !list.is_empty())
        .unwrap_or_else(|| vec![0])
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
    fn this_process_may_run_somewhere() {
        assert!(!allowed().is_empty());
    }
}
