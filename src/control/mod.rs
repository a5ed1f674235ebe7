//! Off the path: one ordinary thread with tokio. It resolves names, serves the admin listener and
//! hears signals. It may be slow, wrong or dead: the path keeps what it published last.

pub mod dns;
pub mod health;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use axum::Router;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::metrics::Published;
use crate::shard::Commons;

/// What control reads and writes.
pub struct Inputs {
    /// What the cores share with it.
    pub commons: Arc<Commons>,
    /// The counters of each core.
    pub published: Vec<Arc<Published>>,
    /// How many cores have warm pools.
    pub warm_cores: Arc<AtomicUsize>,
}

/// The running control thread.
pub struct Handle {
    thread: JoinHandle<()>,
    stop: Arc<Notify>,
}

/// Starts the thread; returns once the admin listener is bound.
///
/// # Errors
/// The admin address cannot be bound, or no thread can be had.
pub fn start(inputs: Inputs) -> io::Result<Handle> {
    let address = inputs.commons.settings.admin.address;
    let listener = std::net::TcpListener::bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("admin.address {address}: {error}")))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let thread = std::thread::Builder::new().name("control".to_owned());
    let thread = thread.spawn(move || {
        if let Err(error) = runtime.block_on(run(inputs, listener, stopped)) {
            tracing::error!(%error, "control ended; the path goes on with what it has");
        }
    })?;
    Ok(Handle { thread, stop })
}

impl Handle {
    /// Ends the thread.
    pub fn stop(self) {
        self.stop.notify_one();
        if self.thread.join().is_err() {
            tracing::error!("control panicked");
        }
    }
}

async fn run(
    inputs: Inputs,
    listener: std::net::TcpListener,
    stop: Arc<Notify>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let inputs = Arc::new(inputs);
    let app: Router = health::routes(inputs.clone());
    tokio::spawn(dns::refresh(inputs.commons.clone()));
    tokio::spawn(hear_signals(inputs.commons.clone()));
    let stopped = async move { stop.notified().await };
    tokio::select! {
        served = axum::serve(listener, app) => served,
        () = stopped => Ok(()),
    }
}

/// SIGTERM and SIGINT begin the drain.
async fn hear_signals(commons: Arc<Commons>) {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be heard: POST /drain on the admin listener ends hedgerow");
        return;
    };
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("draining: no new connections, requests in flight are finished");
        commons.is_draining.store(true, Ordering::Relaxed);
    }
}

/// Raises the soft limit of open files towards `wanted`, as far as the hard limit allows; gives what
/// it is now.
///
/// # Errors
/// The operating system's.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = rlimit::getrlimit(rlimit::Resource::NOFILE)?;
    if soft >= wanted {
        return Ok(soft);
    }
    let raised = wanted.min(hard);
    rlimit::setrlimit(rlimit::Resource::NOFILE, raised, hard)?;
    Ok(raised)
}
