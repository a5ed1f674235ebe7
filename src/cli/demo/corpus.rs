//! What the demo's engines know: the project's own documents, embedded when it is built, one
//! section for each heading; or the text files below a folder, one section for each file. Read
//! once, at start, and bounded. Sizes are in bytes.
//!
//! It must never follow a symbolic link: a folder's owner decides what is in it.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::DemoError;
use super::markup;

/// Files of a folder that are read.
pub(super) const FILES_MAX: usize = 20_000;
/// Bytes of all files together.
pub(super) const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of one file; longer ones are left out.
pub(super) const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Folders below folders.
const DEPTH_MAX: usize = 32;

/// The project's documents: where each would be found on the web, and its text.
const DOCUMENTS: &[(&str, &str)] = &[
    ("readme", include_str!("../../../README.md")),
    ("architecture", include_str!("../../../ARCHITECTURE.md")),
    ("changelog", include_str!("../../../CHANGELOG.md")),
    ("style", include_str!("../../../STYLE.md")),
    ("docs/config", include_str!("../../../docs/config.md")),
    ("docs/engines", include_str!("../../../docs/engines.md")),
    ("docs/metrics", include_str!("../../../docs/metrics.md")),
    ("docs/simulation", include_str!("../../../docs/simulation.md")),
    ("docs/operations", include_str!("../../../docs/operations.md")),
    ("docs/tail", include_str!("../../../docs/tail.md")),
    ("docs/performance", include_str!("../../../docs/performance.md")),
];

/// What an engine finds: a page of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    /// Never empty.
    pub(super) title: String,
    /// Absolute; no two sections have the same.
    pub(super) url: String,
    /// Plain, white space collapsed.
    pub(super) text: String,
}

/// What was read.
#[derive(Debug, PartialEq)]
pub(super) struct Corpus {
    /// In the order of their addresses in the corpus.
    pub(super) sections: Vec<Section>,
    /// Files that were too long, too many or not readable.
    pub(super) skipped: usize,
}

/// The project's own documents.
pub(super) fn built_in() -> Corpus {
    let sections = DOCUMENTS
        .iter()
        .flat_map(|(path, text)| {
            markup::sections(text, &format!("https://hedgerow.example/{path}"))
        })
        .collect();
    Corpus { sections, skipped: 0 }
}

/// The `.txt`, `.md` and `.html` files below `folder`, in the order of their paths.
///
/// # Errors
/// A folder that cannot be read, or has no such file.
pub(super) fn folder(folder: &Path) -> Result<Corpus, DemoError> {
    let unreadable = |error| DemoError::Corpus(folder.to_owned(), error);
    let mut found = Found { files: Vec::new(), skipped: 0 };
    found.walk(folder, 0).map_err(unreadable)?;
    let mut corpus = Corpus { sections: Vec::new(), skipped: found.skipped };
    let mut left_bytes = BYTES_MAX;
    for path in &found.files {
        match read(path, left_bytes.min(FILE_BYTES_MAX)) {
            Some(bytes) => {
                left_bytes -= bytes.len() as u64;
                corpus.sections.push(section(folder, path, &bytes));
            }
            None => corpus.skipped += 1,
        }
    }
    if corpus.sections.is_empty() {
        return Err(DemoError::Empty(folder.to_owned()));
    }
    Ok(corpus)
}

struct Found {
    files: Vec<PathBuf>,
    skipped: usize,
}

impl Found {
    /// Collects the files below `folder`. Only the outermost folder's failure is an error: one
    /// locked folder below must not hide the others.
    fn walk(&mut self, folder: &Path, depth: usize) -> std::io::Result<()> {
        let mut entries: Vec<fs::DirEntry> = fs::read_dir(folder)?.filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let is_left_out = match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    depth == DEPTH_MAX || self.walk(&path, depth + 1).is_err()
                }
                Ok(kind) if kind.is_file() && is_text(&path) => {
                    let has_room = self.files.len() < FILES_MAX;
                    if has_room {
                        self.files.push(path);
                    }
                    !has_room
                }
                _ => false,
            };
            self.skipped += usize::from(is_left_out);
        }
        Ok(())
    }
}

fn extension(path: &Path) -> String {
    path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase()
}

fn is_text(path: &Path) -> bool {
    ["txt", "md", "html", "htm"].contains(&extension(path).as_str())
}

/// A file's bytes; none if it cannot be read or is longer than `bytes_max`.
fn read(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}

