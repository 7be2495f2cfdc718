//! The help: how to call the program, then all flags by section.
//!
//! Invariant: layout and wrapping are those of Go's pflag, so that a search in the output finds the same lines as for the
//! reference.

use super::section::Flag;
use super::set::Flags;

/// What the program is, and how to call it.
const ABOUT: &str = "\
Assigns pods to nodes: a drop-in replacement for kube-scheduler.

It finds the nodes on which a pod may run, ranks them, and binds the pod to the best. Flags, configuration file, events,
metrics and endpoints are those of kube-scheduler v1.36.";

/// The way to call `program`. `commands` are the names of subcommands.
pub(crate) fn usage(program: &str, commands: &[String], columns: usize) -> String {
    let mut text = format!("Usage:\n  {program} [flags]\n");
    if !commands.is_empty() {
        text.push_str(&format!("  {program} COMMAND, one of: {}\n", commands.join(", ")));
    }
    let mut flags = Flags::default();
    for (title, section) in flags.sections() {
        let mut lines = Vec::new();
        section.visit(&mut |flag| lines.push(Line::of(&flag)));
        lines.sort_by_key(|line| line.name);
        let width = lines.iter().map(|line| line.head.chars().count()).max().unwrap_or(0);
        text.push_str(&format!("\n{} flags:\n\n", capitalised(title)));
        for line in lines {
            // Three blanks after the longest.
            let indent = width + 3;
            let body = wrapped(indent, columns, &line.body);
            text.push_str(&format!("{:<indent$}{body}\n", line.head));
        }
    }
    text
}

/// [`usage`] with what the program is.
pub(crate) fn help(program: &str, commands: &[String], columns: usize) -> String {
    format!("{ABOUT}\n\n{}", usage(program, commands, columns))
}

/// A flag in the help.
struct Line {
    name: &'static str,
    head: String,
    body: String,
}

impl Line {
    fn of(flag: &Flag<'_>) -> Self {
        let mut head = match flag.short {
            Some(letter) => format!("  -{letter}, --{}", flag.name),
            None => format!("      --{}", flag.name),
        };
        let type_name = flag.value.type_name();
        if !type_name.is_empty() {
            head.push(' ');
            head.push_str(type_name);
            if let Some(value) = flag.value.without_value() {
                head.push_str(&format!("[={value}]"));
            }
        }
        let mut body = flag.usage.clone();
        if let Some(default) = flag.value.shown_default() {
            body.push_str(&format!(" (default {default})"));
        }
        Self { name: flag.name, head, body }
    }
}

fn capitalised(title: &str) -> String {
    let mut chars = title.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Breaks `text` into lines of at most `columns`, all but the first indented; 0 columns break only where the text does.
fn wrapped(indent: usize, columns: usize, text: &str) -> String {
    let blanks = |n: usize| format!("\n{}", " ".repeat(n));
    if columns == 0 {
        return text.replace('\n', &blanks(indent));
    }
    let (mut indent, mut room) = (indent, columns.saturating_sub(indent));
    let mut out = String::new();
    if room < 24 {
        // Below the name instead of beside it.
        indent = 16;
        room = columns.saturating_sub(indent);
        out.push_str(&blanks(indent));
    }
    if room < 24 {
        return text.replace('\n', &out);
    }
    // A line may be this much longer when that saves an orphan.
    const SLOP: usize = 5;
    let (mut line, mut rest) = first_line(room - SLOP, SLOP, text);
    loop {
        out.push_str(&line.replace('\n', &blanks(indent)));
        if rest.is_empty() {
            return out;
        }
        out.push_str(&blanks(indent));
        (line, rest) = first_line(room - SLOP, SLOP, rest);
    }
}

/// The part of `text` for one line of `room` bytes, and the rest.
///
/// Quirk: as in pflag, a first word that is longer than the line leaves the whole rest unbroken.
fn first_line(room: usize, slop: usize, text: &str) -> (&str, &str) {
    if room + slop > text.len() {
        return (text, "");
    }
    let end = (0..=room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let head = &text[..end];
    let Some(blank) = head.rfind([' ', '\t', '\n']).filter(|&blank| blank > 0) else {
        return (text, "");
    };
    let end = head.rfind('\n').filter(|&newline| newline > 0 && newline < blank).unwrap_or(blank);
    (&text[..end], &text[end + 1..])
}
