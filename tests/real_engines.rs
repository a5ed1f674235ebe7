//! The binary in front of engines that are no mocks: a MediaWiki and a SearXNG, started by
//! `scripts/real-engines up DIR`; `REAL_ENGINES_DIR` names the folder. Without it there is nothing
//! to test, which is a failure in CI and a printed line elsewhere.
//!
//! It freezes SearXNG for a moment and lets it go on: the engines are as before at the end.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Where the engines are.
struct Engines {
    folder: PathBuf,
    wiki: String,
    searxng: String,
}

impl Engines {
    /// `None` where there are none, and there need not be.
    #[expect(clippy::print_stdout, reason = "a test that tests nothing says so")]
    fn find() -> Option<Self> {
        let Some(folder) = std::env::var_os("REAL_ENGINES_DIR").map(PathBuf::from) else {
            assert!(std::env::var_os("CI").is_none(), "CI must set REAL_ENGINES_DIR");
            println!("skipped: REAL_ENGINES_DIR is not set; see scripts/real-engines");
            return None;
        };
        let urls = fs::read_to_string(folder.join("urls")).expect("the engines are up");
        let url = |name: &str| {
            let line = urls.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.expect("urls names both engines").to_owned()
        };
        Some(Self { wiki: url("wiki"), searxng: url("searxng"), folder })
    }

    /// Sends a signal to SearXNG and all its workers.
    fn signal_searxng(&self, signal: &str) {
        let pid = fs::read_to_string(self.folder.join("searxng.pid")).expect("SearXNG is up");
        let group = format!("-{}", pid.trim());
        let status = Command::new("kill").args([signal, "--", &group]).status();
        assert!(status.expect("kill runs").success(), "kill {signal} {group}");
    }
}

/// A running `hedgerow serve`, ended when dropped.
struct Hedgerow {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Drop for Hedgerow {
    fn drop(&mut self) {
        // Both fail only where there is nothing left to end or remove.
        let _ = self.process.kill().and_then(|()| self.process.wait().map(drop));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}

/// The status and body of one GET; `None` if nobody answers.
fn get(port: u16, target: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let head = "Host: localhost\r\nAuthorization: Bearer demo\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("GET {target} HTTP/1.1\r\n{head}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

impl Hedgerow {
    /// Starts one core in front of the engines of the given TOML tables, and waits until it is
    /// ready.
    fn start(name: &str, engines: &str) -> Self {
        let (port, admin) = (free_port(), free_port());
        let folder = std::env::temp_dir().join(format!("real-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder can be made");
        let config = folder.join("hedgerow.toml");
        fs::write(&config, config_text(port, admin, engines)).expect("the folder is writable");
        let process = Command::new(env!("CARGO_BIN_EXE_hedgerow"))
            .args([Path::new("serve"), Path::new("--config"), &config])
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary is built");
        let hedgerow = Self { process, port, folder };
        let is_ready = || get(admin, "/readyz").is_some_and(|(status, _)| status == 200);
        assert!((0..300).any(|_| is_ready() || pause()), "hedgerow became ready within 15 s");
        hedgerow
    }

    fn ask(&self, query: &str) -> Value {
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (_, body) = get(self.port, &format!("/search/fast?q={query}")).expect("it answers");
        serde_json::from_str(&body).expect("an answer is JSON")
    }
}

/// 50 ms; always `false`.
#[expect(clippy::disallowed_methods, reason = "waits for another process, in real time")]
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(50));
    false
}

fn config_text(port: u16, admin: u16, engines: &str) -> String {
    // The sum is that of "demo".
    format!(
        r#"
[server]
cores = "1"
[admin]
address = "127.0.0.1:{admin}"
[[listen]]
address = "127.0.0.1:{port}"
serves = ["search"]
[plans.pro.fast]
burst = 1000
per_second = 1000.0
[[key]]
name = "demo"
sha256 = "2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea"
plan = "pro"
{engines}"#
    )
}

fn searxng(engines: &Engines, more: &str) -> String {
    let url = &engines.searxng;
    format!("[[engine]]\nname = \"searxng\"\nadapter = \"searxng\"\nurl = \"{url}\"\n{more}\n")
}

fn wiki(engines: &Engines, more: &str) -> String {
    let url = &engines.wiki;
    let values = "values = { api_path = \"/api.php\" }";
    format!(
        "[[engine]]\nname = \"wiki\"\nadapter = \"mediawiki\"\nurl = \"{url}\"\n{values}\n{more}\n"
    )
}

/// What every result of a real engine must be by now: plain, whole and in order.
fn check_results(answer: &Value, engine: &str, status: &str) {
    assert_eq!(answer["cache"]["status"], status, "{answer}");
    let results = answer["results"].as_array().expect("an answer has results");
    assert!(!results.is_empty(), "{answer}");
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["position"], index + 1);
        assert_eq!(result["engine"], engine, "{result}");
        let text = |field: &str| result[field].as_str().expect("texts are never null");
        assert!(text("url").starts_with("http") && !text("title").is_empty(), "{result}");
        let all = format!("{} {}", text("title"), text("snippet"));
        for markup in ["<span", "searchmatch", "&lt;", "&quot;", "&#0", "'''", "[[", "]]"] {
            let is_clean =
                !all.contains(markup) || engine == "searxng" && markup.contains(['[', ']']);
            assert!(is_clean, "{markup} in {result}");
        }
    }
}

