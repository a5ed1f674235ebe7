//! What a configuration may ask for and this program does not do yet: right by `check`, refused by
//! `serve`, so that one file serves several versions.

use runtime::Backend;

use super::Settings;

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
        for section in &self.idle_sections {
            let what = match *section {
                "regional" if self.regional.url.is_some() => continue,
                "regional" => "no shared store is used in this version",
                "origin" => "there is no `hedgerow origin` in this version",
                "peer" => "other gateways are not asked in this version",
                _ => "short links are not served in this version",
            };
            found.push(format!("{section}: {what}; leave the section out"));
        }
        found
    }
}
