//! Finds the nodes where preemption could make room for a pod, with the victims on each.
//!
//! The scan starts at an offset drawn from the attempt's random number and stops early once there are enough
//! candidates, at least one of them without a violated disruption budget. Nodes are tried one after the other, which is
//! one of the executions the reference allows.
//!
//! Invariant: candidates without violations come first.
//!
//! Behaviour in `docs/spec/preemption.md` §4.

use std::sync::Arc;

use kube_scheduler_framework::api::validation::aggregate;
use kube_scheduler_framework::api::{Pod, Timestamp};
use kube_scheduler_framework::preemption::{
    ComparedCandidate, PreemptionCandidate, PreemptionReport,
};
use kube_scheduler_framework::{Code, CycleState, PostFilterContext, Status};

use super::choose::harm;
use super::victims::DryRun;

/// What the scan found.
#[derive(Debug, Default)]
pub(super) struct CandidateScan {
    /// Each with at least one victim.
    pub(super) candidates: Vec<PreemptionCandidate>,
    /// The statuses of nodes where evicting pods does not help, with the number of nodes for each.
    pub(super) rejections: Vec<(Status, u32)>,
}

impl CandidateScan {
    /// Counts a rejection. A linear search is enough, since nodes give few different answers.
    fn reject(&mut self, status: Status) {
        match self.rejections.iter_mut().find(|(known, _)| *known == status) {
            Some((_, n)) => *n += 1,
            None => self.rejections.push((status, 1)),
        }
    }
}

/// How far to search: to at least this share of the nodes, and at least this many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) percentage: i64,
    pub(super) absolute: i64,
}

impl Search {
    /// How many candidates are enough among `n` nodes.
    fn n_candidates(self, n: usize) -> usize {
        let all = i64::try_from(n).unwrap_or(i64::MAX);
        let wanted = (all.saturating_mul(self.percentage) / 100).max(self.absolute).min(all);
        usize::try_from(wanted).unwrap_or(0)
    }

    /// Runs the dry run on the nodes whose rejection eviction may resolve. An error is only reported when there is no
    /// candidate.
    pub(super) fn run(
        self,
        cx: &PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
        mut report: Option<&mut PreemptionReport>,
    ) -> Result<CandidateScan, Status> {
        let cluster = cx.cx.cluster();
        if cluster.n_nodes() == 0 {
            return Err(Status::error("no nodes available"));
        }
        let mut found = CandidateScan::default();
        let potential = cx.nodes_with_code(cluster.order(), Code::Unschedulable);
        if potential.is_empty() {
            let text = "Preemption will not help schedule pod on any node";
            tracing::debug!(target: "V3", pod = pod.key(), "{text}");
            return Ok(found);
        }
        let enough = self.n_candidates(potential.len());
        let offset = usize::try_from(cx.random % potential.len() as u64).unwrap_or(0);
        let (first, second) = potential.split_at(offset);
        let mut dry_run = DryRun::new(cx, state, pod);
        let mut violating: Vec<PreemptionCandidate> = Vec::new();
        let mut errors: Vec<String> = Vec::new();
        tracing::trace!(
            target: "V5",
            potentialNodesNumber = potential.len(),
            pdbsNumber = dry_run.n_budgets(),
            offset,
            candidatesNumber = enough,
            "Dry run the preemption"
        );
        for &node in second.iter().chain(first) {
            match dry_run.on(node) {
                Ok(candidate) if candidate.victims.is_empty() => {
                    let name = cluster.node_name(node).map_or("", |name| name);
                    let text = format!("expected at least one victim pod on node \"{name}\"");
                    if let Some(report) = &mut report {
                        report.rejected.push((node, Status::error(text.clone())));
                    }
                    errors.push(text);
                }
                Ok(candidate) => {
                    let list = if candidate.n_pdb_violations == 0 {
                        &mut found.candidates
                    } else {
                        &mut violating
                    };
                    // The search goes on until there is a candidate without a violated budget, however many others
                    // there are: violations are the first thing that the choice looks at.
                    if list.len() < enough {
                        list.push(candidate);
                    }
                    if !found.candidates.is_empty()
                        && found.candidates.len() + violating.len() >= enough
                    {
                        break;
                    }
                }
                Err(status) => {
                    if status.code() == Code::Error {
                        errors.push(status.error_text().unwrap_or_default());
                    }
                    if let Some(report) = &mut report {
                        report.rejected.push((node, status.clone()));
                    }
                    found.reject(status);
                }
            }
        }
        found.candidates.append(&mut violating);
        if let Some(report) = report {
            report.candidates = compared(&found.candidates, &mut dry_run, cx.cx.now());
        }
        if found.candidates.is_empty() && !errors.is_empty() {
            return Err(Status::error(aggregate(&errors)));
        }
        Ok(found)
    }
}

/// The candidates with what is compared between them, for explanations.
fn compared(
    candidates: &[PreemptionCandidate],
    dry_run: &mut DryRun<'_, '_>,
    now: Timestamp,
) -> Vec<ComparedCandidate> {
    let compared = candidates.iter().map(|candidate| ComparedCandidate {
        candidate: candidate.clone(),
        harm: harm(candidate, now),
        violated_budgets: dry_run.violated_budgets(candidate),
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_but_at_least_a_hundred() {
        let search = Search { percentage: 10, absolute: 100 };
        for (n, expected) in [(50, 50), (500, 100), (1000, 100), (1001, 100), (5000, 500)] {
            assert_eq!(search.n_candidates(n), expected, "of {n}");
        }
    }
}
