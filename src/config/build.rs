//! Values to settings, first half: the process, its limits and its policies. Checks what keys mean
//! to each other; the bounds of each alone are the table's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use runtime::Backend;

use super::read::{Reader, Scope};
use super::settings::{
    Admin, DeadlineSettings, Freshness, Hedge, HedgeMode, Limits, Listen, Regional, Router,
    RouterMode, Search, Server, Settings, Tls,
};
use super::{Machine, Surroundings, build_engines, build_rest, cores, file, forms};
use crate::model::{Class, Region};

/// Where `serve` listens if the file has no `[[listen]]`.
const LISTEN_DEFAULT: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);

/// Each is a socket, a task and a pool of buffers on every core.
const LISTENERS_MAX: usize = 64;

/// All settings; what is wrong with them is in the reader's problems.
pub(super) fn build(reader: &mut Reader<'_>, around: &Surroundings<'_>) -> Settings {
    let plans = build_rest::plans(reader);
    let keys = build_rest::keys(reader, &plans);
    let deadline = deadline(reader);
    let admin = admin(reader, around);
    Settings {
        server: server(reader, around),
        listen: listen(reader, around, &admin),
        admin,
        limits: limits(reader),
        admission: admission(reader),
        regional: regional(reader),
        search: search(reader),
        hedge: hedge(reader),
        router: router(reader),
        breaker: breaker(reader, deadline.total),
        engines: build_engines::engines(reader, around),
        plans,
        keys,
        deadline,
        redirect: build_rest::redirect(reader, around),
        clicks: build_rest::clicks(reader, around),
        origin: build_rest::origin(reader),
        peers: build_rest::peers(reader),
        idle_sections: idle_sections(reader),
    }
}

