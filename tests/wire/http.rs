//! An HTTP/1.1 client that hides nothing: bytes out, bytes in.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What came back on a connection until it closed or fell silent.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_closed: bool,
}

impl Came {
    /// The statuses of all responses, in order.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        text.match_indices("HTTP/1.1 ")
            .filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok())
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The value of the first field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let start = format!("{}: ", name.to_ascii_lowercase());
        let text = self.text();
        let mut fields = text.lines().take_while(|line| !line.trim().is_empty());
        fields.find_map(|line| {
            let lower = line.to_ascii_lowercase();
            lower.starts_with(&start).then(|| line[start.len()..].trim().to_owned())
        })
    }

    /// The body of the only response.
    pub(crate) fn json(&self) -> serde_json::Value {
        let text = self.text();
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Sends `bytes`, then reads until the peer closes or says nothing for `silence`.
pub(crate) fn raw(to: SocketAddr, bytes: &[u8], silence: Duration) -> Came {
    let mut stream = TcpStream::connect(to).expect("the instance listens");
    // A peer that refuses early may close before all is written.
    let _ = stream.write_all(bytes);
    drain(&mut stream, silence)
}

/// Reads until the peer closes or says nothing for `silence`.
pub(crate) fn drain(stream: &mut TcpStream, silence: Duration) -> Came {
    stream.set_read_timeout(Some(silence)).expect("a timeout");
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Came { bytes, is_closed: true },
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Came { bytes, is_closed: false };
            }
            Err(_) => return Came { bytes, is_closed: true },
        }
    }
}

/// One request that closes its connection, with the demo key.
pub(crate) fn get(to: SocketAddr, target: &str) -> Came {
    send(to, "GET", target, "X-API-Key: demo\r\n", "")
}

/// One request that closes its connection; `fields` end with CRLF each.
pub(crate) fn send(to: SocketAddr, method: &str, target: &str, fields: &str, body: &str) -> Came {
    let length = match body.is_empty() {
        true => String::new(),
        false => format!("Content-Length: {}\r\n", body.len()),
    };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\
         {fields}{length}\r\n{body}"
    );
    let came = raw(to, request.as_bytes(), Duration::from_secs(5));
    assert!(came.is_closed, "no end of the answer to {target}");
    came
}

/// Asks again until `is_so`, for 10 s at most.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a test on a real ring has real time")]
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: not within 10 s");
        std::thread::yield_now();
    }
}
