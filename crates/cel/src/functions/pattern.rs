//! Regular expressions in Go's syntax on Rust's engine (spec/cel.md §6). Both run in linear time.

use regex::{Regex, RegexBuilder};

use super::{Called, Context};
use crate::declarations::Function;
use crate::error::Fault;
use crate::limits;
use crate::value::{Text, Value};

/// The largest count in `{n,m}`.
const MAX_REPEAT: u32 = 1000;
/// Steps that compiling a pattern is worth.
const COMPILE_STEPS: u64 = 2_000;

pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> Called<'a> {
    let (text, pattern, count) = match arguments {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(count)] => (text, pattern, *count),
        _ => return None,
    };
    let compiled;
    let regex = match context.pattern {
        Some(regex) => regex,
        None => {
            let steps = COMPILE_STEPS + 100 * pattern.len() as u64;
            if let Err(stop) = context.meter.step(steps) {
                return Some(Err(stop));
            }
            compiled = match compile(pattern) {
                Ok(compiled) => compiled,
                Err(why) if function == Function::Matches => return Some(Err(Fault::text(why))),
                Err(why) => return Some(Err(Fault::text(format!("Illegal regex: {why}")))),
            };
            &compiled
        }
    };
    Some(Ok(match function {
        Function::Matches => Value::Bool(regex.is_match(text)),
        Function::Find => match regex.find(text) {
            Some(found) => Value::String(text.part(found.range())),
            None => Value::String(Text::Borrowed("")),
        },
        _ => {
            let most = usize::try_from(count).unwrap_or(usize::MAX);
            let mut found = Vec::new();
            for part in regex.find_iter(text).take(most) {
                if let Err(stop) = context.meter.allocate_elements(1) {
                    return Some(Err(stop));
                }
                found.push(Value::String(text.part(part.range())));
            }
            Value::list(found)
        }
    }))
}

/// Compiles a pattern in Go's syntax.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated =
        translate(pattern).map_err(|why| format!("error parsing regexp: {why}: `{pattern}`"))?;
    RegexBuilder::new(&translated)
        .size_limit(limits::MAX_REGEX_BYTES)
        .dfa_size_limit(limits::MAX_REGEX_BYTES)
        .nest_limit(250)
        .build()
        .map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or("invalid").to_owned();
            format!("error parsing regexp: {why}: `{pattern}`")
        })
}

/// The same pattern in Rust's syntax: classes like `\d` are ASCII, brackets and braces without meaning are literal.
fn translate(pattern: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    // Whether what came before can be repeated, and whether it is a repetition itself.
    let (mut is_repeatable, mut is_repeated) = (false, false);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let (text, tail) = match c {
            '\\' => escape(after, false)?,
            '[' => class(after)?,
            '(' => group(after)?,
            '{' => match repeat(rest)? {
                Some(end) => (rest[..end].to_owned(), &rest[end..]),
                None => ("\\{".to_owned(), after),
            },
            other => (other.to_string(), after),
        };
        let is_repetition = matches!(c, '*' | '+' | '?') || c == '{' && text != "\\{";
        let is_lazy = c == '?' && is_repeated;
        if is_repetition && !is_lazy && !is_repeatable {
            return Err(if out.is_empty() {
                "missing argument to repetition operator"
            } else {
                "invalid nested repetition operator"
            });
        }
        is_repeatable = !is_repetition && !matches!(c, '(' | '|');
        is_repeated = is_repetition && !is_lazy;
        out.push_str(&text);
        rest = tail;
    }
    Ok(out)
}

/// Length of a repetition like `{2,3}` at the beginning of `text`, if there is one.
fn repeat(text: &str) -> Result<Option<usize>, &'static str> {
    let Some(end) = text.find('}') else { return Ok(None) };
    let inner = &text[1..end];
    let (min, max) = inner.split_once(',').unwrap_or((inner, inner));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(min) || !(max.is_empty() && inner.contains(',') || is_number(max)) {
        return Ok(None);
    }
    let too_large =
        |text: &str| !text.is_empty() && text.parse().map_or(true, |n: u32| n > MAX_REPEAT);
    if too_large(min) || too_large(max) {
        return Err("invalid repeat count");
    }
    Ok(Some(end + 1))
}

/// What stands behind an opening parenthesis, up to where the group's content begins.
fn group(after: &str) -> Result<(String, &str), &'static str> {
    let Some(flags) = after.strip_prefix('?') else { return Ok(("(".to_owned(), after)) };
    if let Some(name) = flags.strip_prefix("P<").or_else(|| flags.strip_prefix('<')) {
        let end = name.find('>').ok_or("invalid named capture")?;
        let (name, tail) = name.split_at(end);
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        return if is_word && !name.is_empty() {
            Ok(("(".to_owned(), &tail[1..]))
        } else {
            Err("invalid named capture")
        };
    }
    let end = flags.find([':', ')']).ok_or("missing argument to flags")?;
    let (flags, tail) = flags.split_at(end);
    if flags.bytes().all(|byte| b"imsU-".contains(&byte)) {
        let (closing, tail) = tail.split_at(1);
        return Ok((format!("(?{flags}{closing}"), tail));
    }
    Err("invalid or unsupported Perl syntax")
}

