//! Walls that engines put before their answers, recognised by structure: where a redirect points,
//! and pairs of a header or status with markup. Words alone never make a block: a page *about*
//! CAPTCHAs is an answer, so a detector only runs on what is no JSON.
//!
//! What it misses: a wall without any of these marks is `malformed`, which costs the engine as much
//! and only reads worse in a log.

use memchr::memmem;
use url::Url;

use super::verdict::{Finding, Received};

/// A wall's marks are in its head; the rest of a large page is not searched.
const SEARCHED_BYTES_MAX: usize = 65_536;

/// One kind of wall: everything that is given must hold.
struct Wall {
    finding: Finding,
    /// Empty: any status.
    statuses: &'static [u16],
    /// Name and the start of its value, in lower case.
    header: Option<(&'static str, &'static str)>,
    /// All must be in the body.
    marks: &'static [&'static str],
}

const fn wall(
    finding: Finding,
    statuses: &'static [u16],
    header: Option<(&'static str, &'static str)>,
    marks: &'static [&'static str],
) -> Wall {
    Wall { finding, statuses, header, marks }
}

const CLOUDFLARE: Option<(&str, &str)> = Some(("server", "cloudflare"));

const WALLS: [Wall; 17] = {
    use Finding::{Captcha, Challenge, Consent};
    [
        wall(Challenge, &[], Some(("cf-mitigated", "challenge")), &[]),
        wall(Challenge, &[], None, &["_cf_chl_opt", "/cdn-cgi/challenge-platform/"]),
        wall(Challenge, &[], None, &["_cf_chl_enter(", "/cdn-cgi/challenge-platform/"]),
        wall(Challenge, &[429, 503], CLOUDFLARE, &["__cf_chl_jschl_tk__="]),
        wall(Captcha, &[403], CLOUDFLARE, &["__cf_chl_captcha_tk__="]),
        wall(Challenge, &[403], CLOUDFLARE, &["class=\"cf-error-code\""]),
        wall(Captcha, &[429, 503], None, &["https://www.google.com/recaptcha/"]),
        wall(Captcha, &[], None, &["id=\"captcha-form\"", "/sorry/"]),
        wall(Consent, &[], None, &["action=\"https://consent."]),
        wall(Captcha, &[], None, &["class=\"anomaly-modal"]),
        wall(Captcha, &[], None, &["id=\"challenge-form\"", "anomaly"]),
        wall(Captcha, &[], None, &["hcaptcha.com/1/api.js", "class=\"h-captcha\""]),
        wall(Captcha, &[], None, &["src=\"https://geo.captcha-delivery.com/"]),
        wall(Captcha, &[403], None, &["geo.captcha-delivery.com"]),
        wall(Captcha, &[], None, &["id=\"px-captcha\""]),
        wall(Challenge, &[403], None, &["Reference&#32;&#35;"]),
        wall(Captcha, &[], None, &["action=\"/sp/captcha"]),
    ]
};

/// What of a wall the answer shows; only for a body that is no JSON.
pub fn find_wall(received: &Received<'_>) -> Option<Finding> {
    let body = received.body.get(..SEARCHED_BYTES_MAX).unwrap_or(received.body);
    let stands = |wall: &&Wall| {
        let has_status = wall.statuses.is_empty() || wall.statuses.contains(&received.status);
        let has_header = wall.header.is_none_or(|(name, start)| {
            received.header(name).is_some_and(|value| value.to_ascii_lowercase().starts_with(start))
        });
        let is_marked = |mark: &&str| memmem::find(body, mark.as_bytes()).is_some();
        has_status && has_header && wall.marks.iter().all(is_marked)
    };
    WALLS.iter().find(stands).map(|wall| wall.finding)
}

