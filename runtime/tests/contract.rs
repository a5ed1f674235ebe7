//! Every promise of the interface, asserted against every compiled backend:
//! `cargo test -p runtime --features glommio,sim`.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use runtime::{Backend, CoreOptions, Deadline, Reactor, Stream, run};

/// Runs `promise` on each compiled backend.
fn on_each<F>(promise: impl Fn(Reactor) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let options = CoreOptions {
        backend: Backend::Monoio,
        ..CoreOptions::default()
    };
    run(options, |reactor| promise(reactor)).expect("the promise is kept on monoio");
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

fn soon(reactor: &Reactor) -> Deadline {
    Deadline::after(reactor.now(), Duration::from_secs(5))
}

/// A connection to itself: both ends.
async fn pair(reactor: &Reactor) -> io::Result<(Stream, Stream)> {
    let listener = reactor.listen(anywhere(), 16)?;
    let client = reactor
        .connect(listener.address(), None, soon(reactor))
        .await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

#[test]
fn bytes_arrive_as_they_were_sent() {
    on_each(|reactor| async move {
        let (client, server) = pair(&reactor).await.unwrap();
        let (result, _) = client.write_all(b"hello".to_vec()).await;
        result.unwrap();
        let (result, bytes) = server.read(Vec::with_capacity(64)).await;
        assert_eq!(result.unwrap(), 5);
        assert_eq!(bytes, b"hello");
    });
}
