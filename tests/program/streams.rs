//! Standard streams that nobody reads, or that cannot be written.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::common::{Hedgerow, PROGRAM, folder, free, get, settings, shell, signal, until, wait};

#[test]
fn serving_does_not_depend_on_standard_error() {
    for shell in ["exec serve 2>/dev/full", "exec serve 2>&-", "exec serve >&- 2>&- <&-"] {
        let hedgerow = Hedgerow::start(shell, "");
        hedgerow.signal("HUP");
        assert_eq!(get(hedgerow.search, "/"), Some(404), "{shell}");
        assert_eq!(hedgerow.end().code(), Some(0), "{shell}");
    }
}

#[test]
fn a_log_file_at_its_limit_of_size_is_no_end() {
    let hedgerow = Hedgerow::start("ulimit -f 0; exec serve", "");
    hedgerow.signal("HUP");
    assert_eq!(get(hedgerow.search, "/"), Some(404));
    assert_eq!(hedgerow.errors(), "");
    assert_eq!(hedgerow.end().code(), Some(0));
}

#[test]
fn a_filter_of_log_lines_that_is_none_is_told() {
    let hedgerow = Hedgerow::start("HEDGEROW_LOG=hedgerow=loud exec serve", "");
    let told = hedgerow.errors();
    assert!(told.contains("HEDGEROW_LOG is no filter") && told.contains("INFO"), "{told}");
    assert!(!told.contains('\u{1b}'), "colours are for terminals: {told:?}");
}

/// Its status, its code, its name and its time; nothing of what was asked, with which key.
#[test]
fn each_refusal_is_a_line_where_that_is_wanted() {
    let ask = |at, target: &str| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-API-Key: hush\r\n");
        let more = "X-Request-Id: mine-1\r\nConnection: close\r\n\r\n";
        stream.write_all((head + more).as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.contains("mine-1"), "{answer}");
    };
    let hedgerow = Hedgerow::start("HEDGEROW_LOG=hedgerow=debug exec serve", "");
    ask(hedgerow.search, "/search/fast?q=secret");
    until("the line", || hedgerow.errors().contains("refused"));
    let told = hedgerow.errors();
    let line = told.lines().find(|line| line.contains("refused")).unwrap_or_default();
    for part in ["DEBUG", "status=401", "code=\"unauthorized\"", "request_id=\"mine-1\"", "own_us="]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    for part in ["secret", "hush", "127.0.0.1"] {
        assert!(!line.contains(part), "{part}: {line}");
    }
    let hedgerow = Hedgerow::start("exec serve", "");
    ask(hedgerow.search, "/search/fast?q=secret");
    assert!(!hedgerow.errors().contains("refused"));
}

/// Serves with standard error going to `errors`, and drains; the exit status.
fn served(errors: impl Into<Stdio>) -> Option<i32> {
    let (search, admin) = (free(), free());
    let folder = folder(&settings(search, admin, ""));
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--config", "hedgerow.toml"])
        .current_dir(&folder)
        .stderr(errors)
        .spawn()
        .expect("the program is built");
    until("ready", || get(admin, "/readyz") == Some(200));
    signal(&child, "HUP");
    assert_eq!(get(search, "/"), Some(404));
    signal(&child, "TERM");
    let status = wait(&mut child);
    let _ = fs::remove_dir_all(folder);
    status.code()
}

#[test]
fn a_reader_of_standard_error_may_be_gone() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(served(writer), Some(0));
}

#[test]
fn a_reader_of_standard_error_may_stand_still() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // What a pipe holds on Linux, in pages of 4 KiB: the next write waits for the reader.
    writer.write_all(&[b'x'; 65_536]).expect("room");
    assert_eq!(served(writer), Some(0));
    drop(reader);
}

/// The command line, in which standard output cannot be written, ends quietly.
fn check(line: &str, expected: &[i32]) {
    let output = shell(line);
    let code = output.status.code().unwrap_or(-1);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(expected.contains(&code) && !told.contains("panic"), "{line}: {code}: {told}");
}

#[test]
fn commands_that_print_end_quietly_when_nobody_reads() {
    for command in ["check", "check --print-keys", "check --print-metrics", "--help", "--version"] {
        check(&format!("hedgerow {command} >/dev/full"), &[0, 1]);
        check(&format!("hedgerow {command} >&-"), &[0, 1]);
        check(&format!("{{ hedgerow {command}; echo $? >&2; }} 2>&1 | :"), &[0]);
    }
    check("hedgerow check --config /nowhere 2>/dev/full", &[2]);
    check("hedgerow serve --config /nowhere 2>/dev/full", &[2]);
    check("hedgerow serve --config /nowhere 2>&-", &[2]);
    check("hedgerow demo --corpus /nowhere 2>/dev/full", &[1]);
    check("hedgerow no-such-command 2>/dev/full", &[2]);
}

#[test]
fn a_demo_whose_greeting_cannot_be_written_serves() {
    let (search, admin) = (free(), free());
    let ports = [search.port().to_string(), admin.port().to_string()];
    let [port, admin_port] = &ports;
    let line = format!(
        "exec {PROGRAM} demo --cores 1 --port {port} --admin-port {admin_port} >/dev/full 2>&1"
    );
    let mut child = Command::new("sh").args(["-c", &line]).spawn().expect("a shell");
    until("ready", || get(admin, "/readyz") == Some(200));
    signal(&child, "TERM");
    assert_eq!(wait(&mut child).code(), Some(0));
}
