//! Addresses of engines: looked up here, off the path, and published as one immutable table. An
//! IP literal needs no look-up. A look-up that fails keeps the last good addresses; a host that has
//! none yet is tried again sooner. The resolver is the system's, and knows no time to live, so all
//! hosts are looked up every `REFRESH_EVERY`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use url::{Host, Url};

use super::State;
use crate::config::Settings;

/// How often hosts are looked up.
const REFRESH_EVERY: Duration = Duration::from_secs(30);

/// How soon again while a host has no address.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// How long one look-up may take.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// A host and a port.
type Name = (String, u16);

/// The addresses of engines' hosts, never changed once published.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DnsTable(BTreeMap<Name, Vec<SocketAddr>>);

impl DnsTable {
    /// The addresses of `url`'s host, with its port, in the resolver's order; none: not known.
    pub fn addresses(&self, url: &Url) -> Option<&[SocketAddr]> {
        self.0.get(&name(url)?).map(Vec::as_slice).filter(|addresses| !addresses.is_empty())
    }
}

/// Looks all engines' hosts up, one after the other, and waits: for the start, before there is a
/// control thread. A host that fails is left out.
pub fn resolve_now(settings: &Settings) -> DnsTable {
    let mut table = literals(settings);
    for name in names(settings) {
        match (name.0.as_str(), name.1).to_socket_addrs() {
            Ok(found) => {
                table.0.insert(name, found.collect());
            }
            Err(error) => tracing::warn!(host = name.0, %error, "an engine's host is not known"),
        }
    }
    table
}

/// Looks all hosts up again and again, and publishes the table when it has changed.
pub(super) async fn keep_fresh(state: Arc<State>) {
    let commons = &state.inputs.commons;
    let wanted = names(&commons.settings);
    if wanted.is_empty() {
        return;
    }
    loop {
        let known = commons.dns.load_full();
        let is_complete = wanted.iter().all(|name| known.0.contains_key(name));
        tokio::time::sleep(if is_complete { REFRESH_EVERY } else { RETRY_EVERY }).await;
        let found = look_up(&wanted, &state).await;
        let mut table = literals(&commons.settings);
        table.0.extend(known.0.iter().map(|(name, addresses)| (name.clone(), addresses.clone())));
        table.0.extend(found);
        if table != *known {
            tracing::info!("addresses of engines have changed");
            commons.dns.store(Arc::new(table));
        }
    }
}

/// Looks `wanted` up side by side; what fails is left out and counted.
async fn look_up(wanted: &[Name], state: &State) -> Vec<(Name, Vec<SocketAddr>)> {
    let mut running = JoinSet::new();
    for name in wanted.iter().cloned() {
        running.spawn(async move {
            let lookup = tokio::net::lookup_host((name.0.clone(), name.1));
            let found = tokio::time::timeout(LOOKUP_MAX, lookup).await;
            (name, found.ok().and_then(Result::ok).map(Iterator::collect::<Vec<_>>))
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok((name, Some(found))) if !found.is_empty() => {
                state.lookups_ok.fetch_add(1, Ordering::Relaxed);
                all.push((name, found));
            }
            Ok((name, _)) => {
                state.lookups_failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(host = name.0, "a look-up failed; the last good addresses stay");
            }
            Err(error) => tracing::error!(%error, "a look-up ended by itself"),
        }
    }
    all
}

/// The hosts to look up, each once.
fn names(settings: &Settings) -> Vec<Name> {
    let of_engines = settings.engines.iter().map(|engine| &engine.url);
    let domains = of_engines.filter(|url| matches!(url.host(), Some(Host::Domain(_))));
    let mut names: Vec<Name> = domains.filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// The hosts that are addresses themselves.
fn literals(settings: &Settings) -> DnsTable {
    let of_engines = settings.engines.iter().map(|engine| &engine.url);
    let literal = |url: &Url| {
        let address: IpAddr = match url.host()? {
            Host::Ipv4(address) => address.into(),
            Host::Ipv6(address) => address.into(),
            Host::Domain(_) => return None,
        };
        let name = name(url)?;
        let port = name.1;
        Some((name, vec![SocketAddr::new(address, port)]))
    };
    DnsTable(of_engines.filter_map(literal).collect())
}

fn name(url: &Url) -> Option<Name> {
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn settings(urls: &[&str]) -> Settings {
        let engine = |(index, url): (usize, &&str)| {
            format!("[[engine]]\nname = \"e{index}\"\nadapter = \"searxng\"\nurl = \"{url}\"\n")
        };
        let text: String = urls.iter().enumerate().map(engine).collect();
        config::parse(&text, "t", &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The addresses of `url` once everything was looked up.
    fn check(url: &str, expected: Option<&str>) {
        let settings = settings(&[url]);
        let table = resolve_now(&settings);
        let found = table.addresses(&settings.engines[0].url).map(|all| all[0].to_string());
        assert_eq!(found.as_deref(), expected, "{url}");
    }

    #[test]
    fn a_literal_is_its_own_address() {
        check("http://127.0.0.1:9101", Some("127.0.0.1:9101"));
        check("http://[::1]/base", Some("[::1]:80"));
        check("https://192.0.2.7", Some("192.0.2.7:443"));
        assert!(names(&settings(&["http://127.0.0.1:9101"])).is_empty());
    }

    #[test]
    fn a_name_is_looked_up_and_an_unknown_one_is_left_out() {
        let local = settings(&["http://localhost:81"]);
        let table = resolve_now(&local);
        let found = table.addresses(&local.engines[0].url).unwrap_or_default();
        assert!(found.iter().any(|at| at.ip().is_loopback() && at.port() == 81), "{found:?}");
        check("http://no-such-host.invalid:81", None);
    }

    #[test]
    fn a_host_of_two_engines_is_looked_up_once() {
        let settings =
            settings(&["http://a.example/x", "http://a.example/y", "http://a.example:8"]);
        assert_eq!(names(&settings), [("a.example".into(), 8), ("a.example".into(), 80)]);
    }
}
