//! From settings to a running instance: one pinned thread, one reactor, one shard per core, and the
//! control thread beside them.

mod cores;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use runtime::{BellSeed, CoreOptions, Reactor, Ringer};
use shards::mesh::{self, Post};

use cores::Cores;

use crate::config::Settings;
use crate::control::{self, dns};
use crate::mail::{self, Letter};
use crate::metrics::Published;
use crate::shard::{self, Commons, Shard};
use crate::upkeep;

/// Letters one core may owe another before its lane is full.
pub(crate) const LANE_CAPACITY: usize = 1_024;

/// Connections the kernel completes ahead of `accept`, per listener and core.
pub(crate) const BACKLOG: u32 = 4_096;

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
    cores: Cores,
    control: control::Handle,
}

/// Starts everything; returns once every core listens. Readiness (warm pools) comes later:
/// `/readyz` tells.
///
/// # Errors
/// What cannot be had, and what to do about it.
pub fn start(mut settings: Settings) -> Result<Instance, BootError> {
    if let Some(first) = settings.unsupported().into_iter().next() {
        return Err(BootError::Unsupported(first));
    }
    let admin_error = |error| BootError::System("admin", error);
    let prepared = control::prepare(&settings).map_err(admin_error)?;
    let cores = settings.server.cpus.len();
    for listen in &settings.listen {
        // Without SO_REUSEPORT: a second instance must not share the port by accident.
        let probe = control::bind(listen.address);
        drop(probe.map_err(|error| BootError::Listen(listen.address, error))?);
    }
    fit_descriptors(&mut settings);
    let settings = Arc::new(settings);
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
    let mut running = Cores::new();
    let seeds = posts.into_iter().zip(bells).enumerate().map(|(index, (post, (_, bell)))| {
        let published = published[index].clone();
        let (commons, warm_cores) = (commons.clone(), warm_cores.clone());
        let (ringers, started) = (ringers.clone(), started.clone());
        CoreSeed { index, commons, post, ringers, bell, published, warm_cores, started }
    });
    let seeds: Vec<CoreSeed> = seeds.collect();
    drop(started);
    let inputs = control::Inputs { commons: commons.clone(), published, warm_cores };
    let control = seeds
        .into_iter()
        .try_for_each(|seed| running.start(move || seed.run()))
        .map_err(|error| BootError::System("thread", error))
        .and_then(|()| all_listen(&starts, cores, &mut running))
        .and_then(|()| control::start(prepared, inputs).map_err(admin_error));
    match control {
        Ok(control) => Ok(Instance { commons, cores: running, control }),
        Err(error) => {
            // Those that listen already must not serve on for nobody.
            commons.is_draining.store(true, Ordering::Relaxed);
            while running.next_end().is_some() {}
            Err(error)
        }
    }
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
    pub fn wait(mut self) -> Result<(), BootError> {
        let mut result = Ok(());
        while let Some((index, ended)) = self.cores.next_end() {
            let is_draining = self.commons.is_draining.load(Ordering::Relaxed);
            let why = match ended {
                Ok(()) if is_draining => continue,
                Ok(()) => "without being asked to".to_owned(),
                Err(why) => why,
            };
            tracing::error!(core = index, why, "a core ended; the others drain");
            // The others must not serve on as if nothing had happened.
            self.commons.is_draining.store(true, Ordering::Relaxed);
            if result.is_ok() {
                result = Err(BootError::Core(index, why));
            }
        }
        self.control.stop();
        result
    }
}

/// Waits until every core listens.
fn all_listen(
    starts: &Receiver<Result<(), BootError>>,
    cores: usize,
    running: &mut Cores,
) -> Result<(), BootError> {
    for _ in 0..cores {
        match starts.recv() {
            Ok(started) => started?,
            // Every sender is gone: some core ended before it could say why.
            Err(_) => {
                let (index, ended) = running.next_end().unwrap_or((0, Ok(())));
                let why = ended.err().unwrap_or_else(|| "no reason given".to_owned());
                return Err(BootError::Core(index, why));
            }
        }
    }
    Ok(())
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
        // Who comes before the pools are warm is served all the same: `/readyz` speaks to
        // balancers, and a listener that does not accept lets callers wait without a deadline.
        let (warming, warm_cores) = (shard.clone(), self.warm_cores);
        shard.reactor.spawn(async move {
            upkeep::warm(&warming).await;
            warm_cores.fetch_add(1, Ordering::Release);
        });
        shard::serve(shard, listeners).await;
    }
}

/// Starts what a core does beside requests.
pub fn begin(shard: &Rc<Shard>, bell: runtime::Bell, published: Arc<Published>) {
    shard.reactor.spawn(mail::read(shard.clone(), bell));
    shard.reactor.spawn(upkeep::run(shard.clone(), published));
}

/// Every connection is a descriptor: the limit is raised to what the settings allow. Where it
/// cannot be, the settings are lowered to what can be held: a surplus connection is told so (503)
/// and closed, which is better than to wait unaccepted, and engines can still be reached.
fn fit_descriptors(settings: &mut Settings) {
    let cores = settings.server.cpus.len() as u64;
    let per_core = settings.limits.connections_per_core_max as u64;
    let engines: u64 = settings.engines.iter().map(|e| e.connections_per_core as u64 * 8).sum();
    let wanted = (per_core + engines) * cores + DESCRIPTORS_SPARE;
    let limit = match control::raise_descriptor_limit(wanted) {
        Ok(limit) if limit < wanted => limit,
        Ok(_) => return,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            return;
        }
    };
    let held = connections_held(limit, engines, cores).min(per_core);
    settings.limits.connections_per_core_max = usize::try_from(held).unwrap_or(usize::MAX);
    tracing::warn!(
        limit,
        wanted,
        connections_per_core = held,
        "the limit of open files is below what limits.connections_per_core_max allows, and each \
         core holds fewer connections: raise LimitNOFILE"
    );
}

/// Connections that each core can hold under a limit of descriptors, beside those to engines and
/// the spare ones; both yield when the limit is low.
fn connections_held(limit: u64, engines_per_core: u64, cores: u64) -> u64 {
    let spare = DESCRIPTORS_SPARE.min(limit / 4);
    let engines = engines_per_core.saturating_mul(cores).min(limit / 4);
    ((limit - spare - engines) / cores.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_descriptors_that_there_are() {
        for (limit, engines_per_core, cores, expected) in [
            (1_024, 96, 2, (1_024 - 256 - 192) / 2),
            (1_048_576, 96, 16, (1_048_576 - 256 - 16 * 96) / 16),
            (128, 96, 2, 32),
            (1, 96, 64, 1),
        ] {
            let held = connections_held(limit, engines_per_core, cores);
            assert_eq!(held, expected, "{limit}");
        }
    }
}
