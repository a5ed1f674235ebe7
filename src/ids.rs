//! The names of requests: ULIDs of our own, or the caller's where they are harmless.
//!
//! A ULID is 26 characters of Crockford's base 32: 48 bits of Unix time in milliseconds, 80 bits of
//! chance. Both are handed in, so that a simulated world repeats its names.

use std::time::Duration;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ULID_CHARACTERS: usize = 26;
const ECHOED_BYTES_MAX: usize = 64;

/// A new request's name, from the time since the Unix epoch and 128 random bits (80 are used).
pub fn request_id(unix: Duration, draw: u64, draw2: u64) -> String {
    // 48 bits are ten characters, and 40 bits of chance are eight, twice.
    let millis = unix.as_millis() as u64 & ((1 << 48) - 1);
    let mut name = String::with_capacity(ULID_CHARACTERS);
    for (bits, characters) in [(millis, 10), (draw >> 24, 8), (draw2 >> 24, 8)] {
        for shift in (0..characters).rev().map(|index| index * 5) {
            name.push(char::from(ALPHABET[((bits >> shift) & 31) as usize]));
        }
    }
    name
}

/// The caller's own name for a request, if it may be repeated in headers, bodies and logs:
/// `[A-Za-z0-9._-]{1,64}`.
pub fn echoable(name: &[u8]) -> Option<&str> {
    let is_harmless =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > ECHOED_BYTES_MAX || !name.iter().all(is_harmless) {
        return None;
    }
    std::str::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_and_have_26_characters() {
        let unix = Duration::from_millis(1_469_918_176_385);
        let early = request_id(unix, u64::MAX, u64::MAX);
        let late = request_id(unix + Duration::from_millis(1), 0, 0);
        // The time's ten characters are those of the ULID specification's own example.
        assert_eq!(early, "01ARYZ6S41ZZZZZZZZZZZZZZZZ");
        assert_eq!(late, "01ARYZ6S420000000000000000");
        assert!(early < late);
    }

    #[test]
    fn only_harmless_names_are_repeated() {
        let check = |name: &[u8], expected| assert_eq!(echoable(name).is_some(), expected);
        check(b"abc-123._Z", true);
        check(&[b'a'; 64], true);
        check(&[b'a'; 65], false);
        check(b"", false);
        check(b"a b", false);
        check(b"a\r\nX: y", false);
        check("ä".as_bytes(), false);
    }
}
