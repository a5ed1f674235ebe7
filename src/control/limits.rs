//! The limit of open descriptors: every connection is one.
//!
//! Cores may take all descriptors that there are. So the soft limit stays `RESERVE` below the hard
//! one, and the control thread, which alone changes it, lifts it for the moment in which it accepts
//! a connection. When that ends, its descriptor lies above the limit, where no core can take it. In
//! such a moment (20 us) a core may take one too, until its own connection ends.
//!
//! Rejected: spare descriptors closed before and opened again after. Cores take them meanwhile, and
//! none ever comes back.

use std::fs::File;
use std::io;
use std::time::Duration;

use rlimit::{Resource, getrlimit, setrlimit};

/// Descriptors that only control may take: those of probes and scrapes at the same time, and what
/// cores take of them by chance: 64 cores that try every 20 ms take one at 6 of 100 accepts, and
/// keep it for an idle timeout.
const RESERVE: u64 = 64;

/// How often it is looked whether descriptors have run out, and how long that is not said again.
const WATCH_EVERY: Duration = Duration::from_millis(500);
const SILENT_LOOKS: u32 = 60;

/// Sets this process's soft limit of open descriptors to `wanted`, as far as the hard limit allows
/// when the reserve is kept, and gives what it is then. Lowers it only to keep the reserve, which
/// is an eighth of the hard limit at the most.
///
/// # Errors
/// The operating system's.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::NOFILE)?;
    let most = hard - RESERVE.min(hard / 8);
    let raised = wanted.max(soft).min(most);
    if raised != soft {
        setrlimit(Resource::NOFILE, raised, hard)?;
    }
    Ok(raised)
}

/// Does `work` with the reserve at hand. For the control thread only, and short: cores may take of
/// the reserve meanwhile.
pub(super) fn with_reserve<T>(work: impl FnOnce() -> T) -> T {
    let Ok((soft, hard)) = getrlimit(Resource::NOFILE) else {
        return work();
    };
    let _ = setrlimit(Resource::NOFILE, soft.saturating_add(RESERVE).min(hard), hard);
    let done = work();
    let _ = setrlimit(Resource::NOFILE, soft, hard);
    done
}

/// Whether the error says that this process has no descriptor left.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    const EMFILE: i32 = 24; // Linux, all architectures
    error.raw_os_error() == Some(EMFILE)
}

/// Says when descriptors have run out, every 30 s at the most.
pub(super) async fn watch_descriptors() {
    let mut silent_looks = 0;
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        silent_looks = u32::saturating_sub(silent_looks, 1);
        let Err(error) = File::open("/dev/null") else { continue };
        if is_out_of_descriptors(&error) && silent_looks == 0 {
            silent_looks = SILENT_LOOKS;
            let limit = getrlimit(Resource::NOFILE).map_or(0, |(soft, _)| soft);
            tracing::warn!(
                limit,
                "no descriptor is left: new connections wait, and engines cannot be reached anew; \
                 raise LimitNOFILE, or lower limits.connections_per_core_max"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_lowered_for_the_reserve_only() {
        let before = raise_descriptor_limit(0).unwrap();
        assert_eq!(raise_descriptor_limit(before).unwrap(), before);
        let most = raise_descriptor_limit(u64::MAX >> 1).unwrap_or(before);
        let (soft, hard) = getrlimit(Resource::NOFILE).unwrap();
        assert!(most >= before && soft == most && soft + RESERVE.min(hard / 8) <= hard);
        let within = with_reserve(|| getrlimit(Resource::NOFILE).unwrap());
        assert_eq!(within, ((soft + RESERVE).min(hard), hard));
        assert_eq!(getrlimit(Resource::NOFILE).unwrap(), (soft, hard));
    }
}
