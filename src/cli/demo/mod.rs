//! What `hedgerow demo` needs beside an instance: three embedded engines on loopback that search
//! real text, the configuration that uses them, and a greeting. No Redis, no network, no keys.
//!
//! The engines share one ordinary thread with a tokio runtime of its own: like `control`, the demo
//! is off the path. It must never listen anywhere but on loopback.

mod command;
mod corpus;
mod engine;
mod greeting;
mod index;
mod law;
mod markup;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub use command::{Options, run};
use engine::{CHARACTERS, Character};
use index::Index;

/// The seed of a demo that is not told another. Chosen so that the greeting's questions show
/// hedges: see `the_greetings_questions_show_hedges`.
pub const SEED: u64 = 3_023;

/// Why the embedded engines do not run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The folder cannot be read.
    #[error("--corpus {0}: {1}")]
    Corpus(PathBuf, io::Error),
    /// The folder has nothing to search.
    #[error("--corpus {0}: no .txt, .md or .html file of at most 2 MiB in it")]
    Empty(PathBuf),
    /// No loopback port, or no thread.
    #[error("embedded engines: {0}")]
    System(#[from] io::Error),
}

/// The running engines. Dropping it ends them, their connections and their thread.
pub struct Embedded {
    /// Names and addresses, in the order of the configuration.
    pub engines: Vec<(String, SocketAddr)>,
    sections: usize,
    skipped: usize,
    questions: Vec<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Reads the corpus (the project's documents, or a folder of `.txt`, `.md` and `.html` files: at
/// most 20,000, 256 MiB, 2 MiB each) and starts the engines. They listen when this returns. The
/// same seed makes the same questions slow on the same engines.
///
/// # Errors
/// A folder that cannot be read or has nothing to search; no loopback port, or no thread.
pub fn start(folder: Option<&Path>, seed: u64) -> Result<Embedded, DemoError> {
    let corpus = folder.map_or_else(|| Ok(corpus::built_in()), corpus::folder)?;
    let questions = match folder {
        None => greeting::questions(),
        Some(_) => greeting::questions_for(&corpus.sections),
    };
    let sections = corpus.sections.len();
    let index = Arc::new(Index::new(corpus.sections));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut engines = Vec::with_capacity(CHARACTERS.len());
    for character in CHARACTERS {
        let address = serve(&runtime, character, index.clone(), seed)?;
        engines.push((character.name.to_owned(), address));
    }
    let (stop, stopped) = oneshot::channel();
    let run = move || {
        // Told to stop, or the sender is gone: the same.
        let _ = runtime.block_on(stopped);
    };
    let thread = std::thread::Builder::new().name("demo-engines".to_owned()).spawn(run)?;
    let skipped = corpus.skipped;
    let (stop, thread) = (Some(stop), Some(thread));
    Ok(Embedded { engines, sections, skipped, questions, stop, thread })
}

/// Listens on a free loopback port and serves there for as long as the runtime runs.
fn serve(
    runtime: &Runtime,
    character: Character,
    index: Arc<Index>,
    seed: u64,
) -> io::Result<SocketAddr> {
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    // Without it the last segment of an answer may wait 40 ms for an acknowledgement. A connection
    // that cannot be told so still works.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let service = engine::service(character, index, seed);
    runtime.spawn(async move { axum::serve(listener, service).await });
    Ok(address)
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The configuration of an instance in front of the engines, as the text of a `hedgerow.toml`: one
/// listener and the admin listener on loopback, key `demo`, plan `pro`.
pub fn config(embedded: &Embedded, port: u16, admin_port: u16) -> String {
    let mut text = format!(
        r#"[server]
instance = "demo"
drain_timeout_s = 2

[admin]
address = "127.0.0.1:{admin_port}"

[[listen]]
address = "127.0.0.1:{port}"
serves = ["search"]

[hedge]
# 420 by default. Lower here, so that a hedge is seen sooner; from 100 answers of an engine on the
# delay follows what was measured.
delay_initial_ms = 200

[plans.pro.lite]
burst = 2000
per_second = 1000.0
[plans.pro.fast]
burst = 2000
per_second = 1000.0

[[key]]
name = "demo"
sha256 = "2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea" # of "demo"
plan = "pro"
"#
    );
    for ((name, address), character) in embedded.engines.iter().zip(CHARACTERS) {
        text.push_str(&format!(
            "\n[[engine]]\nname = \"{name}\"\nadapter = \"searxng\"\nurl = \"http://{address}\"\n\
             quality = {:?}\n",
            character.quality
        ));
    }
    text
}

/// What to print once the instance runs: what there is, three commands to try, how to stop.
pub fn greeting(embedded: &Embedded, port: u16, admin_port: u16) -> String {
    let Embedded { sections, skipped, questions, .. } = embedded;
    greeting::text(*sections, *skipped, questions, port, admin_port)
}

#[cfg(test)]
mod tests;
