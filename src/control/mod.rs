//! OFF the path: one ordinary thread with a tokio runtime. It looks names up, answers the admin
//! listener, merges what cores publish, and turns signals into a drain. It publishes immutable
//! snapshots and reads those of the cores; it may be slow, wrong or dead, and the path keeps its
//! last good state.

pub mod admin;
mod bind;
mod browsers;
mod connections;
pub mod dns;
mod instance;
mod latency;
mod limits;
pub mod log;
mod process;
mod signals;
mod status;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::Settings;
use crate::metrics::{Published, Snapshot};
use crate::shard::Commons;
use signals::Refused;

pub use bind::bind;
pub use limits::raise_descriptor_limit;

/// How often it is looked whether cores still publish.
const WATCH_EVERY: Duration = Duration::from_millis(500);

/// What control works with.
pub struct Inputs {
    /// What the cores share.
    pub commons: Arc<Commons>,
    /// Where each core publishes, by core.
    pub published: Vec<Arc<Published>>,
    /// How many cores have filled their pools.
    pub warm_cores: Arc<AtomicUsize>,
}

/// The running thread.
pub struct Handle {
    thread: JoinHandle<()>,
    stop: watch::Sender<bool>,
    address: SocketAddr,
}

impl Handle {
    /// Where the admin listener is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the thread and waits for it, about a second at the most.
    pub fn stop(self) {
        let _ = self.stop.send(true);
        if self.thread.join().is_err() {
            tracing::error!("the control thread ended by a panic");
        }
    }
}

/// What the thread's tasks share.
struct State {
    inputs: Inputs,
    started: Instant,
    /// By core: since it last published, as last looked.
    silences: ArcSwap<Vec<Duration>>,
    process: process::Files,
    lookups_ok: AtomicU64,
    lookups_failed: AtomicU64,
}

impl State {
    fn new(inputs: Inputs) -> Arc<Self> {
        Arc::new(Self {
            silences: ArcSwap::from_pointee(vec![Duration::ZERO; inputs.published.len()]),
            inputs,
            started: Instant::now(),
            process: process::Files::open(),
            lookups_ok: AtomicU64::new(0),
            lookups_failed: AtomicU64::new(0),
        })
    }

    /// What each core published last.
    fn snapshots(&self) -> Vec<Option<Arc<Snapshot>>> {
        self.inputs.published.iter().map(|published| published.newest()).collect()
    }

    fn is_draining(&self) -> bool {
        self.inputs.commons.is_draining.load(Ordering::Relaxed)
    }

    fn drain(&self, why: &str) {
        if !self.inputs.commons.is_draining.swap(true, Ordering::Relaxed) {
            tracing::info!(why, "draining");
        }
    }
}

/// What control must have before the first core starts.
pub struct Prepared {
    runtime: Runtime,
    refused: Refused,
    listener: TcpListener,
}

/// Holds the signals that must not end the process, and binds the admin listener.
///
/// # Errors
/// The listener or the runtime cannot be had.
pub fn prepare(settings: &Settings) -> io::Result<Prepared> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let refused = runtime.block_on(async { Refused::hold() })?;
    let at = settings.admin.address;
    let listener = bind(at)
        .map_err(|error| io::Error::new(error.kind(), format!("admin.address {at}: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(Prepared { runtime, refused, listener })
}

/// Starts the thread.
///
/// # Errors
/// It cannot be had.
pub fn start(prepared: Prepared, inputs: Inputs) -> io::Result<Handle> {
    let Prepared { runtime, refused, listener } = prepared;
    let address = listener.local_addr()?;
    let (stop, mut stopped) = watch::channel(false);
    let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        runtime.block_on(async {
            let state = State::new(inputs);
            tokio::spawn(watch_cores(state.clone()));
            tokio::spawn(refused.watch());
            tokio::spawn(signals::watch(state.clone()));
            tokio::spawn(limits::watch_descriptors());
            tokio::spawn(dns::keep_fresh(state.clone()));
            tokio::spawn(serve_admin(listener, state));
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        });
        // A look-up that hangs in the resolver does not keep the process.
        runtime.shutdown_background();
    })?;
    Ok(Handle { thread, stop, address })
}

/// If the listener ends, the other tasks go on: names are looked up, signals drain.
async fn serve_admin(listener: TcpListener, state: Arc<State>) {
    if let Err(error) = admin::serve(listener, state).await {
        tracing::error!(%error, "the admin listener ended");
    }
}

/// Notes how long each core has been silent.
async fn watch_cores(state: Arc<State>) {
    let cores = state.inputs.published.len();
    let mut heard = vec![(runtime::Instant::ZERO, Instant::now()); cores];
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let now = Instant::now();
        for ((at, since), snapshot) in heard.iter_mut().zip(state.snapshots()) {
            let newest = snapshot.map_or(runtime::Instant::ZERO, |snapshot| snapshot.gauges.at);
            if newest != *at {
                (*at, *since) = (newest, now);
            }
        }
        let silences = heard.iter().map(|(_, since)| now.duration_since(*since)).collect();
        state.silences.store(Arc::new(silences));
    }
}

#[cfg(test)]
mod tests;
