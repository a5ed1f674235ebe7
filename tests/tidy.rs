//! What STYLE.md and ARCHITECTURE.md say and a program can check, in one pass over the files. Every
//! finding is reported, each with its file, its line and the rule.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const LINE_COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const SCRIPT_LINES_MAX: usize = 60;

/// The stages of a search: none may import another.
const STAGES: [&str; 7] = ["edge", "gateway", "compiler", "cache", "router", "engines", "merge"];

/// Where stages meet: the spines, and what assembles a core around them.
const SPINES: [&str; 5] = ["search", "shard", "mail", "upkeep", "boot"];

/// Below these folders an ordinary thread with tokio may run.
const OFF_THE_PATH: [&str; 4] = ["src/control", "src/origin", "src/ingest", "src/cli"];

/// Where `unsafe` may stand.
const UNSAFE_MAY_STAND: [&str; 5] =
    ["runtime/monoio", "runtime/glommio", "runtime/linux", "shards/mailbox.rs", "runtime/sim"];

/// Words that mark what is not finished. Spelled so that this file does not contain them.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!("),
    concat!("db", "g!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X:"),
];

struct Findings(String);

impl Findings {
    fn add(&mut self, file: &Path, line: usize, rule: &str) {
        let _ = writeln!(self.0, "{}:{line}: {rule}", file.display());
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder`, by its path from the root; build products and dot folders are left
/// out.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path.strip_prefix(root()).expect("below the root").to_path_buf());
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn check(rules: impl Fn(&Path, &str, &mut Findings), files: &[PathBuf]) {
    assert!(!files.is_empty(), "nothing was read");
    let mut findings = Findings(String::new());
    for file in files {
        rules(file, &read(file), &mut findings);
    }
    assert!(findings.0.is_empty(), "\n{}", findings.0);
}

fn rust() -> Vec<PathBuf> {
    files("", ".rs")
}

#[test]
fn every_file_says_what_it_is_and_fits() {
    check(
        |file, text, findings| {
            if !text.starts_with("//!") {
                findings.add(file, 1, "does not open with `//!`");
            }
            let lines = text.lines().count();
            if lines > FILE_LINES_MAX {
                findings.add(file, lines, "more than 600 lines");
            }
            for (index, line) in text.lines().enumerate() {
                let is_table = line.contains("https://") || line.contains("──");
                if line.chars().count() > LINE_COLUMNS_MAX && !is_table {
                    findings.add(file, index + 1, "longer than 100 columns");
                }
                if UNFINISHED.iter().any(|word| line.contains(word)) {
                    findings.add(file, index + 1, "marks what is not finished");
                }
                if line.trim_start().starts_with("#[ignore") {
                    findings.add(file, index + 1, "ignores a test");
                }
            }
        },
        &rust(),
    );
}

#[test]
fn every_function_fits_a_screen() {
    check(
        |file, text, findings| {
            let mut open: Option<(usize, usize)> = None;
            for (index, line) in text.lines().enumerate() {
                let indent = line.len() - line.trim_start().len();
                match open {
                    Some((start, depth))
                        if indent == depth && line.trim_start().starts_with('}') =>
                    {
                        if index - start + 1 > FUNCTION_LINES_MAX {
                            findings.add(file, start + 1, "a function of more than 70 lines");
                        }
                        open = None;
                    }
                    None if is_function(line) && !line.trim_end().ends_with(['}', ';']) => {
                        open = Some((index, indent));
                    }
                    _ => {}
                }
            }
        },
        &rust(),
    );
}

fn is_function(line: &str) -> bool {
    let words = line.trim_start();
    let words = words.strip_prefix("pub(crate) ").unwrap_or(words);
    let words = words.strip_prefix("pub(super) ").unwrap_or(words);
    let words = words.strip_prefix("pub ").unwrap_or(words);
    let words = words.strip_prefix("const ").unwrap_or(words);
    let words = words.strip_prefix("async ").unwrap_or(words);
    let words = words.strip_prefix("unsafe ").unwrap_or(words);
    words.starts_with("fn ")
}

/// The code of a line: without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

#[test]
fn what_a_core_owns_never_awaits() {
    check(
        |file, text, findings| {
            for (index, line) in text.lines().enumerate() {
                let code = code(line);
                if code.contains("async ") || code.contains(".await") {
                    findings.add(file, index + 1, "`shards` has no `async`");
                }
                if code.contains("std::net") || code.contains("std::fs") || code.contains("std::io")
                {
                    findings.add(file, index + 1, "`shards` has no I/O");
                }
            }
        },
        &files("shards", ".rs"),
    );
}