#[test]
fn a_wiki_answers_and_its_pages_exist() {
    let Some(engines) = Engines::find() else {
        return;
    };
    let hedgerow = Hedgerow::start("wiki", &wiki(&engines, ""));
    let answer = hedgerow.ask("operating system");
    check_results(&answer, "wiki", "miss");
    let url = answer["results"][0]["url"].as_str().expect("checked above");
    let path = url.strip_prefix(&engines.wiki).expect("the page is the wiki's");
    let port = engines.wiki.rsplit(':').next().and_then(|port| port.parse().ok());
    let page = get(port.expect("the wiki's address has a port"), path);
    assert_eq!(page.map(|(status, _)| status), Some(200), "{url}");
    check_results(&hedgerow.ask("operating system"), "wiki", "hit");
    let nothing = hedgerow.ask("\"zxcvbqq plmokn\"");
    assert_eq!(nothing["results"], Value::Array(Vec::new()), "an exact phrase that nobody wrote");
    assert_eq!(hedgerow.ask("zxcvbqq")["code"], "no_valid_answer");
}

/// One test, because a frozen SearXNG would disturb another one.
#[test]
fn a_searxng_answers_and_freezing_it_costs_a_hedge_and_no_answer() {
    let Some(engines) = Engines::find() else {
        return;
    };
    let hedgerow = Hedgerow::start("searxng", &searxng(&engines, ""));
    check_results(&hedgerow.ask("compiler"), "searxng", "miss");
    check_results(&hedgerow.ask("compiler"), "searxng", "hit");
    // Unquoted, each of these is obeyed: the first is a redirect to another site.
    for command in ["!!w", ":fr", "<1", "!gl", "!!"] {
        let answer = hedgerow.ask(&format!("{command} \"network protocol nobody wrote\""));
        assert_eq!(answer["engines"][0]["status"], "empty", "{command}: {answer}");
    }
    check_freezing(&engines);
}

fn check_freezing(engines: &Engines) {
    let both = searxng(engines, "quality = 1000.0") + &wiki(engines, "quality = 0.001");
    let hedge = "[hedge]\ndelay_initial_ms = 150\ndelay_min_ms = 150\n";
    let router = "[router]\nexploration_ratio = 0.0\n";
    let hedgerow = Hedgerow::start("both", &format!("{hedge}{router}{both}"));
    engines.signal_searxng("-STOP");
    let answer = hedgerow.ask("memory");
    engines.signal_searxng("-CONT");
    check_results(&answer, "wiki", "miss");
    let legs = answer["engines"].as_array().expect("fast says which engines it asked");
    let leg = |name: &str| {
        let leg = legs.iter().find(|leg| leg["name"] == name).expect("both were asked");
        format!("{} {}", leg["role"], leg["status"])
    };
    assert_eq!(leg("searxng"), "\"primary\" \"cancelled\"", "{answer}");
    assert_eq!(leg("wiki"), "\"hedge\" \"valid\"", "{answer}");
}
