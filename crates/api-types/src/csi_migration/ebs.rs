//! Handles of EBS volumes: the bare id, or the path of `aws://<zone>/<id>`.

use super::CsiTranslationError;

/// The handle for an id as users write it.
pub(super) fn handle(id: &str) -> Result<String, CsiTranslationError> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    id_in_url(id, rest).map_err(CsiTranslationError::EbsVolumeId)
}

fn id_in_url(url: &str, rest: &str) -> Result<String, String> {
    let path = path_of(rest)
        .map_err(|error| format!("Invalid disk name ({url}): parse {url:?}: {error}"))?;
    let id = path.trim_matches('/');
    if id.strip_prefix("vol-").is_none_or(|rest| rest.contains('/')) {
        return Err(format!("Invalid format for AWS volume ({url})"));
    }
    Ok(id.to_owned())
}

/// The decoded path of what follows the scheme of a URL, or what the reference's URL parser has against it.
fn path_of(rest: &str) -> Result<String, String> {
    if rest.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    check_host(authority.rsplit('@').next().unwrap_or_default())?;
    decode(path)
}

fn check_host(host: &str) -> Result<(), String> {
    if let Some(bad) = host.chars().find(|c| c.is_ascii() && !is_host_character(*c)) {
        return Err(format!("invalid character {:?} in host name", bad.to_string()));
    }
    match host.find(':').map(|at| host.split_at(at)) {
        Some((_, port)) if !port.bytes().skip(1).all(|byte| byte.is_ascii_digit()) => {
            Err(format!("invalid port {port:?} after host"))
        }
        _ => Ok(()),
    }
}

fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c)
}

/// Undoes percent-encoding. By hand, because a bad escape is an error with the text of Go's `net/url`, which the reference
/// reports for the volume; the crate `percent-encoding` leaves bad escapes as they are.
fn decode(path: &str) -> Result<String, String> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first != b'%' {
            decoded.push(*first);
            rest = tail;
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            let shown = &rest[..rest.len().min(3)];
            return Err(format!("invalid URL escape {:?}", String::from_utf8_lossy(shown)));
        };
        decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
        rest = &tail[2..];
    }
    Ok(String::from_utf8_lossy(&decoded).into_owned())
}