#[test]
fn stages_meet_in_spines_only() {
    check(
        |file, text, findings| {
            let Some(own) = module(file) else { return };
            for (index, line) in text.lines().enumerate() {
                let code = code(line);
                for stage in STAGES {
                    let is_foreign = STAGES.contains(&own.as_str()) && stage != own;
                    // Nobody else may reach into a stage but those who assemble; `config` names the
                    // manifests of engines, `wire` and the rest name no stage.
                    if is_foreign && code.contains(&format!("crate::{stage}")) {
                        findings.add(file, index + 1, "a stage imports another stage");
                    }
                }
                let calls_spine = SPINES.iter().any(|spine| {
                    code.contains(&format!("crate::{spine}::"))
                        || code.contains(&format!("use crate::{spine};"))
                });
                if calls_spine && STAGES.contains(&own.as_str()) {
                    findings.add(file, index + 1, "a stage imports a spine");
                }
            }
        },
        &files("src", ".rs"),
    );
}

/// The top module of a file below `src`.
fn module(file: &Path) -> Option<String> {
    let name = file.strip_prefix("src").ok()?.components().next()?;
    let name = name.as_os_str().to_string_lossy();
    Some(name.trim_end_matches(".rs").to_owned())
}

#[test]
fn the_path_names_no_other_runtime() {
    check(
        |file, text, findings| {
            let is_off = OFF_THE_PATH.iter().any(|folder| file.starts_with(folder));
            for (index, line) in text.lines().enumerate() {
                let code = code(line);
                let names_tokio = code.contains("tokio::") || code.contains("axum::");
                if names_tokio && !is_off {
                    findings.add(
                        file,
                        index + 1,
                        "only control, origin, ingest and cli name tokio",
                    );
                }
                if code.contains("monoio::") || code.contains("glommio::") {
                    findings.add(file, index + 1, "only `runtime` names a reactor");
                }
            }
        },
        &files("src", ".rs"),
    );
}

#[test]
fn unsafe_stands_where_it_may_and_says_why() {
    check(
        |file, text, findings| {
            let may = UNSAFE_MAY_STAND.iter().any(|place| file.starts_with(place))
                || file.starts_with("perf");
            let lines: Vec<&str> = text.lines().collect();
            for (index, line) in lines.iter().enumerate() {
                let code = code(line);
                if !(code.contains("unsafe {")
                    || code.contains("unsafe fn")
                    || code.contains("unsafe impl"))
                {
                    continue;
                }
                if !may {
                    findings.add(
                        file,
                        index + 1,
                        "`unsafe` outside runtime's backends and mailbox",
                    );
                }
                let from = index.saturating_sub(8);
                let has_reason = lines[from..=index]
                    .iter()
                    .any(|above| above.contains("SAFETY") || above.contains("# Safety"));
                if !has_reason {
                    findings.add(file, index + 1, "`unsafe` without `// SAFETY:`");
                }
            }
        },
        &files("", ".rs")
            .into_iter()
            .filter(|f| f != Path::new("tests/tidy.rs"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn scripts_are_thin() {
    check(
        |file, text, findings| {
            let lines = text.lines().count();
            if lines > SCRIPT_LINES_MAX {
                findings.add(file, lines, "a script of more than 60 lines");
            }
            if !text.starts_with("#!") {
                findings.add(file, 1, "a script without an interpreter");
            }
        },
        &files("scripts", "").into_iter().filter(|f| f.extension().is_none()).collect::<Vec<_>>(),
    );
}

/// A path or a `module::symbol` in backticks must exist: documents cite what there is.
#[test]
fn the_architecture_names_what_exists() {
    let sources: String = files("", ".rs").iter().map(|file| read(file)).collect();
    check(
        |file, text, findings| {
            for (index, line) in text.lines().enumerate() {
                for cited in line.split('`').skip(1).step_by(2) {
                    let is_path = cited.contains('/') && !cited.contains([' ', '*', '{', '<', '|']);
                    if is_path && !cited.starts_with('/') && !root().join(cited).exists() {
                        findings.add(file, index + 1, &format!("`{cited}` does not exist"));
                    }
                    let is_symbol = cited.contains("::") && !cited.contains([' ', '*', '{']);
                    let last = cited.rsplit("::").next().unwrap_or(cited);
                    let last = last.trim_end_matches("()").trim_end_matches(['!', '?']);
                    if is_symbol && !sources.contains(last) {
                        findings.add(file, index + 1, &format!("`{cited}` does not exist"));
                    }
                }
            }
        },
        &[PathBuf::from("ARCHITECTURE.md"), PathBuf::from("docs/operations.md")]
            .into_iter()
            .filter(|file| root().join(file).exists())
            .collect::<Vec<_>>(),
    );
}
