//! What a race promises: whose time is counted, who is asked and when, who wins, and what is left
//! of the losers.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use runtime::Deadline;
use runtime::local::Event;
use runtime::sim::World;
use shards::breaker::{Admission, Generation};
use shards::budget::Budget;

use super::rig::{Act, Raced, Rig, ms, rig, run, settle};
use super::{Chosen, ask};
use crate::engines::state::Observed;
use crate::model::{Class, EngineId, Role, Verdict};

/// How late the last event of an exact race may be.
const EXACT: Duration = Duration::from_millis(1);

/// One race within 600 ms of engines that act like this, where a call is late after `delay`.
fn race(delay: Duration, acts: &[&[Act]]) -> (World, Rc<Rig>, Raced) {
    race_with(acts, |rig| rig.delay = delay)
}

fn race_with(acts: &[&[Act]], change: impl FnOnce(&mut Rig)) -> (World, Rc<Rig>, Raced) {
    let (world, rig) = rig(1, Duration::ZERO, acts, change);
    let raced = run(&world, &rig, async |rig| rig.race(ms(600)).await);
    settle(&world, &rig);
    (world, rig, raced)
}

#[track_caller]
fn took(raced: &Raced, expected: Duration) {
    assert!(raced.took.abs_diff(expected) < EXACT, "{:?}, not {expected:?}", raced.took);
}

const PRIMARY: Role = Role::Primary;
const HEDGE: Role = Role::Hedge;

mod time {
    //! Whose time it was.

    use super::*;

    #[test]
    fn connecting_is_time_waited() {
        let (world, rig) = rig(1, ms(30), &[&[Act::Page(ms(50))]], |_| ());
        let raced = run(&world, &rig, async |rig| rig.race(ms(600)).await);
        took(&raced, ms(30 * 4 + 50));
        assert_eq!(raced.asked.upstream, raced.took);
    }

    #[test]
    fn a_first_try_on_a_closed_connection_is_time_waited() {
        let acts: &[Act] = &[Act::Page(ms(50)), Act::Close(ms(70)), Act::Page(ms(50))];
        let (world, rig) = rig(1, ms(10), &[acts], |_| ());
        run(&world, &rig, async |rig| rig.race(ms(600)).await);
        let raced = run(&world, &rig, async |rig| rig.race(ms(600)).await);
        assert_eq!((raced.winner(), rig.called(0)), (Ok(0), 3), "the second try is a third call");
        took(&raced, ms(10 * 2 + 70 + 10 * 4 + 50));
        assert_eq!(raced.asked.upstream, raced.took);
    }

    #[test]
    fn the_time_until_a_winning_hedge_is_time_waited() {
        let (_, _, raced) = race(ms(40), &[&[Act::Page(ms(500))], &[Act::Page(ms(30))]]);
        took(&raced, ms(70));
        assert_eq!((raced.winner(), raced.asked.upstream), (Ok(1), raced.took));
    }

    #[test]
    fn a_call_that_waits_for_its_first_turn_is_our_own_time() {
        let (world, rig) = rig(1, Duration::ZERO, &[&[Act::Page(ms(50))]], |_| ());
        let (is_begun, done) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(None)));
        let (begun, kept, held) = (is_begun.clone(), done.clone(), rig.clone());
        rig.reactor.spawn(async move {
            begun.set(true);
            let raced = held.race(ms(600)).await;
            *kept.borrow_mut() = Some(raced);
        });
        assert!(world.run_until(world.now() + ms(1), || is_begun.get()));
        world.freeze(&rig.reactor, ms(20));
        assert!(world.run_until(world.now() + ms(600), || done.borrow().is_some()));
        let raced = done.take().expect("it ended");
        took(&raced, ms(70));
        assert!(raced.asked.upstream.abs_diff(ms(50)) < EXACT, "{:?}", raced.asked.upstream);
    }
}

mod load {
    //! What the next choice sees.

    use super::*;

    #[test]
    fn a_call_is_in_flight_as_soon_as_it_is_chosen() {
        let (world, rig) = rig(1, Duration::ZERO, &[&[Act::Page(ms(50))]], |_| ());
        let seen = run(&world, &rig, async |rig| {
            let mut seen = Vec::new();
            let (mut one, mut other) = (pin!(rig.race(ms(600))), pin!(rig.race(ms(600))));
            std::future::poll_fn(|context| {
                assert!(one.as_mut().poll(context).is_pending());
                seen.push(rig.engines[0].in_flight());
                assert!(other.as_mut().poll(context).is_pending());
                seen.push(rig.engines[0].in_flight());
                Poll::Ready(())
            })
            .await;
            one.await;
            other.await;
            seen
        });
        assert_eq!(seen, [1, 2]);
        settle(&world, &rig);
    }
}

