//! Where reports go: JSON files, written whole or not at all.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Writes `report` to `path`, if there is one, by way of a file beside it. Makes the folder.
///
/// # Errors
/// The file system's, in words.
pub(crate) fn write_json(path: Option<&Path>, report: &impl Serialize) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let beside = path.with_extension("json.part");
    fs::write(&beside, text + "\n").map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}
