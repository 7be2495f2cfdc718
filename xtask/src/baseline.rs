//! Exceptions from rules that came later than the code: `xtask/baseline.txt`, which may only shrink.
//!
//! One exception per line: rule, place, and where the rule has a limit how far the place is beyond it. The file is exact:
//! what became better must be recorded, so that it cannot become worse again. `--bless` records only what is better; an
//! exception that is new has to be written by hand, where a review sees it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// The file, from the top of the repository.
pub(crate) const FILE: &str = "xtask/baseline.txt";

const HEAD: &str = "\
# Places that break a rule which is younger than they are: rule, place, measure. This file may only shrink.
# `cargo xtask tidy --bless` and `cargo xtask public-api --bless` record what became better.
";

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    /// The rule's name, one word.
    pub(crate) rule: &'static str,
    /// The place, stable under changes elsewhere.
    pub(crate) place: String,
    /// How bad it is; 0 for rules without a measure.
    pub(crate) measure: usize,
    /// What is wrong, for people.
    pub(crate) message: String,
}

/// The recorded exceptions: rule and place, with their measures.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Baseline(BTreeMap<(String, String), usize>);

impl Baseline {
    /// Reads the file.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE))
            .with_context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut exceptions = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split(' ');
            let (rule, place) = words
                .next()
                .zip(words.next())
                .with_context(|| format!("{FILE}: `{line}` has no place"))?;
            let measure = words.next().map_or(Ok(0), str::parse);
            let measure = measure.with_context(|| format!("{FILE}: `{line}` ends in no number"))?;
            exceptions.insert((rule.to_owned(), place.to_owned()), measure);
        }
        Ok(Self(exceptions))
    }

    /// Compares what was found by `rules` with the record: a message with its place for each difference.
    pub(crate) fn compare(&self, rules: &[&str], found: &[Exception]) -> Vec<(String, String)> {
        let mut differences = Vec::new();
        for exception in found {
            match self.recorded(exception) {
                Some(recorded) if recorded == exception.measure => {}
                Some(recorded) if recorded > exception.measure => {
                    let message = format!(
                        "{}: {} is recorded; run the same command with --bless",
                        exception.message, recorded
                    );
                    differences.push((exception.place.clone(), message));
                }
                _ => differences.push((exception.place.clone(), exception.message.clone())),
            }
        }
        for (rule, place) in self.0.keys().filter(|(rule, _)| rules.contains(&rule.as_str())) {
            if !found.iter().any(|exception| exception.rule == rule && exception.place == *place) {
                let message =
                    format!("{place} keeps the rule {rule} now; run the same command with --bless");
                differences.push((FILE.to_owned(), message));
            }
        }
        differences
    }

    /// Takes over what became better by `rules`.
    pub(crate) fn shrink(&mut self, rules: &[&str], found: &[Exception]) {
        self.0.retain(|(rule, place), measure| {
            if !rules.contains(&rule.as_str()) {
                return true;
            }
            let still = found.iter().find(|found| found.rule == rule && found.place == *place);
            if let Some(found) = still {
                *measure = found.measure.min(*measure);
            }
            still.is_some()
        });
    }

    /// Writes the file.
    pub(crate) fn store(&self, root: &Path) -> Result<()> {
        std::fs::write(root.join(FILE), self.render())
            .with_context(|| format!("cannot write {FILE}"))
    }

    fn render(&self) -> String {
        let mut text = HEAD.to_owned();
        for ((rule, place), measure) in &self.0 {
            let _ = match measure {
                0 => writeln!(text, "{rule} {place}"),
                measure => writeln!(text, "{rule} {place} {measure}"),
            };
        }
        text
    }

    fn recorded(&self, exception: &Exception) -> Option<usize> {
        self.0.get(&(exception.rule.to_owned(), exception.place.clone())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception(place: &str, measure: usize) -> Exception {
        Exception { rule: "long", place: place.into(), measure, message: format!("has {measure}") }
    }

    fn baseline() -> Baseline {
        Baseline::parse("# Head.\n\nlong a 90\nlong b 100\nother c\n").unwrap()
    }

    #[test]
    fn what_is_recorded_exactly_passes() {
        let found = [exception("a", 90), exception("b", 100)];
        assert_eq!(baseline().compare(&["long"], &found), []);
    }

    #[test]
    fn new_and_worse_places_fail_and_so_do_better_ones_until_recorded() {
        let found = [exception("a", 91), exception("d", 80)];
        let messages = baseline().compare(&["long"], &found);
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[0], ("a".into(), "has 91".into()));
        assert_eq!(messages[1], ("d".into(), "has 80".into()));
        assert!(messages[2].1.starts_with("b keeps the rule long now"), "{messages:?}");
        let better = baseline().compare(&["long"], &[exception("a", 85), exception("b", 100)]);
        assert_eq!(better.len(), 1);
        assert!(better[0].1.starts_with("has 85: 90 is recorded"), "{better:?}");
    }

    #[test]
    fn blessing_takes_over_only_what_is_better() {
        let mut shrunk = baseline();
        shrunk.shrink(&["long"], &[exception("a", 95), exception("d", 80)]);
        assert_eq!(shrunk, Baseline::parse("long a 90\nother c\n").unwrap());
        shrunk.shrink(&["long"], &[exception("a", 85)]);
        assert_eq!(shrunk.render(), format!("{HEAD}long a 85\nother c\n"));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        assert!(Baseline::parse("long").unwrap_err().to_string().contains("`long`"));
        assert!(Baseline::parse("long a b").unwrap_err().to_string().contains("`long a b`"));
    }
}
