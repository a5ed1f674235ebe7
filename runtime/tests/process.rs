//! What cores cost and leave behind: descriptors, memory. One test, because both are counted for
//! the whole process.

#[path = "contract/net.rs"]
mod net;

use std::fs;
use std::net::Shutdown;
use std::time::Duration;

use net::{anywhere, pair, read_up_to, soon};
use runtime::{Backend, CoreOptions, Reactor, local, run};

const RINGS: &[Backend] = &[
    #[cfg(feature = "monoio")]
    Backend::Monoio,
    #[cfg(feature = "glommio")]
    Backend::Glommio,
];

/// Connections; each has two ends here, and each end is an idle connection of its own.
const CONNECTIONS: usize = 2_000;

/// The most an end may cost, its pending read of 2 KiB included, on the default backend.
const COST_MAX_BYTES: usize = 10 * 1024;

/// Close-on-exec among the flags of /proc/self/fdinfo.
const O_CLOEXEC: u32 = 0o2_000_000;

#[test]
fn what_cores_cost_and_leave_behind() {
    for &backend in RINGS {
        on(backend, |reactor| async move { idle_connections_are_small(reactor, backend).await });
        on(backend, |reactor| async move { sockets_close_on_exec(reactor).await });
        on(backend, |reactor| async move { connections_leave_nothing(reactor).await });
        let before = links("anon_inode:[io_uring]").len();
        on(backend, |reactor| async move {
            pair(&reactor).await.expect("a connection");
        });
        assert_eq!(links("anon_inode:[io_uring]").len(), before, "an idle ring was left");
        on(backend, |reactor| async move { leave_an_accept_pending(reactor).await });
        let left = links("anon_inode:[io_uring]").len() - before;
        assert!(left > 0, "a ring with an operation in flight was dropped, on {backend:?}");
    }
}

fn on<F: Future<Output = ()> + 'static>(backend: Backend, main: impl FnOnce(Reactor) -> F) {
    run(CoreOptions { backend, ..CoreOptions::default() }, main)
        .unwrap_or_else(|error| panic!("broken on {backend:?}: {error}"));
}

/// The numbers of the open descriptors whose link starts with `kind`.
fn links(kind: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    let of_kind = entries.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with(kind))
    });
    of_kind.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn flags(descriptor: u32) -> u32 {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).expect("it is open");
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("it has flags");
    u32::from_str_radix(flags.trim(), 8).expect("octal")
}

async fn sockets_close_on_exec(reactor: Reactor) {
    let listener = reactor.listen(anywhere(), 16).expect("a port");
    let mut held = Vec::new();
    // One accept that waits, and one that finds a connection waiting.
    for _ in 0..2 {
        let client = reactor.connect(listener.address(), None, soon(&reactor)).await;
        held.push(client.expect("a connection"));
    }
    for _ in 0..2 {
        held.push(listener.accept().await.expect("a connection").0);
    }
    let sockets = links("socket:");
    assert!(sockets.len() >= 5, "{sockets:?}");
    for descriptor in sockets {
        assert_ne!(flags(descriptor) & O_CLOEXEC, 0, "{descriptor} stays open over exec");
    }
}

async fn connections_leave_nothing(reactor: Reactor) {
    let listener = reactor.listen(anywhere(), 64).expect("a port");
    let mut before = 0;
    for round in 0..1_000 {
        let client = reactor.connect(listener.address(), None, soon(&reactor)).await;
        let client = client.expect("a connection");
        let (server, _) = listener.accept().await.expect("a connection");
        client.write_all(b"x".to_vec()).await.0.expect("it leaves");
        assert_eq!(read_up_to(&server, 1).await.expect("it arrives"), b"x");
        match round % 3 {
            // Who goes first, and how, should not matter.
            0 => client.shutdown(Shutdown::Both),
            1 => drop(server),
            _ => drop(client),
        }
        if round == 10 {
            before = links("socket:").len();
        }
    }
    // Closing goes through the ring, so give it a turn.
    reactor.sleep_until(reactor.now() + Duration::from_millis(20)).await;
    let after = links("socket:").len();
    assert!(after <= before, "{after} sockets are open, {before} were");
}

/// Ends with an accept that was dropped half-way in the core's last turns. (A task that merely
/// waits is never dropped: monoio leaks it, and with it the ring.)
async fn leave_an_accept_pending(reactor: Reactor) {
    let listener = reactor.listen(anywhere(), 16).expect("a port");
    let is_over = local::Event::new();
    let end = is_over.clone();
    reactor.spawn(async move {
        local::select2(is_over.wait(), listener.accept()).await;
    });
    reactor.sleep_until(reactor.now() + Duration::from_millis(5)).await;
    end.set();
}

/// Prints the figures, as well as holding them to their maximum.
#[expect(clippy::print_stdout, reason = "a measurement is for reading")]
async fn idle_connections_are_small(reactor: Reactor, backend: Backend) {
    let listener = reactor.listen(anywhere(), 1_024).expect("a port");
    // The first ones pay for what grows in steps: queues, slabs, the allocator's arenas.
    for _ in 0..100 {
        idle_pair(&reactor, &listener).await;
    }
    let before = resident_bytes();
    for _ in 0..CONNECTIONS {
        idle_pair(&reactor, &listener).await;
    }
    reactor.sleep_until(reactor.now() + Duration::from_millis(20)).await;
    let cost = resident_bytes().saturating_sub(before) / (2 * CONNECTIONS);
    println!("{cost} bytes on {backend:?} per idle connection, 2,048 of them its read buffer");
    assert!(backend != Backend::Monoio || cost <= COST_MAX_BYTES, "{cost} bytes");
}

async fn idle_pair(reactor: &Reactor, listener: &runtime::Listener) {
    let client = reactor.connect(listener.address(), None, soon(reactor)).await;
    let client = client.expect("a connection");
    let (server, _) = listener.accept().await.expect("a connection");
    for end in [client, server] {
        reactor.spawn(async move {
            let _ = read_up_to(&end, 2_048).await;
        });
    }
}

fn resident_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("Linux");
    let resident = pages.split(' ').nth(1).expect("the second field is resident pages");
    resident.parse::<usize>().expect("a number") * 4_096
}
