//! The grammar of Go's pflag: `--name value`, `--name=value`, `--switch`, `-v 2`, `-v=2`, `-v2`, `--`.
//!
//! Invariants: arguments are parsed in order and the first invalid one ends parsing; flags and other arguments may be
//! mixed; underscores in names count as hyphens, values are taken as they are.

use kube_scheduler_config::{RetiredKind, retired};

use super::go;
use super::section::Flag;
use super::set::Flags;

/// A command line without a subcommand.
#[derive(Debug)]
pub(crate) enum CommandLine {
    /// Flags, and nothing else.
    Flags(Box<Flags>),
    /// A request for the help.
    Help,
}

/// Why a command line is rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandLineError {
    /// A flag does not exist, or its value is invalid.
    #[error("{0}")]
    Flag(String),
    /// There are arguments that are not flags.
    #[error("\"kube-scheduler\" does not take any arguments, got {}", go::quoted_list(.0))]
    Arguments(Vec<String>),
}

impl Flags {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// At the first argument that pflag would reject.
    pub(crate) fn parse(args: &[String]) -> Result<CommandLine, CommandLineError> {
        parse(args)
    }
}

fn parse(args: &[String]) -> Result<CommandLine, CommandLineError> {
    let mut flags = Flags::default();
    let mut others = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            others.extend(rest.by_ref().cloned());
            break;
        }
        let read = if let Some(long) = arg.strip_prefix("--") {
            parse_long(&mut flags, arg, long, &mut rest)
        } else if arg.len() > 1 && arg.starts_with('-') {
            parse_short(&mut flags, &arg[1..], &mut rest)
        } else {
            others.push(arg.clone());
            Ok(())
        };
        read.map_err(CommandLineError::Flag)?;
    }
    if flags.global.help {
        return Ok(CommandLine::Help);
    }
    if others.iter().any(|other| !other.is_empty()) {
        return Err(CommandLineError::Arguments(others));
    }
    Ok(CommandLine::Flags(Box::new(flags)))
}

fn parse_long<'a>(
    flags: &mut Flags,
    arg: &str,
    long: &str,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<(), String> {
    if long.starts_with(['-', '=']) {
        return Err(format!("bad flag syntax: {arg}"));
    }
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    let normal = name.replace('_', "-");
    let found =
        look(flags, |flag| flag.name == normal, |flag| (flag.name, flag.value.without_value()));
    let Some((known, without_value)) = found else {
        let hint = retired(RetiredKind::Flag, &normal);
        let hint = hint.map_or_else(String::new, |gone| format!(" ({gone})"));
        return Err(format!("unknown flag: --{name}{hint}"));
    };
    let value = match (value, without_value) {
        (Some(value), _) | (None, Some(value)) => value,
        (None, None) => match rest.next() {
            Some(value) => value,
            None => return Err(format!("flag needs an argument: --{name}")),
        },
    };
    set(flags, known, value)
}

/// Parses one-letter flags: several letters in one argument, until one of them takes a value.
fn parse_short<'a>(
    flags: &mut Flags,
    letters: &str,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<(), String> {
    let mut letters = letters;
    while let Some(letter) = letters.chars().next() {
        let after = &letters[letter.len_utf8()..];
        let found = look(
            flags,
            |flag| flag.short == Some(letter),
            |flag| (flag.name, flag.value.without_value()),
        );
        let Some((name, without_value)) = found else {
            return Err(format!(
                "unknown shorthand flag: {} in -{letters}",
                go::quoted_char(letter)
            ));
        };
        if let Some(value) = after.strip_prefix('=').filter(|value| !value.is_empty()) {
            return set(flags, name, value);
        }
        // A switch needs no value, so the next letter is a flag too; for all others the rest is the value.
        if let Some(value) = without_value {
            set(flags, name, value)?;
            letters = after;
            continue;
        }
        if !after.is_empty() {
            return set(flags, name, after);
        }
        let Some(value) = rest.next() else {
            return Err(format!(
                "flag needs an argument: {} in -{letters}",
                go::quoted_char(letter)
            ));
        };
        return set(flags, name, value);
    }
    Ok(())
}

fn set(flags: &mut Flags, name: &'static str, value: &str) -> Result<(), String> {
    let is_first = !flags.is_given(name);
    let outcome = look(
        flags,
        |flag| flag.name == name,
        |flag| {
            flag.value.set(value, is_first).map_err(|cause| {
                let short = flag.short.map_or_else(String::new, |letter| format!("-{letter}, "));
                let name = go::quoted(&format!("{short}--{name}"));
                format!("invalid argument {} for {name} flag: {cause}", go::quoted(value))
            })
        },
    );
    if let Some(Err(text)) = outcome {
        return Err(text);
    }
    flags.given.insert(name);
    Ok(())
}

/// The result of `read` for the flag that `matches`; `None` if no flag does.
fn look<T>(
    flags: &mut Flags,
    matches: impl Fn(&Flag<'_>) -> bool,
    read: impl Fn(Flag<'_>) -> T,
) -> Option<T> {
    let mut result = None;
    flags.visit(&mut |flag| {
        if matches(&flag) {
            result = Some(read(flag));
        }
    });
    result
}
