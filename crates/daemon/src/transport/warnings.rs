//! Warnings that an API server sends with its answers, such as that an API is deprecated.
//!
//! Behaviour: `docs/spec/observability.md` §5.3.

use http::HeaderMap;
use http::header::WARNING;

/// The only code whose warnings are for people.
const FOR_PEOPLE: &str = "299";

/// Logs the warnings that come with an answer.
pub(super) fn log(headers: &HeaderMap) {
    for value in headers.get_all(WARNING) {
        for text in value.to_str().map(texts).unwrap_or_default() {
            tracing::info!("Warning: {text}");
        }
    }
}

/// The texts that are for people, up to the first warning that is malformed.
fn texts(mut header: &str) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(Warning { code, text, rest }) = Warning::first_of(header) {
        if code == FOR_PEOPLE && !text.is_empty() {
            found.push(text);
        }
        header = rest;
    }
    found
}

/// One warning: `CODE AGENT "TEXT"`, perhaps with a date, also in quotes; several are separated by commas.
struct Warning<'h> {
    code: &'h str,
    text: String,
    rest: &'h str,
}

impl<'h> Warning<'h> {
    fn first_of(header: &'h str) -> Option<Self> {
        let (code, after_code) = header.trim().split_once(' ')?;
        let (agent, quoted) = after_code.split_once(' ')?;
        if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_digit()) || agent.is_empty() {
            return None;
        }
        let (text, after_text) = unquoted(quoted)?;
        let after_date = match after_text.trim().strip_prefix('"') {
            Some(date) => date.split_once('"')?.1.trim(),
            None => after_text.trim(),
        };
        let rest = match after_date {
            "" => "",
            more => more.strip_prefix(',')?,
        };
        Some(Self { code, text, rest })
    }
}

/// The text in quotes at the beginning, in which a backslash stands before what is meant as it is, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut plain = String::new();
    let mut letters = inner.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((plain, &inner[at + 1..])),
            (_, '\\') => plain.push(letters.next()?.1),
            (_, letter) if letter.is_control() => return None,
            (_, letter) => plain.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_people_are_taken_out() {
        for (header, expected) in [
            (r#"299 - "v1 is deprecated""#, &["v1 is deprecated"][..]),
            (r#"  299 kube "say \"no\" \\ now"  "#, &[r#"say "no" \ now"#]),
            (
                r#"299 - "one" "Sat, 25 Aug 2012 23:34:45 GMT", 299 - "two",299 - "three""#,
                &["one", "two", "three"],
            ),
            (r#"199 - "other", 299 - "mine", 299 - """#, &["mine"]),
            (r#"299 - "one", nonsense, 299 - "two""#, &["one"]),
            (r#"299 - "one" and, 299 - "two""#, &[]),
            (r#"299 - "no end"#, &[]),
            (r#"299 - "no end\"#, &[]),
            (r#"299 - "date" "no end"#, &[]),
            (r#"29 - "short""#, &[]),
            (r#"299  "no agent""#, &[]),
            ("299 - bare", &[]),
            ("299", &[]),
            ("", &[]),
        ] {
            assert_eq!(texts(header), expected, "{header}");
        }
    }
}
