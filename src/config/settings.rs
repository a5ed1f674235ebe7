//! The typed settings that everything else reads. Each value is already bounded: `config::parse`
//! refuses what is not. Durations are `Duration`; sizes are in bytes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use runtime::Backend;

use crate::model::{Class, Endpoint, Region};

/// `hedgerow.toml`, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: Admin,
    /// `[[listen]]`, at least one for `serve`.
    pub listen: Vec<Listen>,
    /// `[limits]`
    pub limits: Limits,
    /// `[deadline]`
    pub deadline: DeadlineSettings,
    /// `[admission]`
    pub admission: shards::limiter::Settings,
    /// `[regional]`
    pub regional: Regional,
    /// `[search]`
    pub search: Search,
    /// `[hedge]`
    pub hedge: Hedge,
    /// `[router]`
    pub router: Router,
    /// `[breaker]`
    pub breaker: shards::breaker::Settings,
    /// `[[engine]]`, in order: the index is the `EngineId`.
    pub engines: Vec<Engine>,
    /// `[plans.NAME]`; `keys[].plan` indexes into it.
    pub plans: Vec<Plan>,
    /// `[[key]]`, in order: the index is the `KeyId`.
    pub keys: Vec<Key>,
    /// `[redirect]`
    pub redirect: Redirect,
    /// `[clicks]`
    pub clicks: Clicks,
    /// `[origin]`
    pub origin: Origin,
    /// `[[peer]]`
    pub peers: Vec<Peer>,
    /// The sections of the file that have no effect in this version.
    pub idle_sections: Vec<&'static str>,
}

/// `[server]`
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The processors to run on, one core each; resolved from `cores`, never empty.
    pub cpus: Vec<usize>,
    /// `reactor`
    pub reactor: Backend,
    /// `region`
    pub region: Region,
    /// `pop`
    pub pop: String,
    /// `provider`
    pub provider: String,
    /// `instance`
    pub instance: String,
    /// `drain_timeout_s`
    pub drain_timeout: Duration,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// `address`
    pub address: SocketAddr,
    /// The token read from `token_file`; none: loopback only.
    pub token: Option<String>,
}

/// One `[[listen]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    /// `address`
    pub address: SocketAddr,
    /// `serves` has `search`.
    pub search: bool,
    /// `serves` has `redirect`.
    pub redirect: bool,
    /// `[listen.tls]`
    pub tls: Option<Tls>,
}

/// `[listen.tls]`
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// `certificate`
    pub certificate: PathBuf,
    /// `key`
    pub key: PathBuf,
    /// `on_demand`
    pub on_demand: bool,
}

/// `[limits]`: of one connection and request.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// `header_bytes_max`
    pub header_bytes_max: usize,
    /// `body_bytes_max`
    pub body_bytes_max: usize,
    /// `header_timeout_ms`: from the first byte of a head to its last; for a body likewise.
    pub header_timeout: Duration,
    /// `idle_timeout_ms`: between two requests.
    pub idle_timeout: Duration,
    /// `connections_per_core_max`
    pub connections_per_core_max: usize,
}

/// `[deadline]`
#[derive(Clone, Debug, PartialEq)]
pub struct DeadlineSettings {
    /// `total_ms`
    pub total: Duration,
    /// `write_margin_ms`
    pub write_margin: Duration,
    /// `merge_reserve_ms`
    pub merge_reserve: Duration,
}

/// `[regional]`
#[derive(Clone, Debug, PartialEq)]
pub struct Regional {
    /// `url`; none: no shared store.
    pub url: Option<String>,
    /// `lease_ms`
    pub lease: Duration,
    /// `key_prefix`
    pub key_prefix: String,
}

/// `[search]`
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// `l1_bytes`, all cores together.
    pub l1_bytes: u64,
    /// `stale_if_error_s`: for so long after `usable`; zero: never.
    pub stale_if_error: Duration,
    /// `[search.classes.NAME]`, by `Class::index`.
    pub classes: [Freshness; Class::ALL.len()],
}

/// `[search.classes.NAME]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Freshness {
    /// `fresh_s`
    pub fresh: Duration,
    /// `usable_s`, at least `fresh`.
    pub usable: Duration,
}

/// `hedge.mode`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeMode {
    /// The delay is steered so that hedges spend `budget_target_ratio`.
    Budget,
    /// The delay is the percentile, clamped.
    Percentile,
}

