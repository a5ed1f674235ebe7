//! From settings to a running instance: one pinned thread, one reactor, one shard per core, and the
//! control thread beside them.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use runtime::{BellSeed, CoreOptions, Reactor, Ringer};
use shards::mesh::{self, Post};

use crate::config::Settings;
use crate::control::{self, dns};
use crate::mail::{self, Letter};
use crate::metrics::Published;
use crate::shard::{self, Commons, Shard};
use crate::upkeep;

/// Letters one core may owe another before its lane is full.
const LANE_CAPACITY: usize = 1_024;

/// Connections the kernel completes ahead of `accept`, per listener and core.
const BACKLOG: u32 = 4_096;

/// Entries of a core's ring: above the operations that one turn of a busy core submits.
const RING_ENTRIES: u32 = 4_096;

/// Descriptors beside connections: rings, bells, files, the admin listener.
const DESCRIPTORS_SPARE: u64 = 256;

/// Why an instance does not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The settings ask for what this version cannot do.
    #[error("{0}")]
    Unsupported(String),
    /// A listener cannot be had.
    #[error("listen.address {0}: {1}. Is another program, or another hedgerow, listening there?")]
    Listen(SocketAddr, io::Error),
    /// The admin listener or a thread cannot be had.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// A core ended before it was asked to.
    #[error("core {0} ended: {1}")]
    Core(usize, String),
}

/// A running instance.
pub struct Instance {
    commons: Arc<Commons>,
    cores: Vec<JoinHandle<io::Result<()>>>,
    control: control::Handle,
}

/// Starts everything; returns once every core listens. Readiness (warm pools) comes later:
/// `/readyz` tells.
///
/// # Errors
/// What cannot be had, and what to do about it.
pub fn start(settings: Settings) -> Result<Instance, BootError> {
    if let Some(first) = settings.unsupported().into_iter().next() {
        return Err(BootError::Unsupported(first));
    }
    let settings = Arc::new(settings);
    let cores = settings.server.cpus.len();
    for listen in &settings.listen {
        // Without SO_REUSEPORT: a second instance must not share the port by accident.
        let probe = std::net::TcpListener::bind(listen.address);
        drop(probe.map_err(|error| BootError::Listen(listen.address, error))?);
    }
    raise_descriptor_limit(&settings);
    let commons = Commons::new(settings.clone());
    commons.dns.store(Arc::new(dns::resolve_now(&settings)));
    let mut bells = Vec::with_capacity(cores);
    for _ in 0..cores {
        bells.push(runtime::bell().map_err(|error| BootError::System("bell", error))?);
    }
    let ringers: Vec<Ringer> = bells.iter().map(|(ringer, _)| ringer.clone()).collect();
    let published: Vec<Arc<Published>> = (0..cores).map(|_| Arc::default()).collect();
    let warm_cores = Arc::new(AtomicUsize::new(0));
    let (started, starts) = std::sync::mpsc::channel();
    let posts = mesh::mesh(cores, LANE_CAPACITY);
    let mut threads = Vec::with_capacity(cores);
    for (index, (post, (_, bell))) in posts.into_iter().zip(bells).enumerate() {
        let seed = CoreSeed {
            index,
            commons: commons.clone(),
            post,
            ringers: ringers.clone(),
            bell,
            published: published[index].clone(),
            warm_cores: warm_cores.clone(),
            started: started.clone(),
        };
        let thread = std::thread::Builder::new().name(format!("core-{index}"));
        let thread = thread.spawn(move || seed.run());
        threads.push(thread.map_err(|error| BootError::System("thread", error))?);
    }
    drop(started);
    for _ in 0..cores {
        match starts.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let failed = threads.into_iter().enumerate().find(|(_, core)| core.is_finished());
                let (index, why) = failed.map_or((0, "no reason given".into()), |(index, core)| {
                    (index, ended(core.join()))
                });
                return Err(BootError::Core(index, why));
            }
        }
    }
    let inputs = control::Inputs { commons: commons.clone(), published, warm_cores };
    let control = control::start(inputs).map_err(|error| BootError::System("admin", error))?;
    Ok(Instance { commons, cores: threads, control })
}

impl Instance {
    /// Begins the drain: no new connections; requests in flight are finished.
    pub fn drain(&self) {
        self.commons.is_draining.store(true, Ordering::Relaxed);
    }

    /// Waits until every core has drained.
    ///
    /// # Errors
    /// A core that ended before the drain began.
    pub fn wait(self) -> Result<(), BootError> {
        let mut result = Ok(());
        for (index, core) in self.cores.into_iter().enumerate() {
            let joined = core.join();
            if !matches!(joined, Ok(Ok(()))) && result.is_ok() {
                result = Err(BootError::Core(index, ended(joined)));
                // The others must not serve on as if nothing had happened.
                self.commons.is_draining.store(true, Ordering::Relaxed);
            }
        }
        self.control.stop();
        result
    }
}

fn ended(joined: std::thread::Result<io::Result<()>>) -> String {
    match joined {
        Ok(Ok(())) => "without being asked to".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "a panic outside any request (see the log)".to_owned(),
    }
}

/// What a core's thread starts from.
struct CoreSeed {
    index: usize,
    commons: Arc<Commons>,
    post: Post<Letter>,
    ringers: Vec<Ringer>,
    bell: BellSeed,
    published: Arc<Published>,
    warm_cores: Arc<AtomicUsize>,
    started: std::sync::mpsc::Sender<Result<(), BootError>>,
}

impl CoreSeed {
    fn run(self) -> io::Result<()> {
        let server = &self.commons.settings.server;
        let options = CoreOptions {
            backend: server.reactor,
            cpu: server.cpus.get(self.index).copied(),
            entries: RING_ENTRIES,
            seed: None,
        };
        runtime::run(options, move |reactor| self.main(reactor))
    }

    async fn main(self, reactor: Reactor) {
        let settings = self.commons.settings.clone();
        let mut listeners = Vec::with_capacity(settings.listen.len());
        for listen in &settings.listen {
            match reactor.listen(listen.address, BACKLOG) {
                Ok(listener) => listeners.push(listener),
                Err(error) => {
                    let _ = self.started.send(Err(BootError::Listen(listen.address, error)));
                    return;
                }
            }
        }
        let _ = self.started.send(Ok(()));
        drop(self.started);
        let bell = reactor.attach(self.bell);
        let shard = Shard::new(reactor, self.commons, self.post, self.ringers);
        begin(&shard, bell, self.published);
        upkeep::warm(&shard).await;
        self.warm_cores.fetch_add(1, Ordering::Release);
        shard::serve(shard, listeners).await;
    }
}

/// Starts what a core does beside requests.
pub fn begin(shard: &Rc<Shard>, bell: runtime::Bell, published: Arc<Published>) {
    shard.reactor.spawn(mail::read(shard.clone(), bell));
    shard.reactor.spawn(upkeep::run(shard.clone(), published));
}

/// Every connection is a descriptor: the soft limit is raised to what the limits allow.
fn raise_descriptor_limit(settings: &Settings) {
    let per_core = settings.limits.connections_per_core_max as u64;
    let engines: u64 = settings.engines.iter().map(|e| e.connections_per_core as u64 * 8).sum();
    let wanted = (per_core + engines) * settings.server.cpus.len() as u64 + DESCRIPTORS_SPARE;
    match control::raise_descriptor_limit(wanted) {
        Ok(limit) if limit < wanted => tracing::warn!(
            limit,
            wanted,
            "the limit of open files is below what limits.connections_per_core_max allows: \
             raise LimitNOFILE"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}
