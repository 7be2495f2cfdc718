//! Addresses in text, read as Go's `net/netip` does, whose messages users know.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::quote::quoted;

/// 16 bits each.
const V6_FIELDS: usize = 8;

/// What is wrong with a text, and with what the part begins that is not understood, if that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem<'t> {
    what: &'static str,
    rest: &'t str,
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if self.rest.is_empty() { Ok(()) } else { write!(f, " (at {})", quoted(self.rest)) }
    }
}

fn wrong<'t, T>(what: &'static str, rest: &'t str) -> Result<T, Problem<'t>> {
    Err(Problem { what, rest })
}

/// Reads an address, and the zone behind it.
pub(crate) fn parse(text: &str) -> Result<(IpAddr, Option<&str>), Problem<'_>> {
    match text.bytes().find(|byte| b".:%".contains(byte)) {
        Some(b'.') => Ok((Ipv4Addr::from(v4_octets(text)?).into(), None)),
        Some(b':') => {
            let (address, zone) = match text.split_once('%') {
                Some((_, "")) => return wrong("zone must be a non-empty string", ""),
                Some((address, zone)) => (address, Some(zone)),
                None => (text, None),
            };
            Ok((Ipv6Addr::from(v6_fields(address)?).into(), zone))
        }
        Some(_) => wrong("missing IPv6 address", ""),
        None => wrong("unable to parse IP", ""),
    }
}

fn v4_octets(text: &str) -> Result<[u8; 4], Problem<'_>> {
    let mut octets = [0; 4];
    let (mut at, mut value, mut n_digits) = (0, 0_u32, 0);
    for (index, c) in text.char_indices() {
        let rest = &text[index..];
        match c {
            '0'..='9' => {
                if n_digits == 1 && value == 0 {
                    return wrong("IPv4 field has octet with leading zero", "");
                }
                value = 10 * value + (u32::from(c) - u32::from('0'));
                n_digits += 1;
                octets[at] = match u8::try_from(value) {
                    Ok(octet) => octet,
                    Err(_) => return wrong("IPv4 field has value >255", ""),
                };
            }
            '.' if n_digits == 0 || rest.len() == 1 => {
                return wrong("IPv4 field must have at least one digit", rest);
            }
            '.' if at == 3 => return wrong("IPv4 address too long", ""),
            '.' => (at, value, n_digits) = (at + 1, 0, 0),
            _ => return wrong("unexpected character", rest),
        }
    }
    if at < 3 { wrong("IPv4 address too short", "") } else { Ok(octets) }
}

fn v6_fields(text: &str) -> Result<[u16; V6_FIELDS], Problem<'_>> {
    let mut fields = [0; V6_FIELDS];
    let mut at = 0;
    let mut rest = text;
    // Which field the zeros come before that are left out.
    let mut gap = None;
    if let Some(after) = text.strip_prefix("::") {
        (gap, rest) = (Some(0), after);
        if rest.is_empty() {
            return Ok(fields);
        }
    }
    while at < V6_FIELDS {
        let (field, after) = hex_field(rest)?;
        if after.starts_with('.') {
            if gap.is_none() && at != V6_FIELDS - 2 {
                return wrong(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                );
            }
            if at > V6_FIELDS - 2 {
                return wrong(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                );
            }
            let [a, b, c, d] = v4_octets(rest)?;
            fields[at] = u16::from_be_bytes([a, b]);
            fields[at + 1] = u16::from_be_bytes([c, d]);
            (at, rest) = (at + 2, "");
            break;
        }
        fields[at] = field;
        (at, rest) = (at + 1, after);
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return wrong("unexpected character, want colon", rest);
        };
        if after.is_empty() {
            return wrong("colon must be followed by more characters", rest);
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return wrong("multiple :: in address", rest);
            }
            (gap, rest) = (Some(at), after);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return wrong("trailing garbage after address", rest);
    }
    match gap {
        None if at < V6_FIELDS => wrong("address string too short", ""),
        Some(_) if at == V6_FIELDS => {
            wrong("the :: must expand to at least one field of zeros", "")
        }
        Some(gap) => {
            // What was read behind the gap belongs to the end.
            fields[gap..].rotate_right(V6_FIELDS - at);
            Ok(fields)
        }
        None => Ok(fields),
    }
}

/// A field at the beginning of the text, and what follows it.
fn hex_field(text: &str) -> Result<(u16, &str), Problem<'_>> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    match u16::from_str_radix(&text[..end], 16) {
        _ if end > 4 => wrong("each group must have 4 or less digits", text),
        Ok(field) => Ok((field, &text[end..])),
        Err(_) => wrong("each colon-separated field must have at least one digit", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_go() {
        for (text, wanted) in [
            ("", "unable to parse IP"),
            ("12", "unable to parse IP"),
            ("%d", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.", "IPv4 field must have at least one digit (at \".\")"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            (".5", "IPv4 field must have at least one digit (at \".5\")"),
            ("1.02.3.4", "IPv4 field has octet with leading zero"),
            ("1.256.3.4", "IPv4 field has value >255"),
            ("10.0.0.0/8", "unexpected character (at \"/8\")"),
            ("1.2.ü", "unexpected character (at \"ü\")"),
            ("fe80::1%", "zone must be a non-empty string"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            ("::/129", "each colon-separated field must have at least one digit (at \"/129\")"),
            ("1:2", "address string too short"),
            ("1:2z", "unexpected character, want colon (at \"z\")"),
            ("1:", "colon must be followed by more characters (at \":\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
            (
                "1:1.2.3.4",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")",
            ),
            (
                "::1:2:3:4:5:6:7:1.2.3.4",
                "too many hex fields to fit an embedded IPv4 at the end of the address (at \"1.2.3.4\")",
            ),
            ("::1.2.3.x", "unexpected character (at \"x\")"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn what_the_standard_library_reads_is_read_alike() {
        for text in [
            "1.2.3.4",
            "255.0.0.0",
            "::",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1::8",
            "1:2::7:8",
            "::2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::ffff:1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4",
            "FE80::aBcD",
        ] {
            assert_eq!(parse(text), Ok((text.parse().unwrap(), None)), "{text}");
        }
        assert_eq!(parse("fe80::1%eth0"), Ok(("fe80::1".parse().unwrap(), Some("eth0"))));
    }
}
