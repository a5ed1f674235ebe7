//! One function per kind of field: a given value becomes a typed one, or a sentence that says what
//! would be right. Types are strict: in JSON a number is a number; in a query string all is text.

use super::fields::{Value, shown};
use crate::address;
use crate::model::{CacheMode, Endpoint, EngineId, SafeSearch, TimeRange};
use crate::text;

/// Longest query, in characters.
const QUERY_CHARS_MAX: usize = 2000;
/// Most hosts of one domain filter.
const DOMAINS_MAX: usize = 50;
/// Longest language tag; RFC 5646 §4.4.1 asks for at least 35.
const LANG_BYTES_MAX: usize = 35;
/// Bounds of `max_results`.
pub(super) const MAX_RESULTS: (u64, u64) = (1, 50);
/// Bounds of a deadline in milliseconds.
pub(super) const DEADLINE: (u64, u64) = (50, 600);

/// The officially assigned codes of ISO 3166-1 alpha-2, 249, sorted.
const COUNTRIES: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI \
    BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY \
    CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN \
    GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH \
    KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO \
    MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL \
    PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV \
    SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN \
    VU WF WS YE YT ZA ZM ZW ";

/// An engine that requests may name.
pub(super) struct Served {
    pub(super) name: String,
    /// By `Endpoint::index`.
    pub(super) endpoints: [bool; Endpoint::ALL.len()],
}

/// The query as it is echoed: visible, trimmed, 1..=2,000 characters.
pub(super) fn query(value: &Value) -> Result<String, String> {
    let (Value::Word(raw) | Value::Text(raw)) = value else {
        return Err(kind(value, "a string"));
    };
    let visible = text::visible(raw);
    let query = visible.trim();
    match query.chars().count() {
        0 => Err("is empty; give 1 to 2,000 visible characters".into()),
        1..=QUERY_CHARS_MAX => Ok(query.to_owned()),
        more => Err(format!("has {more} characters; at most 2,000 are allowed")),
    }
}

/// A whole number within bounds.
pub(super) fn whole(value: &Value, (min, max): (u64, u64)) -> Result<u64, String> {
    let number = match value {
        Value::Whole(number) => u64::try_from(*number).ok(),
        Value::Word(word) if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) => {
            word.parse().ok()
        }
        _ => None,
    };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("must be a whole number from {min} to {max}, not {}", named(value))),
    }
}

/// A country by its two letters; `None` is all.
pub(super) fn region(value: &Value) -> Result<Option<[u8; 2]>, String> {
    let name = one_of_strings(value)?;
    if name.eq_ignore_ascii_case("all") {
        return Ok(None);
    }
    let code = name.to_ascii_uppercase();
    match code.as_bytes() {
        [a, b] if code.is_ascii() && COUNTRIES.split(' ').any(|known| known == code) => {
            Ok(Some([*a, *b]))
        }
        b"UK" => Err("must be a country of ISO 3166-1; the United Kingdom's is GB".into()),
        _ => {
            let shown = shown(name);
            Err(format!("must be two letters of ISO 3166-1 (as DE) or all, not {shown}"))
        }
    }
}

/// A language tag in its canonical case; `None` is all. Shape only: no registry is consulted.
pub(super) fn lang(value: &Value) -> Result<Option<String>, String> {
    let name = one_of_strings(value)?;
    if name.eq_ignore_ascii_case("all") {
        return Ok(None);
    }
    match language_tag(name) {
        Some(tag) => Ok(Some(tag)),
        None => Err(format!("must be a BCP 47 tag (as de or de-AT) or all, not {}", shown(name))),
    }
}

/// RFC 5646 §2.1 with `_` allowed for `-`, cased as §2.1.1 recommends.
fn language_tag(text: &str) -> Option<String> {
    if text.len() > LANG_BYTES_MAX || !text.is_ascii() {
        return None;
    }
    let lower = text.to_ascii_lowercase().replace('_', "-");
    let mut subtags = lower.split('-').peekable();
    let is_alpha = |subtag: &str| subtag.bytes().all(|b| b.is_ascii_lowercase());
    let is_alphanumeric = |subtag: &str| subtag.bytes().all(|b| b.is_ascii_alphanumeric());
    let primary = subtags.next()?;
    if !(matches!(primary.len(), 2 | 3) && is_alpha(primary)) {
        return None;
    }
    let mut tag = primary.to_owned();
    let mut push = |subtag: &str| {
        tag.push('-');
        tag.push_str(subtag);
    };
    if let Some(extended) = subtags.next_if(|s| s.len() == 3 && is_alpha(s)) {
        push(extended);
    }
    if let Some(script) = subtags.next_if(|s| s.len() == 4 && is_alpha(s)) {
        let (first, rest) = script.split_at_checked(1)?;
        push(&(first.to_ascii_uppercase() + rest));
    }
    let is_region = |s: &str| {
        (s.len() == 2 && is_alpha(s)) || (s.len() == 3 && s.bytes().all(|b| b.is_ascii_digit()))
    };
    if let Some(region) = subtags.next_if(|s| is_region(s)) {
        push(&region.to_ascii_uppercase());
    }
    let is_variant = |s: &str| {
        is_alphanumeric(s)
            && (matches!(s.len(), 5..=8)
                || (s.len() == 4 && s.starts_with(|c: char| c.is_ascii_digit())))
    };
    while let Some(variant) = subtags.next_if(|s| is_variant(s)) {
        push(variant);
    }
    // Extensions and private use: a single letter or digit, then at least one subtag.
    while let Some(singleton) = subtags.next() {
        let least = if singleton == "x" { 1 } else { 2 };
        let is_rest = |s: &str| (least..=8).contains(&s.len()) && is_alphanumeric(s);
        if singleton.len() != 1 || !is_alphanumeric(singleton) || !is_rest(subtags.peek()?) {
            return None;
        }
        push(singleton);
        while let Some(rest) = subtags.next_if(|s| is_rest(s)) {
            push(rest);
        }
    }
    Some(tag)
}

