//! Regular expressions in Go's syntax on Rust's engine (`docs/spec/cel.md` §5). Both run in linear time.

mod translate;

use std::collections::BTreeMap;
use std::fmt;

use regex_automata::meta;
use regex_automata::util::syntax;

use self::translate::{InvalidPattern, translate};
use super::{CallResult, Context};
use crate::declarations::Function;
use crate::error::Fault;
use crate::limits;
use crate::value::{Text, Value};

/// Steps that compiling any pattern takes, and more for each byte of it.
const COMPILE_STEPS: u64 = 2_000;
const STEPS_PER_BYTE: u64 = 100;
/// A class like `\p{L}` has up to hundreds of ranges.
const STEPS_PER_UNICODE_CLASS: u64 = 30_000;
/// Where upper and lower case are the same, each character of a class is looked up, and there can be a million.
const STEPS_PER_FOLDED_CLASS: u64 = 2_000_000;
/// What stands around the automaton.
const BYTES_PER_PATTERN: usize = 4 << 10;
/// For each byte of the automaton.
const STEPS_PER_COMPILED_BYTE: u64 = 4;

pub(crate) use meta::Regex;

pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> CallResult<'a> {
    let (text, pattern, count) = match arguments {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(count)] => (text, pattern, *count),
        _ => return None,
    };
    let compiled;
    let regex = match context.pattern {
        Some(regex) => regex,
        None => {
            let (result, steps) = compile(pattern, context.meter.steps_left());
            if let Err(stop) = context.meter.step(steps) {
                return Some(Err(stop));
            }
            compiled = match result {
                Ok(compiled) => compiled,
                Err(why) if function == Function::Matches => {
                    return Some(Err(Fault::text(why.to_string())));
                }
                Err(why) => return Some(Err(Fault::text(format!("Illegal regex: {why}")))),
            };
            &compiled
        }
    };
    Some(Ok(match function {
        Function::Matches => Value::Bool(regex.is_match(&**text)),
        Function::Find => match regex.find(&**text) {
            Some(found) => Value::String(text.part(found.range())),
            None => Value::String(Text::Borrowed("")),
        },
        _ => {
            let most = usize::try_from(count).unwrap_or(usize::MAX);
            let mut found = Vec::new();
            for part in regex.find_iter(&**text).take(most) {
                if let Err(stop) = context.meter.allocate_elements(1) {
                    return Some(Err(stop));
                }
                found.push(Value::String(text.part(part.range())));
            }
            Value::list(found)
        }
    }))
}

/// Why a pattern cannot be used.
#[derive(Clone, Debug)]
pub(crate) enum PatternError {
    /// What is wrong with it.
    Invalid(String),
    /// It takes more work, or has a larger automaton, than is allowed.
    TooLarge,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::TooLarge => f.write_str("regular expressions are too large to be compiled"),
        }
    }
}

/// The constant patterns of one expression: each is compiled once, and all of them within [`limits::MAX_PATTERN_STEPS`].
#[derive(Debug)]
pub(crate) struct Patterns {
    known: BTreeMap<String, Result<Regex, PatternError>>,
    steps_left: u64,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { known: BTreeMap::new(), steps_left: limits::MAX_PATTERN_STEPS }
    }
}

impl Patterns {
    pub(crate) fn get(&mut self, pattern: &str) -> Result<Regex, PatternError> {
        if let Some(known) = self.known.get(pattern) {
            return known.clone();
        }
        let (result, steps) = compile(pattern, self.steps_left);
        self.steps_left = self.steps_left.saturating_sub(steps);
        self.known.insert(pattern.to_owned(), result.clone());
        result
    }

    /// What has been spent on compiling.
    pub(crate) fn steps(&self) -> u64 {
        limits::MAX_PATTERN_STEPS - self.steps_left
    }

    /// About how many bytes they take.
    pub(crate) fn n_bytes(&self) -> usize {
        self.known.values().flatten().map(|regex| BYTES_PER_PATTERN + regex.memory_usage()).sum()
    }
}

