//! Writes the body of a search answer, field by field in the API's order. On the path of every hit,
//! so it allocates nothing beyond the buffer it is given: the page's results are already JSON and
//! are copied as one slice.

use std::time::Duration;

use crate::model::{CacheReport, Endpoint, LegReport, Page, Plan};

/// What an answer tells.
pub struct AnswerParts<'a> {
    /// What was asked.
    pub plan: &'a Plan,
    /// The request's name.
    pub request_id: &'a str,
    /// From the request's first byte to now.
    pub latency: Duration,
    /// Where the page came from.
    pub cache: CacheReport,
    /// The results.
    pub page: &'a Page,
    /// What was asked of whom; told by fast only.
    pub legs: &'a [LegReport],
    /// The engines' names by `EngineId::index`.
    pub names: &'a [String],
}

/// Appends the JSON object to `out`. Times are whole milliseconds, rounded down.
pub fn write(parts: &AnswerParts<'_>, out: &mut Vec<u8>) {
    let plan = parts.plan;
    let results = parts.page.first(plan.max_results);
    out.reserve(results.len().saturating_add(plan.query.len()).saturating_add(512));
    field(out, "{\"query\":", &plan.query);
    field(out, ",\"request_id\":", parts.request_id);
    field(out, ",\"endpoint\":", plan.endpoint.name());
    let country = plan.country.as_ref().and_then(|code| std::str::from_utf8(code).ok());
    field(out, ",\"region\":", country.unwrap_or("all"));
    field(out, ",\"lang\":", plan.lang.as_deref().unwrap_or("all"));
    milliseconds(out, ",\"latency_ms\":", parts.latency);
    field(out, ",\"class\":", plan.class.name());
    field(out, ",\"cache\":{\"status\":", parts.cache.status.name());
    milliseconds(out, ",\"age_ms\":", parts.cache.age);
    milliseconds(out, ",\"ttl_ms\":", parts.cache.ttl);
    out.extend_from_slice(b"},\"results\":[");
    out.extend_from_slice(results);
    out.push(b']');
    if plan.endpoint == Endpoint::Fast {
        out.extend_from_slice(b",\"engines\":[");
        for (index, leg) in parts.legs.iter().enumerate() {
            let name = parts.names.get(leg.engine.index()).map_or("", String::as_str);
            field(out, if index == 0 { "{\"name\":" } else { ",{\"name\":" }, name);
            field(out, ",\"status\":", leg.verdict.name());
            milliseconds(out, ",\"latency_ms\":", leg.took);
            field(out, ",\"role\":", leg.role.name());
            out.push(b'}');
        }
        out.push(b']');
    }
    out.extend_from_slice(b",\"warnings\":[");
    for (index, warning) in plan.warnings.iter().enumerate() {
        field(out, if index == 0 { "" } else { "," }, warning);
    }
    out.extend_from_slice(b"]}");
}

/// Appends what stands before a value, then the value as a JSON string.
fn field(out: &mut Vec<u8>, before: &str, value: &str) {
    out.extend_from_slice(before.as_bytes());
    // A string into memory: cannot fail.
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "a string is plain data");
}

/// Appends what stands before a time, then the time in milliseconds.
fn milliseconds(out: &mut Vec<u8>, before: &str, time: Duration) {
    out.extend_from_slice(before.as_bytes());
    let whole = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let written = serde_json::to_writer(out, &whole);
    debug_assert!(written.is_ok(), "a number is plain data");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{CacheMode, CacheStatus, Class, EngineId, Key, Role, SafeSearch, Verdict};

    fn plan(endpoint: Endpoint, max_results: usize) -> Plan {
        Plan {
            endpoint,
            query: "rust \"http\"\\".into(),
            normalised: String::new(),
            max_results,
            bucket: 10,
            country: Some(*b"DE"),
            lang: None,
            time_range: None,
            safe_search: SafeSearch::Moderate,
            include_domains: Vec::new(),
            exclude_domains: Vec::new(),
            include_media: false,
            engines: None,
            timeout: None,
            cache: CacheMode::Default,
            class: Class::Evergreen,
            key: Key([0; 32]),
            may_be_empty: false,
            warnings: vec!["unknown field \"topic\" ignored".into(), "b".into()],
        }
    }

    fn check(plan: &Plan, expected: &str) {
        let page = Page { results: Bytes::from_static(b"{\"a\":1},{\"a\":2}"), ends: vec![7, 15] };
        let leg = |engine, role, verdict, ms| LegReport {
            engine: EngineId(engine),
            role,
            verdict,
            took: Duration::from_millis(ms),
        };
        let legs = [
            leg(0, Role::Primary, Verdict::Valid, 180),
            leg(1, Role::Hedge, Verdict::Cancelled, 12),
        ];
        let parts = AnswerParts {
            plan,
            request_id: "01J",
            latency: Duration::from_micros(213_999),
            cache: CacheReport {
                status: CacheStatus::Miss,
                age: Duration::ZERO,
                ttl: Duration::from_hours(24),
            },
            page: &page,
            legs: &legs,
            names: &["alpha".to_owned(), "beta".to_owned()],
        };
        let mut out = b"kept ".to_vec();
        write(&parts, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("kept {expected}"));
    }

    #[test]
    fn a_fast_answer_tells_its_engines() {
        check(
            &plan(Endpoint::Fast, 10),
            "{\"query\":\"rust \\\"http\\\"\\\\\",\"request_id\":\"01J\",\"endpoint\":\"fast\",\
             \"region\":\"DE\",\"lang\":\"all\",\"latency_ms\":213,\"class\":\"evergreen\",\
             \"cache\":{\"status\":\"miss\",\"age_ms\":0,\"ttl_ms\":86400000},\
             \"results\":[{\"a\":1},{\"a\":2}],\
             \"engines\":[{\"name\":\"alpha\",\"status\":\"valid\",\"latency_ms\":180,\
             \"role\":\"primary\"},{\"name\":\"beta\",\"status\":\"cancelled\",\"latency_ms\":12,\
             \"role\":\"hedge\"}],\
             \"warnings\":[\"unknown field \\\"topic\\\" ignored\",\"b\"]}",
        );
    }

    #[test]
    fn a_lite_answer_is_sliced_and_leaves_engines_out() {
        check(
            &plan(Endpoint::Lite, 1),
            "{\"query\":\"rust \\\"http\\\"\\\\\",\"request_id\":\"01J\",\"endpoint\":\"lite\",\
             \"region\":\"DE\",\"lang\":\"all\",\"latency_ms\":213,\"class\":\"evergreen\",\
             \"cache\":{\"status\":\"miss\",\"age_ms\":0,\"ttl_ms\":86400000},\
             \"results\":[{\"a\":1}],\
             \"warnings\":[\"unknown field \\\"topic\\\" ignored\",\"b\"]}",
        );
    }
}
