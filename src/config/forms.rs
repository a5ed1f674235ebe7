//! The forms of texts in the configuration: names, hosts, networks, addresses of stores, digests,
//! and how a text of the file is shown. Pure; each refusal is half a sentence that ends before
//! "want …".

use std::net::{IpAddr, SocketAddr};

use url::Url;

/// The longest name, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

/// Characters of an excerpt from the file.
const EXCERPT_CHARACTERS_MAX: usize = 120;

/// The longest name of an environment variable, in characters.
const VARIABLE_CHARACTERS_MAX: usize = 128;

/// A text of the file as a problem shows it: its beginning, printable.
pub(super) fn excerpt(text: &str) -> String {
    printable(text, EXCERPT_CHARACTERS_MAX)
}

/// `text` with every character that a terminal would obey, or that would hide others, written as
/// `\u{…}`; cut after `most` characters.
pub(super) fn printable(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for (index, c) in text.chars().enumerate() {
        if index == most {
            out.push('…');
            break;
        }
        if c.is_control() || hides(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether it breaks a line, turns the direction of text (Unicode UAX 9 §2) or has no width.
fn hides(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// Whether it may name an environment variable (POSIX.1-2024 §8.1, and lower case).
pub(super) fn is_variable(text: &str) -> bool {
    (1..=VARIABLE_CHARACTERS_MAX).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// What keeps `text` from being sent as a secret in a header; none: nothing. The text itself is
/// never part of it.
pub(super) fn secret_fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.ends_with(['\n', '\r']) {
        Some("ends with a line break; it must hold the key alone (in a shell: printf %s)")
    } else if text.chars().any(char::is_control) {
        Some("holds a control character, as a line break or a tab; it must hold the key alone")
    } else if text.trim() != text {
        Some("begins or ends with a space; it must hold the key alone")
    } else {
        None
    }
}

/// Whether it may name an engine, a key, a plan or a place.
pub(super) fn is_name(text: &str) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_CHARACTERS_MAX).contains(&text.len()) && text.chars().all(right)
}

/// Whether it is a host name (RFC 1123 §2.1) or an IP address.
pub(super) fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(is_label))
}

/// Whether two listeners ask for the same address. Port 0 is any free port, so never the same.
pub(super) fn is_same_place(one: SocketAddr, other: SocketAddr) -> bool {
    let ip = |at: SocketAddr| at.ip().to_canonical();
    one.port() != 0 && one.port() == other.port() && ip(one) == ip(other)
}

/// Whether a listener at `listen` would take what comes to `admin`, or the other way round. A
/// listener of IPv6 is one of IPv6 only; the admin listener at `[::]` is one of IPv4 too.
pub(super) fn meet(listen: SocketAddr, admin: SocketAddr) -> bool {
    if listen.port() == 0 || listen.port() != admin.port() {
        return false;
    }
    let (listen, admin) = (listen.ip().to_canonical(), admin.ip().to_canonical());
    let is_of_both = admin.is_ipv6() && admin.is_unspecified();
    let is_one_family = listen.is_ipv4() == admin.is_ipv4();
    listen == admin
        || is_of_both
        || (is_one_family && (listen.is_unspecified() || admin.is_unspecified()))
}

/// Whether it is a network in CIDR form (RFC 4632 §3.1), v4 or v6.
pub(super) fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// An engine's or a peer's base address.
///
/// # Errors
/// What is wrong with it. A user part is not repeated: it may be a password.
pub(super) fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| match text.contains('@') {
        true => format!("it is no address: {error}"),
        false => format!("\"{}\" is no address: {error}", excerpt(text)),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("the scheme is {}", excerpt(url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user part; a key belongs into api_key_env".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it has a query or a fragment".to_owned());
    }
    Ok(url)
}

/// The address of a region's store.
///
/// # Errors
/// What is wrong with it.
pub(super) fn store(text: &str) -> Result<(), String> {
    let nodes = text.strip_prefix("redis://").or_else(|| text.strip_prefix("rediss://"));
    let nodes = nodes.ok_or_else(|| "the scheme is not redis:// or rediss://".to_owned())?;
    let nodes = nodes.rsplit_once('@').map_or(nodes, |(_, nodes)| nodes);
    for node in nodes.trim_end_matches('/').split(',') {
        let told = excerpt(node);
        let (host, port) = node.rsplit_once(':').ok_or_else(|| format!("{told} has no port"))?;
        if !is_host(host.trim_matches(['[', ']'])) || port.parse::<u16>().is_err() {
            return Err(format!("{told} is no host:port"));
        }
    }
    Ok(())
}

