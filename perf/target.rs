//! Where the load goes: an `http://` address with a path that may hold `{n}` (the request's number)
//! and `{q}` (its query), turned into the bytes of one request after another.
//!
//! Names are looked up once, before the run: a lookup inside it would be measured as latency.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::queries::Queries;

/// A target as given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The address connected to.
    pub(crate) address: SocketAddr,
    authority: String,
    path: String,
}

impl Target {
    /// Reads `http://HOST[:PORT][/PATH]` and looks HOST up.
    ///
    /// # Errors
    /// What is wrong with the text, in words for the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").ok_or("a target starts with http://")?;
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("a path holds no spaces and no control characters".into());
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let with_port = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let address = with_port
            .to_socket_addrs()
            .map_err(|error| format!("{with_port}: {error}"))?
            .next()
            .ok_or_else(|| format!("{with_port} has no address"))?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { address, authority: authority.to_owned(), path })
    }
}

/// Makes the requests of one run.
pub(crate) struct Requests {
    parts: Vec<Part>,
    tail: String,
    queries: Queries,
}

enum Part {
    Text(String),
    Number,
    Query,
}

impl Requests {
    /// Requests to `target` with further `headers` (`Name: value`). A path without `{q}` gets
    /// `q={q}` appended if there are queries.
    ///
    /// # Errors
    /// A header without a colon or with control characters; `{q}` in the path without queries.
    pub(crate) fn new(
        target: &Target,
        headers: &[String],
        queries: Queries,
    ) -> Result<Self, String> {
        let mut path = target.path.clone();
        match (path.contains("{q}"), queries.is_none()) {
            (true, true) => return Err("{q} needs --queries, --unique or --repeat-ratio".into()),
            (false, false) => path.push_str(if path.contains('?') { "&q={q}" } else { "?q={q}" }),
            _ => {}
        }
        let mut tail = format!(" HTTP/1.1\r\nHost: {}\r\n", target.authority);
        for header in headers {
            if !header.contains(':') || header.bytes().any(|byte| byte < b' ') {
                return Err(format!("'{header}' is not of the form 'Name: value'"));
            }
            tail.push_str(header);
            tail.push_str("\r\n");
        }
        tail.push_str("\r\n");
        Ok(Self { parts: split(&path), tail, queries })
    }

    /// The bytes of request `number`. Numbers are asked for in rising order.
    pub(crate) fn next(&mut self, number: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(192 + self.tail.len());
        bytes.extend_from_slice(b"GET ");
        for part in &self.parts {
            match part {
                Part::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                Part::Number => bytes.extend_from_slice(number.to_string().as_bytes()),
                Part::Query => self.queries.push_encoded(number, &mut bytes),
            }
        }
        bytes.extend_from_slice(self.tail.as_bytes());
        bytes
    }
}

fn split(path: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = path;
    while let Some(at) = ["{n}", "{q}"].iter().filter_map(|mark| rest.find(mark)).min() {
        parts.push(Part::Text(rest[..at].to_owned()));
        parts.push(if rest[at..].starts_with("{n}") { Part::Number } else { Part::Query });
        rest = &rest[at + 3..];
    }
    parts.push(Part::Text(rest.to_owned()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, queries: Queries, number: u64, expected: &str) {
        let target = Target::parse(target).expect("a target");
        let mut requests = Requests::new(&target, &["A: b".into()], queries).expect("requests");
        let text = String::from_utf8(requests.next(number)).expect("text");
        assert_eq!(text, format!("{expected} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nA: b\r\n\r\n"));
    }

    #[test]
    fn placeholders_are_filled() {
        check("http://127.0.0.1:8080", Queries::None, 0, "GET /");
        check("http://127.0.0.1:8080/a/{n}/b{n}?c", Queries::None, 7, "GET /a/7/b7?c");
        let file = || Queries::Listed(vec!["a b".into(), "ü&=".into()]);
        check("http://127.0.0.1:8080/s?x=1", file(), 0, "GET /s?x=1&q=a%20b");
        check("http://127.0.0.1:8080/s", file(), 3, "GET /s?q=%C3%BC%26%3D");
        check("http://127.0.0.1:8080/{q}/{n}", file(), 2, "GET /a%20b/2");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for text in ["https://127.0.0.1/", "127.0.0.1:80", "http://127.0.0.1:80/a b"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        let target = Target::parse("http://127.0.0.1:80/{q}").expect("a target");
        assert!(Requests::new(&target, &[], Queries::None).is_err());
        let target = Target::parse("http://127.0.0.1:80/").expect("a target");
        assert!(Requests::new(&target, &["no colon".into()], Queries::None).is_err());
    }
}
