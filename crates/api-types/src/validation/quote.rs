//! Values as they appear inside messages: quoted strings and JSON.
//!
//! Invariants: [`quoted`] yields one line of printable characters whatever it is given; [`json_text`] never contains
//! `<`, `>` or `&` unescaped. Both agree with what upstream prints, because people grep for it.

use std::fmt::Write as _;

use serde::Serialize;

/// A string in double quotes, with everything unprintable escaped (`"a\tb\u00ad"`).
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{07}' => out.push_str("\\a"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0b}' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            _ if is_printable(c) => out.push(c),
            // Writing to a String cannot fail.
            _ if (c as u32) < 0x80 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            _ if (c as u32) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push('"');
    out
}

/// A value as compact JSON, with the characters that matter to HTML escaped as upstream's encoder does.
///
/// A value that has no JSON form (a map with keys that are not strings) prints as `null`.
#[must_use]
pub fn json_text<T: Serialize + ?Sized>(value: &T) -> String {
    let plain = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    let mut out = String::with_capacity(plain.len() + 16);
    // Outside of strings JSON has none of these characters, so replacing them everywhere is safe.
    for c in plain.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => out.push(c),
        }
    }
    out
}

/// Whether a non-ASCII character shows as itself. The standard library's table decides, with a letter in front so that
/// combining marks count as printable.
fn is_printable(c: char) -> bool {
    let mut buffer = String::from("a");
    buffer.push(c);
    !c.is_control() && buffer.escape_debug().count() == 2
}
