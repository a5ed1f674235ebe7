//! Stage 2, the compiler: a request's fields become a `Plan`, or a list of everything that is wrong
//! with them. Pure: no clock, no chance, nothing of the caller but what was asked.
//!
//! Two requests that mean the same get the same key: case, width, white space, the order of
//! operators and tracking parameters do not count; the endpoint, filters, language and region do.
//! What depends on the caller (deadline, cache mode, how many results) stays out of the key, but
//! for the bucket that the number of results falls into. A request's cost is bounded by the edge's
//! limits on target and body, and by `fields::FIELDS_MAX`.

mod fields;
mod values;
mod wanted;
mod normalise;
mod operators;
mod key;
mod classify;
mod memo;

use std::rc::Rc;
use std::time::Duration;

use crate::address::is_within;
use crate::config::settings::Settings;
use crate::head::{Head, Method};
use crate::model::{Endpoint, FieldError, Plan, Refusal};

use classify::Classifier;
use fields::Errors;
use memo::Memo;
use values::Served;
use wanted::Wanted;

/// What compiling needs of the settings, and the classifier's tables. One per core.
pub struct Compiler {
    engines: Vec<Served>,
    classifier: Classifier,
    memo: Memo,
}

/// A request as this stage sees it: bytes, the headers that say what the body is, and those that
/// carry fields.
struct Asked<'a> {
    is_post: bool,
    query: &'a [u8],
    body: &'a [u8],
    content_type: Option<&'a [u8]>,
    content_encoding: Vec<&'a [u8]>,
    deadline_ms: Vec<&'a [u8]>,
    cache_control: Vec<&'a [u8]>,
}

impl Asked<'_> {
    /// Whether nothing but the query string says what is asked.
    fn is_steered_by_query_alone(&self) -> bool {
        !self.is_post && self.deadline_ms.is_empty() && self.cache_control.is_empty()
    }
}

impl Compiler {
    /// Takes the engines' names and builds the word tables (about 10 ms).
    pub fn new(settings: &Settings) -> Self {
        let engines = settings
            .engines
            .iter()
            .map(|engine| Served { name: engine.name.clone(), endpoints: engine.endpoints })
            .collect();
        Self { engines, classifier: Classifier::new(), memo: Memo::new() }
    }

    /// Makes the plan of a search: the fields come from the query string, or from the JSON body of
    /// a POST. A query string seen lately is not compiled again.
    ///
    /// # Errors
    /// `UnsupportedMediaType` for a POST that is not JSON or is compressed, `Invalid` with every
    /// wrong field.
    pub fn compile(
        &self,
        endpoint: Endpoint,
        head: &Head<'_>,
        body: &[u8],
    ) -> Result<Rc<Plan>, Refusal> {
        let asked = Asked {
            is_post: head.method == Method::Post,
            query: head.query,
            body,
            content_type: head.headers.get("content-type"),
            content_encoding: head.headers.all("content-encoding").collect(),
            deadline_ms: head.headers.all("x-deadline-ms").collect(),
            cache_control: head.headers.all("cache-control").collect(),
        };
        if !asked.is_steered_by_query_alone() {
            return self.compile_asked(endpoint, &asked).map(Rc::new);
        }
        if let Some(plan) = self.memo.get(endpoint, asked.query) {
            return Ok(plan);
        }
        let plan = Rc::new(self.compile_asked(endpoint, &asked)?);
        self.memo.keep(endpoint, asked.query, &plan);
        Ok(plan)
    }

    fn compile_asked(&self, endpoint: Endpoint, asked: &Asked<'_>) -> Result<Plan, Refusal> {
        let is_plain_json =
            || fields::is_json(asked.content_type) && fields::is_uncoded(&asked.content_encoding);
        if asked.is_post && !is_plain_json() {
            return Err(Refusal::UnsupportedMediaType);
        }
        let mut errors = Errors::default();
        let mut warnings = Vec::new();
        let given = if asked.is_post {
            if !asked.query.is_empty() {
                warnings.push("query string ignored: the fields of a POST are in its body".into());
            }
            fields::from_body(asked.body, &mut errors)
        } else {
            fields::from_query(asked.query, &mut errors)
        };
        let mut wanted = Wanted::read(given, endpoint, &self.engines, &mut errors, &mut warnings);
        wanted.read_headers(&asked.deadline_ms, &asked.cache_control, &mut errors);
        let plan = self.plan(endpoint, wanted, warnings, &mut errors);
        match plan {
            Some(plan) if errors.is_empty() => Ok(plan),
            _ => Err(Refusal::Invalid(errors.into_list())),
        }
    }

    /// The plan of fields that are right each; `None` if they contradict each other, or if there is
    /// no query.
    fn plan(
        &self,
        endpoint: Endpoint,
        wanted: Wanted,
        warnings: Vec<String>,
        errors: &mut Errors,
    ) -> Option<Plan> {
        let query = wanted.query.take()?;
        let normal = normalise::normalise(&query);
        let include_domains = narrowed(wanted.include_domains.take(), normal.sites, errors);
        let mut exclude_domains = wanted.exclude_domains.take().unwrap_or_default();
        exclude_domains.extend(normal.excluded_sites);
        exclude_domains.sort();
        exclude_domains.dedup();
        let max_results = wanted.max_results.take().unwrap_or(match endpoint {
            Endpoint::Lite => 5,
            Endpoint::Fast => 10,
        });
        let lang = wanted.lang.take().flatten();
        let mut plan = Plan {
            endpoint,
            class: self.classifier.classify(&normal.text),
            may_be_empty: normal.has_phrase || !include_domains.is_empty(),
            query,
            normalised: normal.text,
            max_results,
            bucket: bucket(max_results),
            country: wanted.region.take().flatten(),
            lang,
            time_range: wanted.time_range.take(),
            safe_search: wanted.safe_search.take().unwrap_or_default(),
            include_domains,
            exclude_domains,
            include_media: wanted.include_media.take().unwrap_or(false),
            engines: wanted.engines.take().flatten(),
            timeout: wanted.timeout_ms.take().map(Duration::from_millis),
            cache: wanted.cache.take().unwrap_or_default(),
            key: crate::model::Key([0; 32]),
            warnings,
        };
        plan.key = key::key(&plan, &self.engines);
        debug_assert!((1..=plan.bucket).contains(&plan.max_results), "the bucket holds the slice");
        Some(plan)
    }
}

/// How many results are fetched and stored for a request of `max_results` (1..=50).
const fn bucket(max_results: usize) -> usize {
    match max_results {
        0..=10 => 10,
        11..=20 => 20,
        _ => 50,
    }
}

/// The hosts that satisfy both the field and the query's `site:`; empty is no restriction.
fn narrowed(field: Option<Vec<String>>, sites: Vec<String>, errors: &mut Errors) -> Vec<String> {
    let field = field.unwrap_or_default();
    let mut hosts = match (field.is_empty(), sites.is_empty()) {
        (_, true) => field,
        (true, false) => sites,
        (false, false) => {
            let below =
                |of: &[String], host: &String| of.iter().any(|domain| is_within(host, domain));
            let mut both: Vec<String> =
                sites.iter().filter(|site| below(&field, site)).cloned().collect();
            both.extend(field.iter().filter(|host| below(&sites, host)).cloned());
            if both.is_empty() {
                errors.push("include_domains", "shares no host with site: in the query; drop one");
            }
            both
        }
    };
    hosts.sort();
    hosts.dedup();
    hosts
}

#[cfg(test)]
mod tests;
