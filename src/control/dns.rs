//! Addresses of the engines' hosts, looked up here so that no core ever waits for a name. Published
//! as an immutable table; a look-up that fails keeps the last good answer. Literal addresses need
//! no look-up.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::config::Settings;
use crate::shard::Commons;

/// How often names are looked up again: the system's resolver does not tell their lifetime.
const REFRESH_EVERY: Duration = Duration::from_secs(30);

/// Host and port of a URL → its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsTable(BTreeMap<(String, u16), Vec<SocketAddr>>);

impl DnsTable {
    /// The addresses of the host of `url`, if it was ever resolved.
    pub fn addresses(&self, url: &Url) -> Option<&[SocketAddr]> {
        self.0.get(&place(url)?).map(Vec::as_slice)
    }
}

fn place(url: &Url) -> Option<(String, u16)> {
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_or_known_default()?))
}

/// Looks every engine's host up; blocks for as long as the system's resolver takes.
pub fn resolve_now(settings: &Settings) -> DnsTable {
    resolve(settings, &DnsTable::default())
}

fn resolve(settings: &Settings, last: &DnsTable) -> DnsTable {
    let mut table = BTreeMap::new();
    for place in settings.engines.iter().filter_map(|engine| place(&engine.url)) {
        let found: Vec<SocketAddr> =
            place.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        let kept = last.0.get(&place).cloned().unwrap_or_default();
        if found.is_empty() {
            tracing::warn!(host = place.0, "an engine's host cannot be resolved");
        }
        table.insert(place, if found.is_empty() { kept } else { found });
    }
    DnsTable(table)
}

/// Keeps the table fresh until the process ends.
pub(super) async fn refresh(commons: Arc<Commons>) {
    let mut timer = tokio::time::interval(REFRESH_EVERY);
    timer.tick().await;
    loop {
        timer.tick().await;
        let (settings, last) = (commons.settings.clone(), commons.dns.load_full());
        let resolved = tokio::task::spawn_blocking(move || {
            let table = resolve(&settings, &last);
            (table != *last).then_some(table)
        });
        if let Ok(Some(table)) = resolved.await {
            commons.dns.store(Arc::new(table));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Settings {
        let text = format!("[[engine]]\nname = \"a\"\nadapter = \"searxng\"\nurl = \"{url}\"\n");
        crate::config::parse(&text, "test.toml", &|_| None).expect("a right configuration")
    }

    fn check(url: &str, expected: &[&str]) {
        let table = resolve_now(&settings(url));
        let addresses = table.addresses(&url.parse().expect("a URL")).expect("an entry");
        let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn literal_addresses_need_no_resolver() {
        check("http://127.0.0.1:9101", &["127.0.0.1:9101"]);
        check("http://[::1]:8080/x", &["[::1]:8080"]);
        check("http://127.0.0.9", &["127.0.0.9:80"]);
    }

    #[test]
    fn a_failed_look_up_keeps_the_last_good_answer() {
        let url = "http://no-such-host.invalid:9101";
        let place = ("no-such-host.invalid".to_owned(), 9101);
        let kept: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let last = DnsTable(BTreeMap::from([(place, vec![kept])]));
        let table = resolve(&settings(url), &last);
        assert_eq!(table.addresses(&url.parse().expect("a URL")), Some(&[kept][..]));
    }
}
