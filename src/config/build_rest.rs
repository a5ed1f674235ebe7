//! Values to settings, the rest: plans and keys, the redirector, clicks, the origin, peers.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::Surroundings;
use super::build::region;
use super::read::{Reader, Scope};
use super::settings::{ClickSink, Clicks, Key, Origin, Peer, Plan, Redirect};
use crate::model::Endpoint;

/// `[plans.NAME]`, by name.
pub(super) fn plans(reader: &mut Reader<'_>) -> Vec<Plan> {
    let scopes = reader.named("plans");
    scopes.iter().map(|scope| plan(reader, scope)).collect()
}

fn plan(reader: &mut Reader<'_>, scope: &Scope) -> Plan {
    let lane = match reader.text(scope, "lane").as_str() {
        "batch" => shards::Lane::Batch,
        _ => shards::Lane::Interactive,
    };
    let monthly_credits = reader.integer_if(scope, "monthly_credits");
    let rates = Endpoint::ALL.map(|endpoint| {
        let scope = scope.within(endpoint.name());
        reader.has_table(&scope).then(|| shards::bucket::Rate {
            burst: reader.count(&scope, "burst"),
            per_second: reader.number(&scope, "per_second"),
        })
    });
    if rates.iter().all(Option::is_none) {
        let what = format!("no endpoint; want [{0}.lite] or [{0}.fast]", scope.path);
        reader.problems.add(scope.line, &scope.path, what);
    }
    Plan { name: scope.word.clone(), lane, monthly_credits, rates }
}

/// `[[key]]`, in order.
pub(super) fn keys(reader: &mut Reader<'_>, plans: &[Plan]) -> Vec<Key> {
    let mut found: Vec<Key> = Vec::new();
    // There may be 100,000 of them: none is held against each other one.
    let (mut names, mut digests) = (HashSet::new(), HashMap::new());
    for scope in reader.elements("key") {
        let name = reader.text(&scope, "name");
        if !name.is_empty() && !names.insert(name.clone()) {
            reader.wrong(&scope, "name", format!("\"{name}\" is the name of an earlier key"));
        }
        let digest = reader.digest(&scope, "sha256");
        if let Some(digest) = digest {
            match digests.entry(digest) {
                Entry::Vacant(entry) => drop(entry.insert(name.clone())),
                Entry::Occupied(entry) => {
                    let what = format!("it is the same key as \"{}\"", entry.get());
                    reader.wrong(&scope, "sha256", what);
                }
            }
        }
        let plan_name = reader.text(&scope, "plan");
        let plan = plans.iter().position(|plan| plan.name == plan_name);
        if plan.is_none() && !plan_name.is_empty() {
            let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let what = format!("there is no [plans.{plan_name}]; known plans: {known}");
            reader.wrong(&scope, "plan", what);
        }
        let sha256 = digest.unwrap_or_default();
        found.push(Key { name, sha256, plan: plan.unwrap_or_default() });
    }
    found
}

/// `[redirect]`
pub(super) fn redirect(reader: &mut Reader<'_>, around: &Surroundings<'_>) -> Redirect {
    let scope = Scope::top("redirect");
    let country_mmdb = reader.text_if(&scope, "country_mmdb").map(|path| around.path(&path));
    if let Some(path) = country_mmdb.as_ref().filter(|path| !path.is_file()) {
        reader.wrong(&scope, "country_mmdb", format!("there is no file {}", path.display()));
    }
    Redirect {
        domains: reader.texts(&scope, "domains"),
        l1_bytes: reader.integer(&scope, "l1_bytes"),
        l1_fresh: reader.span(&scope, "l1_fresh_s"),
        l2_fresh: reader.span(&scope, "l2_fresh_s"),
        absent_fresh: reader.span(&scope, "absent_fresh_s"),
        stale_if_error: reader.span(&scope, "stale_if_error_s"),
        country_mmdb,
        trusted_proxies: reader.texts(&scope, "trusted_proxies"),
        origin: reader.url(&scope, "origin"),
    }
}

/// `[clicks]`
pub(super) fn clicks(reader: &mut Reader<'_>, around: &Surroundings<'_>) -> Clicks {
    let scope = Scope::top("clicks");
    let sink = match reader.text(&scope, "sink").as_str() {
        "kafka" => ClickSink::Kafka,
        "off" => ClickSink::Off,
        _ => ClickSink::File,
    };
    let path = reader.text_if(&scope, "path").map(|path| around.path(&path));
    if sink == ClickSink::File && path.is_none() {
        reader.wrong(&scope, "path", "empty, but the sink is \"file\"; name a file");
    }
    let brokers = reader.text(&scope, "brokers");
    if sink == ClickSink::Kafka && brokers.is_empty() {
        let what = "empty, but the sink is \"kafka\"; want host:port,host:port";
        reader.wrong(&scope, "brokers", what);
    }
    Clicks {
        sink,
        path: path.unwrap_or_default(),
        brokers,
        topic: reader.text(&scope, "topic"),
        ring_per_core: reader.size(&scope, "ring_per_core"),
    }
}

/// `[origin]`
pub(super) fn origin(reader: &mut Reader<'_>) -> Origin {
    let scope = Scope::top("origin");
    let database = reader.text(&scope, "database");
    let is_known = ["sqlite:", "postgres://", "postgresql://"];
    if !is_known.iter().any(|scheme| database.starts_with(scheme)) {
        reader.wrong(&scope, "database", "want sqlite://PATH or postgres://…");
    }
    let settings = Origin {
        rest_address: reader.address(&scope, "rest_address"),
        grpc_address: reader.address(&scope, "grpc_address"),
        database,
        token_sha256: reader.digest(&scope, "token_sha256"),
    };
    for (key, address) in
        [("rest_address", settings.rest_address), ("grpc_address", settings.grpc_address)]
    {
        if !address.ip().is_loopback() && !reader.has(&scope, "token_sha256") {
            let what = format!("{address} is not loopback; set origin.token_sha256");
            reader.wrong(&scope, key, what);
        }
    }
    settings
}

/// `[[peer]]`, in order.
pub(super) fn peers(reader: &mut Reader<'_>) -> Vec<Peer> {
    let mut found = Vec::new();
    for scope in reader.elements("peer") {
        let region = region(&reader.text(&scope, "region"));
        let provider = reader.text(&scope, "provider");
        let url = reader.url(&scope, "url");
        found.extend(url.map(|url| Peer { region, provider, url }));
    }
    found
}
