//! A running instance in this process, on free ports.

use std::net::{SocketAddr, TcpListener};

use hedgerow::{boot, config};

use super::engine::Engine;
use super::http;

/// An instance and where it is.
pub(crate) struct Instance {
    pub(crate) search: SocketAddr,
    pub(crate) admin: SocketAddr,
    instance: Option<boot::Instance>,
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address")
}

impl Instance {
    /// Starts `cores` cores over `engines` (the first by far the best), and waits until it is
    /// ready. `more` is TOML that follows.
    pub(crate) fn start(cores: usize, engines: &[&Engine], more: &str) -> Self {
        let (search, admin) = (free(), free());
        let mut text = format!(
            "[server]\ncores = \"{cores}\"\ndrain_timeout_s = 5\n[admin]\naddress = \"{admin}\"\n\
             [[listen]]\naddress = \"{search}\"\nserves = [\"search\"]\n\
             [plans.pro.lite]\nburst = 100000\nper_second = 100000.0\n\
             [plans.pro.fast]\nburst = 100000\nper_second = 100000.0\n\
             [plans.small.fast]\nburst = 25\nper_second = 0.5\n\
             [[key]]\nname = \"demo\"\nplan = \"pro\"\n\
             sha256 = \"2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea\"\n\
             [[key]]\nname = \"small\"\nplan = \"small\"\n\
             sha256 = \"{SMALL}\"\n"
        );
        for (index, engine) in engines.iter().enumerate() {
            let quality = if index == 0 { 1000.0 } else { 0.001 };
            text.push_str(&format!(
                "[[engine]]\nname = \"e{index}\"\nadapter = \"searxng\"\n\
                 url = \"http://{}\"\nquality = {quality:?}\n",
                engine.address
            ));
        }
        text.push_str(more);
        let settings = config::parse(&text, "wire.toml", &|_| None)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let instance = boot::start(settings).unwrap_or_else(|error| panic!("{error}"));
        http::until("ready", || http::get(admin, "/readyz").statuses() == [200]);
        Self { search, admin, instance: Some(instance) }
    }

    pub(crate) fn ask(&self, question: &str) -> http::Came {
        http::get(self.search, &format!("/search/fast?q={}", question.replace(' ', "+")))
    }

    /// Begins the drain and waits for its end.
    pub(crate) fn end(mut self) -> Result<(), boot::BootError> {
        let instance = self.instance.take().expect("ended once");
        instance.drain();
        instance.wait()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(instance) = self.instance.take() {
            instance.drain();
            let _ = instance.wait();
        }
    }
}

/// SHA-256 of `small`.
const SMALL: &str = "81db8ebbbbc69c6c6ad4a6aa92b76e0c08af547da236b9e2c9dbe1d8285a8130";
