//! What is refused before anything is served, and by which exit status.

use std::fs;
use std::net::TcpListener;

use crate::common::{Hedgerow, folder, free, get, shell, until};

/// `check` and `serve` both refuse `text` with status 2, and say `expected`.
fn check(text: &str, expected: &str) {
    let folder = folder(text);
    let path = folder.join("hedgerow.toml");
    for command in ["check", "serve"] {
        let output = shell(&format!("hedgerow {command} --config {}", path.display()));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {told}");
        assert!(told.contains(expected), "{command}: {told}");
    }
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn cores_that_are_not_there_are_refused() {
    check("[server]\ncores = \"999\"", "server.cores: 999 cores are too many: this process may");
    check("[server]\ncores = \"1023\"", "server.cores: 1023 cores are too many");
    check("[server]\ncores = \"0,1023\"", "server.cores: there ");
    check("[server]\ncores = \"0,0\"", "server.cores: processor 0 stands there twice");
    let output = shell("hedgerow demo --cores 999");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("999 cores are too many") && told.contains("--cores"), "{told}");
    let output = shell("hedgerow demo --port 8080 --admin-port 8080");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_key_of_the_environment_that_is_no_text_is_refused() {
    let engine = "[[engine]]\nname = \"b\"\nadapter = \"brave\"\nurl = \"http://127.0.0.1:1\"\n";
    let folder = folder(&format!("{engine}api_key_env = \"K\""));
    let path = folder.join("hedgerow.toml");
    for (value, expected) in [
        ("'hush\n'", "the variable K ends with a line break"),
        ("\"$(printf 'hush\\377')\"", "the variable K is not valid UTF-8"),
        ("hush", ""),
    ] {
        let output = shell(&format!("K={value} hedgerow check --config {}", path.display()));
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(expected) && !told.contains("hush"), "{told}");
        assert_eq!(output.status.success(), expected.is_empty(), "{told}");
    }
    let _ = fs::remove_dir_all(folder);
}

/// It starts though both addresses are taken, if their holders leave soon.
#[test]
fn an_address_whose_holder_ends_is_waited_for() {
    let search = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let admin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = (search.local_addr().expect("bound"), admin.local_addr().expect("bound"));
    let mut hedgerow = Hedgerow::spawn("exec serve", at.0, at.1, "");
    for (holder, at) in [(admin, at.1), (search, at.0)] {
        let told = format!("the address is in use; it is tried again for a second at={at}");
        until(&told, || hedgerow.errors().contains(&told));
        drop(holder);
    }
    hedgerow.until_ready();
    assert_eq!(get(hedgerow.search, "/"), Some(404));
    assert_eq!(hedgerow.end().code(), Some(0));
}

#[test]
fn an_address_that_stays_taken_is_told() {
    let search = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = search.local_addr().expect("bound");
    let hedgerow = Hedgerow::spawn("exec serve", at, free(), "");
    let told = format!("hedgerow cannot start: listen.address {at}: Address already in use");
    until(&told, || hedgerow.errors().contains(&told));
}