const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = "\\t\\n\\f\\r ";

/// An escape sequence, given what follows the backslash.
fn escape(after: &str, in_class: bool) -> Result<(String, &str), &'static str> {
    let c = after.chars().next().ok_or("trailing backslash at end of expression")?;
    let tail = &after[c.len_utf8()..];
    let class = |members: &str| match (c.is_ascii_uppercase(), in_class) {
        (false, true) => members.to_owned(),
        (true, _) => format!("[^{members}]"),
        (false, false) => format!("[{members}]"),
    };
    Ok(match c {
        'd' | 'D' => (class("0-9"), tail),
        'w' | 'W' => (class(WORD), tail),
        's' | 'S' => (class(SPACE), tail),
        'b' if !in_class => ("(?-u:\\b)".to_owned(), tail),
        'B' | 'A' | 'z' if !in_class => (format!("\\{c}"), tail),
        'a' | 'f' | 't' | 'n' | 'r' | 'v' => (format!("\\{c}"), tail),
        'p' | 'P' => match tail.strip_prefix('{') {
            Some(name) => {
                let end = name.find('}').ok_or("invalid character class range")?;
                (format!("\\{c}{{{}}}", &name[..end]), &name[end + 1..])
            }
            None => {
                let name = tail.chars().next().ok_or("invalid character class range")?;
                (format!("\\{c}{name}"), &tail[name.len_utf8()..])
            }
        },
        'x' => match tail.strip_prefix('{') {
            Some(code) => {
                let end = code.find('}').ok_or("invalid escape sequence")?;
                (format!("\\x{{{}}}", &code[..end]), &code[end + 1..])
            }
            None => {
                let code = tail.get(..2).ok_or("invalid escape sequence")?;
                (format!("\\x{code}"), &tail[2..])
            }
        },
        'Q' if !in_class => {
            let (literal, tail) = tail.split_once("\\E").unwrap_or((tail, ""));
            (format!("(?:{})", regex::escape(literal)), tail)
        }
        '0'..='7' => {
            let digits =
                after.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            if c != '0' && digits == 1 {
                return Err("invalid escape sequence");
            }
            let code =
                u32::from_str_radix(&after[..digits], 8).map_err(|_| "invalid escape sequence")?;
            (format!("\\x{{{code:x}}}"), &after[digits..])
        }
        other if other.is_ascii_punctuation() => (
            if matches!(other, '<' | '>') { other.to_string() } else { format!("\\{other}") },
            tail,
        ),
        _ => return Err("invalid escape sequence"),
    })
}

/// A class, given what follows its opening bracket.
fn class(after: &str) -> Result<(String, &str), &'static str> {
    const UNCLOSED: &str = "missing closing ]";
    let mut out = "[".to_owned();
    let mut rest = after;
    if let Some(tail) = rest.strip_prefix('^') {
        out.push('^');
        rest = tail;
    }
    let mut is_first = true;
    loop {
        let c = rest.chars().next().ok_or(UNCLOSED)?;
        let tail = &rest[c.len_utf8()..];
        rest = match c {
            ']' if !is_first => {
                out.push(']');
                return Ok((out, tail));
            }
            '\\' => {
                let (text, tail) = escape(tail, true)?;
                out.push_str(&text);
                tail
            }
            '[' if tail.starts_with(':') => match tail.find(":]") {
                Some(end) if end > 0 => {
                    out.push('[');
                    out.push_str(&tail[..end + 2]);
                    &tail[end + 2..]
                }
                _ => return Err(UNCLOSED),
            },
            '[' | '&' | '~' | ']' => {
                out.push('\\');
                out.push(c);
                tail
            }
            other => {
                out.push(other);
                tail
            }
        };
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn go_syntax_means_what_it_means_in_go() {
        let matches = |pattern: &str, text: &str| compile(pattern).unwrap().is_match(text);
        assert!(!matches(r"^\d$", "\u{0663}"), "digits are ASCII");
        assert!(!matches(r"^\w$", "ü"));
        assert!(matches(r"^[\d]+$", "12"));
        assert!(matches(r"^[^\D]+$", "12"));
        assert!(matches("^a{,2}$", "a{,2}"));
        assert!(matches("^[[a]+$", "[a"));
        assert!(matches("^[a&&b]+$", "a&b"));
        assert!(matches(r"^\Qa.b\E+$", "a.ba.b"));
        assert!(matches(r"^\x41\101$", "AA"));
        assert!(matches("(?i)^ABC$", "abc"));
        assert!(matches("^a+?b*?$", "aab"));
        assert!(matches("^(?P<x>a)(?<y>b)$", "ab"));
        for refused in [
            "(", "[", "a**", "*", "(?=a)", "(?x)a", r"\1", r"\Z", "a{1001}", "(?P<a", "a\\",
            "[z-a]",
        ] {
            assert!(compile(refused).is_err(), "{refused}");
        }
    }
}
