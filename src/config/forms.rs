//! The forms of texts in the configuration: names, hosts, networks, addresses of stores, digests.
//! Pure; each refusal is half a sentence that ends before "want …".

use std::net::IpAddr;

use url::Url;

/// The longest name, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

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
    let url = Url::parse(text).map_err(|error| format!("\"{text}\" is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("the scheme is {}", url.scheme()));
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
        let (host, port) = node.rsplit_once(':').ok_or_else(|| format!("{node} has no port"))?;
        if !is_host(host.trim_matches(['[', ']'])) || port.parse::<u16>().is_err() {
            return Err(format!("{node} is no host:port"));
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
}
