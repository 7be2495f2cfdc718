//! Texts that Go's standard library reads and prints: numbers, booleans, quoted strings, comma-separated records.
//!
//! Invariants: texts that Go accepts are accepted with the same meaning, and others are rejected with Go's messages, since
//! users see them as errors of flags; no text causes a panic.

pub(crate) use kube_scheduler_api_types::validation::quoted;

/// As `%q` prints a character.
pub(crate) fn quoted_char(c: char) -> String {
    match c {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        c => {
            let text = quoted(c.encode_utf8(&mut [0; 4]));
            format!("'{}'", text.trim_matches('"'))
        }
    }
}

/// As `%q` prints a list of strings.
pub(crate) fn quoted_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// The error of a function of Go's `strconv`.
pub(crate) fn conversion(function: &str, text: &str, problem: &str) -> String {
    format!("strconv.{function}: parsing {}: {problem}", quoted(text))
}

/// `strconv.ParseBool`.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(conversion("ParseBool", text, "invalid syntax")),
    }
}

/// `strconv.ParseInt` with the base taken from the prefix and this many bits.
pub(crate) fn parse_int(text: &str, bits: u32) -> Result<i64, String> {
    let wrong = |problem| conversion("ParseInt", text, problem);
    let (is_negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = magnitude(rest).ok_or_else(|| wrong("invalid syntax"))?;
    let signed = if is_negative { -magnitude } else { magnitude };
    let limit = 1_i128 << (bits - 1);
    if signed < -limit || signed >= limit {
        return Err(wrong("value out of range"));
    }
    i64::try_from(signed).map_err(|_| wrong("value out of range"))
}

/// A number with an optional base prefix and with underscores between digits; capped far beyond 64 bits.
fn magnitude(text: &str) -> Option<i128> {
    let lower = text.to_ascii_lowercase();
    let (base, digits, has_prefix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..], true),
        [b'0', b'b', ..] => (2, &lower[2..], true),
        [b'0', b'o', ..] => (8, &lower[2..], true),
        [b'0', _, ..] => (8, &lower[1..], true),
        _ => (10, &*lower, false),
    };
    let mut value = 0_i128;
    // An underscore may stand between digits, and between a prefix and the first digit.
    let mut after_digit = has_prefix;
    let mut has_digits = false;
    for c in digits.chars() {
        if c == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = c.to_digit(base)?;
        value = (value * i128::from(base) + i128::from(digit)).min(i128::from(u64::MAX) * 2);
        (after_digit, has_digits) = (true, true);
    }
    (has_digits && after_digit).then_some(value)
}

/// `strconv.ParseUint` with base 10 and this many bits.
pub(crate) fn parse_uint(text: &str, bits: u32) -> Result<u32, String> {
    let wrong = |problem| conversion("ParseUint", text, problem);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong("invalid syntax"));
    }
    let value: u32 = text.parse().map_err(|_| wrong("value out of range"))?;
    if u64::from(value) >= 1_u64 << bits { Err(wrong("value out of range")) } else { Ok(value) }
}

/// `strconv.ParseFloat` with 32 bits, without hexadecimal numbers.
pub(crate) fn parse_float(text: &str) -> Result<f32, String> {
    let wrong = |problem| conversion("ParseFloat", text, problem);
    let value: f32 = text.parse().map_err(|_| wrong("invalid syntax"))?;
    let says_infinite = text.to_ascii_lowercase().contains("inf");
    if value.is_infinite() && !says_infinite {
        return Err(wrong("value out of range"));
    }
    Ok(value)
}

