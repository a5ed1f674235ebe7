//! What control knows of the instance as a whole, and whether it is fit to serve.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shards::breaker::State as Breaker;

use super::State;
use crate::config::settings::Settings;
use crate::metrics::render::Instance;
use crate::model::Region;

/// A core that has published nothing for this long does not work.
const SILENCE_READY_MAX: Duration = Duration::from_secs(5);

/// A core that has published nothing for this long will not recover by itself.
const SILENCE_LIVE_MAX: Duration = Duration::from_secs(15);

/// A region's name.
pub(super) fn region(region: Region) -> &'static str {
    match region {
        Region::Eu => "EU",
        Region::Us => "US",
        Region::Apac => "APAC",
    }
}

impl State {
    pub(super) fn settings(&self) -> &Settings {
        &self.inputs.commons.settings
    }

    /// As of now.
    pub(super) fn instance(&self) -> Instance {
        let settings = self.settings();
        let server = &settings.server;
        Instance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: server.instance.clone(),
            region: region(server.region).to_owned(),
            pop: server.pop.clone(),
            provider: server.provider.clone(),
            engines: settings.engines.iter().map(|engine| engine.name.clone()).collect(),
            keys: settings.keys.iter().map(|key| key.name.clone()).collect(),
            uptime: self.started.elapsed(),
            cores: self.inputs.published.len(),
            cores_warm: self.inputs.warm_cores.load(Ordering::Acquire),
            is_draining: self.is_draining(),
            silences: self.silences.load().to_vec(),
            lookups_ok: self.lookups_ok.load(Ordering::Relaxed),
            lookups_failed: self.lookups_failed.load(Ordering::Relaxed),
            process: self.process.observe(),
        }
    }

    /// Why no request should be sent here; empty: ready.
    pub(super) fn not_ready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.is_draining() {
            reasons.push("draining".to_owned());
        }
        let cores = self.inputs.published.len();
        let warm = self.inputs.warm_cores.load(Ordering::Acquire);
        if warm < cores {
            reasons.push(format!("{warm} of {cores} cores have filled their pools"));
            let dns = self.inputs.commons.dns.load();
            for engine in &self.settings().engines {
                if dns.addresses(&engine.url).is_none() {
                    reasons.push(format!("the host of engine {} has no address", engine.name));
                }
            }
        }
        reasons.extend(self.silent(SILENCE_READY_MAX));
        reasons
    }

    /// Why the process should be started anew; empty: it lives.
    pub(super) fn not_live(&self) -> Vec<String> {
        self.silent(SILENCE_LIVE_MAX)
    }

    /// Why this instance should not be announced to the network; empty: announce it. Beyond being
    /// ready, some engine must be open to calls.
    pub(super) fn not_announced(&self) -> Vec<String> {
        let mut reasons = self.not_ready();
        let snapshots = self.snapshots();
        let mut engines = snapshots.iter().flatten().flat_map(|core| &core.gauges.engines);
        let has_engines = !self.settings().engines.is_empty();
        let is_shut = |breaker| matches!(breaker, Breaker::Open { .. });
        if has_engines && engines.all(|engine| is_shut(engine.breaker)) {
            reasons.push("every engine's breaker is open".to_owned());
        }
        reasons
    }

    fn silent(&self, most: Duration) -> Vec<String> {
        let silences = self.silences.load();
        let silent = silences.iter().enumerate().filter(|(_, silence)| **silence > most);
        silent
            .map(|(core, silence)| {
                format!("core {core} has published nothing for {} s", silence.as_secs())
            })
            .collect()
    }
}
