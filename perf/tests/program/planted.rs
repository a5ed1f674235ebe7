//! A server with a planted fault: every request waits as long as many connections are open. It
//! answers 404, and closes a connection when its caller does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

/// The server; its threads end with the test's process.
pub(crate) struct Planted {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
}

struct Counts {
    /// With more connections than this open, a request waits.
    open_max: usize,
    open: AtomicUsize,
    slowed: AtomicUsize,
}

impl Planted {
    /// How long a request waits then.
    pub(crate) const SLOW: Duration = Duration::from_millis(300);

    /// Starts one on a free port.
    #[expect(clippy::disallowed_methods, reason = "a blocking server needs threads, no reactor")]
    pub(crate) fn start(open_max: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (open, slowed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let counts = Arc::new(Counts { open_max, open, slowed });
        let shared = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&shared);
                std::thread::spawn(move || {
                    counts.open.fetch_add(1, SeqCst);
                    serve(stream, &counts);
                    counts.open.fetch_sub(1, SeqCst);
                });
            }
        });
        Self { address, counts }
    }

    /// Requests that waited so far.
    pub(crate) fn slowed(&self) -> usize {
        self.counts.slowed.load(SeqCst)
    }
}

/// One request a read: the generator does not pipeline.
fn serve(mut stream: TcpStream, counts: &Counts) {
    let mut buffer = [0; 1024];
    // Nobody sends on it: to wait for a letter is to wait for its time.
    let (_sender, never) = mpsc::channel::<()>();
    while matches!(stream.read(&mut buffer), Ok(bytes) if bytes > 0) {
        if counts.open.load(SeqCst) > counts.open_max {
            counts.slowed.fetch_add(1, SeqCst);
            let _ = never.recv_timeout(Planted::SLOW);
        }
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}