/// The first record of `text` as Go's `encoding/csv` reads it.
pub(crate) fn parse_record(text: &str) -> Result<Vec<String>, String> {
    const BARE: &str = "bare \" in non-quoted field";
    const STRAY: &str = "extraneous or missing \" in quoted-field";
    // The message counts lines and bytes of a line, both from one.
    let at = |offset: usize, problem: &str| {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = offset - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
        if line == 1 {
            format!("parse error on line 1, column {column}: {problem}")
        } else {
            format!("record on line 1; parse error on line {line}, column {column}: {problem}")
        }
    };
    // Empty lines before the record do not count.
    let start = text.len() - text.trim_start_matches(['\r', '\n']).len();
    if start == text.len() {
        return Err("EOF".to_owned());
    }
    let mut fields = Vec::new();
    let mut position = start;
    loop {
        let rest = &text[position..];
        if !rest.starts_with('"') {
            let end = rest.find([',', '\n']).unwrap_or(rest.len());
            let field = rest[..end].trim_end_matches('\r');
            if let Some(quote) = field.find('"') {
                return Err(at(position + quote, BARE));
            }
            fields.push(field.to_owned());
            position += end;
        } else {
            let mut field = String::new();
            position += 1;
            loop {
                let Some(quote) = text[position..].find('"') else {
                    return Err(at(text.len(), STRAY));
                };
                field.push_str(&text[position..position + quote]);
                position += quote + 1;
                if !text[position..].starts_with('"') {
                    break;
                }
                field.push('"');
                position += 1;
            }
            if !text[position..].is_empty() && !text[position..].starts_with([',', '\n', '\r']) {
                return Err(at(position - 1, STRAY));
            }
            fields.push(field);
        }
        if text[position..].starts_with(',') {
            position += 1;
        } else {
            return Ok(fields);
        }
    }
}

/// A record as Go's `encoding/csv` writes it, without the end of line.
pub(crate) fn record(fields: &[String]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|field| {
            let needs_quotes = field == "\\."
                || field.contains([',', '"', '\r', '\n'])
                || field.starts_with(char::is_whitespace);
            if needs_quotes { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.clone() }
        })
        .collect();
    fields.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_go_prefixes_and_underscores() {
        for (text, value) in [
            ("0", 0),
            ("-12", -12),
            ("+7", 7),
            ("0x1F", 31),
            ("010", 8),
            ("0b11", 3),
            ("1_000", 1000),
            ("0x_1", 1),
        ] {
            assert_eq!(parse_int(text, 64), Ok(value), "{text}");
        }
        for text in ["", "-", "1_", "_1", "1__0", "0x", "8 ", "1.5", "08", "ten"] {
            let error = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            assert_eq!(parse_int(text, 64), Err(error));
        }
        assert_eq!(parse_int("2147483647", 32), Ok(2_147_483_647));
        assert!(parse_int("2147483648", 32).unwrap_err().ends_with("value out of range"));
        assert!(parse_int(&"9".repeat(99), 64).unwrap_err().ends_with("value out of range"));
    }

    #[test]
    fn floats_are_gos() {
        assert!(parse_float("1e99").unwrap_err().ends_with("value out of range"));
        assert!(parse_float("fast").unwrap_err().ends_with("invalid syntax"));
    }

    #[test]
    fn records_are_gos() {
        let fields = |texts: &[&str]| Ok(texts.iter().map(|&text| text.to_owned()).collect());
        assert_eq!(parse_record("a,b,"), fields(&["a", "b", ""]));
        assert_eq!(parse_record("\"a,\"\"b\"\"\",c"), fields(&["a,\"b\"", "c"]));
        assert_eq!(parse_record("\na\nb"), fields(&["a"]));
        let error = |text| parse_record(text).unwrap_err();
        assert_eq!(error("\n"), "EOF");
        assert_eq!(error("a,b\"c"), "parse error on line 1, column 4: bare \" in non-quoted field");
        assert_eq!(
            error("\"a\"b"),
            "parse error on line 1, column 3: extraneous or missing \" in quoted-field"
        );
        assert_eq!(
            error("\"a"),
            "parse error on line 1, column 3: extraneous or missing \" in quoted-field"
        );
        assert_eq!(record(&["a,b".to_owned(), "c".to_owned()]), "\"a,b\",c");
    }

    #[test]
    fn quotes_are_gos() {
        assert_eq!(quoted("a\"\\\n\u{1}é\u{85}"), "\"a\\\"\\\\\\n\\x01é\\u0085\"");
        assert_eq!((quoted_char('x'), quoted_char('\'')), ("'x'".to_owned(), "'\\''".to_owned()));
        assert_eq!(quoted_list(&["a".to_owned(), "b".to_owned()]), "[\"a\" \"b\"]");
    }
}
