//! Log lines about requests to the API server, from verbosity 6 on; the higher the verbosity, the more they show.
//!
//! Behaviour: `docs/spec/observability.md` §5.3. Credentials are added to a request after it was logged. A token review, whose
//! body contains a caller's token, is logged without its body.

use std::fmt::Write as _;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use tracing::Level;

use super::times::ResponseTimes;

/// The verbosity at the moment, from 6 on; 0 for less.
pub(super) fn verbosity() -> u8 {
    if !tracing::enabled!(target: "V6", Level::TRACE) {
        0
    } else if tracing::enabled!(target: "V10", Level::TRACE) {
        10
    } else if tracing::enabled!(target: "V9", Level::TRACE) {
        9
    } else if tracing::enabled!(target: "V8", Level::TRACE) {
        8
    } else if tracing::enabled!(target: "V7", Level::TRACE) {
        7
    } else {
        6
    }
}

/// Logs a request that is about to be sent.
pub(super) fn request(verbosity: u8, method: &Method, url: &str, headers: &HeaderMap, body: &[u8]) {
    if verbosity >= 8 && !body.is_empty() {
        let body = body_text(url, body, verbosity);
        tracing::trace!(target: "V8", body, "Request Body");
    }
    match verbosity {
        9.. => {
            let curl = curl(method, url, headers);
            tracing::trace!(target: "V9", curlCommand = curl, "Request");
        }
        7 | 8 => {
            let headers = header_text(headers);
            tracing::trace!(target: "V7", verb = %method, url, headers, "Request");
        }
        _ => {}
    }
}

/// Logs how an answer begins; without a status there was none.
pub(super) fn response(
    verbosity: u8,
    (method, url): (&Method, &str),
    answer: Option<(StatusCode, &HeaderMap)>,
    times: ResponseTimes,
) {
    let status = answer.map(|(status, _)| status.to_string()).unwrap_or_default();
    let headers = answer.map(|(_, headers)| header_text(headers)).unwrap_or_default();
    let milliseconds = millis(times.total);
    match verbosity {
        9.. => {
            let ResponseTimes { total, connection, setup } = times;
            let processing = connection.map(|connection| total.saturating_sub(connection));
            tracing::trace!(
                target: "V9",
                verb = %method,
                url,
                status,
                headers,
                milliseconds,
                dnsLookupMilliseconds = setup.map(|setup| millis(setup.dns)),
                dialMilliseconds = setup.map(|setup| millis(setup.dial)),
                tlsHandshakeMilliseconds = setup.map(|setup| millis(setup.tls)),
                getConnectionMilliseconds = connection.filter(|_| setup.is_none()).map(millis),
                serverProcessingMilliseconds = processing.map(millis).filter(|length| *length > 0),
                "Response"
            );
        }
        8 => tracing::trace!(target: "V8", status, headers, milliseconds, "Response"),
        7 => tracing::trace!(target: "V7", status, milliseconds, "Response"),
        6 => tracing::trace!(target: "V6", verb = %method, url, status, milliseconds, "Response"),
        _ => {}
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Whether the log shows how connections are set up.
pub(super) fn shows_times() -> bool {
    tracing::enabled!(target: "V9", Level::TRACE)
}

/// Logs the body of an answer.
pub(super) fn response_body(verbosity: u8, url: &str, body: &[u8]) {
    if verbosity >= 8 {
        let body = body_text(url, body, verbosity);
        tracing::trace!(target: "V8", body, "Response Body");
    }
}

/// A body, as long as the verbosity allows; one that is no text in hexadecimal digits.
fn body_text(url: &str, body: &[u8], verbosity: u8) -> String {
    if url.contains("/tokenreviews") {
        return "<masked>".to_owned();
    }
    let limit = match verbosity {
        10.. => usize::MAX,
        9 => 10_240,
        _ => 1_024,
    };
    let is_binary = body.iter().any(|byte| *byte < 0x0a);
    let text = if is_binary { hex_dump(body, limit) } else { String::from_utf8_lossy(body).into() };
    // A dump has 79 characters for 16 bytes, fewer in its last line.
    let length = if is_binary { dump_length(body.len()) } else { text.len() };
    if length <= limit {
        return text;
    }
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} [truncated {} chars]", &text[..end], length - end)
}

/// The length of a whole dump of this many bytes.
const fn dump_length(n_bytes: usize) -> usize {
    let (lines, rest) = (n_bytes / 16, n_bytes % 16);
    lines * 79 + if rest > 0 { 63 + rest } else { 0 }
}

/// A dump in the form of `hexdump -C`, of as many lines as it takes to have `limit` characters.
fn hex_dump(bytes: &[u8], limit: usize) -> String {
    let mut text = String::new();
    for (at, line) in bytes.chunks(16).enumerate() {
        if text.len() >= limit {
            break;
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{:08x} ", at * 16);
        for at in 0..16 {
            if at == 8 {
                text.push(' ');
            }
            match line.get(at) {
                Some(byte) => _ = write!(text, " {byte:02x}"),
                None => text.push_str("   "),
            }
        }
        let printable = |byte: &u8| if (32..127).contains(byte) { char::from(*byte) } else { '.' };
        let shown: String = line.iter().map(printable).collect();
        let _ = writeln!(text, "  |{shown}|");
    }
    text
}

/// The value of a header, without what it proves.
fn shown<'v>(name: &str, value: &'v str) -> std::borrow::Cow<'v, str> {
    if name.eq_ignore_ascii_case("set-cookie") || name.eq_ignore_ascii_case("cookie") {
        return "<masked>".into();
    }
    if !name.eq_ignore_ascii_case("authorization") || value.is_empty() {
        return value.into();
    }
    let kind = value.split(' ').next().unwrap_or_default();
    let is_known = ["bearer", "basic", "negotiate"].contains(&&*kind.to_ascii_lowercase());
    match (is_known, value.len() > kind.len() + 1) {
        (false, _) => "<masked>".into(),
        (true, true) => format!("{kind} <masked>").into(),
        (true, false) => kind.into(),
    }
}