mod end {
    //! What is left of a race that did not run to its end.

    use super::*;

    /// Opens the breaker of engine 0, waits until it is half open, and takes all its probes.
    fn probes(world: &World, rig: &Rig) -> Vec<Generation> {
        let engine = &rig.engines[0];
        while let Admission::Closed(generation) = engine.admit(world.now(), 0.0) {
            let observed = Observed {
                verdict: Verdict::Failed,
                took: ms(1),
                given: ms(600),
                was_old: false,
                class: Class::Evergreen,
                generation: Some(generation),
                retry_after: None,
            };
            engine.learn(&observed, world.now());
        }
        world.run_until(world.now() + Duration::from_secs(6), || false);
        let mut probes = Vec::new();
        while let Admission::Probe(generation) = engine.admit(world.now(), 0.0) {
            probes.push(generation);
        }
        probes
    }

    fn probe(generation: Generation) -> Chosen {
        Chosen { engine: EngineId(0), role: Role::Probe, generation: Some(generation) }
    }

    fn check(world: &World, rig: &Rig, panics: u64, legs: &[(u16, Role, Verdict)]) {
        let may_probe = matches!(rig.engines[0].admit(world.now(), 0.0), Admission::Probe(_));
        assert!(may_probe, "its probe was not given back");
        let learned = rig.learned.borrow();
        let learned: Vec<_> =
            learned.iter().map(|(leg, _)| (leg.engine.0, leg.role, leg.verdict)).collect();
        assert_eq!(learned, legs);
        settle(world, rig);
        assert_eq!(world.census().panics, panics);
        for engine in &rig.engines {
            let was_called = rig.called(engine.id().0) > 0;
            let idle = engine.pool.borrow().idle();
            assert!(!was_called || idle == 0, "a loser's connection was kept");
        }
    }

    #[test]
    fn a_dropped_race_cancels_its_legs_and_settles_each_once() {
        let acts: &[&[Act]] = &[&[Act::Page(ms(300))], &[Act::Page(ms(300))]];
        let (world, rig) = rig(1, ms(5), acts, |rig| rig.delay = ms(50));
        let generation = probes(&world, &rig)[0];
        run(&world, &rig, async move |rig| {
            let deadline = Deadline::after(rig.reactor.now(), ms(600));
            let (cancelled, first) = (Event::new(), probe(generation));
            let race = ask(rig.ground(), &*rig, first, &rig.plan, deadline, &cancelled);
            let pause = rig.reactor.sleep_until(rig.reactor.now() + ms(100));
            runtime::local::select2(race, pause).await;
        });
        let expected = [(0, Role::Probe, Verdict::Cancelled), (1, HEDGE, Verdict::Cancelled)];
        check(&world, &rig, 0, &expected);
        let mut closed = rig.closed.borrow().clone();
        closed.sort_unstable();
        assert_eq!(closed, [0, 1]);
    }

    #[test]
    fn a_panic_in_mid_race_leaves_no_leg_and_no_probe_behind() {
        let acts: &[&[Act]] = &[&[Act::Page(ms(300))], &[Act::Page(ms(300))]];
        let (world, rig) = rig(1, ms(5), acts, |rig| rig.delay = ms(50));
        let generation = probes(&world, &rig)[0];
        // Asked for once to wait, once when it is late, and once more with both legs out.
        rig.delays_left.set(2);
        let held = rig.clone();
        rig.reactor.spawn(async move {
            let deadline = Deadline::after(held.reactor.now(), ms(600));
            let (cancelled, first) = (Event::new(), probe(generation));
            ask(held.ground(), &*held, first, &held.plan, deadline, &cancelled).await;
        });
        assert!(world.run_until(world.now() + ms(100), || world.census().panics == 1));
        let expected = [(0, Role::Probe, Verdict::Cancelled), (1, HEDGE, Verdict::Cancelled)];
        check(&world, &rig, 1, &expected);
    }

