//! The chunked coding (RFC 9112 §7.1), decoded as it comes in, for requests and responses alike.
//!
//! Strict: sizes are 1 to 16 hex digits, lines end with CRLF, no blanks around the size. Extensions
//! and trailers are checked for control characters, bounded and dropped: nothing in a trailer can
//! change what was said in the head.

use super::{is_token, is_value};

const SIZE_DIGITS_MAX: u8 = 16;
/// All extensions of one body together.
const EXTENSION_BYTES_MAX: usize = 4_096;
/// All trailers of one body together.
const TRAILER_BYTES_MAX: usize = 8_192;

/// Why a chunked body is not one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkFault {
    /// The bytes are not in the coding.
    Malformed(&'static str),
    /// The body is longer than allowed.
    TooLarge,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Size,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Done,
}

/// The decoder of one body.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    state: State,
    digits: u8,
    left: u64,
    extension_bytes: usize,
    trailer_bytes: usize,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { state: State::Size, digits: 0, left: 0, extension_bytes: 0, trailer_bytes: 0 }
    }
}

impl Chunks {
    /// Decodes `input` onto the end of `body`, which holds this body alone and never grows beyond
    /// `body_bytes_max`. Gives how many bytes of `input` belong to the body: all, until it is done.
    ///
    /// # Errors
    /// The first fault; the decoder is of no use afterwards.
    pub fn advance(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
        body_bytes_max: usize,
    ) -> Result<usize, ChunkFault> {
        let mut used = 0;
        while self.state != State::Done {
            let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            used = used.saturating_add(match self.state {
                State::Data => self.data(rest, body),
                _ => {
                    self.step(rest[0], body.len(), body_bytes_max)?;
                    1
                }
            });
        }
        debug_assert!(used <= input.len() && body.len() <= body_bytes_max);
        Ok(used)
    }

    /// Whether the last chunk and the trailers have been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn data(&mut self, rest: &[u8], body: &mut Vec<u8>) -> usize {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (chunk, _) = rest.split_at(left.min(rest.len()));
        body.extend_from_slice(chunk);
        self.left = self.left.saturating_sub(chunk.len() as u64);
        if self.left == 0 {
            self.state = State::DataCr;
        }
        chunk.len()
    }

    fn step(&mut self, byte: u8, length: usize, length_max: usize) -> Result<(), ChunkFault> {
        self.state = match (self.state, byte) {
            (State::Size, byte) if byte.is_ascii_hexdigit() => self.size_digit(byte)?,
            (State::Size, b'\r') if self.digits > 0 => State::SizeEnd,
            (State::Size, b';') if self.digits > 0 => State::Extension,
            (State::Size, _) => return malformed("A chunk's size is not a hexadecimal number."),
            (State::Extension, b'\r') => State::SizeEnd,
            (State::Extension, byte) if is_value(byte) => self.extension_byte()?,
            (State::SizeEnd, b'\n') => self.size_end(length, length_max)?,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size,
            (State::DataCr | State::DataLf, _) => {
                return malformed("A chunk's data does not end with CRLF.");
            }
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::LastLf, b'\n') => State::Done,
            (State::TrailerStart | State::TrailerName, byte) if is_token(byte) => {
                self.trailer_byte(State::TrailerName)?
            }
            (State::TrailerName, b':') => self.trailer_byte(State::TrailerValue)?,
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::TrailerValue, byte) if is_value(byte) => {
                self.trailer_byte(State::TrailerValue)?
            }
            (State::Extension | State::SizeEnd, _) => {
                return malformed("A chunk's size line does not end with CRLF.");
            }
            _ => return malformed("A trailer field is not well-formed."),
        };
        Ok(())
    }

    fn size_digit(&mut self, byte: u8) -> Result<State, ChunkFault> {
        if self.digits >= SIZE_DIGITS_MAX {
            return malformed("A chunk's size has too many digits.");
        }
        self.digits = self.digits.saturating_add(1);
        let value = char::from(byte).to_digit(16).unwrap_or_default();
        self.left = (self.left << 4) | u64::from(value);
        Ok(State::Size)
    }

    fn size_end(&mut self, length: usize, length_max: usize) -> Result<State, ChunkFault> {
        self.digits = 0;
        let room = length_max.saturating_sub(length);
        match self.left {
            0 => Ok(State::TrailerStart),
            left if left > room as u64 => Err(ChunkFault::TooLarge),
            _ => Ok(State::Data),
        }
    }

    fn extension_byte(&mut self) -> Result<State, ChunkFault> {
        self.extension_bytes = self.extension_bytes.saturating_add(1);
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return malformed("The chunk extensions are too large.");
        }
        Ok(State::Extension)
    }

    fn trailer_byte(&mut self, next: State) -> Result<State, ChunkFault> {
        self.trailer_bytes = self.trailer_bytes.saturating_add(1);
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return malformed("The trailer fields are too large.");
        }
        Ok(next)
    }
}

