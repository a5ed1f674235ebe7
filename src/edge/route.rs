//! Which paths exist, and what may be done with them. Pure; the spines know nothing of paths.
//!
//! Paths are compared byte by byte, undecoded: `/search/%66ast` is another path. A trailing slash
//! is one too.

use crate::head::{Head, Method};
use crate::model::{Endpoint, Refusal};

/// The methods of a search endpoint.
pub const SEARCH_METHODS: &str = "GET, HEAD, POST, OPTIONS";

/// Where a request goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// To the search spine.
    Search(Endpoint),
    /// Nowhere: the caller only asks what is allowed.
    Options(&'static str),
    /// Nowhere, and why.
    Refused(Refusal),
}

/// The route of a request.
pub fn route(head: &Head<'_>) -> Route {
    if head.method == Method::Connect {
        // Its target is a host and port: no path to look for, and no tunnel to be had here.
        return Route::Refused(Refusal::MethodNotAllowed(SEARCH_METHODS));
    }
    let endpoint = match head.path {
        "/search/fast" => Endpoint::Fast,
        "/search/lite" => Endpoint::Lite,
        "*" => return Route::Options(SEARCH_METHODS),
        _ => return Route::Refused(Refusal::NotFound),
    };
    match head.method {
        Method::Get | Method::Head | Method::Post => Route::Search(endpoint),
        Method::Options => Route::Options(SEARCH_METHODS),
        _ => Route::Refused(Refusal::MethodNotAllowed(SEARCH_METHODS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Headers;

    fn check(method: &str, path: &str, expected: Route) {
        let method = Method::parse(method);
        let head = Head { method, path, query: b"", headers: Headers::default(), host: b"x" };
        assert_eq!(route(&head), expected, "{path}");
    }

    #[test]
    fn both_endpoints_take_get_head_and_post() {
        check("GET", "/search/fast", Route::Search(Endpoint::Fast));
        check("HEAD", "/search/lite", Route::Search(Endpoint::Lite));
        check("POST", "/search/fast", Route::Search(Endpoint::Fast));
    }

    #[test]
    fn other_methods_are_told_what_is_allowed() {
        let refused = Route::Refused(Refusal::MethodNotAllowed(SEARCH_METHODS));
        for method in ["DELETE", "PUT", "PATCH", "TRACE", "BREW", "get"] {
            check(method, "/search/fast", refused.clone());
        }
        check("OPTIONS", "/search/lite", Route::Options(SEARCH_METHODS));
        check("CONNECT", "x:443", refused);
        check("OPTIONS", "*", Route::Options(SEARCH_METHODS));
    }

    #[test]
    fn nobody_is_connected_anywhere() {
        let refused = Route::Refused(Refusal::MethodNotAllowed(SEARCH_METHODS));
        check("CONNECT", "x:443", refused);
    }

    #[test]
    fn near_misses_do_not_exist() {
        for path in ["/", "/search/deep", "/search/fast/", "/search/%66ast", "/SEARCH/FAST"] {
            check("GET", path, Route::Refused(Refusal::NotFound));
        }
    }
}
