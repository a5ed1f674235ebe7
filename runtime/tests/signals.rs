//! Signals raise flags and ring. One test, because handlers belong to the whole process.

use std::process::{self, Command};

use runtime::{CoreOptions, Reactor, bell, run, signal};

#[test]
fn a_signal_raises_its_flag_and_rings() {
    let (ringer, seed) = bell().expect("a bell");
    let signals = signal::listen(ringer.clone()).expect("the first time");
    signal::listen(ringer).expect_err("handlers are installed once");
    let main = |reactor: Reactor| async move {
        let mut bell = reactor.attach(seed);
        assert!(!signals.has_any());
        send("HUP");
        while !signals.has_any() {
            bell.wait(|| signals.has_any()).await;
        }
        assert!(signals.take_reload() && !signals.take_reload() && !signals.is_stopping());
        for name in ["TERM", "INT"] {
            send(name);
            while !signals.is_stopping() {
                bell.wait(|| signals.has_any()).await;
            }
        }
        assert!(signals.is_stopping(), "who is told to stop stops");
    };
    run(CoreOptions::default(), main).expect("a core");
}

/// Signals this process, from outside of it.
fn send(name: &str) {
    let status = Command::new("kill").args(["-s", name, &process::id().to_string()]).status();
    assert!(status.expect("kill(1) is there").success());
}
