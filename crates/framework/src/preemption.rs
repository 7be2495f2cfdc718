//! Preemption, in the words that plugins, extenders and explanations of it share: the nodes where evicting pods would make room,
//! what is compared between them, and trials.
//!
//! Behaviour: `docs/spec/preemption.md`.

use std::cmp::Reverse;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::NodeIdx;

use crate::status::Status;

/// A node that would fit a pod if some of its pods were evicted.
#[derive(Clone, Debug)]
pub struct PreemptionCandidate {
    /// The slot of the node.
    pub node: NodeIdx,
    /// The pods to evict there, most important first.
    pub victims: Vec<Arc<Pod>>,
    /// How many of them a disruption budget protects.
    pub n_pdb_violations: i64,
}

/// What evicting the victims of one candidate harms. The smaller of two harms is the one to choose.
///
/// The order of the fields is the order of the criteria: one counts only between candidates that are equal in all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Harm {
    /// How many victims a disruption budget protects.
    pub n_pdb_violations: i64,
    /// The priority of the first victim, which is the most important one.
    pub highest_priority: i32,
    /// The sum of the victims' priorities, each counted from the lowest one that there is, so that it is not negative and one
    /// more victim never looks cheaper.
    pub priority_sum: i64,
    /// How many victims there are.
    pub n_victims: usize,
    /// The earliest start of a victim that has the highest priority. Later is better: less work is lost.
    pub earliest_start: Reverse<Timestamp>,
}

/// What is compared between candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// Fewer violated disruption budgets.
    PdbViolations,
    /// A lower highest priority.
    HighestPriority,
    /// A smaller sum of priorities.
    PrioritySum,
    /// Fewer victims.
    Victims,
    /// A later start of the most important victims.
    EarliestStart,
}

impl Harm {
    /// The criterion that decides between two candidates; `None` between equal ones.
    pub fn decided_by(&self, other: &Self) -> Option<Criterion> {
        let differs = [
            (self.n_pdb_violations != other.n_pdb_violations, Criterion::PdbViolations),
            (self.highest_priority != other.highest_priority, Criterion::HighestPriority),
            (self.priority_sum != other.priority_sum, Criterion::PrioritySum),
            (self.n_victims != other.n_victims, Criterion::Victims),
            (self.earliest_start != other.earliest_start, Criterion::EarliestStart),
        ];
        differs.into_iter().find_map(|(differs, criterion)| differs.then_some(criterion))
    }
}

/// A candidate as a plugin compared it with the others.
#[derive(Clone, Debug)]
pub struct ComparedCandidate {
    /// The node and its victims.
    pub candidate: PreemptionCandidate,
    /// The values of this candidate that are compared with those of others.
    pub harm: Harm,
    /// For each victim, in their order: the names of the budgets in its namespace that its eviction violates.
    pub violated_budgets: Vec<Vec<Arc<str>>>,
}

/// How a preemption was decided, for explanations. Plugins fill it in only when they are asked for it.
#[derive(Clone, Debug, Default)]
pub struct PreemptionReport {
    /// All candidates, before extenders leave some of them. Of equally good ones the first is chosen.
    pub candidates: Vec<ComparedCandidate>,
    /// The nodes that were tried and are no candidates, and why evicting pods does not help there.
    pub rejected: Vec<(NodeIdx, Status)>,
}

/// Tries nodes for one pod, one after the other, without some of their pods.
pub trait EvictionTrials {
    /// Goes on to a node without all its pods of less than `priority`, and returns what the filters say, with nominated pods taken
    /// into account (`docs/spec/core.md` §10.6).
    ///
    /// O(priorities on the node + pods nominated to it) if the filters read no more of its pods than the sums of their requests;
    /// otherwise all pods that are removed are looked at.
    fn start(&mut self, node: NodeIdx, priority: i32) -> Status;
    /// Puts `pods` back onto the node, one after the other, except for those that would take the room of the pod in question;
    /// returns their positions. Call it only after [`start`](Self::start) accepted the node, with the pods that are missing
    /// there. A filter that fails counts as no room.
    ///
    /// # Errors
    /// The failure of a plugin that is notified of a pod.
    fn victims(&mut self, pods: &[&Arc<Pod>]) -> Result<Vec<usize>, Status>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_criterion_that_decides_is_the_first_that_differs() {
        let start = |second: i64| Reverse(Timestamp::from_millis(second * 1_000));
        let base = Harm {
            n_pdb_violations: 1,
            highest_priority: 5,
            priority_sum: 9,
            n_victims: 2,
            earliest_start: start(10),
        };
        let worse = [
            (Criterion::EarliestStart, Harm { earliest_start: start(9), ..base }),
            (Criterion::Victims, Harm { n_victims: 3, earliest_start: start(11), ..base }),
            (Criterion::PrioritySum, Harm { priority_sum: 10, n_victims: 1, ..base }),
            (Criterion::HighestPriority, Harm { highest_priority: 6, priority_sum: 1, ..base }),
            (Criterion::PdbViolations, Harm { n_pdb_violations: 2, highest_priority: 1, ..base }),
        ];
        assert_eq!(base.decided_by(&base), None);
        for (criterion, worse) in worse {
            assert!(base < worse, "{criterion:?}");
            assert_eq!(base.decided_by(&worse), Some(criterion));
            assert_eq!(worse.decided_by(&base), Some(criterion));
        }
    }
}
