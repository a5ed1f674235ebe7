//! Bells between threads: no ring is lost, on any backend that has threads.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{RINGS, beside, on_each_ring, settle};
use runtime::{Backend, Bell, CoreOptions, Deadline, Reactor, Ringer, bell, local, run};

/// Letters without content: how many were posted and not taken.
type Mail = Arc<AtomicU64>;

fn take(mail: &Mail) -> u64 {
    mail.swap(0, Ordering::AcqRel)
}

fn has_any(mail: &Mail) -> bool {
    mail.load(Ordering::Acquire) > 0
}

fn core(backend: Backend, seed: u64) -> CoreOptions {
    CoreOptions { backend, seed: Some(seed), ..CoreOptions::default() }
}

/// Awaits `task` for at most 60 s: a lost ring is a panic, not a test that hangs.
async fn in_time(reactor: Reactor, task: impl Future<Output = ()>) {
    let deadline = Deadline::after(reactor.now(), Duration::from_secs(60));
    local::timeout(&reactor, deadline, task).await.expect("no ring was lost");
}

/// Takes one letter and posts one, `rounds` times.
async fn rally(mut bell: Bell, ringer: Ringer, mine: Mail, theirs: Mail, rounds: u64) {
    for _ in 0..rounds {
        while take(&mine) == 0 {
            bell.wait(|| has_any(&mine)).await;
        }
        theirs.fetch_add(1, Ordering::AcqRel);
        ringer.ring();
    }
}

#[test]
fn two_cores_that_wait_for_each_other_never_both_sleep() {
    for &backend in RINGS {
        let rounds = 20_000;
        let ((to_left, left_seed), (to_right, right_seed)) =
            (bell().expect("a bell"), bell().expect("a bell"));
        let (left, right) = (Mail::default(), Mail::default());
        left.store(1, Ordering::Release);
        thread::scope(|scope| {
            let (mine, theirs) = (right.clone(), left.clone());
            scope.spawn(move || {
                let main = |reactor: Reactor| async move {
                    let bell = reactor.attach(right_seed);
                    in_time(reactor, rally(bell, to_left, mine, theirs, rounds)).await;
                };
                run(core(backend, 1), main).expect("the right core keeps up");
            });
            let main = |reactor: Reactor| async move {
                let bell = reactor.attach(left_seed);
                in_time(reactor, rally(bell, to_right, left, right, rounds)).await;
            };
            run(core(backend, 2), main).expect("the left core keeps up");
        });
    }
}

#[test]
fn letters_of_many_threads_are_all_taken() {
    const SENDERS: u64 = 3;
    const LETTERS: u64 = 30_000;
    for &backend in RINGS {
        let (ringer, seed) = bell().expect("a bell");
        let mail = Mail::default();
        thread::scope(|scope| {
            for _ in 0..SENDERS {
                let (mail, ringer) = (mail.clone(), ringer.clone());
                scope.spawn(move || {
                    for letter in 0..LETTERS {
                        mail.fetch_add(1, Ordering::AcqRel);
                        ringer.ring();
                        if letter % 64 == 0 {
                            // Lets the receiver fall asleep now and then, or no ring would matter.
                            thread::yield_now();
                        }
                    }
                });
            }
            let mail = mail.clone();
            let main = |reactor: Reactor| async move {
                let mut bell = reactor.attach(seed);
                in_time(reactor, async move {
                    let mut taken = 0;
                    while taken < SENDERS * LETTERS {
                        taken += take(&mail);
                        if taken < SENDERS * LETTERS {
                            bell.wait(|| has_any(&mail)).await;
                        }
                    }
                })
                .await;
            };
            run(core(backend, 3), main).expect("all letters are taken");
        });
    }
}

#[test]
fn mail_that_is_there_needs_no_ring() {
    on_each_ring(|reactor| async move {
        let (_ringer, seed) = bell().expect("a bell");
        reactor.attach(seed).wait(|| true).await;
    });
}

#[test]
fn a_wait_that_was_dropped_loses_no_ring() {
    on_each_ring(|reactor| async move {
        let (ringer, seed) = bell().expect("a bell");
        let mut bell = reactor.attach(seed);
        for _ in 0..20 {
            let soon = Deadline::after(reactor.now(), Duration::from_millis(1));
            let waited = local::timeout(&reactor, soon, bell.wait(|| false)).await;
            assert_eq!(waited, Err(local::Elapsed), "nobody rang");
            ringer.ring();
            bell.wait(|| false).await;
        }
        // Rung while nobody waits and no core sleeps: nothing to wake, and nothing is left over.
        ringer.ring();
        let soon = Deadline::after(reactor.now(), Duration::from_millis(5));
        assert_eq!(local::timeout(&reactor, soon, bell.wait(|| false)).await, Err(local::Elapsed));
    });
}

#[test]
fn a_waiting_bell_lets_the_core_work() {
    on_each_ring(|reactor| async move {
        let (ringer, seed) = bell().expect("a bell");
        let mut bell = reactor.attach(seed);
        let waiting = beside(&reactor, async move { bell.wait(|| false).await });
        settle(&reactor).await;
        ringer.ring();
        waiting.await;
    });
}
