//! Go's notation of regular expressions, rewritten in Rust's: classes like `\d` are ASCII, brackets and braces without
//! meaning are literal. What is wrong is said in Go's words.

/// The largest count in `{n,m}`, and the largest product of such counts within each other.
const MAX_REPEAT: u32 = 1000;

const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = "\\t\\n\\f\\r ";
const NAMED_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

const INVALID_COUNT: &str = "invalid repeat count";
const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_NAME: &str = "invalid named capture";
const INVALID_PERL: &str = "invalid or unsupported Perl syntax";
const INVALID_RANGE: &str = "invalid character class range";
const UNCLOSED_CLASS: &str = "missing closing ]";

/// What is wrong with a pattern, and with which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidPattern<'p> {
    pub(super) what: &'static str,
    pub(super) part: &'p str,
}

/// Something that was read, and what follows it.
type ReadResult<'p, T> = Result<(T, &'p str), InvalidPattern<'p>>;

fn invalid<'p, T>(what: &'static str, part: &'p str) -> Result<T, InvalidPattern<'p>> {
    Err(InvalidPattern { what, part })
}

/// What of `text` stands before `rest`, which is its end.
fn before<'p>(text: &'p str, rest: &str) -> &'p str {
    &text[..text.len() - rest.len()]
}

fn next(text: &str) -> Option<(char, &str)> {
    let c = text.chars().next()?;
    Some((c, &text[c.len_utf8()..]))
}

/// The same pattern in Rust's notation.
pub(super) fn translate(pattern: &str) -> Result<String, InvalidPattern<'_>> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut translator =
        Translator { pattern, groups: vec![1], repeatable: None, last_repetition: None };
    let mut rest = pattern;
    // In Go, a repetition behind flags is of what stands before them.
    let mut flags = String::new();
    while let Some((c, after)) = next(rest) {
        let (text, tail) = translator.part(c, rest, after)?;
        if c == '(' && text.ends_with(')') {
            flags.push_str(&text);
        } else if translator.last_repetition.is_some() {
            out.push_str(&text);
        } else {
            out.push_str(&flags);
            out.push_str(&text);
            flags.clear();
        }
        rest = tail;
    }
    if translator.groups.len() > 1 { invalid("missing closing )", pattern) } else { Ok(out) }
}

struct Translator<'p> {
    pattern: &'p str,
    /// The largest product of counts within each other, of the pattern and of each group that is open.
    groups: Vec<u32>,
    /// That of what was read last, if it can be repeated.
    repeatable: Option<u32>,
    /// The pattern from the last repetition on, if nothing else has come since.
    last_repetition: Option<&'p str>,
}

impl<'p> Translator<'p> {
    fn part(&mut self, c: char, rest: &'p str, after: &'p str) -> ReadResult<'p, String> {
        let counts = if c == '{' { counts(rest)? } else { None };
        if matches!(c, '*' | '+' | '?') || counts.is_some() {
            return self.repetition(rest, counts);
        }
        self.last_repetition = None;
        let (text, tail) = match c {
            '(' => {
                let (text, tail) = group(rest)?;
                // Flags up to the end of a group leave alone what comes before them.
                if !text.ends_with(')') && !text.is_empty() {
                    self.groups.push(1);
                    self.repeatable = None;
                }
                return Ok((text, tail));
            }
            '|' => {
                self.repeatable = None;
                return Ok(("|".to_owned(), after));
            }
            ')' if self.groups.len() < 2 => return invalid("unexpected )", self.pattern),
            ')' => {
                let product = self.groups.pop().unwrap_or(1);
                self.add(product);
                return Ok((")".to_owned(), after));
            }
            '\\' => {
                let (escaped, tail) = escape(rest, false)?;
                (escaped.text(), tail)
            }
            '[' => class(rest)?,
            '{' => ("\\{".to_owned(), after),
            other => (other.to_string(), after),
        };
        if !text.is_empty() {
            self.add(1);
        }
        Ok((text, tail))
    }

    fn add(&mut self, product: u32) {
        if let Some(group) = self.groups.last_mut() {
            *group = product.max(*group);
        }
        self.repeatable = Some(product);
    }

    fn repetition(&mut self, rest: &'p str, counts: Option<Counts>) -> ReadResult<'p, String> {
        let tail = &rest[counts.map_or(1, |counts| counts.length)..];
        let tail = tail.strip_prefix('?').unwrap_or(tail);
        let operator = before(rest, tail);
        if let Some(last) = self.last_repetition {
            return invalid("invalid nested repetition operator", before(last, tail));
        }
        let Some(mut product) = self.repeatable else {
            return invalid("missing argument to repetition operator", operator);
        };
        if let Some(Counts { min, max, .. }) = counts {
            let most = max.unwrap_or(min);
            product = if max == Some(0) { 1 } else { product * most.max(1) };
            if most >= 2 && product > MAX_REPEAT {
                return invalid(INVALID_COUNT, operator);
            }
        }
        self.add(product);
        self.last_repetition = Some(rest);
        Ok((operator.to_owned(), tail))
    }
}

