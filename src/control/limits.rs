//! The limit of open descriptors: every connection is one.

use std::io;

use rlimit::{Resource, getrlimit, setrlimit};

/// Raises this process's soft limit of open descriptors to `wanted`, as far as its hard limit
/// allows, and gives what it is then. Never lowers it.
///
/// # Errors
/// The operating system's.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::NOFILE)?;
    let raised = wanted.min(hard).max(soft);
    if raised > soft {
        setrlimit(Resource::NOFILE, raised, hard)?;
    }
    Ok(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_never_lowered() {
        let before = raise_descriptor_limit(0).unwrap();
        assert_eq!(raise_descriptor_limit(before).unwrap(), before);
        assert!(raise_descriptor_limit(u64::MAX >> 1).unwrap_or(before) >= before);
    }
}