/// Compiles a pattern in Go's syntax, unless that takes more than `most` steps. Returns how many it took, too, which may be more.
fn compile(pattern: &str, most: u64) -> (Result<Regex, PatternError>, u64) {
    let reading = reading_steps(pattern);
    let most_bytes = most.saturating_sub(reading) / STEPS_PER_COMPILED_BYTE;
    if most_bytes == 0 {
        return (Err(PatternError::TooLarge), most);
    }
    let most_bytes = usize::try_from(most_bytes).unwrap_or(usize::MAX).min(limits::MAX_REGEX_BYTES);
    let result = build(pattern, most_bytes);
    let n_bytes = match &result {
        Ok(regex) => regex.memory_usage(),
        Err(PatternError::Invalid(_)) => 0,
        Err(PatternError::TooLarge) => most_bytes,
    };
    (result, reading + STEPS_PER_COMPILED_BYTE * n_bytes as u64)
}

/// What it takes to read a pattern, at most.
fn reading_steps(pattern: &str) -> u64 {
    let ignores_case = pattern.split("(?").skip(1).any(|flags| {
        let mut flags = flags.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '-');
        flags.any(|flag| flag == 'i')
    });
    let n_classes = pattern.matches("\\p").count() + pattern.matches("\\P").count();
    let is_wide = |end: &&str| end.starts_with("\\x{") || end.starts_with(|c: char| !c.is_ascii());
    let n_wide = pattern.split('-').skip(1).filter(is_wide).count();
    let classes = match ignores_case {
        true => STEPS_PER_FOLDED_CLASS * (n_classes + n_wide) as u64,
        false => STEPS_PER_UNICODE_CLASS * n_classes as u64,
    };
    COMPILE_STEPS + STEPS_PER_BYTE * pattern.len() as u64 + classes
}

fn build(pattern: &str, most_bytes: usize) -> Result<Regex, PatternError> {
    let invalid = |why: &str, part: &str| {
        PatternError::Invalid(format!("error parsing regexp: {why}: `{part}`"))
    };
    let translated =
        translate(pattern).map_err(|InvalidPattern { what, part }| invalid(what, part))?;
    // What is left out is made beforehand, larger than the automaton itself, and gains nothing on short texts.
    let config = meta::Config::new()
        .nfa_size_limit(Some(most_bytes))
        .hybrid_cache_capacity(limits::MAX_REGEX_BYTES)
        .onepass(false)
        .dfa(false);
    let syntax = syntax::Config::new().nest_limit(250);
    Regex::builder().configure(config).syntax(syntax).build(&translated).map_err(|error| {
        if error.size_limit().is_some() {
            return PatternError::TooLarge;
        }
        let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        invalid(why.lines().last().unwrap_or("invalid"), pattern)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(pattern: &str) -> Result<Regex, PatternError> {
        Patterns::default().get(pattern)
    }

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
        assert!(matches(r"^\Qa.b\E+$", "a.bb"), "only the last character is repeated");
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

    #[test]
    fn what_takes_too_much_is_refused_before_it_is_made() {
        let class = |n: usize| format!("(?i)[{}]", r"\p{L}".repeat(n));
        assert!(compile(&class(1)).is_ok());
        for large in [
            class(2),
            format!("(?i){}", r"[^\x{61}-\x{10ff00}]".repeat(2)),
            format!("(?U-i:{})", "[ -\u{10ff00}]".repeat(2)),
            r"\p{L}".repeat(100),
            r"\p{L}{1000}".to_owned(),
            "(.{30}){33}".to_owned(),
        ] {
            let error = compile(&large).unwrap_err();
            assert!(matches!(error, PatternError::TooLarge), "{large}: {error}");
        }
        assert!(compile(&"[a-\u{fc}]".repeat(2)).is_ok());
    }

    /// Each is small enough by itself.
    #[test]
    fn all_patterns_of_an_expression_have_one_limit() {
        let mut patterns = Patterns::default();
        let pattern = |at: usize| format!("^{at}{}$", r"\p{L}".repeat(2));
        let n_compiled = (0..1_000).take_while(|at| patterns.get(&pattern(*at)).is_ok()).count();
        assert!((4..20).contains(&n_compiled), "{n_compiled}");
        assert_eq!(patterns.steps(), limits::MAX_PATTERN_STEPS);
        assert!(patterns.n_bytes() < 1 << 20, "{}", patterns.n_bytes());
        assert!(patterns.get(&pattern(0)).is_ok(), "it is known");
        assert!(patterns.get("a").is_err());
    }
}