/// A repetition like `{2,3}`.
#[derive(Clone, Copy)]
struct Counts {
    min: u32,
    max: Option<u32>,
    length: usize,
}

/// The counts at the beginning of the text, if it does begin so.
fn counts(text: &str) -> Result<Option<Counts>, InvalidPattern<'_>> {
    let Some(end) = text.find('}') else { return Ok(None) };
    let inner = &text[1..end];
    let (min, max) = inner.split_once(',').unwrap_or((inner, inner));
    let is_number = |text: &str| {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        is_decimal && !text.is_empty() && (text.len() == 1 || !text.starts_with('0'))
    };
    if !is_number(min) || !(max.is_empty() && inner.contains(',') || is_number(max)) {
        return Ok(None);
    }
    let length = end + 1;
    let count = |text: &str| text.parse().ok().filter(|count| *count <= MAX_REPEAT);
    let (lowest, highest) = (count(min), count(max));
    match (lowest, highest) {
        (Some(min), None) if max.is_empty() => Ok(Some(Counts { min, max: None, length })),
        (Some(min), Some(max)) if min <= max => Ok(Some(Counts { min, max: Some(max), length })),
        _ => invalid(INVALID_COUNT, &text[..length]),
    }
}

/// How a group begins, up to its content.
fn group(text: &str) -> ReadResult<'_, String> {
    let Some(flags) = text.strip_prefix("(?") else { return Ok(("(".to_owned(), &text[1..])) };
    let name = flags.strip_prefix("P<").or_else(|| flags.strip_prefix('<'));
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        let Some((name, tail)) = name.split_once('>') else { return invalid(INVALID_NAME, text) };
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        return match is_word && !name.is_empty() {
            true => Ok(("(".to_owned(), tail)),
            false => invalid(INVALID_NAME, before(text, tail)),
        };
    }
    let (mut is_negated, mut has_flag) = (false, false);
    let mut rest = flags;
    while let Some((c, tail)) = next(rest) {
        rest = tail;
        match c {
            'i' | 'm' | 's' | 'U' => has_flag = true,
            '-' if !is_negated => (is_negated, has_flag) = (true, false),
            ':' | ')' if !is_negated || has_flag => {
                let text = before(text, tail);
                return Ok((if text == "(?)" { String::new() } else { text.to_owned() }, tail));
            }
            _ => break,
        }
    }
    invalid(INVALID_PERL, before(text, rest))
}

/// What an escape sequence stands for.
enum EscapeSequence {
    Char(char),
    /// More than one character, or none, in Rust's notation.
    Class(String),
}

impl EscapeSequence {
    fn text(self) -> String {
        match self {
            Self::Char(c) => literally(c),
            Self::Class(text) => text,
        }
    }
}