/// `day`, `week`, `month`, `year` and their short forms.
pub(super) fn time_range(value: &Value) -> Result<TimeRange, String> {
    match one_of_strings(value)? {
        "day" | "d" | "pd" => Ok(TimeRange::Day),
        "week" | "w" | "pw" => Ok(TimeRange::Week),
        "month" | "m" | "pm" => Ok(TimeRange::Month),
        "year" | "y" | "py" => Ok(TimeRange::Year),
        other => Err(format!("must be day, week, month or year, not {}", shown(other))),
    }
}

/// `off`, `moderate`, `strict`, or 0, 1, 2.
pub(super) fn safe_search(value: &Value) -> Result<SafeSearch, String> {
    let name = match value {
        Value::Whole(0) => "off",
        Value::Whole(1) => "moderate",
        Value::Whole(2) => "strict",
        Value::Word(name) | Value::Text(name) => name,
        _ => "",
    };
    match name {
        "off" | "0" => Ok(SafeSearch::Off),
        "moderate" | "1" => Ok(SafeSearch::Moderate),
        "strict" | "2" => Ok(SafeSearch::Strict),
        _ => Err(format!("must be off, moderate or strict (0, 1, 2), not {}", named(value))),
    }
}

/// `default`, `no-cache` or `only-if-cached`.
pub(super) fn cache(value: &Value) -> Result<CacheMode, String> {
    match one_of_strings(value)? {
        "default" => Ok(CacheMode::Default),
        "no-cache" => Ok(CacheMode::NoCache),
        "only-if-cached" => Ok(CacheMode::OnlyIfCached),
        other => Err(format!("must be default, no-cache or only-if-cached, not {}", shown(other))),
    }
}

/// A boolean; in a query string also 1 and 0.
pub(super) fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Truth(truth) => Ok(*truth),
        Value::Word(word) if matches!(word.as_str(), "true" | "1") => Ok(true),
        Value::Word(word) if matches!(word.as_str(), "false" | "0") => Ok(false),
        _ => Err(format!("must be true or false, not {}", named(value))),
    }
}

/// Host names, sorted, each once, at most 50.
pub(super) fn domains(value: &Value) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for name in list(value)? {
        if hosts.len() == DOMAINS_MAX {
            return Err(format!("has more than {DOMAINS_MAX} hosts"));
        }
        let Some(host) = address::host_name(name) else {
            let shown = shown(name);
            return Err(format!("{shown} is not a host name; write it as example.com"));
        };
        hosts.push(host);
    }
    hosts.sort();
    hosts.dedup();
    Ok(hosts)
}

/// The engines named, sorted; `None` is all of this endpoint, whether by naming none or each.
pub(super) fn engines(
    value: &Value,
    endpoint: Endpoint,
    known: &[Served],
) -> Result<Option<Vec<EngineId>>, String> {
    let serves = |engine: &Served| engine.endpoints.get(endpoint.index()) == Some(&true);
    let mut wanted = Vec::new();
    for name in list(value)? {
        let place = known.iter().position(|engine| engine.name == name && serves(engine));
        let Some(id) = place.and_then(|place| u16::try_from(place).ok()) else {
            let served: Vec<&str> =
                known.iter().filter(|e| serves(e)).map(|e| e.name.as_str()).collect();
            let (shown, served) = (shown(name), served.join(", "));
            return Err(format!("{shown} is not an engine of this endpoint; there are: {served}"));
        };
        wanted.push(EngineId(id));
    }
    wanted.sort();
    wanted.dedup();
    let is_all = wanted.is_empty() || wanted.len() == known.iter().filter(|e| serves(e)).count();
    Ok((!is_all).then_some(wanted))
}

/// The entries of a list: a JSON array, or text with commas.
fn list(value: &Value) -> Result<Vec<&str>, String> {
    match value {
        Value::Texts(texts) => Ok(texts.iter().map(|text| text.trim()).collect()),
        Value::Word(text) | Value::Text(text) => {
            Ok(text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect())
        }
        _ => Err(kind(value, "a list of strings")),
    }
}