/// `[hedge]`
#[derive(Clone, Debug, PartialEq)]
pub struct Hedge {
    /// `enabled`
    pub enabled: bool,
    /// `mode`
    pub mode: HedgeMode,
    /// `budget_target_ratio`
    pub budget_target_ratio: f64,
    /// `percentile`, as 0..1.
    pub quantile: f64,
    /// `delay_initial_ms`
    pub delay_initial: Duration,
    /// `delay_min_ms`
    pub delay_min: Duration,
    /// `delay_max_ms`
    pub delay_max: Duration,
    /// `window_s`
    pub window: Duration,
    /// `refresh_s`
    pub refresh: Duration,
    /// `samples_min`
    pub samples_min: u64,
    /// `budget_ratio`
    pub budget_ratio: f64,
    /// `last_chance_budget_ratio`
    pub last_chance_budget_ratio: f64,
}

/// `router.mode`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterMode {
    /// Score all eligible engines.
    All,
    /// Score two, drawn by quality.
    TwoChoices,
}

/// `[router]`
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// `mode`
    pub mode: RouterMode,
    /// `half_life_s`
    pub half_life: Duration,
    /// `exploration_ratio`
    pub exploration_ratio: f64,
}

/// `engine.role`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineRole {
    /// May be asked first.
    Primary,
    /// Only when both earlier legs are late.
    LastChance,
}

/// One `[[engine]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// `name`, unique.
    pub name: String,
    /// `adapter`: the manifest, loaded and checked.
    pub manifest: std::sync::Arc<crate::engines::manifest::Manifest>,
    /// `url`: the base, `http` or `https`.
    pub url: url::Url,
    /// `endpoints`, by `Endpoint::index`.
    pub endpoints: [bool; Endpoint::ALL.len()],
    /// `quality`
    pub quality: f64,
    /// `quality_by_class`, by `Class::index`; `quality` where not given.
    pub quality_by_class: [f64; Class::ALL.len()],
    /// `min_useful_ms`
    pub min_useful: Duration,
    /// `cacheable`
    pub cacheable: bool,
    /// The key read from the variable that `api_key_env` names; never shown.
    pub api_key: Option<Secret>,
    /// `connections_per_core`
    pub connections_per_core: usize,
    /// `in_flight_max` of the whole instance; none: no cap.
    pub in_flight_max: Option<u32>,
    /// `role`
    pub role: EngineRole,
    /// Free values of `[engine.values]` for manifests that need them (an index name, a search id).
    pub values: BTreeMap<String, String>,
}

/// A text that never reaches a log, an error or a metric.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps it.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One `[plans.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The table's name.
    pub name: String,
    /// `lane`
    pub lane: shards::Lane,
    /// `monthly_credits`; none: unlimited.
    pub monthly_credits: Option<u64>,
    /// `[plans.NAME.lite]` and `.fast`, by `Endpoint::index`; none: the endpoint is forbidden.
    pub rates: [Option<shards::bucket::Rate>; Endpoint::ALL.len()],
}

/// One `[[key]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// `name`, unique: shown in metrics.
    pub name: String,
    /// `sha256`
    pub sha256: [u8; 32],
    /// Index into `Settings::plans`.
    pub plan: usize,
}

/// `[redirect]`
#[derive(Clone, Debug, PartialEq)]
pub struct Redirect {
    /// `domains`
    pub domains: Vec<String>,
    /// `l1_bytes`; 0: a tenth of the machine's memory.
    pub l1_bytes: u64,
    /// `l1_fresh_s`
    pub l1_fresh: Duration,
    /// `l2_fresh_s`
    pub l2_fresh: Duration,
    /// `absent_fresh_s`
    pub absent_fresh: Duration,
    /// `stale_if_error_s`
    pub stale_if_error: Duration,
    /// `country_mmdb`
    pub country_mmdb: Option<PathBuf>,
    /// `trusted_proxies`, CIDR.
    pub trusted_proxies: Vec<String>,
    /// `origin`
    pub origin: Option<url::Url>,
}

/// `clicks.sink`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickSink {
    /// JSON lines.
    File,
    /// A topic.
    Kafka,
    /// Nothing.
    Off,
}

/// `[clicks]`
#[derive(Clone, Debug, PartialEq)]
pub struct Clicks {
    /// `sink`
    pub sink: ClickSink,
    /// `path`
    pub path: PathBuf,
    /// `brokers`
    pub brokers: String,
    /// `topic`
    pub topic: String,
    /// `ring_per_core`
    pub ring_per_core: usize,
}

/// `[origin]`
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// `rest_address`
    pub rest_address: SocketAddr,
    /// `grpc_address`
    pub grpc_address: SocketAddr,
    /// `database`
    pub database: String,
    /// `token_sha256`; none: loopback only.
    pub token_sha256: Option<[u8; 32]>,
}

/// One `[[peer]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// `region`
    pub region: Region,
    /// `provider`
    pub provider: String,
    /// `url`
    pub url: url::Url,
}
