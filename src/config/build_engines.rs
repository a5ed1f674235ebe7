//! Values to settings, second half: the engines and their manifests. Keys of engines come from the
//! environment only and are never shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::read::{Reader, Scope};
use super::settings::{Engine, EngineRole, Secret};
use super::{Surroundings, file, forms};
use crate::engines::manifest::{self, Manifest};
use crate::model::{Class, Endpoint};

/// `EngineId` is 16 bits wide, and tables by engine are small arrays.
const ENGINES_MAX: usize = 256;

/// `[[engine]]`, in order; one that cannot be built is left out and told.
pub(super) fn engines(reader: &mut Reader<'_>, around: &Surroundings<'_>) -> Vec<Engine> {
    let scopes = reader.elements("engine");
    if let Some(scope) = scopes.get(ENGINES_MAX) {
        reader.problems.add(scope.line, &scope.path, format!("more than {ENGINES_MAX} engines"));
    }
    let mut found: Vec<Engine> = Vec::new();
    for scope in scopes.into_iter().take(ENGINES_MAX) {
        let name = reader.text(&scope, "name");
        if !name.is_empty() && found.iter().any(|other| other.name == name) {
            reader.wrong(&scope, "name", format!("\"{name}\" is the name of an earlier engine"));
        }
        found.extend(engine(reader, &scope, name, around));
    }
    found
}

fn engine(
    reader: &mut Reader<'_>,
    scope: &Scope,
    name: String,
    around: &Surroundings<'_>,
) -> Option<Engine> {
    let manifest = manifest(reader, scope, around);
    let url = reader.url(scope, "url");
    let served = reader.texts(scope, "endpoints");
    let of_manifest = manifest.as_ref().map_or(1.0, |manifest| manifest.quality);
    let quality = reader.number_if(scope, "quality").unwrap_or(of_manifest);
    let by_class = scope.within("quality_by_class");
    let quality_by_class =
        Class::ALL.map(|class| reader.number_if(&by_class, class.name()).unwrap_or(quality));
    let role = match reader.text(scope, "role").as_str() {
        "last_chance" => EngineRole::LastChance,
        _ => EngineRole::Primary,
    };
    let in_flight_max = u32::try_from(reader.integer(scope, "in_flight_max")).unwrap_or(u32::MAX);
    let api_key = api_key(reader, scope, around);
    let min_useful = reader.span(scope, "min_useful_ms");
    let cacheable = reader.flag(scope, "cacheable");
    let connections_per_core = reader.size(scope, "connections_per_core");
    let values: BTreeMap<String, String> =
        reader.texts_by_name(&scope.within("values")).into_iter().collect();
    let manifest = manifest?;
    // What is wrong with a key that is named has been told already.
    unmet(reader, scope, &manifest, &values, !matches!(api_key, ApiKey::NotNamed));
    let api_key = match api_key {
        ApiKey::Is(key) => Some(key),
        ApiKey::NotNamed | ApiKey::Wrong => None,
    };
    Some(Engine {
        name,
        api_key,
        endpoints: Endpoint::ALL.map(|endpoint| served.iter().any(|w| w == endpoint.name())),
        quality,
        quality_by_class,
        min_useful,
        cacheable: cacheable && manifest.cacheable,
        connections_per_core,
        in_flight_max: (in_flight_max > 0).then_some(in_flight_max),
        role,
        values,
        manifest: Arc::new(manifest),
        url: url?,
    })
}

/// Tells what the manifest needs and the file does not give, or gives and the manifest has not.
fn unmet(
    reader: &mut Reader<'_>,
    scope: &Scope,
    manifest: &Manifest,
    values: &BTreeMap<String, String>,
    has_api_key: bool,
) {
    let engine = reader.text(scope, "name");
    for need in manifest.unmet(values, has_api_key) {
        let (key, what) = match need.as_str() {
            "api_key" => ("api_key_env", "name the environment variable that holds its key"),
            value => (value, "give it a text"),
        };
        let what = format!(
            "missing, and the adapter \"{}\" of engine \"{engine}\" needs it: {what}",
            manifest.name
        );
        reader.wrong(scope, key, what);
    }
    for name in values.keys().filter(|name| !manifest.values.contains_key(*name)) {
        let known: Vec<&str> = manifest.values.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let what = format!("the adapter \"{}\" has no such value; it has: {known}", manifest.name);
        reader.wrong(&scope.within("values"), name, what);
    }
}

/// A built-in manifest by its name, else the file at that path.
fn manifest(reader: &mut Reader<'_>, scope: &Scope, around: &Surroundings<'_>) -> Option<Manifest> {
    let adapter = reader.text_if(scope, "adapter")?;
    if let Some(manifest) = manifest::built_in(&adapter) {
        return Some(manifest);
    }
    let is_path = adapter.contains('/') || adapter.ends_with(".toml");
    if !is_path {
        let names = manifest::names();
        let adapter = forms::excerpt(&adapter);
        let near = names.iter().max_by(|a, b| {
            let near = |name: &str| strsim::jaro_winkler(name, &adapter);
            near(a).total_cmp(&near(b))
        });
        let hint = near.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
        let known = names.join(", ");
        let what = format!(
            "\"{adapter}\" is no built-in manifest{hint} Known: {known}; or the path of a file"
        );
        reader.wrong(scope, "adapter", what);
        return None;
    }
    let path = around.path(&adapter);
    let text = match file::read(&path) {
        Ok(text) => text,
        Err(unreadable) => {
            let what = format!("{}: {}", path.display(), unreadable.whole());
            reader.wrong(scope, "adapter", what);
            return None;
        }
    };
    match manifest::parse(&text) {
        Ok(manifest) => Some(manifest),
        Err(error) => {
            reader.wrong(scope, "adapter", format!("{}: {error}", path.display()));
            None
        }
    }
}

/// What `api_key_env` comes to.
enum ApiKey {
    /// It is absent or empty.
    NotNamed,
    /// The variable cannot be used; that is told.
    Wrong,
    /// What the variable holds.
    Is(Secret),
}

/// The key is sent exactly as the variable holds it: what would break a header is refused, not
/// mended in silence.
fn api_key(reader: &mut Reader<'_>, scope: &Scope, around: &Surroundings<'_>) -> ApiKey {
    let Some(variable) = reader.text_if(scope, "api_key_env") else {
        return ApiKey::NotNamed;
    };
    let fault = if !forms::is_variable(&variable) {
        // The text is not repeated: somebody may have put the key itself there.
        "it is no name of an environment variable (letters, digits and `_`); put the key into one, \
         and its name here"
            .to_owned()
    } else {
        let value = (around.env)(&variable).map(|value| value.into_string());
        match value {
            None => format!("the environment has no variable {variable}; set it"),
            Some(Err(_)) => format!("the variable {variable} is not valid UTF-8; set it anew"),
            Some(Ok(key)) => match forms::secret_fault(&key) {
                None => return ApiKey::Is(Secret::new(key)),
                Some(fault) => format!("the variable {variable} {fault}"),
            },
        }
    };
    reader.wrong(scope, "api_key_env", fault);
    ApiKey::Wrong
}
