//! HTTP/1.1 (RFC 9112), both sides. `scan`, `head`, `chunks` and `intake` read requests; `response`
//! reads responses and `client` makes one exchange of both.
//!
//! All parsers are incremental and pure: they are handed bytes and never ask for them, so that each
//! can be tested at every split. They are strict where the RFC leaves a choice: bytes that two
//! parties could read in two ways are refused, never repaired. Nothing here grows without a bound
//! that its caller sets.

pub mod chunks;
pub mod head;
pub mod intake;
pub mod scan;
pub mod response;
pub mod client;

/// A `tchar` of RFC 9110 §5.6.2: what methods and field names are made of.
pub(crate) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// What a field's value or a chunk's extension may hold: no controls but the tab.
pub(crate) const fn is_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The one decimal number of `Content-Length`: digits only, no sign, no list, no overflow.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let value = digit.checked_sub(b'0').filter(|value| *value <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(value))
    })
}

/// Whether a comma-separated `list` names `token`, in any case. Bytes that are not text match
/// nothing.
pub(crate) fn lists(list: &[u8], token: &str) -> bool {
    list.split(|byte| *byte == b',')
        .any(|entry| entry.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_digits_and_nothing_else() {
        let check = |text: &str, expected| assert_eq!(decimal(text.as_bytes()), expected, "{text}");
        check("0", Some(0));
        check("0009", Some(9));
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551616", None);
        for wrong in ["", "+9", "-1", "0x9", "9, 9", "9 ", "1e3", "1.5"] {
            check(wrong, None);
        }
    }

    #[test]
    fn lists_are_split_and_compared_in_any_case() {
        assert!(lists(b"Keep-Alive, CLOSE", "close"));
        assert!(!lists(b"closed", "close"));
        assert!(!lists(b"\xff, \xfe", "close"));
    }
}