/// 64 hexadecimal digits.
///
/// # Errors
/// What is wrong with them. The text is not repeated: somebody may have put the key itself there.
pub(super) fn digest(text: &str) -> Result<[u8; 32], String> {
    let mut out = [0; 32];
    let bytes = text.as_bytes();
    if bytes.len() != 64 || !bytes.iter().all(u8::is_ascii_hexdigit) {
        return Err(format!("{} characters that are no SHA-256", text.chars().count()));
    }
    for (byte, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
        let digit = |at: u8| char::from(at).to_digit(16).unwrap_or(0) as u8;
        *byte = (digit(pair[0]) << 4) | digit(pair[1]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_networks_are_told_from_other_texts() {
        for (text, expected) in [
            ("a.example", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("-a.example", false),
            ("a..b", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_host(text), expected, "{text}");
        }
        for (text, expected) in
            [("10.0.0.0/8", true), ("::/0", true), ("10.0.0.0", false), ("a/8", false)]
        {
            assert_eq!(is_network(text), expected, "{text}");
        }
    }

    #[test]
    fn an_address_with_a_password_is_refused_without_showing_it() {
        let refused = url("http://user:hush@a.example/").unwrap_err();
        assert!(!refused.contains("hush"), "{refused}");
        let refused = url("http://user:hush@a.example:99999/").unwrap_err();
        assert!(!refused.contains("hush"), "{refused}");
        assert!(url("ftp://a.example").unwrap_err().contains("ftp"));
        assert!(url("https://a.example/base?x=1").is_err());
        assert!(url("https://a.example/base").is_ok());
    }

    #[test]
    fn a_digest_is_read_and_a_key_in_its_place_is_not_shown() {
        let text = "2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea";
        assert_eq!(digest(text).unwrap()[..2], [0x2a, 0x97]);
        assert!(!digest("my-key").unwrap_err().contains("my-key"));
        assert!(digest(&"g".repeat(64)).is_err());
    }

    #[test]
    fn a_store_is_a_list_of_nodes() {
        assert!(store("redis://127.0.0.1:7000,127.0.0.1:7001").is_ok());
        assert!(store("rediss://user:pass@cache.example:6379").is_ok());
        assert!(store("http://127.0.0.1:7000").is_err());
        assert!(store("redis://").is_err());
    }

    #[test]
    fn listeners_that_take_each_others_connections_are_told_apart_from_others() {
        for (listen, admin, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("10.0.0.1:80", "127.0.0.1:80", false),
            ("[::]:80", "[::1]:80", true),
            ("[::]:80", "127.0.0.1:80", false),
            ("127.0.0.1:80", "[::]:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
        ] {
            let (listen, admin) = (listen.parse().unwrap(), admin.parse().unwrap());
            assert_eq!(meet(listen, admin), expected, "{listen} {admin}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        for (text, most, expected) in [
            ("a\u{1b}[31mb\r\n", 99, "a\\u{1b}[31mb\\u{d}\\u{a}"),
            ("\u{9b}1m \u{202e}x\u{feff}", 99, "\\u{9b}1m \\u{202e}x\\u{feff}"),
            ("grün", 3, "grü…"),
            ("grün", 4, "grün"),
        ] {
            assert_eq!(printable(text, most), expected);
        }
        assert_eq!(excerpt(&"x".repeat(5 << 20)).chars().count(), EXCERPT_CHARACTERS_MAX + 1);
    }

    #[test]
    fn a_secret_is_sent_as_it_stands_or_refused() {
        assert_eq!(secret_fault("sk-abc: d/e+f=="), None);
        for (text, expected) in [
            ("", "is empty"),
            ("hush\n", "ends with a line break"),
            ("hush\r\n", "ends with a line break"),
            ("hu\r\nX-Evil: 1", "control character"),
            ("hu\u{0}sh", "control character"),
            (" hush", "begins or ends with a space"),
        ] {
            let told = secret_fault(text).unwrap_or_default();
            assert!(told.contains(expected) && !told.contains("hu\r"), "{text:?}: {told}");
        }
    }

    #[test]
    fn a_key_in_the_place_of_a_variables_name_is_told_apart() {
        for (text, expected) in
            [("ALPHA_KEY", true), ("k2", true), ("sk-abc", false), ("2a97", false), ("", false)]
        {
            assert_eq!(is_variable(text), expected, "{text}");
        }
    }
}
