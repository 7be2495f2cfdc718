//! Compares our answers with recorded ones of the reference, family by family.
//!
//! Every judge reads one JSON object per line and says what differs. A step that cannot be evaluated does not conform.

mod cel;
mod configs;
mod decisions;
mod devices;
mod groups;
mod hints;
mod quantities;
mod queues;

use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// All families there are, in the order in which they are evaluated.
pub const FAMILIES: [&str; 39] = [
    "quantities",
    "cel",
    "queue",
    "config",
    "resources",
    "strategies",
    "nodeaffinity",
    "taints",
    "ports-gates-names",
    "images",
    "topologyspread",
    "spread-defaults",
    "interpodaffinity",
    "volumes",
    "preemption",
    "profiles",
    "hints",
    "mixed",
    "dra",
    "dra-claims",
    "dra-cel",
    "dra-pools",
    "dra-constraints",
    "dra-partitionable",
    "dra-consumable",
    "dra-taints",
    "dra-admin",
    "dra-binding",
    "dra-extended",
    "dra-scoring",
    "dra-preemption",
    "dra-mixed",
    "dra-nodeallocatable",
    "dra-hints",
    "podgroup-basic",
    "podgroup-gang",
    "podgroup-topology",
    "podgroup-preemption",
    "podgroup-mixed",
];

/// What one family came to.
#[derive(Debug, Default)]
pub struct Report {
    /// How many steps there were.
    pub n_steps: usize,
    /// How many of them conform.
    pub n_conforming: usize,
    /// How many cases there were.
    pub n_cases: usize,
    /// How many of them conform with every step.
    pub n_conforming_cases: usize,
    /// What differs, one entry per step, the first ones only.
    pub differences: Vec<String>,
}

/// How many differences are kept.
const MAX_DIFFERENCES: usize = 20;

impl Report {
    /// Whether every step conforms and there was at least one.
    pub fn conforms(&self) -> bool {
        self.n_steps > 0 && self.n_steps == self.n_conforming
    }

    /// Counts one step; `difference` is `None` when it conforms.
    pub(crate) fn count(&mut self, label: impl FnOnce() -> String, difference: Option<String>) {
        self.n_steps += 1;
        match difference {
            None => self.n_conforming += 1,
            Some(text) if self.differences.len() < MAX_DIFFERENCES => {
                self.differences.push(format!("{}: {text}", label()));
            }
            Some(_) => {}
        }
    }

    /// Counts one step that does not conform because an earlier one did not.
    pub(crate) const fn count_without_proof(&mut self) {
        self.n_steps += 1;
    }
}

/// How decisions are evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Whether pods of one class share evaluations; the outcome must not depend on it.
    pub uses_class_cache: bool,
    /// Only this case.
    pub only: Option<&'a str>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { uses_class_cache: true, only: None }
    }
}

/// Evaluates one family of the data in `dir`.
pub fn run_family(dir: &Path, family: &str, options: Options<'_>) -> Result<Report> {
    let path = dir.join(format!("{family}.jsonl.gz"));
    let file = std::fs::File::open(&path).with_context(|| format!("open {}", path.display()))?;
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    let mut report = Report::default();
    for (number, line) in lines.enumerate() {
        let line = line.with_context(|| format!("read {}", path.display()))?;
        if line.trim().is_empty() {
            continue;
        }
        let case: Value = serde_json::from_str(&line)
            .with_context(|| format!("{} line {}", path.display(), number + 1))?;
        if options.only.is_some_and(|only| name_of(&case) != only) {
            continue;
        }
        let (n_steps, n_conforming) = (report.n_steps, report.n_conforming);
        match family {
            "quantities" => quantities::judge(&case, &mut report),
            "cel" => cel::judge(&case, &mut report),
            "queue" => queues::judge(&case, &mut report),
            "config" => configs::judge(&case, &mut report),
            "hints" | "dra-hints" => hints::judge(&case, &mut report),
            _ if family.starts_with("podgroup-") && FAMILIES.contains(&family) => {
                groups::judge(&case, options, &mut report);
            }
            _ if family.starts_with("dra") && FAMILIES.contains(&family) => {
                devices::judge(&case, options, &mut report);
            }
            _ if FAMILIES.contains(&family) => decisions::judge(&case, options, &mut report),
            _ => bail!("unknown family {family:?}: allowed are {}", FAMILIES.join(", ")),
        }
        let n_steps = report.n_steps - n_steps;
        report.n_cases += usize::from(n_steps > 0);
        report.n_conforming_cases +=
            usize::from(n_steps > 0 && report.n_conforming - n_conforming == n_steps);
    }
    Ok(report)
}

/// The case's name; quantities and configurations may go by their input.
fn name_of(case: &Value) -> &str {
    case["name"].as_str().or_else(|| case["input"].as_str()).unwrap_or_default()
}

/// The text of a JSON string, empty for anything else.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
