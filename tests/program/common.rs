//! A running `hedgerow`, and what a test asks of it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_hedgerow");

/// How long anything may take here; a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that serves one core on free ports, with its standard error in a file.
pub(crate) struct Hedgerow {
    pub(crate) search: SocketAddr,
    pub(crate) admin: SocketAddr,
    folder: PathBuf,
    child: Child,
}

/// A folder of its own, with a `hedgerow.toml` that holds `text`.
pub(crate) fn folder(text: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("program-{}-{next}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder can be made");
    fs::write(folder.join("hedgerow.toml"), text).expect("the folder is writable");
    folder
}

/// An address that nobody listens at.
pub(crate) fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}

/// One core at these addresses; `more` is TOML that follows.
pub(crate) fn settings(search: SocketAddr, admin: SocketAddr, more: &str) -> String {
    format!(
        "[server]\ncores = \"1\"\ndrain_timeout_s = 5\n[admin]\naddress = \"{admin}\"\n\
         [[listen]]\naddress = \"{search}\"\n{more}"
    )
}

impl Hedgerow {
    /// Starts it through a shell, which may set limits and streams: `shell` holds `serve` where the
    /// program and its arguments go. It is not waited for.
    pub(crate) fn spawn(shell: &str, search: SocketAddr, admin: SocketAddr, more: &str) -> Self {
        let folder = folder(&settings(search, admin, more));
        let serve = format!("{PROGRAM} serve --config hedgerow.toml");
        let errors = File::create(folder.join("stderr")).expect("the folder is writable");
        let child = Command::new("sh")
            .args(["-c", &shell.replace("serve", &serve)])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .expect("a shell");
        Self { search, admin, folder, child }
    }

    /// As `spawn`, on free ports, and waits until it is ready.
    pub(crate) fn start(shell: &str, more: &str) -> Self {
        let mut hedgerow = Self::spawn(shell, free(), free(), more);
        hedgerow.until_ready();
        hedgerow
    }

    pub(crate) fn until_ready(&mut self) {
        let admin = self.admin;
        until("ready", || {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{ended:?}: {}", self.errors());
            get(admin, "/readyz") == Some(200)
        });
    }

    /// What it wrote to standard error so far.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Drains it with SIGTERM; how it ended.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.signal("TERM");
        wait(&mut self.child)
    }
}

impl Drop for Hedgerow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Signals a child that was not waited for yet.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(status.expect("kill(1) is there").success());
}

/// Waits for the end of a child.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let mut ended = None;
    until("the process ends", || {
        ended = child.try_wait().expect("a child");
        ended.is_some()
    });
    ended.expect("just seen")
}

/// Runs a shell's command line, in which `hedgerow` stands for the program, to its end.
pub(crate) fn shell(line: &str) -> Output {
    let line = line.replace("hedgerow ", &format!("{PROGRAM} "));
    Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output().expect("a shell")
}

/// The status of the answer to one GET; none: nobody answers.
pub(crate) fn get(at: SocketAddr, target: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(at).ok()?;
    ask(&mut stream, target)?.split(' ').nth(1)?.parse().ok()
}

/// The answer to one GET on a connection that is closed by it.
pub(crate) fn ask(stream: &mut TcpStream, target: &str) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Looks again until `is_so`.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a test of a process has real time")]
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        #[expect(clippy::disallowed_methods, reason = "waits for another process")]
        std::thread::sleep(Duration::from_millis(10));
    }
}
