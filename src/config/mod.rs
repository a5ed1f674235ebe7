//! `hedgerow.toml`: the only place that knows key names. A file becomes bounded, typed `Settings`,
//! or a list of everything that is wrong with it; nothing in between.
//!
//! `keys.txt` lists every key with its kind, bounds, default and purpose. `walk` holds a file
//! against it, `build*` makes settings of what was found and checks what keys mean to each other.
//! Relative paths in a file count from the file's own folder.

pub mod settings;
mod problems;
mod schema;
mod kind;
mod forms;
mod file;
mod cores;
mod walk;
mod read;
mod build;
mod build_engines;
mod build_rest;
mod unsupported;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use problems::{Problem, Problems};
pub use settings::Settings;

use read::Reader;
use schema::Schema;

/// What a file's meaning depends on besides its text.
struct Surroundings<'a> {
    folder: PathBuf,
    env: &'a dyn Fn(&str) -> Option<OsString>,
    machine: Machine,
}

/// What `server.cores` is held against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// The processors that this process may run on.
    This,
    /// Nothing: the settings of a test's world are the same on every machine.
    Any,
}

impl Surroundings<'_> {
    /// A path of the file, from the file's folder.
    fn path(&self, text: &str) -> PathBuf {
        self.folder.join(text)
    }

    /// The machine's own name, as the kernel has it.
    fn host_name(&self) -> String {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name: String = name.trim().chars().filter(|c| forms::is_name(&c.to_string())).collect();
        if name.is_empty() { "hedgerow".to_owned() } else { name }
    }
}

/// The text that is served from where no file is given: loopback only, and no engines.
pub fn built_in() -> &'static str {
    include_str!("default.toml")
}

/// Reads the file at `path`, or the built-in text without one, with the process's environment, for
/// the machine it runs on.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: Option<&Path>) -> Result<Settings, Problems> {
    let Some(path) = path else {
        return load_text(built_in(), "(built-in configuration)");
    };
    let file_name = path.display().to_string();
    let text = file::read(path).map_err(|unreadable| {
        let mut problems = Problems::none(&file_name);
        problems.add(unreadable.line, "", unreadable.what);
        problems
    })?;
    load_text(&text, &file_name)
}

/// As `load`, of a text that is no file's.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_text(text: &str, file_name: &str) -> Result<Settings, Problems> {
    read(text, file_name, &|name| std::env::var_os(name), Machine::This)
}

/// Makes settings of `text`; `env` gives environment variables, `file_name` names the text in
/// problems and is where relative paths count from. Whether this machine has as many processors as
/// `server.cores` asks for is not looked at.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(
    text: &str,
    file_name: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, Problems> {
    read(text, file_name, &|name| env(name).map(OsString::from), Machine::Any)
}

fn read(
    text: &str,
    file_name: &str,
    env: &dyn Fn(&str) -> Option<OsString>,
    machine: Machine,
) -> Result<Settings, Problems> {
    let folder = Path::new(file_name).parent().unwrap_or(Path::new("")).to_path_buf();
    let schema = Schema::read();
    let mut problems = Problems::none(file_name);
    let found = walk::walk(text, &schema, &mut problems);
    let mut reader = Reader::new(&schema, &found, problems);
    let settings = build::build(&mut reader, &Surroundings { folder, env, machine });
    if reader.problems.is_none() { Ok(settings) } else { Err(reader.problems.sorted()) }
}

/// What follows where a quota of the machine's is below what `settings` ask for; it is no mistake
/// of theirs.
pub fn throttled(settings: &Settings) -> Option<String> {
    cores::throttled(settings.server.cpus.len())
}

/// `docs/config.md` as it must be: every key with its kind, bounds, default and purpose.
pub fn keys_document() -> String {
    Schema::read().document()
}

#[cfg(test)]
mod tests;
