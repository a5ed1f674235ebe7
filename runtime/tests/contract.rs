//! Every promise of the interface, asserted against every compiled backend:
//! `cargo test -p runtime --features glommio,sim`.

mod support;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use runtime::{Backend, CoreOptions, Deadline, Reactor, Stream, local, run};
use support::net::{anywhere, pair, read_up_to, soon};
use support::{beside, on_each, on_each_ring, settle};

/// More than both socket buffers of a loopback connection hold.
const LARGE_BYTES: usize = 16 << 20;

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index % 251) as u8).collect()
}

#[test]
fn bytes_arrive_as_they_were_sent() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let (result, given_back) = client.write_all(b"hello".to_vec()).await;
        result.unwrap();
        assert_eq!(given_back, b"hello");
        assert_eq!(read_up_to(&server, 5).await.unwrap(), b"hello");
    });
}

#[test]
fn reads_and_writes_run_in_parallel() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let sent = pattern(1 << 20);
        let echo = beside(&reactor, async move {
            loop {
                let (result, bytes) = server.read(Vec::with_capacity(16 << 10)).await;
                if result.unwrap() == 0 {
                    break;
                }
                server.write_all(bytes).await.0.unwrap();
            }
        });
        let (writer, bytes) = (client.clone(), sent.clone());
        let writing = beside(&reactor, async move {
            writer.write_all(bytes).await.0.unwrap();
            writer.shutdown(Shutdown::Write);
        });
        assert_eq!(read_up_to(&client, sent.len() + 1).await.unwrap(), sent);
        writing.await;
        echo.await;
    });
}

#[test]
fn a_read_appends_and_never_grows_the_buffer() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        client.write_all(b"abcdef".to_vec()).await.0.unwrap();
        let mut buffer = Vec::with_capacity(4);
        buffer.extend_from_slice(b"> ");
        let (address, capacity) = (buffer.as_ptr(), buffer.capacity());
        let mut expected = buffer.clone();
        while buffer.len() < capacity {
            let (result, given_back) = server.read(buffer).await;
            assert!(result.unwrap() > 0);
            buffer = given_back;
        }
        expected.extend_from_slice(&b"abcdef"[..capacity - 2]);
        assert_eq!((buffer.as_ptr(), buffer.capacity()), (address, capacity));
        assert_eq!(buffer, expected);
        let (result, buffer) = server.read(buffer).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(buffer, expected);
    });
}

#[test]
fn one_byte_at_a_time_is_still_the_same_bytes() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let sent = pattern(300);
        for byte in &sent {
            client.write_all(vec![*byte]).await.0.unwrap();
        }
        let mut received = Vec::new();
        while received.len() < sent.len() {
            let (result, bytes) = server.read(Vec::with_capacity(1)).await;
            assert_eq!(result.unwrap(), bytes.len());
            received.extend(bytes);
        }
        assert_eq!(received, sent);
    });
}

#[test]
fn an_empty_write_is_done_at_once() {
    on_each(|reactor| async move {
        let (client, _server) = pair(&reactor).await.unwrap();
        client.write_all(Vec::new()).await.0.unwrap();
        assert!(!client.is_busy());
    });
}

#[test]
fn a_half_closed_connection_still_carries_the_answer() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        client.write_all(b"question".to_vec()).await.0.unwrap();
        client.shutdown(Shutdown::Write);
        assert_eq!(read_up_to(&server, 100).await.unwrap(), b"question");
        server.write_all(b"answer".to_vec()).await.0.unwrap();
        drop(server);
        assert_eq!(read_up_to(&client, 100).await.unwrap(), b"answer");
        let (result, _) = client.write_all(b"more".to_vec()).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn shutdown_ends_a_pending_read() {
    on_each(|reactor| async move {
        let (client, _server) = pair(&reactor).await.unwrap();
        let reader = client.clone();
        let reading = beside(&reactor, async move {
            reader.read(Vec::with_capacity(64)).await.0
        });
        settle(&reactor).await;
        assert!(client.is_busy());
        client.shutdown(Shutdown::Both);
        client.shutdown(Shutdown::Both);
        assert_eq!(reading.await.unwrap(), 0);
        assert!(!client.is_busy());
    });
}

#[test]
fn shutdown_ends_a_write_that_waits_for_room() {
    on_each(|reactor| async move {
        let (client, _server) = pair(&reactor).await.unwrap();
        let writer = client.clone();
        let writing = beside(&reactor, async move {
            writer.write_all(pattern(LARGE_BYTES)).await.0
        });
        settle(&reactor).await;
        assert!(client.is_busy());
        client.shutdown(Shutdown::Both);
        writing.await.unwrap_err();
        assert!(!client.is_busy());
    });
}

#[test]
fn shutdown_ends_a_pending_accept_and_refuses_new_peers() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        let other = listener.clone();
        let accepting = beside(&reactor, async move { other.accept().await.err() });
        settle(&reactor).await;
        listener.shutdown();
        accepting.await.expect("the pending accept fails");
        listener
            .accept()
            .await
            .err()
            .expect("the next accept fails");
        let result = reactor
            .connect(listener.address(), None, soon(&reactor))
            .await;
        assert_eq!(
            result.err().map(|error| error.kind()),
            Some(ErrorKind::ConnectionRefused)
        );
    });
}

