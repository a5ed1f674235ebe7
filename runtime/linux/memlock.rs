//! Why a ring cannot be made, in words that say what to change.

use std::io;
use std::time::Duration;

/// Tries again while locked memory is short, for `TRIES_MAX * TRY_EVERY` = 2 s: the kernel gives
/// back what a ring locked some time after its owner is gone, so that a process started right after
/// another one ended would find it short.
///
/// # Errors
/// The last try's, with advice.
pub(crate) fn patiently<T>(build: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut tries = 1;
    loop {
        match build() {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && tries < TRIES_MAX => {
                tries += 1;
                pause();
            }
            result => return result.map_err(explain),
        }
    }
}

const TRIES_MAX: u32 = 40;

const TRY_EVERY: Duration = Duration::from_millis(50);

#[expect(clippy::disallowed_methods, reason = "there is no reactor yet whose timer could be used")]
fn pause() {
    std::thread::sleep(TRY_EVERY);
}

/// Adds to an error of io_uring_setup(2) what the operator can do about it.
fn explain(error: io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "this kernel has no io_uring: Linux 5.11 or later is needed".to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here: see sysctl kernel.io_uring_disabled, and the container's \
             seccomp profile"
                .to_owned()
        }
        Some(libc::ENOMEM) => format!(
            "locked memory is short for the ring (RLIMIT_MEMLOCK is {}): set LimitMEMLOCK=infinity \
             or fewer ring entries",
            limit()
        ),
        Some(libc::EMFILE | libc::ENFILE) => "no file descriptor is left for the ring".to_owned(),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{advice} ({error})"))
}

fn limit() -> String {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes one `rlimit` to the address given, which is ours.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    match limit.rlim_cur {
        _ if result < 0 => "unknown".to_owned(),
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        bytes => format!("{} KiB", bytes / 1024),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn check(errno: i32, expected: &str) {
        let text = explain(io::Error::from_raw_os_error(errno)).to_string();
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn memory_that_comes_back_is_waited_for() {
        let tries = Cell::new(0);
        let build = || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(io::Error::from_raw_os_error(libc::ENOMEM)) } else { Ok(7) }
        };
        assert_eq!(patiently(build).unwrap(), 7);
        tries.set(0);
        let forbidden: io::Result<()> = patiently(|| {
            tries.set(tries.get() + 1);
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert_eq!((forbidden.is_err(), tries.get()), (true, 1));
    }

    #[test]
    fn every_refusal_says_what_to_change() {
        check(libc::ENOSYS, "Linux 5.11");
        check(libc::EPERM, "kernel.io_uring_disabled");
        check(libc::ENOMEM, "LimitMEMLOCK");
        check(libc::EMFILE, "descriptor");
        check(libc::EINVAL, "Invalid argument");
    }
}