/// An escape sequence; the text begins with its backslash.
fn escape(text: &str, in_class: bool) -> ReadResult<'_, EscapeSequence> {
    let Some((c, tail)) = next(&text[1..]) else {
        return invalid("trailing backslash at end of expression", "");
    };
    let class = |members: &str| match (c.is_ascii_uppercase(), in_class) {
        (false, true) => members.to_owned(),
        (true, _) => format!("[^{members}]"),
        (false, false) => format!("[{members}]"),
    };
    let escaped = match c {
        'd' | 'D' => EscapeSequence::Class(class("0-9")),
        'w' | 'W' => EscapeSequence::Class(class(WORD)),
        's' | 'S' => EscapeSequence::Class(class(SPACE)),
        'b' if !in_class => EscapeSequence::Class("(?-u:\\b)".to_owned()),
        'B' | 'A' | 'z' if !in_class => EscapeSequence::Class(format!("\\{c}")),
        'Q' if !in_class => {
            let (literal, tail) = tail.split_once("\\E").unwrap_or((tail, ""));
            return Ok((EscapeSequence::Class(literal.chars().map(literally).collect()), tail));
        }
        'p' | 'P' => return unicode_class(text, c == 'P', tail),
        'x' => return hexadecimal(text, tail),
        '0'..='7' => return octal(text),
        'a' => EscapeSequence::Char('\u{7}'),
        'f' => EscapeSequence::Char('\u{c}'),
        't' => EscapeSequence::Char('\t'),
        'n' => EscapeSequence::Char('\n'),
        'r' => EscapeSequence::Char('\r'),
        'v' => EscapeSequence::Char('\u{b}'),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => EscapeSequence::Char(other),
        _ => return invalid(INVALID_ESCAPE, before(text, tail)),
    };
    Ok((escaped, tail))
}

fn unicode_class<'p>(
    text: &'p str,
    is_negated: bool,
    tail: &'p str,
) -> ReadResult<'p, EscapeSequence> {
    let (name, tail) = match (next(tail), tail.strip_prefix('{')) {
        (_, Some(name)) => name.split_once('}').unwrap_or(("", "")),
        (Some((_, rest)), None) => (before(tail, rest), rest),
        (None, None) => ("", ""),
    };
    let (name, is_negated) = match name.strip_prefix('^') {
        Some(name) => (name, !is_negated),
        None => (name, is_negated),
    };
    if name.is_empty() {
        return invalid(INVALID_RANGE, before(text, tail));
    }
    let letter = if is_negated { 'P' } else { 'p' };
    Ok((EscapeSequence::Class(format!("\\{letter}{{{name}}}")), tail))
}

/// A character like `\x41` or `\x{1F600}`; `tail` is what follows the letter.
fn hexadecimal<'p>(text: &'p str, tail: &'p str) -> ReadResult<'p, EscapeSequence> {
    let (mut code, mut n_digits) = (0, 0);
    let (is_braced, mut rest) = match tail.strip_prefix('{') {
        Some(rest) => (true, rest),
        None => (false, tail),
    };
    let mut is_valid = true;
    while let Some((c, tail)) = next(rest) {
        rest = tail;
        if is_braced && c == '}' {
            break;
        }
        is_valid &= c.is_ascii_hexdigit();
        code = code * 16 + c.to_digit(16).unwrap_or(0);
        n_digits += 1;
        is_valid &= code <= u32::from(char::MAX);
        // Go reads two digits before it looks at them.
        if if is_braced { !is_valid } else { n_digits == 2 } {
            break;
        }
    }
    let part = before(text, rest);
    let is_complete = if is_braced { part.ends_with('}') && n_digits > 0 } else { n_digits == 2 };
    match char::from_u32(code) {
        Some(c) if is_valid && is_complete => Ok((EscapeSequence::Char(c), rest)),
        _ => invalid(INVALID_ESCAPE, part),
    }
}

/// A character like `\101`. A single digit but zero would be a reference back, which Go does not have.
fn octal(text: &str) -> ReadResult<'_, EscapeSequence> {
    let n_digits = text[1..].bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    let (part, tail) = text.split_at(1 + n_digits);
    match u32::from_str_radix(&part[1..], 8).ok().and_then(char::from_u32) {
        Some(c) if n_digits > 1 || c == '\0' => Ok((EscapeSequence::Char(c), tail)),
        _ => invalid(INVALID_ESCAPE, part),
    }
}

/// A character that stands for itself.
fn literally(c: char) -> String {
    match c {
        '<' | '>' => c.to_string(),
        _ if c.is_ascii_punctuation() => format!("\\{c}"),
        _ => c.to_string(),
    }
}