#[test]
fn a_second_operation_of_a_direction_is_answered_busy() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let (reader, writer) = (client.clone(), client.clone());
        let reading = beside(&reactor, async move {
            reader.read(Vec::with_capacity(64)).await.0
        });
        let writing = beside(&reactor, async move {
            writer.write_all(pattern(LARGE_BYTES)).await.0
        });
        settle(&reactor).await;
        let (result, _) = client.read(Vec::with_capacity(64)).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ResourceBusy);
        let (result, bytes) = client.write_all(b"x".to_vec()).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ResourceBusy);
        assert_eq!(bytes, b"x");
        // The first ones are not disturbed.
        server.write_all(b"here".to_vec()).await.0.unwrap();
        assert_eq!(reading.await.unwrap(), 4);
        assert_eq!(
            read_up_to(&server, LARGE_BYTES).await.unwrap(),
            pattern(LARGE_BYTES)
        );
        writing.await.unwrap();
        assert!(!client.is_busy());
    });
}

#[test]
fn a_connection_tells_its_peer_and_its_source_address() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        assert_ne!(listener.address().port(), 0);
        let source = "127.0.0.9".parse().unwrap();
        let client = reactor
            .connect(listener.address(), Some(source), soon(&reactor))
            .await
            .unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip(), source);
        drop(client);
    });
}

#[test]
fn nobody_listening_is_refused() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        let address = listener.address();
        listener.shutdown();
        drop(listener);
        let result = reactor.connect(address, None, soon(&reactor)).await;
        assert_eq!(
            result.err().map(|error| error.kind()),
            Some(ErrorKind::ConnectionRefused)
        );
    });
}

#[test]
fn an_unanswered_connect_ends_at_its_deadline() {
    on_each(|reactor| async move {
        // A full backlog answers nobody.
        let listener = reactor.listen(anywhere(), 1).unwrap();
        let mut connected = Vec::new();
        for _ in 0..8 {
            let started = reactor.now();
            let deadline = Deadline::after(started, Duration::from_millis(300));
            match reactor.connect(listener.address(), None, deadline).await {
                Ok(stream) => connected.push(stream),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                    assert!(reactor.now() >= deadline.instant());
                    return;
                }
            }
        }
        panic!("a backlog of 1 took {} connections", connected.len());
    });
}

#[test]
fn a_passed_deadline_connects_nowhere() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        let result = reactor
            .connect(listener.address(), None, Deadline::at(reactor.now()))
            .await;
        assert_eq!(
            result.err().map(|error| error.kind()),
            Some(ErrorKind::TimedOut)
        );
    });
}

#[test]
fn several_listeners_share_one_port() {
    on_each(|reactor| async move {
        let first = reactor.listen(anywhere(), 64).unwrap();
        let second = reactor.listen(first.address(), 64).unwrap();
        let accepted = Rc::new(Cell::new(0));
        for listener in [first.clone(), second.clone()] {
            let accepted = accepted.clone();
            reactor.spawn(async move {
                while listener.accept().await.is_ok() {
                    accepted.set(accepted.get() + 1);
                }
            });
        }
        for _ in 0..32 {
            reactor
                .connect(first.address(), None, soon(&reactor))
                .await
                .unwrap();
        }
        while accepted.get() < 32 {
            settle(&reactor).await;
        }
        first.shutdown();
        second.shutdown();
    });
}

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
        assert!(
            read_up_to(&client, 1)
                .await
                .is_ok_and(|bytes| bytes.is_empty())
        );
        assert_eq!(bystander.await, 7);
        assert_eq!(reactor.panics(), 1);
    };
    for &backend in support::RINGS {
        let has_ended = Rc::new(Cell::new(false));
        let end = has_ended.clone();
        let options = CoreOptions {
            backend,
            ..CoreOptions::default()
        };
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
    for &backend in support::RINGS {
        let options = CoreOptions {
            backend,
            ..CoreOptions::default()
        };
        run(options, |_| async { panic!("planted") }).unwrap_err();
    }
}

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
        assert!(
            quantile(0.0) <= 2_000,
            "no timer met the stated resolution: {late_us:?}"
        );
    };
    on_each(lateness);
}

#[test]
fn sleeping_until_the_past_is_over_at_once() {
    on_each(|reactor| async move {
        let start = reactor.now();
        reactor.sleep_until(start).await;
        reactor
            .sleep_until(start.before(Duration::from_secs(1)))
            .await;
        let sleeping = pin!(reactor.sleep_until(reactor.now() + Duration::from_secs(3600)));
        assert!(
            sleeping
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
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
        let end = beside(&reactor, async move {
            Spin::WakeOneself.until(&spinning, &stop).await
        });
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
        client
            .write_all(b"ping".to_vec())
            .await
            .0
            .expect("the ping leaves");
        assert_eq!(
            read_up_to(&client, 4).await.expect("the pong arrives"),
            b"ping"
        );
    }
    echo.await;
}

#[test]
fn same_seed_same_draws() {
    for &backend in support::RINGS {
        let drawn = |seed| {
            let draws = Rc::new(RefCell::new(Vec::new()));
            let to = draws.clone();
            let options = CoreOptions {
                backend,
                seed: Some(seed),
                ..CoreOptions::default()
            };
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
fn clocks_run_forward_together() {
    on_each(|reactor| async move {
        let (first, unix) = (reactor.now(), reactor.unix_time());
        reactor.sleep_until(first + Duration::from_millis(3)).await;
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

#[test]
fn a_reactor_that_is_not_compiled_in_names_its_feature() {
    for (backend, feature) in [(Backend::Monoio, "monoio"), (Backend::Glommio, "glommio")] {
        if support::RINGS.contains(&backend) {
            continue;
        }
        let options = CoreOptions {
            backend,
            ..CoreOptions::default()
        };
        let error = run(options, |_| async {}).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("cargo feature `{feature}`")),
            "{error}"
        );
    }
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error() {
    let options = CoreOptions {
        cpu: Some(100_000),
        ..CoreOptions::default()
    };
    run(options, |_| async {}).unwrap_err();
}