const fn malformed<T>(what: &'static str) -> Result<T, ChunkFault> {
    Err(ChunkFault::Malformed(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_BYTES_MAX: usize = 64;

    /// Decodes whole and at every split; gives the body and what is left over.
    fn check(input: &[u8], expected: Result<(&[u8], &[u8]), Option<ChunkFault>>) {
        for split in 0..=input.len() {
            let mut chunks = Chunks::default();
            let mut body = Vec::new();
            let mut used = 0;
            let mut fault = None;
            for part in [&input[..split], &input[split..]] {
                match chunks.advance(part, &mut body, BODY_BYTES_MAX) {
                    Ok(count) => used += count,
                    Err(found) => {
                        fault = Some(found);
                        break;
                    }
                }
            }
            let got = match fault {
                None if chunks.is_done() => Ok((body.as_slice(), &input[used..])),
                other => Err(other),
            };
            let got = got.map_err(|fault| {
                fault
                    .filter(|fault| *fault == ChunkFault::TooLarge)
                    .or(fault.map(|_| ChunkFault::Malformed("")))
            });
            assert_eq!(got, expected, "split at {split}");
        }
    }

    const MALFORMED: Result<(&[u8], &[u8]), Option<ChunkFault>> =
        Err(Some(ChunkFault::Malformed("")));

    #[test]
    fn chunks_are_joined_and_what_follows_is_left() {
        check(b"3\r\nabc\r\n02;x=\"y\"\r\nde\r\n0\r\n\r\nGET", Ok((b"abcde", b"GET")));
        check(b"0\r\n\r\n", Ok((b"", b"")));
        check(b"0\r\nX-T: 1\r\nContent-Length: 5\r\n\r\n", Ok((b"", b"")));
    }

    #[test]
    fn what_is_not_yet_whole_is_no_fault() {
        check(b"", Err(None));
        check(b"3\r\nab", Err(None));
        check(b"3\r\nabc\r\n0\r\n", Err(None));
    }

    #[test]
    fn faults_are_refused() {
        for input in [
            &b"g\r\n"[..],
            b"+3\r\nabc\r\n",
            b"0x3\r\nabc\r\n",
            b"3 \r\nabc\r\n",
            b"3\nabc\r\n",
            b"\r\n",
            b";x\r\n",
            b"3\r\nabcXX0\r\n\r\n",
            b"3\r\nabc\n0\r\n\r\n",
            b"3;a\nb\r\nabc\r\n",
            b"00000000000000003\r\nabc\r\n",
            b"0\r\n folded\r\n\r\n",
            b"0\r\nno colon\r\n\r\n",
            b"0\r\nA: b\n\r\n",
            b"0\r\nA: \x00\r\n\r\n",
        ] {
            check(input, MALFORMED);
        }
    }

    #[test]
    fn a_body_over_its_bound_is_refused_at_its_size_line() {
        check(b"41\r\n", Err(Some(ChunkFault::TooLarge)));
        check(b"ffffffffffffffff\r\n", Err(Some(ChunkFault::TooLarge)));
        check(b"3\r\nabc\r\n3e\r\n", Err(Some(ChunkFault::TooLarge)));
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let mut chunks = Chunks::default();
        let mut long = b"1;".to_vec();
        long.resize(EXTENSION_BYTES_MAX + 3, b'x');
        assert!(chunks.advance(&long, &mut Vec::new(), 9).is_err());
        let mut chunks = Chunks::default();
        let mut long = b"0\r\nA:".to_vec();
        long.resize(TRAILER_BYTES_MAX + 6, b'x');
        assert!(chunks.advance(&long, &mut Vec::new(), 9).is_err());
    }
}