/// A class; the text begins with its opening bracket.
fn class(text: &str) -> ReadResult<'_, String> {
    let mut out = "[".to_owned();
    let mut rest = &text[1..];
    if let Some(tail) = rest.strip_prefix('^') {
        out.push('^');
        rest = tail;
    }
    let mut is_first = true;
    loop {
        if let Some(tail) = rest.strip_prefix(']').filter(|_| !is_first) {
            out.push(']');
            return Ok((out, tail));
        }
        is_first = false;
        if let Some((name, tail)) = rest.strip_prefix("[:").and_then(|name| name.split_once(":]")) {
            if !NAMED_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                return invalid(INVALID_RANGE, before(rest, tail));
            }
            out.push_str(before(rest, tail));
            rest = tail;
            continue;
        }
        let (low, mut tail) = class_part(rest, text)?;
        out.push_str(&match low {
            EscapeSequence::Class(members) => members,
            EscapeSequence::Char(low) => {
                let mut range = literally(low);
                let high = tail
                    .strip_prefix('-')
                    .filter(|high| !matches!(next(high), None | Some((']', _))));
                if let Some(from) = high {
                    let (EscapeSequence::Char(high), after) = class_part(from, text)? else {
                        return invalid(INVALID_ESCAPE, &from[..2]);
                    };
                    tail = after;
                    if high < low {
                        return invalid(INVALID_RANGE, before(rest, tail));
                    }
                    range = format!("{range}-{}", literally(high));
                }
                range
            }
        });
        rest = tail;
    }
}

fn class_part<'p>(rest: &'p str, class: &'p str) -> ReadResult<'p, EscapeSequence> {
    match next(rest) {
        None => invalid(UNCLOSED_CLASS, class),
        Some(('\\', _)) => escape(rest, true),
        Some((c, tail)) => Ok((EscapeSequence::Char(c), tail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_go() {
        for (pattern, what, part) in [
            ("ab(", "missing closing )", "ab("),
            ("a)b", "unexpected )", "a)b"),
            ("x(?<a", INVALID_NAME, "(?<a"),
            ("(?P<n-1>a)", INVALID_NAME, "(?P<n-1>"),
            ("(?=a)", INVALID_PERL, "(?="),
            ("(?i", INVALID_PERL, "(?i"),
            ("(?i-:a)", INVALID_PERL, "(?i-:"),
            ("a\\", "trailing backslash at end of expression", ""),
            (r"a\Zb", INVALID_ESCAPE, r"\Z"),
            (r"\18", INVALID_ESCAPE, r"\1"),
            (r"\xg12", INVALID_ESCAPE, r"\xg1"),
            (r"\x{110000}", INVALID_ESCAPE, r"\x{110000"),
            (r"[a-\d]", INVALID_ESCAPE, r"\d"),
            (r"\p{Foo", INVALID_RANGE, r"\p{Foo"),
            ("a[z-a]", INVALID_RANGE, "z-a"),
            ("[[:foo:]]", INVALID_RANGE, "[:foo:]"),
            ("a[]b", UNCLOSED_CLASS, "[]b"),
            ("a{1001}b", INVALID_COUNT, "{1001}"),
            ("a{3,2}", INVALID_COUNT, "{3,2}"),
            ("(a{100}b){11}", INVALID_COUNT, "{11}"),
            ("a*?+b", "invalid nested repetition operator", "*?+"),
            ("a{2}{3}", "invalid nested repetition operator", "{2}{3}"),
            ("(a|*b)", "missing argument to repetition operator", "*"),
            ("+?", "missing argument to repetition operator", "+?"),
        ] {
            assert_eq!(translate(pattern), Err(InvalidPattern { what, part }), "{pattern}");
        }
    }

    #[test]
    fn what_only_go_knows_is_rewritten() {
        for (pattern, translated) in [
            (r"\p{^Greek}\P{^Lu}", r"\P{Greek}\p{Lu}"),
            (r"\ \_", r" \_"),
            (r"a(?i)*b", r"a*(?i)b"),
            (r"(?)a{02}", r"a\{02}"),
            (r"\Qa.\E*", r"a\.*"),
            (r"[+-\]&&[:^alpha]", r"[\+-\]\&\&\[\:\^alpha]"),
            (r"((a{2,}){100}){0}", r"((a{2,}){100}){0}"),
        ] {
            assert_eq!(translate(pattern).as_deref(), Ok(translated), "{pattern}");
        }
    }
}
