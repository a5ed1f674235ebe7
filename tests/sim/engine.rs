//! A simulated engine: SearXNG-shaped answers whose titles carry the question, after a delay, with
//! faults by chance. It records what it was asked.

use std::cell::RefCell;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use runtime::{Instant, Reactor, Stream};

/// How an engine behaves; ratios are chances per call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The least delay.
    pub(crate) fast: Duration,
    /// The greatest delay of a slow answer.
    pub(crate) slow: Duration,
    /// How many answers are slow.
    pub(crate) slow_ratio: f64,
    /// Empty lists.
    pub(crate) empty_ratio: f64,
    /// Block pages.
    pub(crate) block_ratio: f64,
    /// Connections closed instead of an answer.
    pub(crate) drop_ratio: f64,
    /// Connections closed after an answer that promised to keep them.
    pub(crate) close_ratio: f64,
}

impl Manner {
    /// 5 to 40 ms, without a fault.
    pub(crate) const GOOD: Self = Self {
        fast: Duration::from_millis(5),
        slow: Duration::from_millis(40),
        slow_ratio: 1.0,
        empty_ratio: 0.0,
        block_ratio: 0.0,
        drop_ratio: 0.0,
        close_ratio: 0.0,
    };

    /// Half of the answers take up to 160 ms.
    pub(crate) const SLOW: Self =
        Self { slow: Duration::from_millis(160), slow_ratio: 0.5, ..Self::GOOD };

    /// A little of every fault.
    pub(crate) const BAD: Self = Self {
        slow: Duration::from_millis(900),
        slow_ratio: 0.1,
        empty_ratio: 0.03,
        block_ratio: 0.03,
        drop_ratio: 0.03,
        close_ratio: 0.1,
        ..Self::GOOD
    };
}

/// One call, as the engine saw it.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) at: Instant,
    pub(crate) question: String,
}

/// An engine's record.
#[derive(Clone, Default)]
pub(crate) struct Record(Rc<RefCell<Vec<Called>>>);

impl Record {
    pub(crate) fn calls(&self) -> Vec<Called> {
        self.0.borrow().clone()
    }
}

/// Starts an engine at `address`.
pub(crate) fn start(reactor: &Reactor, address: SocketAddr, manner: Manner) -> Record {
    let record = Record::default();
    let listener = reactor.listen(address, 1_024).expect("a free address");
    let (served, kept) = (reactor.clone(), record.clone());
    reactor.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (reactor, record) = (served.clone(), kept.clone());
            served.spawn(async move { serve(reactor, stream, manner, record).await });
        }
    });
    record
}

/// A random number in 0..1.
pub(crate) fn unit(reactor: &Reactor) -> f64 {
    (reactor.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

async fn serve(reactor: Reactor, stream: Stream, manner: Manner, record: Record) {
    let mut input = Vec::with_capacity(8 * 1024);
    loop {
        let end = input.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            input.reserve(4 * 1024);
            let (read, filled) = stream.read(input).await;
            input = filled;
            if !matches!(read, Ok(count) if count > 0) {
                return;
            }
            continue;
        };
        let head = String::from_utf8_lossy(&input[..end]).into_owned();
        input.drain(..end + 4);
        let question = question_of(&head);
        record.0.borrow_mut().push(Called { at: reactor.now(), question: question.clone() });
        let is_slow = unit(&reactor) < manner.slow_ratio;
        let span = if is_slow { manner.slow.saturating_sub(manner.fast) } else { Duration::ZERO };
        let delay = manner.fast + span.mul_f64(unit(&reactor));
        reactor.sleep_until(reactor.now() + delay).await;
        if unit(&reactor) < manner.drop_ratio {
            return stream.shutdown(Shutdown::Both);
        }
        let body = body(&reactor, manner, &question);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let bytes = [head.into_bytes(), body.into_bytes()].concat();
        if stream.write_all(bytes).await.0.is_err() {
            return;
        }
        if unit(&reactor) < manner.close_ratio {
            return stream.shutdown(Shutdown::Both);
        }
    }
}

/// The `q` of the request line, decoded.
fn question_of(head: &str) -> String {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let value = query.split('&').find_map(|pair| pair.strip_prefix("q=")).unwrap_or_default();
    value.replace("%20", " ").replace('+', " ")
}

fn body(reactor: &Reactor, manner: Manner, question: &str) -> String {
    let draw = unit(reactor);
    if draw < manner.block_ratio {
        return "<html><title>Just a moment...</title><script>window._cf_chl_opt={}</script></html>"
            .to_owned();
    }
    let count = if draw < manner.block_ratio + manner.empty_ratio { 0 } else { 10 };
    let rows: Vec<String> = (0..count)
        .map(|row| {
            format!(
                r#"{{"url":"https://site{row}.example/{}","title":"{question} :: {row}","content":"about {question}"}}"#,
                question.replace(' ', "-")
            )
        })
        .collect();
    format!(r#"{{"query":"{question}","results":[{}],"unresponsive_engines":[]}}"#, rows.join(","))
}
