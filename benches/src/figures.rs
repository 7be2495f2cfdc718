//! Figures of a workload over several runs: medians, and how far runs lie apart.

use serde::{Deserialize, Serialize};

use crate::measure::{Conditions, Run};
use crate::memory::Memory;
use crate::workload::Workload;

/// What is reported about a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Which workload.
    pub workload: String,
    /// The question it answers.
    pub question: String,
    /// How many nodes.
    pub nodes: usize,
    /// How many pods were placed first.
    pub init: usize,
    /// How many pods were tried.
    pub measured: usize,
    /// How many of them were placed.
    pub bound: usize,
    /// How many runs there were.
    pub runs: usize,
    /// Attempts per second of scheduling time, the median of all runs.
    pub pods_per_second: f64,
    /// The slowest run.
    pub least_pods_per_second: f64,
    /// The fastest run.
    pub most_pods_per_second: f64,
    /// Median time of one attempt in microseconds, the median of all runs; so are those that follow.
    pub p50_micros: f64,
    /// 99th percentile.
    pub p99_micros: f64,
    /// The longest attempt.
    pub max_micros: f64,
    /// The highest price of an attempt, in units of work (`docs/security.md`); 0 if it was not noted.
    #[serde(default)]
    pub most_work: u64,
    /// A digest of all decisions in hexadecimal; equal for equal decisions.
    pub decisions: String,
    /// Whether an engine without class cache decided the same, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// What nodes and pods cost, if it was measured.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// What must be reached, with 5,000 nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// What the reference reached, with 5,000 nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<f64>,
}

/// The number of nodes that goals and the reference's figures are about.
pub const REFERENCE_NODES: usize = 5_000;

impl Figures {
    /// Brings runs of one workload together; `None` without any.
    pub fn of(workload: &Workload, conditions: &Conditions, runs: &[Run]) -> Option<Self> {
        let first = runs.first()?;
        let rates = sorted(runs, |run| run.pods_per_second);
        let Conditions { n_nodes, init_factor, .. } = *conditions;
        let is_comparable = n_nodes == REFERENCE_NODES && init_factor == 1;
        Some(Self {
            workload: workload.name.to_owned(),
            question: workload.question.to_owned(),
            nodes: n_nodes,
            init: first.n_init,
            measured: first.n_measured,
            bound: first.n_bound,
            runs: runs.len(),
            pods_per_second: median(&rates),
            least_pods_per_second: *rates.first()?,
            most_pods_per_second: *rates.last()?,
            p50_micros: median(&sorted(runs, |run| run.p50_micros)),
            p99_micros: median(&sorted(runs, |run| run.p99_micros)),
            max_micros: median(&sorted(runs, |run| run.max_micros)),
            most_work: runs.iter().map(|run| run.most_work).max()?,
            decisions: format!("{:016x}", first.decisions),
            verified: None,
            memory: None,
            goal: workload.goal.filter(|_| is_comparable),
            reference: workload.reference.filter(|_| is_comparable),
        })
    }
}

fn sorted(runs: &[Run], figure: impl Fn(&Run) -> f64) -> Vec<f64> {
    let mut all: Vec<f64> = runs.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Of a sorted list that is not empty.
fn median(sorted: &[f64]) -> f64 {
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    f64::midpoint(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[1.0]), 1.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(median(&[1.0, 2.0, 10.0]), 2.0);
    }
}
