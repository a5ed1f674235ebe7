//! The shipped program in a simulated world: cores assembled as `boot` does, on reactors of one
//! `runtime::sim::World`. Nothing here decides; it only puts together.
//!
//! Below it is the instrument behind `hedgerow simulate`: worlds whose engines follow latency laws,
//! an open loop of clients, and what came of a run. `worlds` says which there are, `run` runs one,
//! `outcome` is the result, `report` its text. Same seed, same program: same outcome, byte for
//! byte.

pub mod chance;
pub mod clients;
pub mod engine;
pub mod figure;
pub mod law;
pub mod outcome;
pub mod plan;
pub mod question;
pub mod report;
pub mod run;
pub mod scenario;
pub mod svg;
pub mod sweep;
pub mod tally;
pub mod week;
pub mod worlds;

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use runtime::Reactor;
use runtime::sim::World;
use shards::mesh;

use crate::config::Settings;
use crate::control::dns;
use crate::metrics::{Gauges, Published};
use crate::shard::{self, Commons, Shard};
use crate::{boot, upkeep};

/// An instance in a world.
pub struct Instance {
    /// What its cores share.
    pub commons: Arc<Commons>,
    /// One per core.
    pub shards: Vec<Rc<Shard>>,
    /// The reactors of the cores, for freezing them.
    pub reactors: Vec<Reactor>,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Starts `cores` cores under `settings` at `address`; they listen, and warm their pools, once
/// the world runs.
pub fn start(world: &World, settings: Settings, cores: usize, address: SocketAddr) -> Instance {
    let settings = Arc::new(settings);
    let commons = Commons::new(settings.clone());
    commons.dns.store(Arc::new(dns::resolve_now(&settings)));
    let bells: Vec<_> = (0..cores).map(|_| world.bell()).collect();
    let ringers: Vec<_> = bells.iter().map(|(ringer, _)| ringer.clone()).collect();
    let host: IpAddr = address.ip();
    let mut shards = Vec::with_capacity(cores);
    let mut reactors = Vec::with_capacity(cores);
    let posts = mesh::mesh(cores, boot::LANE_CAPACITY);
    for (index, (post, (_, bell))) in posts.into_iter().zip(bells).enumerate() {
        let reactor = world.core(&format!("core-{index}"), host);
        let bell = reactor.attach(bell);
        let shard = Shard::new(reactor.clone(), commons.clone(), post, ringers.clone());
        boot::begin(&shard, bell, Arc::<Published>::default());
        let (served, warmed) = (shard.clone(), shard.clone());
        reactor.spawn(async move { upkeep::warm(&warmed).await });
        reactor.spawn(async move {
            match served.reactor.listen(address, boot::BACKLOG) {
                Ok(listener) => shard::serve(served, vec![listener]).await,
                Err(error) => tracing::error!(%error, "a simulated core cannot listen"),
            }
        });
        shards.push(shard);
        reactors.push(reactor);
    }
    Instance { commons, shards, reactors, address }
}

impl Instance {
    /// Where things stand on each core.
    pub fn gauges(&self) -> Vec<Gauges> {
        let gauges_of = |shard: &Rc<Shard>| {
            let published = Published::default();
            shard.publish(&published, shard.reactor.now());
            published.newest().map(|snapshot| snapshot.gauges.clone()).unwrap_or_default()
        };
        self.shards.iter().map(gauges_of).collect()
    }

    /// Plants the fault that a loser's connection, its answer unread, goes back to its pool.
    pub fn poison(&self) {
        for shard in &self.shards {
            shard.is_poisoned.set(true);
        }
    }
}
