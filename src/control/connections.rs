//! The admin listener's connections: how many there are, and how long each may keep its place.
//!
//! Without limits of their own, peers that send half a head, or read nothing, would hold
//! descriptors for ever: more than `limits` keeps back for this listener.

use std::future::{Future, poll_fn};
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Sleep;

use super::limits;

/// How long accepting pauses after an error that stays.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Open connections; one more is closed as it comes. As many as `limits` has descriptors for.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// What a connection's peer may take.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// From the connection's begin, or the end of an answer, to the end of the next head: the time
    /// for a head and the time for idling in one.
    pub(super) head: Duration,
    /// For reading a part of an answer.
    pub(super) stall: Duration,
}

/// A probe or a scrape sends its head at once; one that comes again later connects again.
pub(super) const PATIENCE: Patience =
    Patience { head: Duration::from_secs(5), stall: Duration::from_secs(5) };

/// Serves until dropped; connections that are open then end with the runtime.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    patience: Patience,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.head);
    loop {
        let stream = accept(&listener).await;
        // All taken: the stream is closed. Each place is free again within the patience.
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let stream = TokioIo::new(Impatient { stream, stall: patience.stall, timer: None });
        let connection = http.serve_connection(stream, service.clone());
        tokio::spawn(async move {
            // Whatever ends it is the peer's doing, and no news.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// The next connection, also when clients of the cores have taken every descriptor.
async fn accept(listener: &tokio::net::TcpListener) -> TcpStream {
    loop {
        let mut accepted = listener.accept().await;
        if accepted.as_ref().is_err_and(limits::is_out_of_descriptors) {
            let again = |context: &mut Context<'_>| {
                Poll::Ready(limits::with_reserve(|| listener.poll_accept(context)))
            };
            match poll_fn(again).await {
                Poll::Ready(again) => accepted = again,
                Poll::Pending => continue,
            }
        }
        match accepted {
            Ok((stream, _)) => return stream,
            // A peer that left before it was accepted; the next one waits already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// A stream whose writes fail once the peer has read nothing for `stall`.
struct Impatient {
    stream: TcpStream,
    stall: Duration,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    /// What becomes of a write that came to `written`.
    fn judge(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let stall = self.stall;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use axum::routing::get;

    use super::*;

    /// More than the kernel takes for a peer that reads nothing.
    const MUCH: usize = 64 << 20;

    const SOON: Patience =
        Patience { head: Duration::from_millis(100), stall: Duration::from_millis(100) };

    /// Serves; what `peer` gives, which runs on a thread of its own.
    fn with_peer<T: Send + 'static>(peer: impl FnOnce(TcpStream) -> T + Send + 'static) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let router = Router::new()
                .route("/", get(|| async { "small" }))
                .route("/much", get(|| async { vec![b'x'; MUCH] }));
            let served = tokio::spawn(serve(listener, router, SOON));
            let seen = tokio::task::spawn_blocking(move || peer(stream)).await.unwrap();
            served.abort();
            seen
        })
    }

    /// What comes until the listener closes; a panic if it does not.
    fn until_closed(mut stream: TcpStream) -> Vec<u8> {
        let mut came = Vec::new();
        match stream.read_to_end(&mut came) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => came,
        }
    }

    #[test]
    fn whoever_sends_no_head_is_closed() {
        for sent in ["", "G", "GET / HTTP/1.1\r\nHost: a\r\nX: "] {
            let came = with_peer(move |mut stream| {
                stream.write_all(sent.as_bytes()).unwrap();
                until_closed(stream)
            });
            assert!(!came.starts_with(b"HTTP/1.1 200"), "{sent}");
        }
    }

    #[test]
    fn whoever_asks_no_more_is_closed() {
        let came = with_peer(|mut stream| {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            until_closed(stream)
        });
        assert!(came.starts_with(b"HTTP/1.1 200") && came.ends_with(b"small"));
    }

    #[test]
    fn whoever_does_not_read_is_closed() {
        let came = with_peer(|mut stream| {
            stream.write_all(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            // Closed or reset: seen without reading what was sent.
            stream.set_write_timeout(stream.read_timeout().unwrap()).unwrap();
            let mut probe = stream.try_clone().unwrap();
            while probe.write(b"x").is_ok() {
                std::thread::yield_now();
            }
            until_closed(stream).len()
        });
        assert!(came < MUCH, "{came}");
    }
}
