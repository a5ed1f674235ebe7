//! What only a simulated world promises: it repeats, it misbehaves as told, it tells what is left.

#[path = "contract/net.rs"]
mod net;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use net::{anywhere, pair, read_up_to, soon};
use runtime::sim::{Faults, Options, Timers, World};
use runtime::{Bell, Deadline, Instant, Reactor, Ringer, Stream};

/// Worlds per claim.
const SEEDS: std::ops::Range<u64> = 0..32;

const SERVER: &str = "10.0.0.1";
const CLIENT: &str = "10.0.0.2";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn at(span: Duration) -> Instant {
    Instant::ZERO + span
}

/// Everything that can go wrong, often.
fn stormy() -> Options {
    Options {
        faults: Faults {
            refuse_ratio: 0.05,
            connect_stall_ratio: 0.05,
            reset_ratio: 0.1,
            stall_ratio: 0.05,
            within: ms(50),
            short_read_ratio: 0.1,
            split_ratio: 0.3,
            accept_error_ratio: 0.05,
        },
        trace: true,
        ..Options::default()
    }
}

/// A server that echoes on two cores of one address.
fn serve(cores: &[Reactor]) -> SocketAddr {
    let address = SocketAddr::new(ip(SERVER), 80);
    for core in cores {
        let (listener, reactor) =
            (core.listen(address, 64).expect("the address is ours"), core.clone());
        core.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => reactor.spawn(echo(stream)),
                    Err(_) => reactor.sleep_until(reactor.now() + ms(1)).await,
                }
            }
        });
    }
    address
}

async fn echo(stream: Stream) {
    loop {
        let (result, bytes) = stream.read(Vec::with_capacity(512)).await;
        if !matches!(result, Ok(1..)) || stream.write_all(bytes).await.0.is_err() {
            return;
        }
    }
}

async fn ask(reactor: Reactor, server: SocketAddr, answered: Rc<Cell<u32>>) {
    let deadline = Deadline::after(reactor.now(), ms(200));
    let Ok(stream) = reactor.connect(server, None, deadline).await else {
        return;
    };
    let killer = stream.clone();
    let timer = reactor.clone();
    reactor.spawn(async move {
        timer.sleep_until(deadline.instant()).await;
        killer.shutdown(Shutdown::Both);
    });
    let question: Vec<u8> = (0..1_000).map(|_| reactor.draw() as u8).collect();
    if stream.write_all(question.clone()).await.0.is_err() {
        return;
    }
    if let Ok(answer) = read_up_to(&stream, question.len()).await
        && answer.len() == question.len()
    {
        assert_eq!(answer, question, "bytes were mixed up");
        answered.set(answered.get() + 1);
    }
}

/// A busy world; its trace and how many were answered.
fn storm(seed: u64) -> (u64, String, u32) {
    let world = World::new(seed, stormy());
    let cores = [world.core("server-0", ip(SERVER)), world.core("server-1", ip(SERVER))];
    let server = serve(&cores);
    let client = world.core("client", ip(CLIENT));
    let answered = Rc::new(Cell::new(0));
    for _ in 0..40 {
        client.spawn(ask(client.clone(), server, answered.clone()));
    }
    world.run_until(at(ms(20)), || false);
    world.freeze(&cores[0], ms(30));
    world.run_until(at(ms(2_000)), || false);
    let census = world.census();
    assert_eq!(census.panics, 0);
    assert_eq!(census.tasks["client"], 0, "somebody hangs: {census:?}");
    (world.trace_hash(), world.trace(), answered.get())
}

#[test]
fn same_seed_same_trace_byte_for_byte() {
    let mut hashes = Vec::new();
    for seed in 0..8 {
        let (first, second) = (storm(seed), storm(seed));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.1.lines().count() > 1_000);
        assert!((1..40).contains(&first.2), "{} of 40 answered", first.2);
        hashes.push(first.0);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 8, "different seeds are different worlds");
}

/// Runs `task` in a world of one core until it ends.
fn check<F>(world: &World, reactor: &Reactor, task: F)
where
    F: Future<Output = ()> + 'static,
{
    let end = runtime::local::Event::new();
    let has_ended = end.clone();
    reactor.spawn(async move {
        task.await;
        end.set();
    });
    assert!(world.run_until(world.now() + ms(60_000), || has_ended.is_set()));
    assert_eq!(world.census().panics, 0);
}

