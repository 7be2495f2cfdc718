//! URLs as Go reads them (`docs/spec/cel.md` §5).

use crate::quote::quoted;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    user: Option<String>,
    /// With brackets and port.
    pub(crate) host: String,
    /// As it was written, escaped where that was necessary.
    pub(crate) path: String,
    pub(crate) query: String,
    fragment: String,
}

impl Url {
    /// Reads an absolute URL or an absolute path, as they stand in a request.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|why| format!("parse {}: {why}", quoted(text)))
    }

    fn read(text: &str) -> Result<Self, String> {
        // A request has no fragment: all of the text must be fine as path and query.
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text == "*" {
            return Ok(Self { path: text.to_owned(), ..Self::empty() });
        }
        let request = Self::parts(text, true)?;
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if fragment.is_empty() {
            return Ok(request);
        }
        unescaped(fragment, false)?;
        Ok(Self { fragment: fragment.to_owned(), ..Self::parts(text, false)? })
    }

    fn empty() -> Self {
        let empty = String::new;
        Self {
            scheme: empty(),
            user: None,
            host: empty(),
            path: empty(),
            query: empty(),
            fragment: empty(),
        }
    }

    fn parts(text: &str, is_request: bool) -> Result<Self, String> {
        let mut url = Self::empty();
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query.to_owned();
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                return Ok(url);
            }
            if is_request {
                return Err("invalid URI for request".to_owned());
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        let has_authority = !url.scheme.is_empty() || !is_request && !rest.starts_with("///");
        if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
            let end = authority.find('/').unwrap_or(authority.len());
            path = &authority[end..];
            let (user, host) = match authority[..end].rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, &authority[..end]),
            };
            if let Some(user) = user {
                let is_fine =
                    |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
                if !user.chars().all(is_fine) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                unescaped(user, false)?;
            }
            url.user = user.map(str::to_owned);
            url.host = host_of(host)?;
        }
        unescaped(path, false)?;
        url.path = escaped_path(path);
        Ok(url)
    }

    pub(crate) fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name),
        }
    }

    pub(crate) fn port(&self) -> &str {
        let behind = match self.host.rsplit_once(']') {
            Some((_, behind)) => behind,
            None => self.host.as_str(),
        };
        let port = behind.rsplit_once(':').map_or("", |(_, port)| port);
        if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" }
    }
}

/// Scheme and rest; no scheme if there is none.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn host_of(host: &str) -> Result<String, String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => {
            let (inner, behind) = rest.rsplit_once(']').ok_or("missing ']' in host")?;
            let (address, zone) = inner.split_once("%25").unwrap_or((inner, ""));
            unescaped(zone, true)?;
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err("invalid host".to_owned());
            }
            behind
        }
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    if let Some(c) = host.chars().find(|c| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c)
    }) {
        return Err(format!("invalid character {} in host name", quoted(&c.to_string())));
    }
    String::from_utf8(unescaped(host, true)?).map_err(|_| "invalid host".to_owned())
}

/// What the text stands for; `%` must be followed by two hexadecimal digits.
pub(crate) fn unescaped(text: &str, is_host: bool) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let code = rest
            .get(at + 1..at + 3)
            .filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(code) = code else {
            let shown: String = rest[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quoted(&shown)));
        };
        let byte = u8::from_str_radix(code, 16).unwrap_or(b'%');
        if is_host && byte < 0x80 && byte != b'%' {
            return Err(format!("invalid URL escape {}", quoted(&rest[at..at + 3])));
        }
        bytes.push(byte);
        rest = &rest[at + 3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// The path with everything escaped that must be.
fn escaped_path(path: &str) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]/%".contains(&byte);
    if path.bytes().all(is_plain) {
        return path.to_owned();
    }
    let decoded = unescaped(path, false).unwrap_or_else(|_| path.as_bytes().to_vec());
    let mut out = String::with_capacity(path.len());
    for byte in decoded {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Why the text is no URL.
pub(crate) fn problem(text: &str) -> Option<String> {
    Url::parse(text).err()
}
