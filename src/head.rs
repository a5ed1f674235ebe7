//! The head of a request, as every later stage sees it: borrowed from the connection's buffer, and
//! free of any trace of the protocol's version, so that HTTP/1.1 and HTTP/2 fill the same struct.
//!
//! The codec has checked it before anyone sees it: one host, a target of printable ASCII, names
//! that are tokens, values without CR, LF and NUL. Values may hold any other byte, so they are
//! bytes here; what is text to a stage, that stage must prove.

/// A field of a head: `name` as sent (a token, any case) and `value` without surrounding blanks.
pub use httparse::Header as Field;

/// The request methods of RFC 9110 §9, and PATCH of RFC 5789.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD: answered as GET, without the body.
    Head,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
    /// PATCH.
    Patch,
    /// OPTIONS.
    Options,
    /// CONNECT.
    Connect,
    /// TRACE.
    Trace,
    /// Any other token; methods are case-sensitive, so `get` is one of them.
    Other,
}

impl Method {
    /// The method that `token` names.
    pub fn parse(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "PATCH" => Self::Patch,
            "OPTIONS" => Self::Options,
            "CONNECT" => Self::Connect,
            "TRACE" => Self::Trace,
            _ => Self::Other,
        }
    }
}

/// What stands before a request's body.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// What is to be done.
    pub method: Method,
    /// The target's path, still percent-encoded: begins with `/`, or is `*` for OPTIONS.
    pub path: &'a str,
    /// What follows the `?`, still percent-encoded; empty if there is none.
    pub query: &'a [u8],
    /// All fields, in their order.
    pub headers: Headers<'a>,
    /// The authority asked for: the target's own, else the `Host` field; empty only in HTTP/1.0.
    pub host: &'a [u8],
}

/// The fields of a head. Looked through from the front: a head has about ten.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a>(&'a [Field<'a>]);

impl<'a> Headers<'a> {
    /// Wraps what a codec has checked.
    pub const fn new(fields: &'a [Field<'a>]) -> Self {
        Self(fields)
    }

    /// The first field of that name, trimmed. The name must be in lower case.
    pub fn get(&self, lower_case_name: &str) -> Option<&'a [u8]> {
        self.all(lower_case_name).next()
    }

    /// All fields of that name in their order, trimmed. The name must be in lower case.
    pub fn all<'n>(
        &self,
        lower_case_name: &'n str,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        debug_assert!(!lower_case_name.bytes().any(|byte| byte.is_ascii_uppercase()));
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(lower_case_name))
            .map(|field| field.value.trim_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, first: Option<&[u8]>, count: usize) {
        let fields = [
            Field { name: "hOsT", value: b"x" },
            Field { name: "X-Api-Key", value: b"  demo \t" },
            Field { name: "x-api-key", value: b"other" },
        ];
        let headers = Headers::new(&fields);
        assert_eq!(headers.get(name), first);
        assert_eq!(headers.all(name).count(), count);
    }

    #[test]
    fn names_match_in_any_case_and_values_are_trimmed() {
        check("host", Some(b"x"), 1);
        check("x-api-key", Some(b"demo"), 2);
        check("authorization", None, 0);
    }

    #[test]
    fn a_method_in_lower_case_is_another_method() {
        assert_eq!(Method::parse("GET"), Method::Get);
        assert_eq!(Method::parse("get"), Method::Other);
    }
}