/// The sections of the file that nothing serves in this version.
fn idle_sections(reader: &Reader<'_>) -> Vec<&'static str> {
    let is_there =
        |name: &&str| reader.has_table(&Scope::top(name)) || !reader.elements(name).is_empty();
    ["regional", "redirect", "clicks", "origin", "peer"].into_iter().filter(is_there).collect()
}

/// The region of that name; the table lets no other name through.
pub(super) fn region(name: &str) -> Region {
    match name {
        "US" => Region::Us,
        "APAC" => Region::Apac,
        _ => Region::Eu,
    }
}

fn server(reader: &mut Reader<'_>, around: &Surroundings<'_>) -> Server {
    let scope = Scope::top("server");
    let backend = match reader.text(&scope, "reactor").as_str() {
        "glommio" => Backend::Glommio,
        _ => Backend::Monoio,
    };
    let (cores, allowed) = (reader.cores(&scope, "cores"), cores::allowed());
    if around.machine == Machine::This
        && let Some(what) = cores.excess(&allowed)
    {
        reader.wrong(&scope, "cores", what);
    }
    Server {
        cpus: cores.resolve(&allowed),
        reactor: backend,
        region: region(&reader.text(&scope, "region")),
        pop: reader.text(&scope, "pop"),
        provider: reader.text(&scope, "provider"),
        instance: reader.text_if(&scope, "instance").unwrap_or_else(|| around.host_name()),
        drain_timeout: reader.span(&scope, "drain_timeout_s"),
    }
}

fn admin(reader: &mut Reader<'_>, around: &Surroundings<'_>) -> Admin {
    let scope = Scope::top("admin");
    let address = reader.address(&scope, "address");
    let token = reader.text_if(&scope, "token_file").and_then(|path| {
        let path = around.path(&path);
        let token = file::read(&path).map(|text| text.trim().to_owned());
        let fault = match &token {
            Ok(token) => forms::secret_fault(token).map(str::to_owned),
            Err(unreadable) => Some(unreadable.whole()),
        };
        match fault {
            None => token.ok(),
            Some(fault) => {
                reader.wrong(&scope, "token_file", format!("{}: {fault}", path.display()));
                None
            }
        }
    });
    if !address.ip().is_loopback() && !reader.has(&scope, "token_file") {
        let what = format!("{address} is not loopback; set admin.token_file, or use 127.0.0.1");
        reader.wrong(&scope, "address", what);
    }
    Admin { address, token }
}

fn listen(reader: &mut Reader<'_>, around: &Surroundings<'_>, admin: &Admin) -> Vec<Listen> {
    let mut found: Vec<Listen> = Vec::new();
    let scopes = reader.elements("listen");
    if let Some(scope) = scopes.get(LISTENERS_MAX) {
        let what = format!("more than {LISTENERS_MAX} listeners");
        reader.problems.add(scope.line, &scope.path, what);
    }
    for (index, scope) in scopes.into_iter().take(LISTENERS_MAX).enumerate() {
        let address = reader.address(&scope, "address");
        let serves = reader.texts(&scope, "serves");
        let is_same = |other: &Listen| forms::is_same_place(other.address, address);
        if let Some(earlier) = found.iter().position(is_same) {
            let what = format!(
                "{address} stands there twice: it is listen[{earlier}].address too; give them \
                 different ports, or make them one"
            );
            reader.wrong(&scope, "address", what);
        }
        if forms::meet(address, admin.address) {
            not_beside(reader, index, address, admin.address);
        }
        let tls = scope.within("tls");
        let tls = reader.has_table(&tls).then(|| self::tls(reader, &tls, around));
        found.push(Listen {
            address,
            search: serves.iter().any(|word| word == "search"),
            redirect: serves.iter().any(|word| word == "redirect"),
            tls,
        });
    }
    if found.is_empty() {
        let address = LISTEN_DEFAULT.into();
        if forms::meet(address, admin.address) {
            not_beside(reader, 0, address, admin.address);
        }
        found.push(Listen { address, search: true, redirect: false, tls: None });
    }
    found
}

/// Told at the admin listener's key, which is there once.
fn not_beside(reader: &mut Reader<'_>, index: usize, listen: SocketAddr, admin: SocketAddr) {
    let what = format!(
        "{admin} is taken by listen[{index}].address ({listen}); give one of them another port"
    );
    reader.wrong(&Scope::top("admin"), "address", what);
}

fn tls(reader: &mut Reader<'_>, scope: &Scope, around: &Surroundings<'_>) -> Tls {
    let on_demand = reader.flag(scope, "on_demand");
    let mut file = |key: &str| -> PathBuf {
        let Some(path) = reader.text_if(scope, key) else {
            if !on_demand && !reader.has(scope, key) {
                reader.wrong(scope, key, "missing; want a PEM file, or on_demand = true");
            }
            return PathBuf::new();
        };
        let path = around.path(&path);
        if !path.is_file() {
            reader.wrong(scope, key, format!("there is no file {}", path.display()));
        }
        path
    };
    Tls { certificate: file("certificate"), key: file("key"), on_demand }
}

fn limits(reader: &mut Reader<'_>) -> Limits {
    let scope = Scope::top("limits");
    Limits {
        header_bytes_max: reader.size(&scope, "header_bytes_max"),
        body_bytes_max: reader.size(&scope, "body_bytes_max"),
        header_timeout: reader.span(&scope, "header_timeout_ms"),
        idle_timeout: reader.span(&scope, "idle_timeout_ms"),
        connections_per_core_max: reader.size(&scope, "connections_per_core_max"),
    }
}

fn deadline(reader: &mut Reader<'_>) -> DeadlineSettings {
    let scope = Scope::top("deadline");
    let settings = DeadlineSettings {
        total: reader.span(&scope, "total_ms"),
        write_margin: reader.span(&scope, "write_margin_ms"),
        merge_reserve: reader.span(&scope, "merge_reserve_ms"),
    };
    if settings.write_margin + settings.merge_reserve >= settings.total {
        let what = "not above write_margin_ms + merge_reserve_ms: no time is left for engines";
        reader.wrong(&scope, "total_ms", what);
    }
    settings
}

fn admission(reader: &mut Reader<'_>) -> shards::limiter::Settings {
    let scope = Scope::top("admission");
    let settings = shards::limiter::Settings {
        interval: reader.span(&scope, "interval_ms"),
        limit_min: reader.count(&scope, "limit_min"),
        limit_initial: reader.count(&scope, "limit_initial"),
        limit_max: reader.count(&scope, "limit_max"),
        batch_limit_max: u32::try_from(reader.integer(&scope, "batch_limit_max"))
            .unwrap_or(u32::MAX),
        batch_yields_above_ratio: reader.number(&scope, "batch_yields_above_ratio"),
    };
    let (min, initial, max) = (settings.limit_min, settings.limit_initial, settings.limit_max);
    if min > initial {
        reader.wrong(&scope, "limit_min", format!("{min} is above limit_initial ({initial})"));
    }
    if initial > max {
        reader.wrong(&scope, "limit_initial", format!("{initial} is above limit_max ({max})"));
    }
    settings
}

fn regional(reader: &mut Reader<'_>) -> Regional {
    let scope = Scope::top("regional");
    Regional {
        url: reader.text_if(&scope, "url"),
        lease: reader.span(&scope, "lease_ms"),
        key_prefix: reader.text(&scope, "key_prefix"),
    }
}

fn search(reader: &mut Reader<'_>) -> Search {
    let scope = Scope::top("search");
    let l1_bytes = reader.integer(&scope, "l1_bytes");
    let classes = Class::ALL.map(|class| {
        let scope = scope.within("classes").within(class.name());
        freshness(reader, &scope, class)
    });
    Search { l1_bytes, stale_if_error: reader.span(&scope, "stale_if_error_s"), classes }
}

/// Where only `fresh_s` is given, `usable_s` follows it: news to the same, others upwards.
fn freshness(reader: &mut Reader<'_>, scope: &Scope, class: Class) -> Freshness {
    let fresh = reader.span(scope, "fresh_s");
    let mut usable = reader.span(scope, "usable_s");
    if !reader.has(scope, "usable_s") {
        usable = if class == Class::News { fresh } else { usable.max(fresh) };
    }
    if usable < fresh {
        let what = format!("less than fresh_s ({}); want at least that", fresh.as_secs_f64());
        reader.wrong(scope, "usable_s", what);
    }
    if class == Class::News && usable > fresh {
        let what = "above fresh_s, but news is never served stale; leave it out";
        reader.wrong(scope, "usable_s", what);
    }
    Freshness { fresh, usable }
}

fn hedge(reader: &mut Reader<'_>) -> Hedge {
    let scope = Scope::top("hedge");
    let delay_min = reader.span(&scope, "delay_min_ms");
    let delay_max = reader.span(&scope, "delay_max_ms");
    if delay_min > delay_max {
        let what =
            format!("{} is above delay_max_ms ({})", delay_min.as_millis(), delay_max.as_millis());
        reader.wrong(&scope, "delay_min_ms", what);
    }
    let mode = match reader.text(&scope, "mode").as_str() {
        "percentile" => HedgeMode::Percentile,
        _ => HedgeMode::Budget,
    };
    Hedge {
        enabled: reader.flag(&scope, "enabled"),
        mode,
        budget_target_ratio: reader.number(&scope, "budget_target_ratio"),
        quantile: reader.number(&scope, "percentile") / 100.0,
        delay_initial: reader.span(&scope, "delay_initial_ms").min(delay_max).max(delay_min),
        delay_min,
        delay_max,
        window: reader.span(&scope, "window_s"),
        refresh: reader.span(&scope, "refresh_s"),
        samples_min: reader.integer(&scope, "samples_min"),
        budget_ratio: reader.number(&scope, "budget_ratio"),
        last_chance_budget_ratio: reader.number(&scope, "last_chance_budget_ratio"),
    }
}

fn router(reader: &mut Reader<'_>) -> Router {
    let scope = Scope::top("router");
    let mode = match reader.text(&scope, "mode").as_str() {
        "two_choices" => RouterMode::TwoChoices,
        _ => RouterMode::All,
    };
    Router {
        mode,
        half_life: reader.span(&scope, "half_life_s"),
        exploration_ratio: reader.number(&scope, "exploration_ratio"),
    }
}

/// A probe is lent for as long as a request may take: no leg outlives it.
fn breaker(reader: &mut Reader<'_>, probe_lease: Duration) -> shards::breaker::Settings {
    let scope = Scope::top("breaker");
    shards::breaker::Settings {
        window: reader.span(&scope, "window_s"),
        samples_min: reader.count(&scope, "samples_min"),
        valid_ratio_min: reader.number(&scope, "valid_ratio_min"),
        consecutive_invalid_max: reader.count(&scope, "consecutive_invalid_max"),
        half_open_after: reader.span(&scope, "half_open_after_s"),
        probe_ratio: reader.number(&scope, "probe_ratio"),
        probe_lease,
    }
}