/// What a redirect means. They are never followed: an engine that answers does so at its address.
pub fn redirect(engine: &Url, location: Option<&str>) -> Finding {
    let Some(target) = location.and_then(|location| engine.join(location).ok()) else {
        return Finding::Redirected;
    };
    let host = target.host_str().unwrap_or_default();
    let path = target.path();
    if host.starts_with("consent.") {
        Finding::Consent
    } else if path.starts_with("/sorry") || path.starts_with("/sp/captcha") {
        Finding::Captcha
    } else if Some(host) == engine.host_str() {
        Finding::Redirected
    } else {
        Finding::RedirectedAway
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, headers: &[(&str, &str)], body: &str, expected: Option<Finding>) {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let received = Received { status, headers: &headers, body: body.as_bytes(), asked: "" };
        assert_eq!(find_wall(&received), expected, "{status} {body}");
    }

    const FLARE: &[(&str, &str)] = &[("server", "cloudflare")];

    #[test]
    fn walls_are_known_by_their_structure() {
        let script = "<script src=/cdn-cgi/challenge-platform/h>";
        let platform = format!("<script>_cf_chl_opt={{}}</script>{script}");
        check(200, &[], &platform, Some(Finding::Challenge));
        check(403, &[("cf-mitigated", "challenge")], "<html>", Some(Finding::Challenge));
        check(503, FLARE, "?__cf_chl_jschl_tk__=abc", Some(Finding::Challenge));
        check(403, FLARE, "?__cf_chl_captcha_tk__=abc", Some(Finding::Captcha));
        check(403, FLARE, "<span class=\"cf-error-code\">1020</span>", Some(Finding::Challenge));
        check(
            503,
            &[],
            "<script src=\"https://www.google.com/recaptcha/api.js\">",
            Some(Finding::Captcha),
        );
        check(
            200,
            &[],
            "<form id=\"captcha-form\" action=\"/sorry/index\">",
            Some(Finding::Captcha),
        );
        check(200, &[], "<form action=\"https://consent.google.fr/save\">", Some(Finding::Consent));
        check(202, &[], "<div class=\"anomaly-modal__title\">", Some(Finding::Captcha));
        check(200, &[], "<div id=\"px-captcha\">", Some(Finding::Captcha));
        check(403, &[], "Reference&#32;&#35;18.ab", Some(Finding::Challenge));
    }

    #[test]
    fn words_and_a_lone_header_are_no_wall() {
        let words = "<p>Access denied: unusual traffic, CAPTCHA, Just a moment, \
                     before you continue, cf-mitigated: challenge, recaptcha, verify you are \
                     human</p>";
        check(200, FLARE, words, None);
        check(503, FLARE, words, None);
        check(200, FLARE, "<p>https://www.google.com/recaptcha/ is a service</p>", None);
        check(200, &[], "<p>the variable _cf_chl_opt</p>", None);
        check(200, &[], "", None);
    }

    #[test]
    fn a_mark_far_down_is_not_searched_for() {
        let page = format!("<p>{}<div id=\"px-captcha\">", "x".repeat(SEARCHED_BYTES_MAX));
        check(200, &[], &page, None);
    }

    #[test]
    fn redirects_say_where_they_lead() {
        let engine = Url::parse("https://www.engine.example/base").expect("a fixed address");
        let check = |location: Option<&str>, expected: Finding| {
            assert_eq!(redirect(&engine, location), expected, "{location:?}");
        };
        check(Some("https://consent.google.fr/m?continue=x"), Finding::Consent);
        check(Some("https://ipv4.google.com/sorry/index?q=1"), Finding::Captcha);
        check(Some("/sp/captcha?x"), Finding::Captcha);
        check(Some("https://en.wikipedia.org/wiki/X"), Finding::RedirectedAway);
        check(Some("//other.example/"), Finding::RedirectedAway);
        check(Some("/search/"), Finding::Redirected);
        check(Some("https://www.engine.example/search/"), Finding::Redirected);
        check(Some("http://["), Finding::Redirected);
        check(None, Finding::Redirected);
    }
}