    #[test]
    fn a_race_that_is_over_settles_nothing_twice() {
        let (_, rig, raced) = race(ms(20), &[&[Act::Page(ms(60))], &[Act::Page(ms(300))]]);
        let expected = [(0, PRIMARY, Verdict::Valid), (1, HEDGE, Verdict::Cancelled)];
        assert_eq!(raced.legs(), expected);
        assert_eq!(rig.learned.borrow().len(), 2);
    }

    #[test]
    fn a_leg_that_failed_as_another_won_is_told_as_it_was() {
        let acts: &[&[Act]] = &[&[Act::Error(ms(60))], &[Act::Page(ms(40))]];
        for seed in 0..32 {
            let (world, rig) = rig(seed, Duration::ZERO, acts, |rig| rig.delay = ms(20));
            let raced = run(&world, &rig, async |rig| rig.race(ms(600)).await);
            let expected = [(0, PRIMARY, Verdict::Failed), (1, HEDGE, Verdict::Valid)];
            // Where the winner was heard before the other had had its turn, that was cancelled.
            let cancelled = [(0, PRIMARY, Verdict::Cancelled), (1, HEDGE, Verdict::Valid)];
            assert!(raced.legs() == expected || raced.legs() == cancelled, "{:?}", raced.legs());
            settle(&world, &rig);
        }
    }
}

mod late {
    //! A core that was held up.

    use super::*;

    /// A race within 60 ms on a core that is frozen from 40 to 70 ms, in many orders of turns.
    fn check(acts: &[&[Act]], check: impl Fn(&Rig, &Raced)) {
        for seed in 0..64 {
            let (world, rig) = rig(seed, Duration::ZERO, acts, |rig| rig.delay = ms(45));
            let begun = world.now();
            let done = Rc::new(RefCell::new(None));
            let (kept, held) = (done.clone(), rig.clone());
            rig.reactor.spawn(async move {
                let raced = held.race(ms(60)).await;
                *kept.borrow_mut() = Some(raced);
            });
            assert!(!world.run_until(begun + ms(40), || done.borrow().is_some()));
            world.freeze(&rig.reactor, ms(30));
            assert!(world.run_until(begun + ms(90), || done.borrow().is_some()));
            let raced = done.take().expect("it ended");
            took(&raced, ms(70));
            check(&rig, &raced);
            settle(&world, &rig);
        }
    }

    #[test]
    fn an_answer_that_came_in_time_and_is_read_late_wins() {
        check(&[&[Act::Page(ms(50))], &[Act::Page(ms(1))]], |rig, raced| {
            assert_eq!((raced.winner(), rig.called(1)), (Ok(0), 0));
        });
    }

    #[test]
    fn no_leg_starts_after_the_deadline() {
        for act in [Act::Wall(ms(50)), Act::Close(ms(50)), Act::Page(ms(500))] {
            check(&[&[act], &[Act::Page(ms(1))]], |rig, raced| {
                assert!(raced.winner().is_err(), "{act:?}: {:?}", raced.winner());
                assert_eq!((raced.legs().len(), rig.called(1)), (1, 0), "{act:?}");
            });
        }
    }

    #[test]
    fn a_race_begun_after_its_deadline_asks_nobody() {
        let (world, rig) = rig(1, Duration::ZERO, &[&[Act::Page(ms(1))]], |_| ());
        let raced = run(&world, &rig, async |rig| rig.race(Duration::ZERO).await);
        settle(&world, &rig);
        assert_eq!(raced.winner(), Err("DeadlineExceeded".to_owned()));
        assert_eq!((raced.legs(), rig.called(0)), (vec![(0, PRIMARY, Verdict::Skipped)], 0));
    }
}

mod order {
    //! Who is asked when, and who wins.

    use super::*;

    const NOBODY: &str = "NoValidAnswer(1s)";