fn small_world(seed: u64, options: Options) -> (World, Reactor) {
    let world = World::new(seed, options);
    let reactor = world.core("core", ip("127.0.0.1"));
    (world, reactor)
}

#[test]
fn faults_do_not_change_the_bytes() {
    for seed in SEEDS {
        let faults = Faults { short_read_ratio: 0.2, split_ratio: 0.5, ..Faults::default() };
        let options = Options { faults, socket_buffer_bytes: 700, ..Options::default() };
        let (world, reactor) = small_world(seed, options);
        check(&world, &reactor.clone(), async move {
            let (client, server) = pair(&reactor).await.expect("a connection");
            let sent: Vec<u8> = (0..20_000u32).map(|index| (index % 253) as u8).collect();
            let bytes = sent.clone();
            reactor.spawn(async move {
                client.write_all(bytes).await.0.expect("all of it");
            });
            assert_eq!(read_up_to(&server, 30_000).await.expect("all of it"), sent);
        });
    }
}

#[test]
fn a_full_socket_buffer_makes_the_writer_wait() {
    let options = Options { socket_buffer_bytes: 1_000, ..Options::default() };
    let (world, reactor) = small_world(1, options);
    let written = Rc::new(Cell::new(false));
    let (flag, main) = (written.clone(), reactor.clone());
    let ends = Rc::new(RefCell::new(None));
    let to = ends.clone();
    reactor.spawn(async move {
        let (client, server) = pair(&main).await.expect("a connection");
        *to.borrow_mut() = Some(server);
        client.write_all(vec![7; 1_001]).await.0.expect("in the end");
        flag.set(true);
    });
    world.run_until(at(ms(1_000)), || false);
    assert!(!written.get(), "1,001 bytes fitted into 1,000");
    let server = ends.borrow_mut().take().expect("connected");
    check(&world, &reactor, async move {
        assert_eq!(read_up_to(&server, 1_001).await.expect("bytes").len(), 1_001);
    });
    world.run_idle(at(ms(2_000)));
    assert!(written.get());
}

#[test]
fn a_frozen_core_runs_nothing_and_goes_on_after() {
    for seed in SEEDS {
        let (world, reactor) = small_world(seed, Options::default());
        let turns = Rc::new(RefCell::new(Vec::new()));
        let (to, main) = (turns.clone(), reactor.clone());
        reactor.spawn(async move {
            for step in 1..=100 {
                main.sleep_until(at(ms(10 * step))).await;
                to.borrow_mut().push(main.now());
            }
        });
        world.run_until(at(ms(205)), || false);
        world.freeze(&reactor, ms(300));
        world.run_until(at(ms(2_000)), || false);
        let frozen = at(ms(205))..at(ms(505));
        assert!(turns.borrow().iter().all(|turn| !frozen.contains(turn)), "{turns:?}");
        assert_eq!(turns.borrow().len(), 100);
    }
}

#[test]
fn timers_are_rounded_and_late_as_told() {
    let timers = Timers { grain: ms(10), late_max: ms(3) };
    for seed in SEEDS {
        let (world, reactor) = small_world(seed, Options { timers, ..Options::default() });
        check(&world, &reactor.clone(), async move {
            for step in 0..50 {
                let wanted = reactor.now() + Duration::from_micros(100 + 777 * step);
                reactor.sleep_until(wanted).await;
                let rounded = at(ms((wanted.as_nanos() / 1_000_000).div_euclid(10) * 10 + 10));
                assert!(reactor.now() >= rounded.before(ms(10)).max(wanted));
                assert!(reactor.now() <= rounded + ms(3), "{wanted:?} at {:?}", reactor.now());
            }
        });
    }
}

#[test]
fn a_host_wakes_when_it_is_due_whatever_the_timers_of_cores() {
    let timers = Timers { grain: ms(10), late_max: ms(3) };
    let world = World::new(1, Options { timers, ..Options::default() });
    let host = world.host("actor", ip(CLIENT));
    check(&world, &host.clone(), async move {
        for step in 0..50 {
            let wanted = host.now() + Duration::from_nanos(100_001 + 777_003 * step);
            host.sleep_until(wanted).await;
            assert_eq!(host.now(), wanted);
        }
    });
}

