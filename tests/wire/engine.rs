//! A SearXNG-shaped engine on an ordinary thread per connection, told how to answer each call.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How a call is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// A page of ten.
    Page,
    /// A page of ten, after this long.
    After(Duration),
    /// An empty list.
    Empty,
    /// A page, then the connection closes though it said nothing of it.
    ThenCloses,
    /// A page, with bytes beyond it.
    ThenMore,
    /// An interim response, then a page.
    InterimFirst,
    /// Half of a page, then a reset.
    CutOff,
    /// Nothing, until the caller gives up.
    Never,
}

/// A running engine; its threads end with their connections.
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    calls: Arc<AtomicUsize>,
    given_up: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Engine {
    /// Answers call `n` (from 1) as `manner(n)` says.
    pub(crate) fn start(manner: impl Fn(usize) -> Manner + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let engine = Self {
            address,
            calls: Arc::default(),
            given_up: Arc::default(),
            connections: Arc::default(),
        };
        let (calls, given_up, connections) =
            (engine.calls.clone(), engine.given_up.clone(), engine.connections.clone());
        let manner = Arc::new(manner);
        thread("engine", move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (calls, given_up, manner) = (calls.clone(), given_up.clone(), manner.clone());
                thread("engine-connection", move || {
                    serve(stream, &calls, &given_up, &*manner);
                });
            }
        });
        engine
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Calls whose caller closed the connection before it was answered.
    pub(crate) fn given_up(&self) -> usize {
        self.given_up.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) fn thread(name: &str, run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    drop(thread.spawn(run).expect("a thread"));
}

fn serve(
    mut stream: TcpStream,
    calls: &AtomicUsize,
    given_up: &AtomicUsize,
    manner: &(dyn Fn(usize) -> Manner + Send + Sync),
) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    loop {
        let (mut first, mut line) = (String::new(), String::new());
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            line.clear();
        }
        let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
        let manner = manner(call);
        if let Manner::After(delay) = manner
            && is_given_up(&stream, delay)
        {
            given_up.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if let Manner::Never = manner {
            if is_given_up(&stream, Duration::from_secs(20)) {
                given_up.fetch_add(1, Ordering::SeqCst);
            }
            return;
        }
        if stream.write_all(&answer(manner, &question(&first))).is_err() {
            return;
        }
        if matches!(manner, Manner::ThenCloses | Manner::CutOff) {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Whether the caller closes the connection within `span`.
fn is_given_up(stream: &TcpStream, span: Duration) -> bool {
    stream.set_read_timeout(Some(span)).expect("a timeout");
    let is_closed = matches!(stream.peek(&mut [0]), Ok(0))
        || stream.take_error().is_ok_and(|error| error.is_some());
    stream.set_read_timeout(None).expect("no timeout");
    is_closed
}

fn question(first: &str) -> String {
    let target = first.split(' ').nth(1).unwrap_or_default();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let value = query.split('&').find_map(|pair| pair.strip_prefix("q=")).unwrap_or_default();
    let value = value.replace('+', " ");
    percent_encoding::percent_decode_str(&value).decode_utf8_lossy().into_owned()
}

fn answer(manner: Manner, question: &str) -> Vec<u8> {
    let count = if matches!(manner, Manner::Empty) { 0 } else { 10 };
    let rows: Vec<String> = (0..count)
        .map(|row| {
            let slug = question.replace(' ', "-");
            format!(
                r#"{{"url":"https://site{row}.example/{slug}","title":"{question} :: {row}","content":"about it"}}"#
            )
        })
        .collect();
    let body = format!(
        r#"{{"query":"{question}","results":[{}],"unresponsive_engines":[]}}"#,
        rows.join(",")
    );
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let whole = [head.as_bytes(), body.as_bytes()].concat();
    match manner {
        Manner::ThenMore => [&whole[..], b"HTTP/1.1 200 OK\r\n"].concat(),
        Manner::InterimFirst => [b"HTTP/1.1 103 Early Hints\r\n\r\n", &whole[..]].concat(),
        Manner::CutOff => whole[..whole.len() / 2].to_vec(),
        _ => whole,
    }
}