fn section(folder: &Path, path: &Path, bytes: &[u8]) -> Section {
    let relative = path.strip_prefix(folder).unwrap_or(path);
    let source = String::from_utf8_lossy(bytes);
    let (title, text) = match extension(path).as_str() {
        "md" => markup::markdown(&source),
        "txt" => (None, markup::collapse(&source)),
        _ => markup::html(&source),
    };
    let name = relative.with_extension("").to_string_lossy().into_owned();
    Section { title: title.unwrap_or(name), url: address(relative), text }
}

fn address(relative: &Path) -> String {
    let mut address = "https://corpus.example".to_owned();
    for part in relative.components() {
        let part = part.as_os_str().as_encoded_bytes();
        address.push('/');
        address.extend(
            percent_encoding::percent_encode(part, percent_encoding::NON_ALPHANUMERIC).map(
                |piece| match piece {
                    // Unreserved characters stay readable.
                    "%2E" => ".",
                    "%2D" => "-",
                    "%5F" => "_",
                    "%7E" => "~",
                    other => other,
                },
            ),
        );
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A folder of its own below the build's scratch folder, removed in the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("hedgerow-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn put(&self, name: &str, bytes: &[u8]) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn every_document_of_the_project_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found: BTreeSet<String> = BTreeSet::new();
        for (folder, prefix) in [(root.to_owned(), ""), (root.join("docs"), "docs/")] {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if extension(&path) == "md" {
                    let name = path.file_stem().unwrap().to_str().unwrap().to_ascii_lowercase();
                    found.insert(format!("{prefix}{name}"));
                }
            }
        }
        let embedded = DOCUMENTS.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(found, embedded, "DOCUMENTS lacks a document or names one that is gone");
    }

    #[test]
    fn no_two_sections_share_an_address() {
        let sections = built_in().sections;
        let addresses: BTreeSet<&str> = sections.iter().map(|one| one.url.as_str()).collect();
        assert_eq!(addresses.len(), sections.len());
        assert!(sections.len() > 20, "{}", sections.len());
        for section in &sections {
            assert!(url::Url::parse(&section.url).unwrap().fragment().is_none(), "{section:?}");
            assert!(!section.title.is_empty() && !section.text.is_empty(), "{section:?}");
        }
    }

    #[test]
    fn a_folder_is_read_in_order_and_each_kind_by_its_rules() {
        let scratch = Scratch::new("kinds");
        scratch.put("b/plain.txt", b"one\n two\xff");
        scratch.put("a.html", b"<title>T &amp; t</title><p>text<script>no()</script></p>");
        scratch.put("c dä.md", b"# Head\nSome `code`.");
        scratch.put("ignored.png", b"x");
        let corpus = folder(&scratch.0).unwrap();
        let seen: Vec<(&str, &str, &str)> =
            corpus.sections.iter().map(|s| (&*s.title, &*s.url, &*s.text)).collect();
        assert_eq!(
            seen,
            [
                ("T & t", "https://corpus.example/a.html", "text"),
                ("b/plain", "https://corpus.example/b/plain.txt", "one two\u{fffd}"),
                ("Head", "https://corpus.example/c%20d%C3%A4.md", "Some code."),
            ]
        );
        assert_eq!(corpus.skipped, 0);
    }

    #[test]
    fn a_file_over_the_limit_is_skipped_and_said() {
        let scratch = Scratch::new("long");
        scratch.put("long.txt", &vec![b'x'; FILE_BYTES_MAX as usize + 1]);
        scratch.put("short.txt", &vec![b'x'; FILE_BYTES_MAX as usize]);
        let corpus = folder(&scratch.0).unwrap();
        assert_eq!((corpus.sections.len(), corpus.skipped), (1, 1));
    }

    #[test]
    fn a_link_is_not_followed() {
        let (scratch, outside) = (Scratch::new("link"), Scratch::new("outside"));
        outside.put("secret.txt", b"secret");
        scratch.put("open.txt", b"open");
        std::os::unix::fs::symlink(&outside.0, scratch.0.join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.0.join("secret.txt"), scratch.0.join("s.txt")).unwrap();
        assert_eq!(folder(&scratch.0).unwrap().sections.len(), 1);
    }

    #[test]
    fn a_missing_and_an_empty_folder_are_told_apart() {
        let scratch = Scratch::new("empty");
        assert!(matches!(folder(&scratch.0), Err(DemoError::Empty(_))));
        assert!(matches!(folder(&scratch.0.join("no")), Err(DemoError::Corpus(..))));
    }
}
