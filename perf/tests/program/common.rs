//! What the tests of the program need: the program itself, and a server that lives as long as the
//! test. They know nothing of its inside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// No answer takes longer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// Runs `hedgerow-perf` to its end.
pub(crate) fn perf(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the program runs")
}

/// What the program printed.
pub(crate) fn printed(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{}\n{out}{err}", output.status)
}

/// A JSON report that the program wrote into a new file, and what it printed.
pub(crate) fn report(name: &str, arguments: &[&str]) -> (serde_json::Value, Output) {
    let folder = std::env::temp_dir().join(format!("hedgerow-perf-{}", std::process::id()));
    let path = folder.join(format!("{name}.json"));
    let path_text = path.to_str().expect("a path in UTF-8");
    let output = perf(&[arguments, &["--json", path_text]].concat());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", printed(&output)));
    std::fs::remove_file(&path).expect("the file was there");
    (serde_json::from_str(&text).expect("JSON"), output)
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hedgerow-perf"))
}

/// A running `hedgerow-perf engine` on a free port.
pub(crate) struct Engine {
    child: Child,
    pub(crate) address: String,
}

impl Engine {
    /// Starts one and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = program()
            .args(["engine", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address = line
            .strip_prefix("engine on http://")
            .and_then(|rest| rest.split_once('/'))
            .unwrap_or_else(|| panic!("no address in {line:?}"));
        Self { address: address.0.to_owned(), child }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// A connection to it.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the engine listens");
        stream.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a valid time");
        stream
    }

    /// Asks for `path` on a new connection; gives the status line and the body.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n"))
    }

    /// Sends `request` on a new connection, and reads to its end.
    pub(crate) fn ask(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the engine reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the engine answers");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    /// Its statistics, once `is_wanted` holds of them.
    pub(crate) fn stats_when(
        &self,
        is_wanted: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        // Each look is a round trip; an engine that never gets there fails the test.
        for _ in 0..20_000 {
            let stats = serde_json::from_str(&self.get("/stats").1).expect("JSON");
            if is_wanted(&stats) {
                return stats;
            }
        }
        panic!("the statistics never became what was wanted");
    }

    /// Ends it in-band, and waits for its end.
    pub(crate) fn quit(mut self) {
        assert!(self.get("/quit").0.contains("200"));
        assert!(self.child.wait().expect("a child").success());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
