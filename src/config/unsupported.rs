//! What a configuration may ask for and this program does not do yet: right by `check`, refused by
//! `serve`, so that one file serves several versions.

use runtime::Backend;

use super::{Settings, cores};

impl Settings {
    /// Each thing that `serve` cannot do, a sentence that names the key; empty: it can do all.
    pub fn unsupported(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (index, listen) in self.listen.iter().enumerate() {
            if listen.tls.is_some() {
                found.push(format!("listen[{index}].tls: TLS listeners are not served yet"));
            }
            if listen.redirect {
                let what = "\"redirect\" is not served yet; leave it out";
                found.push(format!("listen[{index}].serves: {what}"));
            }
        }
        if self.regional.url.is_some() {
            found.push("regional.url: no shared store is used yet; leave it empty".to_owned());
        }
        if self.server.reactor == Backend::Glommio && !cfg!(feature = "glommio") {
            let what = "this program was built without the feature \"glommio\"";
            found.push(format!("server.reactor: {what}"));
        }
        for (index, engine) in self.engines.iter().enumerate() {
            if engine.url.scheme() != "http" {
                let what = "engines are reached by http only; put a TLS proxy in front of it";
                found.push(format!("engine[{index}].url: {what}"));
            }
        }
        let allowed = cores::allowed();
        for cpu in self.server.cpus.iter().filter(|cpu| !allowed.contains(cpu)) {
            found.push(format!("server.cores: this process may not run on processor {cpu}"));
        }
        found
    }
}
