//! The table of gates, read from the data file of the current version.
//!
//! Invariants: sorted by name; at least one stage per gate, versions ascending; what a gate needs is in the table. The next
//! version of the reference is a new data file.

use std::sync::LazyLock;

use super::{GateSpec, Stage};

const TEXT: &str = include_str!("v1.36.txt");

/// What is known of one gate.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// The state from a minor version on, oldest first.
    pub(super) stages: Vec<(u16, GateSpec)>,
    /// The gates that must be on while this one is.
    pub(super) needs: Vec<&'static str>,
}

impl Entry {
    /// The state at a minor version.
    pub(super) fn at(&self, minor: u16) -> GateSpec {
        let started = self.stages.iter().take_while(|(since, _)| *since <= minor);
        started.last().map_or(GateSpec::PRE_ALPHA, |(_, spec)| *spec)
    }
}

/// Every gate, by name.
pub(super) static TABLE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    TEXT.lines().filter(|line| !line.starts_with('#')).filter_map(parse).collect()
});

/// The place of a gate in the table.
pub(super) fn position(name: &str) -> Option<usize> {
    TABLE.binary_search_by(|entry| entry.name.cmp(name)).ok()
}

/// Reads `NAME STAGE... [needs GATE...]`.
pub(super) fn parse(line: &'static str) -> Option<Entry> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let stages = words.by_ref().take_while(|word| *word != "needs").map(stage);
    Some(Entry { name, stages: stages.collect::<Option<_>>()?, needs: words.collect() })
}

/// Reads `35b+!`.
fn stage(text: &str) -> Option<(u16, GateSpec)> {
    let letter = text.find(|c: char| c.is_ascii_alphabetic())?;
    let since = text[..letter].parse().ok()?;
    let (state, is_locked) = match text[letter..].strip_suffix('!') {
        Some(state) => (state, true),
        None => (&text[letter..], false),
    };
    let default = match &state[1..] {
        "+" => true,
        "-" => false,
        _ => return None,
    };
    let stage = match &state[..1] {
        "a" => Stage::Alpha,
        "b" => Stage::Beta,
        "g" => Stage::Ga,
        "d" => Stage::Deprecated,
        _ => return None,
    };
    Some((since, GateSpec { stage, default, is_locked }))
}
