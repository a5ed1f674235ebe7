//! `suite`: runs a named measurement from a file, so that what is claimed can be measured again
//! with the same words. A suite is a command and its options, nothing else: its keys are the
//! command's own, so there is no second list to keep.
//!
//! ```toml
//! about = "what it shows"
//! command = "load"
//! [options]
//! target = "{base}/search/fast"
//! rate = 200
//! unique = true
//! ```

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

/// Options of `suite`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// A suite's file, such as perf/suites/search-hit.toml
    file: PathBuf,
    /// What {base} stands for in the suite's options
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    base: String,
    /// Further options of the suite's command, which override the suite's own
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    about: String,
    command: String,
    options: toml::Table,
}

/// The arguments the suite stands for, the command first.
///
/// # Errors
/// What is wrong with the file, in words.
pub(crate) fn arguments(options: &Options) -> Result<Vec<String>, String> {
    let suite = read(&options.file)?;
    println!("{}", suite.about);
    let mut arguments = expand(suite, &options.base)?;
    arguments.extend(options.more.iter().cloned());
    Ok(arguments)
}

fn read(path: &Path) -> Result<Suite, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))
}

fn expand(suite: Suite, base: &str) -> Result<Vec<String>, String> {
    let mut arguments = vec![suite.command];
    for (key, value) in suite.options {
        let values = match value {
            toml::Value::Array(values) => values,
            toml::Value::Boolean(false) => continue,
            toml::Value::Boolean(true) => {
                arguments.push(format!("--{}", key.replace('_', "-")));
                continue;
            }
            value => vec![value],
        };
        for value in values {
            let text = match value {
                toml::Value::String(text) => text.replace("{base}", base),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                other => return Err(format!("{key}: {other} is no option's value")),
            };
            arguments.push(format!("--{}={text}", key.replace('_', "-")));
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &str, expected: Result<&[&str], ()>) {
        let text = format!("about = 'x'\ncommand = 'load'\n[options]\n{options}");
        let suite = toml::from_str(&text).expect("a suite");
        let arguments = expand(suite, "http://[::1]:80");
        let expected = expected.map(|list| list.iter().map(|&text| text.to_owned()).collect());
        assert_eq!(arguments.map_err(drop), expected, "{options}");
    }

    #[test]
    fn options_become_arguments() {
        let both = "header = ['A: b', 'C: d']\nunique = true\nclosed = false";
        check(both, Ok(&["load", "--header=A: b", "--header=C: d", "--unique"]));
        check("target = '{base}/x'", Ok(&["load", "--target=http://[::1]:80/x"]));
        check("rate = 200\nseconds = 0.5", Ok(&["load", "--rate=200", "--seconds=0.5"]));
        check("rate = { a = 1 }", Err(()));
    }

    #[test]
    fn the_suites_beside_this_file_are_sound() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites");
        let files: Vec<_> = folder.read_dir().expect("a folder").flatten().collect();
        assert!(files.len() >= 4, "{} suites", files.len());
        for file in files {
            let suite = read(&file.path()).expect("a suite");
            let needed: &[&str] = match suite.command.as_str() {
                "compare" => &["--pid-a=1", "--pid-b=1", "--a=x=http://127.0.0.1:1/"],
                _ => &[],
            };
            let arguments = expand(suite, "http://127.0.0.1:1").expect("options");
            let all = arguments.iter().map(String::as_str).chain(needed.iter().copied());
            crate::parse(all).expect("arguments of the command");
        }
    }
}
