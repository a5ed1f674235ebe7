//! Runs a promise of the interface on every compiled backend, with a limit of time: on the rings
//! once, in simulation with many seeds.

use std::future::Future;
use std::time::Duration;

use runtime::{Backend, CoreOptions, Deadline, Reactor, local, run};

/// No promise takes longer, even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The rings that are compiled in.
pub(crate) const RINGS: &[Backend] = &[
    #[cfg(feature = "monoio")]
    Backend::Monoio,
    #[cfg(feature = "glommio")]
    Backend::Glommio,
];

/// Worlds per promise.
#[cfg(feature = "sim")]
pub(crate) const SEEDS: std::ops::Range<u64> = 0..32;

/// Runs `promise` on each backend; no task of it may panic.
pub(crate) fn on_each<F>(promise: impl Fn(Reactor) -> F)
where
    F: Future<Output = ()> + 'static,
{
    on_each_ring(&promise);
    #[cfg(feature = "sim")]
    for seed in SEEDS {
        in_world(seed, runtime::sim::Options::default(), &promise);
    }
}

/// Runs `promise` on each ring.
pub(crate) fn on_each_ring<F>(promise: impl Fn(Reactor) -> F)
where
    F: Future<Output = ()> + 'static,
{
    for &backend in RINGS {
        let options = CoreOptions { backend, seed: Some(1), ..CoreOptions::default() };
        let result = run(options, |reactor| guarded(reactor.clone(), promise(reactor)));
        result.unwrap_or_else(|error| panic!("broken on {backend:?}: {error}"));
    }
}

/// Runs `promise` in one world. Nothing it started may be left behind.
#[cfg(feature = "sim")]
pub(crate) fn in_world<F>(seed: u64, options: runtime::sim::Options, promise: impl Fn(Reactor) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let world = runtime::sim::World::new(seed, options);
    let reactor = world.core("core", "127.0.0.1".parse().expect("an address"));
    let has_ended = local::Event::new();
    let (task, end) = (guarded(reactor.clone(), promise(reactor.clone())), has_ended.clone());
    reactor.spawn(async move {
        task.await;
        end.set();
    });
    let limit = world.now() + LIMIT * 2;
    assert!(world.run_until(limit, || has_ended.is_set()), "broken in the world of seed {seed}");
    let census = world.census();
    assert_eq!((census.panics, census.operations_dropped), (0, 0), "seed {seed}: {census:?}");
}

/// Awaits `promise` for a limited time; no task may panic meanwhile.
pub(crate) async fn guarded(reactor: Reactor, promise: impl Future<Output = ()>) {
    let deadline = Deadline::after(reactor.now(), LIMIT);
    local::timeout(&reactor, deadline, promise).await.expect("the promise is kept in time");
    assert_eq!(reactor.panics(), 0, "a task panicked");
}

/// Runs `task` beside the caller and gives what it returns.
pub(crate) fn beside<T, F>(reactor: &Reactor, task: F) -> impl Future<Output = T> + use<T, F>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let (sender, receiver) = local::oneshot();
    reactor.spawn(async move {
        let _ = sender.send(task.await);
    });
    async move { receiver.await.expect("the task ended well") }
}

/// Lets everything that is ready run, a few times over.
pub(crate) async fn settle(reactor: &Reactor) {
    for _ in 0..8 {
        reactor.yield_now().await;
    }
    reactor.sleep_until(reactor.now() + Duration::from_millis(5)).await;
}
