//! When exactly a drain closes whom, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use runtime::sim::Options;
use runtime::{Deadline, Instant};

use super::engine::Manner;
use super::world::{self, Sim};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What a client was told until its connection ended; none: it has not ended.
type Told = Rc<RefCell<Option<String>>>;

/// A client that connects now, sends its only request at `asks_at`, and reads to the end.
fn client(sim: &Sim, asks_at: Instant) -> Told {
    let told = Told::default();
    let (own, to, there) = (sim.clients.clone(), sim.instance.address, told.clone());
    sim.clients.spawn(async move {
        let deadline = Deadline::after(own.now(), ms(1_000));
        let stream = own.connect(to, None, deadline).await.expect("it listens");
        own.sleep_until(asks_at).await;
        let request = b"GET /search/fast?q=v HTTP/1.1\r\nHost: x\r\nX-API-Key: demo\r\n\r\n";
        let _ = stream.write_all(request.to_vec()).await;
        let mut input = Vec::with_capacity(32 * 1024);
        loop {
            input.reserve(8 * 1024);
            let (read, filled) = stream.read(input).await;
            input = filled;
            if !matches!(read, Ok(count) if count > 0) {
                break;
            }
        }
        *there.borrow_mut() = Some(String::from_utf8_lossy(&input).into_owned());
    });
    told
}

/// What clients are told that ask so long after the drain began.
fn told(asks_after: &[Duration]) -> Vec<String> {
    let sim = world::start(1, Options::default(), 1, &[Manner::GOOD], "");
    let begins = sim.world.now() + ms(100);
    let clients: Vec<Told> = asks_after.iter().map(|after| client(&sim, begins + *after)).collect();
    sim.world.run_until(begins, || false);
    sim.instance.commons.is_draining.store(true, Ordering::Relaxed);
    sim.world.run_until(begins + ms(3_000), || false);
    assert_eq!(sim.world.census().panics, 0);
    clients.iter().map(|told| told.borrow_mut().take().expect("its connection ended")).collect()
}

#[test]
fn who_has_not_asked_yet_has_a_quarter_of_a_second_to() {
    let told = told(&[ms(1), ms(100), ms(230), ms(340)]);
    for answer in &told[..3] {
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    }
    assert_eq!(told[3], "");
}
