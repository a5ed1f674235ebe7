//! Who asks: the API key of a request, by its SHA-256. Keys themselves are nowhere kept, compared
//! or logged. An unknown key costs what a known one costs: one hash and one map read, so time tells
//! a guesser nothing, and a digest is no text that a guesser could choose byte by byte.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use sha2::{Digest, Sha256};

use crate::config::settings::Key;
use crate::head::Headers;
use crate::model::KeyId;

/// The longest key that is looked at, in bytes; longer ones are unknown.
const KEY_BYTES_MAX: usize = 512;

/// The keys by their digests. A fixed seed is safe here: nobody can choose digests that collide.
pub(super) struct Keys(HashMap<[u8; 32], KeyId, FixedState>);

impl Keys {
    /// The key at each index of `keys` has that index as its id.
    pub(super) fn new(keys: &[Key]) -> Self {
        let mut map = HashMap::with_capacity_and_hasher(keys.len(), FixedState::default());
        map.extend(keys.iter().zip(0..).map(|(key, index)| (key.sha256, KeyId(index))));
        Self(map)
    }

    /// Whose request it is; none: nobody's that we know. A request that presents two keys, or the
    /// same header twice, or a scheme that is not Bearer, is nobody's.
    pub(super) fn find(&self, headers: &Headers<'_>) -> Option<KeyId> {
        let presented = presented(headers)?;
        if presented.len() > KEY_BYTES_MAX {
            return None;
        }
        self.0.get(&<[u8; 32]>::from(Sha256::digest(presented))).copied()
    }
}

/// The one key that the headers present: `Authorization: Bearer KEY` (RFC 6750 §2.1, the scheme in
/// any case) or `X-API-Key: KEY`. Never the URL: those end up in logs.
fn presented<'a>(headers: &Headers<'a>) -> Option<&'a [u8]> {
    let bearer = match one(headers, "authorization")? {
        None => None,
        Some(value) => Some(bearer(value)?),
    };
    match (bearer, one(headers, "x-api-key")?) {
        (Some(one), Some(other)) => (one == other).then_some(one),
        (one, other) => one.or(other),
    }
}

/// The field of that name; the outer none: there are several.
fn one<'a>(headers: &Headers<'a>, name: &str) -> Option<Option<&'a [u8]>> {
    let mut all = headers.all(name);
    let first = all.next();
    all.next().is_none().then_some(first)
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at_checked(at)?;
    scheme.eq_ignore_ascii_case(b"bearer").then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Field;

    fn check(fields: &[(&str, &[u8])], expected: Option<&[u8]>) {
        let fields: Vec<Field<'_>> =
            fields.iter().map(|(name, value)| Field { name, value }).collect();
        assert_eq!(presented(&Headers::new(&fields)), expected, "{fields:?}");
    }

    #[test]
    fn a_key_comes_from_one_of_two_headers() {
        check(&[], None);
        check(&[("Authorization", b"Bearer demo")], Some(b"demo"));
        check(&[("authorization", b"bEARER   demo ")], Some(b"demo"));
        check(&[("X-API-Key", b"demo")], Some(b"demo"));
        check(&[("X-API-Key", b"demo"), ("Authorization", b"Bearer demo")], Some(b"demo"));
    }

    #[test]
    fn a_doubtful_key_is_no_key() {
        check(&[("Authorization", b"demo")], None);
        check(&[("Authorization", b"Basic ZGVtbw==")], None);
        check(&[("Authorization", b"Basic x"), ("X-API-Key", b"demo")], None);
        check(&[("X-API-Key", b"demo"), ("Authorization", b"Bearer other")], None);
        check(&[("X-API-Key", b"demo"), ("X-API-Key", b"demo")], None);
        check(&[("Authorization", b"Bearer a"), ("Authorization", b"Bearer a")], None);
    }
}
