//! What a browser could be talked into sending to the admin listener, and is refused: another
//! site's page can make the browser ask here, with a name of that site's that resolves to this
//! machine (DNS rebinding), by script or by a form. Programs such as curl send none of it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::State;

/// The content types of forms, which a page may send anywhere without being asked for leave.
const OF_FORMS: [&str; 3] =
    ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];

type Refused = (StatusCode, &'static str);

/// Refuses what only a browser that was tricked would send.
pub(super) async fn refuse_tricks(
    Shared(state): Shared<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let has_token = state.settings().admin.token.is_some();
    match check(request.headers(), request.uri(), has_token) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

fn check(headers: &HeaderMap, uri: &Uri, has_token: bool) -> Result<(), Refused> {
    let host = only(headers, &header::HOST)?;
    let target = uri.authority().map(axum::http::uri::Authority::as_str);
    if !has_token && ![host, target].into_iter().flatten().all(is_address) {
        let why = "without a token, use an address or localhost as the host\n";
        return Err((StatusCode::FORBIDDEN, why));
    }
    let site = only(headers, &HeaderName::from_static("sec-fetch-site"))?;
    let origin = only(headers, &header::ORIGIN)?;
    let is_own = |origin: &str| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some() && authority == host
    };
    let is_foreign = site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if is_foreign || !origin.is_none_or(is_own) {
        return Err((StatusCode::FORBIDDEN, "another site's page may not ask here\n"));
    }
    // Browsers of before 2020 do not say whose page a form is on. With a token it does not matter:
    // no form can send one.
    let is_unsigned = site.is_none() && origin.is_none() && !has_token;
    if is_unsigned && only(headers, &header::CONTENT_TYPE)?.is_some_and(is_of_forms) {
        let why = "a form may not ask here: send no Content-Type (curl -X POST)\n";
        return Err((StatusCode::FORBIDDEN, why));
    }
    Ok(())
}

/// The value of a field that may be there once (RFC 9110 §5.3, RFC 9112 §3.2), in visible ASCII.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refused> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match value.to_str() {
        Ok(text) if values.next().is_none() => Ok(Some(text)),
        _ => {
            let why = "Host, Origin and the like may be there once, in ASCII\n";
            Err((StatusCode::BAD_REQUEST, why))
        }
    }
}

/// Whether a `Host` is `localhost` or an IP address, with or without a port: nobody else's name.
fn is_address(host: &str) -> bool {
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
    let is_end = |rest: &str| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    if let Some(rest) = host.strip_prefix('[') {
        let cut = rest.split_once(']');
        return cut.is_some_and(|(name, end)| name.parse::<Ipv6Addr>().is_ok() && is_end(end));
    }
    let (name, end) = host.split_at(host.find(':').unwrap_or(host.len()));
    (name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok()) && is_end(end)
}

fn is_of_forms(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    OF_FORMS.iter().any(|of_form| of_form.eq_ignore_ascii_case(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_nobodys_name() {
        for host in ["127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:9", "localhost", "LocalHost:80"] {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "",
            "evil.com",
            "evil.com:80",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "127.0.0.1:80.evil.com",
            "127.0.0.1@evil.com",
            "127.0.0.1:80@evil.com",
            "[::1]evil.com",
            "[::1].evil.com:80",
            "[::1]:80.evil.com",
            "[evil.com]",
            "[::1",
            "::1",
            "127.0.0.1:+9",
            " 127.0.0.1",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }
}
