//! Text in quotes, as Go's `%q` writes it.

use kube_scheduler_api_types::validation;

pub(crate) fn quoted(text: &str) -> String {
    validation::quoted(text)
}

/// Text in quotes, as `strings.quote` writes it: only control characters with a short escape are escaped.
pub(crate) fn quoted_for_cel(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
