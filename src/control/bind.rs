//! Listeners whose address may still belong to a process that has just ended.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// How often an address that is in use is tried, and the pause between two tries: for a second. The
/// kernel takes the rings of a killed process down after its end was told (0.1 s under load), and
/// the listeners with them.
const TRIES_MAX: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Listens at `at`, without SO_REUSEPORT. An address in use is tried again for a second.
///
/// # Errors
/// The operating system's.
pub fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    #[expect(clippy::disallowed_methods, reason = "at start: no core runs yet, and nobody waits")]
    bind_with(at, || std::thread::sleep(PAUSE))
}

fn bind_with(at: SocketAddr, mut pause: impl FnMut()) -> io::Result<TcpListener> {
    for tried in 1..TRIES_MAX {
        match TcpListener::bind(at) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if tried == 1 {
                    tracing::info!(%at, "the address is in use; it is tried again for a second");
                }
                pause();
            }
            bound => return bound,
        }
    }
    TcpListener::bind(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an address is had that its holder leaves at the pause of that number, and how many
    /// pauses there were.
    fn check(leaves_at: usize, expected: (bool, usize)) {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = holder.local_addr().unwrap();
        let (mut holder, mut pauses) = (Some(holder), 0);
        let bound = bind_with(at, || {
            pauses += 1;
            holder = holder.take().filter(|_| pauses < leaves_at);
        });
        assert_eq!((bound.is_ok(), pauses), expected);
        let kind = bound.err().map(|error| error.kind());
        assert!(kind.is_none_or(|kind| kind == io::ErrorKind::AddrInUse), "{kind:?}");
    }

    #[test]
    fn an_address_that_its_holder_leaves_soon_is_had() {
        check(1, (true, 1));
        check(TRIES_MAX - 1, (true, TRIES_MAX - 1));
    }

    #[test]
    fn an_address_that_stays_taken_is_given_up() {
        check(TRIES_MAX, (false, TRIES_MAX - 1));
    }

    #[test]
    fn another_error_is_told_at_once() {
        let nowhere = "192.0.2.1:1".parse().unwrap();
        let refused = bind_with(nowhere, || panic!("no pause"));
        assert!(refused.is_err());
    }
}