#[test]
fn refusing_and_silent_hosts_come_and_go() {
    for seed in SEEDS {
        let world = World::new(seed, Options::default());
        let cores = [world.core("server", ip(SERVER))];
        let server = serve(&cores);
        let client = world.core("client", ip(CLIENT));
        let (controls, reactor) = (Controls::default(), client.clone());
        let asked = controls.clone();
        // The world is told from outside its tasks, so a task asks through `controls`.
        client.spawn(async move {
            asked.ask(Control::Refuse(true));
            reactor.yield_now().await;
            let result = reactor.connect(server, None, soon(&reactor)).await;
            assert_eq!(result.err().map(|it| it.kind()), Some(ErrorKind::ConnectionRefused));
            asked.ask(Control::Refuse(false));
            reactor.yield_now().await;
            let stream = reactor.connect(server, None, soon(&reactor)).await.expect("a connection");
            asked.ask(Control::Stall(true));
            reactor.yield_now().await;
            let deadline = Deadline::after(reactor.now(), ms(50));
            let result = reactor.connect(server, None, deadline).await;
            assert_eq!(result.err().map(|it| it.kind()), Some(ErrorKind::TimedOut));
            stream.write_all(b"held".to_vec()).await.0.expect("there is room");
            reactor.sleep_until(reactor.now() + ms(100)).await;
            assert!(stream.is_quiet(), "a silent host answered");
            asked.ask(Control::Stall(false));
            assert_eq!(read_up_to(&stream, 4).await.expect("the echo"), b"held");
            asked.ask(Control::Reset);
            let (result, _) = stream.read(Vec::with_capacity(1)).await;
            assert_eq!(result.err().map(|it| it.kind()), Some(ErrorKind::ConnectionReset));
            asked.ask(Control::Done);
        });
        let mut is_done = false;
        world.run_until(at(ms(100_000)), || {
            is_done |= controls.obey(&world, server);
            is_done
        });
        assert!(is_done && world.census().panics == 0, "seed {seed}: {:?}", world.census());
    }
}

#[derive(Clone, Copy)]
enum Control {
    Refuse(bool),
    Stall(bool),
    Reset,
    Done,
}

#[derive(Clone, Default)]
struct Controls(Rc<RefCell<Vec<Control>>>);

impl Controls {
    fn ask(&self, control: Control) {
        self.0.borrow_mut().push(control);
    }

    fn obey(&self, world: &World, server: SocketAddr) -> bool {
        let mut is_done = false;
        for control in self.0.borrow_mut().drain(..) {
            match control {
                Control::Refuse(on) => world.refuse(server, on),
                Control::Stall(on) => world.stall(server, on),
                Control::Reset => world.reset(server),
                Control::Done => is_done = true,
            }
        }
        is_done
    }
}

#[test]
fn a_letter_posted_before_its_ring_is_never_slept_over() {
    for seed in SEEDS {
        let world = World::new(seed, Options::default());
        let (left, right) = (world.core("left", ip(SERVER)), world.core("right", ip(CLIENT)));
        let ((to_left, left_seed), (to_right, right_seed)) = (world.bell(), world.bell());
        let (left_bell, right_bell) = (left.attach(left_seed), right.attach(right_seed));
        let (left_mail, right_mail) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let rounds = 200;
        left_mail.set(1);
        left.spawn(rally(left_bell, to_right, left_mail.clone(), right_mail.clone(), rounds));
        right.spawn(rally(right_bell, to_left, right_mail, left_mail, rounds));
        world.run_until(at(ms(10_000)), || world.census().tasks.values().all(|&count| count == 0));
        assert!(world.census().tasks.values().all(|&count| count == 0), "seed {seed} hangs");
    }
}

