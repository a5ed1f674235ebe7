//! Finds the end of a head as bytes come in, looking at each byte once, so that a peer who sends
//! one byte at a time costs no more than one who sends all at once.
//!
//! It refuses at once what no later byte can mend: a bare LF, and a first word that is no method
//! (a TLS hello, for one), so that no such peer is kept waiting for the timeout.

use super::is_token;

/// Longer than any registered method's name.
const FIRST_WORD_BYTES_MAX: usize = 32;

/// How far a head has been looked through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    looked: usize,
}

/// What a scan found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// No end yet.
    NeedMore,
    /// The head is this long, its empty line included.
    End(usize),
    /// No head can begin like this.
    Fault(&'static str),
}

impl Scan {
    /// Looks at what is new in `bytes`, which begin with the head's first byte and only ever grow.
    pub fn advance(&mut self, bytes: &[u8]) -> Found {
        if self.looked <= FIRST_WORD_BYTES_MAX
            && let Err(fault) = first_word(bytes)
        {
            return Found::Fault(fault);
        }
        let fresh = bytes.get(self.looked..).unwrap_or_default();
        for offset in memchr::memchr_iter(b'\n', fresh) {
            let end = self.looked.saturating_add(offset).saturating_add(1);
            let upto = bytes.get(..end).unwrap_or_default();
            if !upto.ends_with(b"\r\n") {
                return Found::Fault("A line ends with a bare LF.");
            }
            if upto.ends_with(b"\r\n\r\n") {
                return Found::End(end);
            }
        }
        self.looked = bytes.len();
        Found::NeedMore
    }
}

/// Checks the word before the first space, as far as it is there.
fn first_word(bytes: &[u8]) -> Result<(), &'static str> {
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b' ' if index > 0 => return Ok(()),
            _ if index >= FIRST_WORD_BYTES_MAX => return Err("The method is too long."),
            // A response's first word, `HTTP/1.1`, goes through here as well.
            byte if !is_token(*byte) && *byte != b'/' => {
                return Err("The request line has no method.");
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Found) {
        assert_eq!(Scan::default().advance(bytes), expected, "whole");
        let mut scan = Scan::default();
        for end in 0..=bytes.len() {
            match scan.advance(&bytes[..end]) {
                Found::NeedMore => {}
                found => return assert_eq!(found, expected, "{end} bytes"),
            }
        }
        assert_eq!(expected, Found::NeedMore);
    }

    #[test]
    fn the_end_is_the_first_empty_line() {
        check(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n", Found::End(27));
        check(b"GET / HTTP/1.1\r\nHost: x\r\n", Found::NeedMore);
        check(b"", Found::NeedMore);
    }

    #[test]
    fn what_cannot_become_a_head_is_refused_at_once() {
        check(b"GET / HTTP/1.1\nHost: x\n\n", Found::Fault("A line ends with a bare LF."));
        check(b"\x16\x03\x01\x02", Found::Fault("The request line has no method."));
        check(b" GET / HTTP/1.1\r\n\r\n", Found::Fault("The request line has no method."));
        check(&[b'A'; 64], Found::Fault("The method is too long."));
    }
}
