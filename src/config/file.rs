//! Files that the configuration is made of: bounded, and UTF-8 or told where they are not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why a file gives no text: the line it is about, if it is about one, and what is wrong.
pub(super) struct Unreadable {
    pub(super) line: Option<usize>,
    pub(super) what: String,
}

impl Unreadable {
    /// On one line, for a file that another one names.
    pub(super) fn whole(&self) -> String {
        match self.line {
            Some(line) => format!("line {line}: {}", self.what),
            None => self.what.clone(),
        }
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self { line: None, what: error.to_string() }
    }
}

/// The text at `path`. What is no regular file (a pipe, a device) is read to the same bound.
///
/// # Errors
/// The operating system's; more than 16 MiB; bytes that are not UTF-8, with their place.
pub(super) fn read(path: &Path) -> Result<String, Unreadable> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let what = format!("more than {FILE_BYTES_MAX} bytes, the most that is read");
        return Err(Unreadable { line: None, what });
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let (right, rest) = error.as_bytes().split_at_checked(at).unwrap_or_default();
        let line = right.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = right.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        let byte = rest.first().copied().unwrap_or_default();
        let what = format!(
            "not UTF-8: byte {column} of the line ({} of the file) is 0x{byte:02x}; save the file \
             as UTF-8",
            at + 1
        );
        Unreadable { line: Some(line), what }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file that holds `bytes`.
    fn check(bytes: &[u8], expected: Result<&str, &str>) {
        let name = format!("hedgerow-file-{}-{}", std::process::id(), bytes.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        let read = read(&path);
        std::fs::remove_file(&path).unwrap();
        let read = read.map_err(|unreadable| unreadable.whole());
        match (&read, expected) {
            (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
            (found, expected) => assert_eq!(found.as_deref().ok(), expected.ok()),
        }
    }

    #[test]
    fn what_is_not_utf_8_is_told_with_its_place() {
        check("a = \"é\"\n".as_bytes(), Ok("a = \"é\"\n"));
        let latin = "line 2: not UTF-8: byte 6 of the line (9 of the file) is 0xe9; save";
        check(b"# \na = \"\xe9\"\n", Err(latin));
        check(b"\xff\xfea\x00", Err("line 1: not UTF-8: byte 1 of the line (1 of the file)"));
        check(b"ab\xc3", Err("line 1: not UTF-8: byte 3 of the line (3 of the file) is 0xc3"));
    }

    #[test]
    fn what_has_no_end_is_read_to_the_bound() {
        let told = read(Path::new("/dev/zero")).map_err(|unreadable| unreadable.whole());
        assert_eq!(told, Err("more than 16777216 bytes, the most that is read".to_owned()));
    }
}