/// Takes a letter and posts one, `rounds` times.
async fn rally(
    mut bell: Bell,
    ringer: Ringer,
    mine: Rc<Cell<u32>>,
    theirs: Rc<Cell<u32>>,
    rounds: u32,
) {
    for _ in 0..rounds {
        while mine.get() == 0 {
            bell.wait(|| mine.get() > 0).await;
        }
        mine.set(mine.get() - 1);
        theirs.set(theirs.get() + 1);
        ringer.ring();
    }
}

#[test]
fn the_census_counts_what_is_left() {
    let (world, reactor) = small_world(3, Options::default());
    let main = reactor.clone();
    let kept = Rc::new(RefCell::new(None));
    let to = kept.clone();
    reactor.spawn(async move {
        let ends = pair(&main).await.expect("a connection");
        let listener = main.listen(anywhere(), 1).expect("the address is ours");
        *to.borrow_mut() = Some((ends, listener));
    });
    let sleeper = reactor.clone();
    reactor.spawn(async move { sleeper.sleep_until(at(ms(1_000))).await });
    world.run_until(at(ms(100)), || false);
    let census = world.census();
    assert_eq!((census.streams_open, census.listeners, census.timers), (2, 1, 1), "{census:?}");
    assert_eq!((census.tasks["core"], census.operations_in_flight), (1, 0), "{census:?}");
    kept.borrow_mut().take();
    world.run_idle(at(ms(2_000)));
    let census = world.census();
    assert_eq!((census.streams_open, census.listeners, census.timers), (0, 0, 0), "{census:?}");
    assert_eq!(census.tasks["core"], 0);
}

#[test]
fn an_operation_dropped_half_way_is_counted_and_ends_its_connection() {
    let (world, reactor) = small_world(4, Options::default());
    check(&world, &reactor.clone(), async move {
        let (client, server) = pair(&reactor).await.expect("a connection");
        {
            let reading = pin!(client.read(Vec::with_capacity(8)));
            assert!(reading.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(read_up_to(&server, 1).await.is_ok_and(|bytes| bytes.is_empty()));
    });
    assert_eq!(world.census().operations_dropped, 1);
}

#[test]
fn the_tasks_of_a_world_go_with_it() {
    let (world, reactor) = small_world(5, Options::default());
    let witness = Rc::new(());
    for _ in 0..10 {
        let (held, main) = (witness.clone(), reactor.clone());
        reactor.spawn(async move {
            let (client, _server) = pair(&main).await.expect("a connection");
            let _ = client.read(Vec::with_capacity(8)).await;
            drop(held);
        });
    }
    world.run_until(at(ms(100)), || false);
    assert_eq!(Rc::strong_count(&witness), 11);
    drop(world);
    assert_eq!(Rc::strong_count(&witness), 1);
}

#[test]
fn closing_with_unread_bytes_resets_the_peer() {
    for seed in SEEDS {
        let (world, reactor) = small_world(seed, Options::default());
        check(&world, &reactor.clone(), async move {
            let (client, server) = pair(&reactor).await.expect("a connection");
            client.write_all(b"never read".to_vec()).await.0.expect("there is room");
            reactor.sleep_until(reactor.now() + ms(10)).await;
            drop(server);
            let (result, _) = client.read(Vec::with_capacity(8)).await;
            assert_eq!(result.err().map(|it| it.kind()), Some(ErrorKind::ConnectionReset));
            let (result, _) = client.write_all(b"x".to_vec()).await;
            assert_eq!(result.err().map(|it| it.kind()), Some(ErrorKind::BrokenPipe));
        });
    }
}

/// Prints the figure quoted in `sim`'s documentation; it asserts only that it is no standstill.
#[test]
fn a_world_takes_this_many_turns_a_second() {
    let (world, reactor) = small_world(6, Options::default());
    let turns = Rc::new(Cell::new(0u64));
    for _ in 0..100 {
        let (turns, main) = (turns.clone(), reactor.clone());
        reactor.spawn(async move {
            loop {
                main.sleep_until(main.now() + ms(1)).await;
                turns.set(turns.get() + 1);
            }
        });
    }
    #[expect(clippy::disallowed_methods, reason = "measures real time")]
    let start = std::time::Instant::now();
    world.run_until(at(ms(5_000)), || false);
    let rate = turns.get() as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.0} turns a second, each with a timer");
    assert!(rate > 10_000.0, "{rate}");
}
