//! Starting a core, its chance, and panics on it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use runtime::{Backend, CoreOptions, Reactor, run};

use crate::net::{pair, read_up_to};
use crate::support::{RINGS, beside, guarded, settle};

#[test]
fn a_panic_costs_its_task_only() {
    // Not by `on_each`, which takes any panic for a broken promise.
    let promise = |reactor: Reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let bystander = beside(&reactor, {
            let reactor = reactor.clone();
            async move {
                settle(&reactor).await;
                7
            }
        });
        // It dies with a read in flight and a stream in its hands.
        reactor.spawn(async move {
            let mut reading = pin!(server.read(Vec::with_capacity(64)));
            std::future::poll_fn(|context| {
                assert!(reading.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            panic!("planted");
        });
        assert!(read_up_to(&client, 1).await.is_ok_and(|bytes| bytes.is_empty()));
        assert_eq!(bystander.await, 7);
        assert_eq!(reactor.panics(), 1);
    };
    for &backend in RINGS {
        let has_ended = Rc::new(Cell::new(false));
        let end = has_ended.clone();
        let options = CoreOptions { backend, ..CoreOptions::default() };
        let main = |reactor| async move {
            promise(reactor).await;
            end.set(true);
        };
        run(options, main).unwrap();
        assert!(has_ended.get());
    }
}

#[test]
fn a_panic_of_the_main_task_ends_run_with_an_error() {
    for &backend in RINGS {
        let options = CoreOptions { backend, ..CoreOptions::default() };
        run(options, |_| async { panic!("planted") }).unwrap_err();
    }
}

#[test]
fn same_seed_same_draws() {
    for &backend in RINGS {
        let drawn = |seed| {
            let draws = Rc::new(RefCell::new(Vec::new()));
            let to = draws.clone();
            let options = CoreOptions { backend, seed: Some(seed), ..CoreOptions::default() };
            let main = |reactor: Reactor| async move {
                to.borrow_mut().extend((0..8).map(|_| reactor.draw()));
            };
            run(options, main).unwrap();
            draws.take()
        };
        assert_eq!(drawn(5), drawn(5));
        assert_ne!(drawn(5), drawn(6));
    }
}

#[test]
fn a_reactor_that_is_not_compiled_in_names_its_feature() {
    for (backend, feature) in [(Backend::Monoio, "monoio"), (Backend::Glommio, "glommio")] {
        if RINGS.contains(&backend) {
            continue;
        }
        let options = CoreOptions { backend, ..CoreOptions::default() };
        let error = run(options, |_| async {}).unwrap_err();
        assert!(error.to_string().contains(&format!("cargo feature `{feature}`")), "{error}");
    }
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error() {
    let options = CoreOptions { cpu: Some(100_000), ..CoreOptions::default() };
    run(options, |_| async {}).unwrap_err();
}

#[test]
fn two_cores_of_4096_entries_run_side_by_side() {
    for &backend in RINGS {
        let rings = Arc::new(AtomicUsize::new(0));
        let one_core = || {
            let options = CoreOptions { backend, entries: 4_096, ..CoreOptions::default() };
            let rings = rings.clone();
            let main = |reactor: Reactor| async move {
                rings.fetch_add(1, Ordering::AcqRel);
                // Only once both are there did they fit into the limit together.
                let both = async {
                    while rings.load(Ordering::Acquire) < 2 {
                        settle(&reactor).await;
                    }
                };
                guarded(reactor.clone(), both).await;
            };
            run(options, main).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(one_core);
            one_core();
        });
    }
}

#[test]
fn the_entries_of_a_ring_are_bounded() {
    for &backend in RINGS {
        let with =
            |entries| run(CoreOptions { backend, entries, ..CoreOptions::default() }, |_| async {});
        with(0).unwrap();
        let error = with(100_000).unwrap_err();
        assert!(error.to_string().contains("32768"), "{error}");
    }
}
