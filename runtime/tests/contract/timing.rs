//! Time: timers, yielding, and a core that is busy.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use runtime::{Deadline, Reactor, Stream, local};

use crate::net::{pair, read_up_to};
use crate::support::{beside, on_each, on_each_ring};

#[test]
fn a_yield_goes_to_the_back() {
    on_each(|reactor| async move {
        let turns = Rc::new(RefCell::new(Vec::new()));
        let ends: Vec<_> = (0..3)
            .map(|id| {
                let (turns, yielding) = (turns.clone(), reactor.clone());
                beside(&reactor, async move {
                    for _ in 0..50 {
                        turns.borrow_mut().push(id);
                        yielding.yield_now().await;
                    }
                })
            })
            .collect();
        for end in ends {
            end.await;
        }
        for round in turns.borrow().chunks(3) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2], "somebody was passed over");
        }
    });
}

#[test]
fn timers_are_never_early() {
    // The rings come first, in the order of `support::RINGS`, then the worlds.
    let lateness = |reactor: Reactor| async move {
        let mut late_us = Vec::new();
        for step in 0..60u32 {
            // Starts are spread over the millisecond.
            let at = reactor.now() + Duration::from_micros(u64::from(200 + step * 117));
            reactor.sleep_until(at).await;
            assert!(reactor.now() >= at);
            late_us.push(reactor.now().since(at).as_micros());
        }
        late_us.sort_unstable();
        let quantile = |ratio: f64| late_us[(ratio * (late_us.len() - 1) as f64) as usize];
        println!(
            "timers late by: least {} us, median {} us, p90 {} us, most {} us",
            quantile(0.0),
            quantile(0.5),
            quantile(0.9),
            quantile(1.0)
        );
        // The grain plus the lateness stated at `sleep_until`; the rest is the machine's load.
        assert!(quantile(0.0) <= 2_000, "no timer met the stated resolution: {late_us:?}");
    };
    on_each(lateness);
}

#[test]
fn sleeping_until_the_past_is_over_at_once() {
    on_each(|reactor| async move {
        let start = reactor.now();
        reactor.sleep_until(start).await;
        reactor.sleep_until(start.before(Duration::from_secs(1))).await;
        let sleeping = pin!(reactor.sleep_until(reactor.now() + Duration::from_secs(3600)));
        assert!(sleeping.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
}

#[test]
fn a_busy_core_still_fires_timers() {
    // In a world no time passes while tasks are ready, so there is nothing to test.
    on_each_ring(|reactor| async move {
        for spin in [Spin::Yield, Spin::WakeOneself] {
            let is_over = Rc::new(Cell::new(false));
            let stop = is_over.clone();
            let spinning = reactor.clone();
            let end = beside(&reactor, async move { spin.until(&spinning, &stop).await });
            let at = reactor.now() + Duration::from_millis(3);
            reactor.sleep_until(at).await;
            let late = reactor.now().since(at);
            is_over.set(true);
            assert!(end.await > 10, "the core was not busy");
            assert!(late < Duration::from_millis(500), "{late:?} late");
        }
    });
}

#[derive(Clone, Copy)]
enum Spin {
    Yield,
    WakeOneself,
}

impl Spin {
    /// Keeps the core busy; how many turns it took.
    async fn until(self, reactor: &Reactor, is_over: &Cell<bool>) -> u64 {
        let mut turns = 0;
        while !is_over.get() {
            turns += 1;
            match self {
                Self::Yield => reactor.yield_now().await,
                Self::WakeOneself => wake_oneself().await,
            }
        }
        turns
    }
}

async fn wake_oneself() {
    let mut has_woken = false;
    std::future::poll_fn(|context| {
        if has_woken {
            return Poll::Ready(());
        }
        has_woken = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_busy_core_still_reads() {
    on_each_ring(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let is_over = Rc::new(Cell::new(false));
        let (stop, spinning) = (is_over.clone(), reactor.clone());
        let end = beside(&reactor, async move { Spin::WakeOneself.until(&spinning, &stop).await });
        ping_pong(&reactor, client, server, 50).await;
        is_over.set(true);
        end.await;
    });
}

async fn ping_pong(reactor: &Reactor, client: Stream, server: Stream, rounds: usize) {
    let echo = beside(reactor, async move {
        for _ in 0..rounds {
            let bytes = read_up_to(&server, 4).await.expect("the ping arrives");
            server.write_all(bytes).await.0.expect("the pong leaves");
        }
    });
    for _ in 0..rounds {
        client.write_all(b"ping".to_vec()).await.0.expect("the ping leaves");
        assert_eq!(read_up_to(&client, 4).await.expect("the pong arrives"), b"ping");
    }
    echo.await;
}

#[test]
fn clocks_run_forward_together() {
    on_each(|reactor| async move {
        let (first, unix) = (reactor.now(), reactor.unix_time());
        // Longer than the wall clock may lag.
        reactor.sleep_until(first + Duration::from_millis(12)).await;
        assert!(reactor.now() > first);
        assert!(reactor.unix_time() > unix);
        assert!(unix > Duration::from_secs(1_700_000_000));
    });
}

#[test]
fn a_timeout_gives_up_and_lets_what_is_ready_win() {
    on_each(|reactor| async move {
        let at = reactor.now() + Duration::from_millis(3);
        let never = local::timeout(&reactor, Deadline::at(at), std::future::pending::<()>());
        assert_eq!(never.await, Err(local::Elapsed));
        assert!(reactor.now() >= at);
        let ready = local::timeout(&reactor, Deadline::at(at), async { 7 }).await;
        assert_eq!(ready, Ok(7));
    });
}