fn one_of_strings(value: &Value) -> Result<&str, String> {
    match value {
        Value::Word(text) | Value::Text(text) => Ok(text),
        _ => Err(kind(value, "a string")),
    }
}

fn kind(value: &Value, wanted: &str) -> String {
    format!("must be {wanted}, not {}", named(value))
}

/// A given value as an error names it.
fn named(value: &Value) -> String {
    match value {
        Value::Word(text) => shown(text),
        Value::Text(text) => format!("the string {}", shown(text)),
        Value::Whole(number) => number.to_string(),
        Value::Truth(truth) => truth.to_string(),
        Value::Texts(_) => "a list".into(),
        Value::Other(kind) => (*kind).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Value {
        Value::Word(text.into())
    }

    #[test]
    fn countries_are_the_249_of_the_standard() {
        let codes: Vec<&str> = COUNTRIES.split_whitespace().collect();
        assert_eq!(codes.len(), 249);
        assert!(codes.is_sorted());
        assert_eq!(region(&word("de")), Ok(Some(*b"DE")));
        assert_eq!(region(&word("ALL")), Ok(None));
        for wrong in ["", "Germany", "UK", "XX", "D", "é", "D ", " DE"] {
            assert!(region(&word(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn language_tags_have_the_shape_of_bcp_47() {
        for (text, expected) in [
            ("de", Some("de")),
            ("DE-at", Some("de-AT")),
            ("en_us", Some("en-US")),
            ("zh-hant-tw", Some("zh-Hant-TW")),
            ("es-419", Some("es-419")),
            ("sl-rozaj-1994", Some("sl-rozaj-1994")),
            ("de-DE-u-co-phonebk", Some("de-DE-u-co-phonebk")),
            ("en-x-a", Some("en-x-a")),
            ("zh-yue", Some("zh-yue")),
            ("german", None),
            ("d", None),
            ("", None),
            ("de-", None),
            ("-de", None),
            ("de--AT", None),
            ("de-u", None),
            ("de-AT-AT", None),
            ("xx_YYYYYYYYY", None),
            ("日本", None),
        ] {
            assert_eq!(language_tag(text).as_deref(), expected, "{text}");
        }
        assert_eq!(lang(&word("all")), Ok(None));
    }

    #[test]
    fn numbers_are_whole_and_within_bounds() {
        for (value, is_right) in [
            (word("1"), true),
            (word("050"), true),
            (word("51"), false),
            (word("0"), false),
            (word("-1"), false),
            (word("+5"), false),
            (word("5.0"), false),
            (word("ten"), false),
            (word("99999999999999999999999"), false),
            (Value::Whole(5), true),
            (Value::Whole(-5), false),
            (Value::Text("5".into()), false),
            (Value::Truth(true), false),
        ] {
            assert_eq!(whole(&value, MAX_RESULTS).is_ok(), is_right, "{value:?}");
        }
    }

    #[test]
    fn queries_are_counted_after_cleaning() {
        for wrong in ["", "   ", "\u{200b}", "\u{7}\u{feff} ", &"x".repeat(2001)] {
            assert!(query(&word(wrong)).is_err(), "{wrong:.10?}");
        }
        assert_eq!(query(&word(" a\0b\tc\u{200b} ")), Ok("ab c".into()));
        let most = format!(" {}\u{200b}", "ä".repeat(2000));
        assert_eq!(query(&word(&most)).map(|q| q.chars().count()), Ok(2000));
        assert!(query(&Value::Whole(42)).is_err());
    }

    #[test]
    fn engines_are_known_names_of_the_endpoint() {
        let known: Vec<Served> =
            [("alpha", [true, true]), ("beta", [true, true]), ("gamma", [false, true])]
                .map(|(name, endpoints)| Served { name: name.into(), endpoints })
                .into();
        let ask = |text: &str, endpoint| engines(&word(text), endpoint, &known);
        assert_eq!(ask("beta, alpha", Endpoint::Fast), Ok(Some(vec![EngineId(0), EngineId(1)])));
        assert_eq!(ask("beta,alpha,beta", Endpoint::Lite), Ok(None));
        assert_eq!(ask("", Endpoint::Fast), Ok(None));
        let wrong = ask("nobody", Endpoint::Lite).unwrap_err();
        assert!(wrong.contains("alpha, beta") && !wrong.contains("gamma"), "{wrong}");
        assert!(ask("gamma", Endpoint::Lite).is_err());
    }

    #[test]
    fn domain_lists_are_sorted_host_names() {
        assert_eq!(
            domains(&word("B.org, a.org,,b.org")),
            Ok(vec!["a.org".to_owned(), "b.org".to_owned()])
        );
        assert!(domains(&word("https://a.org/")).is_err());
        let many: Vec<String> = (0..51).map(|n| format!("h{n}.org")).collect();
        assert!(domains(&Value::Texts(many)).is_err());
        assert!(domains(&Value::Whole(1)).is_err());
    }
}