/// Headers by name, one a line.
fn header_text(headers: &HeaderMap) -> String {
    let mut lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            format!("{}: {}\n", canonical(name.as_str()), shown(name.as_str(), &value))
        })
        .collect();
    lines.sort_unstable();
    lines.concat()
}

/// A header's name as it is usually written, such as `Content-Type`.
fn canonical(name: &str) -> String {
    let mut is_start = true;
    let letter = |letter: char| {
        let letter = if is_start { letter.to_ascii_uppercase() } else { letter };
        is_start = letter == '-';
        letter
    };
    name.chars().map(letter).collect()
}

/// The request as a command line.
fn curl(method: &Method, url: &str, headers: &HeaderMap) -> String {
    let mut headers: Vec<String> = headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            format!(
                " -H {:?}",
                format!("{}: {}", canonical(name.as_str()), shown(name.as_str(), &value))
            )
        })
        .collect();
    headers.sort_unstable();
    format!("curl -v -X{method} {} '{url}'", headers.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> HeaderMap {
        let list = [("accept", "application/json"), ("authorization", "Bearer abc.def")];
        list.into_iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<HeaderMap>()
    }

    #[test]
    fn credentials_are_masked() {
        assert_eq!(
            header_text(&headers()),
            "Accept: application/json\nAuthorization: Bearer <masked>\n"
        );
        for (value, expected) in
            [("", ""), ("Basic", "Basic"), ("Basic x", "Basic <masked>"), ("abc", "<masked>")]
        {
            assert_eq!(shown("Authorization", value), expected);
        }
        assert_eq!(shown("set-cookie", "a=b"), "<masked>");
        let path = "https://a/apis/authentication.k8s.io/v1/tokenreviews";
        assert_eq!(body_text(path, b"{\"token\":\"abc\"}", 10), "<masked>");
    }

    #[test]
    fn a_request_can_be_repeated_by_hand() {
        assert_eq!(
            curl(&Method::POST, "https://a/b?c=d", &headers()),
            "curl -v -XPOST  -H \"Accept: application/json\" -H \"Authorization: Bearer <masked>\" 'https://a/b?c=d'"
        );
    }

    #[test]
    fn bodies_are_cut() {
        let long = vec![b'a'; 20_000];
        for (verbosity, kept) in [(8, 1_024), (9, 10_240)] {
            let text = body_text("/", &long, verbosity);
            assert_eq!(text, format!("{} [truncated {} chars]", "a".repeat(kept), 20_000 - kept));
        }
        assert_eq!(body_text("/", &long, 10).len(), 20_000);
        // Never within a character.
        assert!(body_text("/", "ä".repeat(600).as_bytes(), 8).ends_with("[truncated 176 chars]"));
        assert!(
            body_text("/", format!("a{}", "ä".repeat(600)).as_bytes(), 8)
                .contains("[truncated 178 chars]")
        );
    }

    #[test]
    fn binary_bodies_are_dumped() {
        let text = body_text("/", b"k8s\0\n\x0babcdefghijk", 8);
        assert_eq!(
            text,
            "00000000  6b 38 73 00 0a 0b 61 62  63 64 65 66 67 68 69 6a  |k8s...abcdefghij|\n\
             00000010  6b                                                |k|\n"
        );
        assert_eq!(text.len(), dump_length(17));
        let long = vec![0_u8; 100_000];
        let text = body_text("/", &long, 8);
        assert!(
            text.len() < 1_100
                && text.ends_with(&format!("[truncated {} chars]", dump_length(100_000) - 1_024))
        );
    }
}