    /// What the engines do, who wins, and after how many milliseconds it is over.
    type Case<'a> = (&'a [&'a [Act]], Result<u16, String>, u64);

    #[test]
    fn a_late_leg_that_fails_does_not_decide_for_the_other() {
        let cases: [Case<'_>; 3] = [
            // The late one fails, the hedge answers later.
            (&[&[Act::Error(ms(60))], &[Act::Page(ms(90))]], Ok(1), 130),
            // The hedge fails first, the late one answers.
            (&[&[Act::Page(ms(130))], &[Act::Error(ms(20))]], Ok(0), 130),
            // Both fail: one refusal, at once.
            (&[&[Act::Error(ms(60))], &[Act::Error(ms(90))]], Err(NOBODY.to_owned()), 130),
        ];
        for (acts, winner, span) in cases {
            let (_, rig, raced) = race(ms(40), acts);
            took(&raced, ms(span));
            assert_eq!(raced.winner(), winner, "{acts:?}");
            assert_eq!((rig.called(0), rig.called(1)), (1, 1), "{acts:?}");
        }
    }

    #[test]
    fn the_refusal_of_failed_legs_does_not_depend_on_their_order() {
        let acts = [Act::Error(ms(10)), Act::Wall(ms(20)), Act::Close(ms(30))];
        for turn in 0..acts.len() {
            let [one, two, three] = std::array::from_fn(|place| [acts[(turn + place) % 3]]);
            let (_, _, raced) = race(ms(400), &[&one, &two, &three]);
            took(&raced, ms(60));
            assert_eq!(raced.winner(), Err(NOBODY.to_owned()));
            assert_eq!(raced.asked.legs.len(), 3);
        }
    }

    #[test]
    fn a_quick_invalid_answer_never_beats_a_slow_valid_one() {
        for invalid in [Act::Empty(ms(50)), Act::Wall(ms(50)), Act::Error(ms(50))] {
            let (_, _, raced) = race(ms(20), &[&[Act::Page(ms(300))], &[invalid]]);
            took(&raced, ms(300));
            assert_eq!(raced.winner(), Ok(0), "{invalid:?}");
            let verdict = raced.legs()[1].2;
            assert!(verdict.is_evidence() && !verdict.is_valid(), "{verdict:?}");
        }
    }

    #[test]
    fn a_winners_long_answer_is_read_to_its_end() {
        let (_, rig, raced) = race(ms(20), &[&[Act::Page(ms(500))], &[Act::Parts(ms(10))]]);
        took(&raced, ms(20 + 8 * 10));
        let answer = raced.asked.answer.expect("a valid answer");
        assert_eq!((answer.engine, answer.items.len()), (EngineId(1), 10));
        assert_eq!(*rig.closed.borrow(), [0], "the loser's connection is closed");
        assert_eq!(rig.engines[1].pool.borrow().idle(), 1, "the winner's is kept");
    }

    #[test]
    fn a_hedge_that_the_budget_refuses_holds_nothing_up() {
        let poor = |rig: &mut Rig| {
            rig.delay = ms(20);
            rig.hedges = Budget::new(0.0, 0);
        };
        let acts: &[&[Act]] = &[&[Act::Error(ms(50))], &[Act::Page(ms(30))]];
        let (_, rig, raced) = race_with(acts, poor);
        assert_eq!(*rig.hedged.borrow(), [(EngineId(1), false)]);
        took(&raced, ms(80));
        assert_eq!(raced.winner(), Ok(1), "a retry needs no budget");
        let acts: &[&[Act]] = &[&[Act::Error(ms(50))], &[Act::Error(ms(30))]];
        let (_, _, raced) = race_with(acts, poor);
        took(&raced, ms(80));
        assert_eq!(raced.winner(), Err(NOBODY.to_owned()), "now, not at the deadline");
    }

    #[test]
    fn an_invalid_answer_does_not_wait_for_the_hedge_delay() {
        for invalid in [Act::Error(ms(5)), Act::Wall(ms(5)), Act::Close(ms(5))] {
            let (_, rig, raced) = race(ms(400), &[&[invalid], &[Act::Page(ms(50))]]);
            took(&raced, ms(55));
            assert_eq!(raced.winner(), Ok(1), "{invalid:?}");
            let (_, at) = rig.calls.borrow()[1];
            assert!(at.as_nanos().abs_diff(5_000_000) < 1_000_000, "asked at {at:?}");
        }
    }

    #[test]
    fn one_engine_alone_is_waited_for() {
        let (_, rig, raced) = race(ms(20), &[&[Act::Page(ms(300))]]);
        took(&raced, ms(300));
        assert_eq!((raced.winner(), rig.called(0)), (Ok(0), 1));
        assert_eq!(raced.legs(), [(0, PRIMARY, Verdict::Valid)]);
        assert!(rig.hedged.borrow().is_empty(), "a hedge was counted");
        let (_, _, raced) = race(ms(20), &[&[Act::Error(ms(300))]]);
        took(&raced, ms(300));
        assert_eq!(raced.winner(), Err(NOBODY.to_owned()));
    }
}
