//! What limits pods as more and more of them are added.

use std::collections::BTreeMap;

use kube_scheduler_framework::Code;

use super::data::{CapacityStep, LimitAnswer};
use super::filling::Filling;
use crate::explanation::Rejection;

/// The limits are looked at after at most this many pods.
const MAX_MOMENTS: usize = 64;

/// The numbers of added pods at which another number of nodes was feasible than before.
#[derive(Debug, Default)]
pub(super) struct Moments {
    changes: Vec<usize>,
    last: Option<usize>,
}

impl Moments {
    /// Notes that `n_feasible` nodes were feasible for the next pod when `n_added` had been added.
    pub(super) fn saw(&mut self, n_added: usize, n_feasible: usize) {
        if self.last != Some(n_feasible) {
            self.changes.push(n_added);
            self.last = Some(n_feasible);
        }
    }

    /// The number of changes, if that is more than [`MAX_MOMENTS`], so that some are left out; otherwise `None`.
    pub(super) fn left_out(&self) -> Option<usize> {
        Some(self.changes.len()).filter(|n| *n > MAX_MOMENTS)
    }

    /// The moments to look at: all changes, or some that are evenly spread, with the first and the last.
    fn looked_at(&self) -> Vec<usize> {
        let n = self.changes.len();
        if n <= MAX_MOMENTS {
            return self.changes.clone();
        }
        (0..MAX_MOMENTS).map(|at| self.changes[at * (n - 1) / (MAX_MOMENTS - 1)]).collect()
    }
}

/// Places the pods again on a copy that is as the first one was, and looks at what limits them.
pub(super) fn steps(
    filling: &mut Filling<'_>,
    all: &Moments,
    n_placed: usize,
) -> Vec<CapacityStep> {
    let mut steps: Vec<CapacityStep> = Vec::new();
    let mut n_added = 0;
    for moment in all.looked_at() {
        while n_added < moment {
            if filling.is_interrupted() {
                return steps;
            }
            filling.place();
            n_added += 1;
        }
        let Some((feasible, limits)) = limits(filling) else { return Vec::new() };
        let of = |limit: &LimitAnswer| (limit.plugin.clone(), limit.reasons.clone());
        match steps.last_mut() {
            Some(last) if last.limits.iter().map(of).eq(limits.iter().map(of)) => {
                (last.feasible_to, last.limits) = (feasible, limits);
            }
            _ => steps.push(CapacityStep {
                from: moment,
                to: moment,
                feasible_from: feasible,
                feasible_to: feasible,
                limits,
            }),
        }
    }
    let ends: Vec<usize> = steps.iter().skip(1).map(|next| next.from - 1).collect();
    for (step, end) in steps.iter_mut().zip(ends.into_iter().chain([n_placed])) {
        step.to = end;
    }
    steps
}

/// How many nodes are feasible for the next pod, and what is first in the way on the others.
fn limits(filling: &mut Filling<'_>) -> Option<(usize, Vec<LimitAnswer>)> {
    let next = filling.next_pod();
    let found = filling.explain(next)?;
    let mut counts: BTreeMap<Rejection, usize> = BTreeMap::new();
    let mut feasible = 0;
    for node in &found.nodes {
        if node.status.is_success() {
            feasible += 1;
        } else {
            *counts.entry(Rejection::from(&node.status)).or_default() += 1;
        }
    }
    let limits = counts.into_iter().map(|(rejection, nodes)| LimitAnswer {
        is_error: rejection.code == Code::Error.as_str(),
        plugin: rejection.plugin,
        reasons: rejection.reasons,
        nodes,
    });
    Some((feasible, limits.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_changes_the_first_and_the_last_are_looked_at() {
        let mut all = Moments::default();
        for n_added in 0..1_000 {
            all.saw(n_added, 1_000 - n_added / 2);
        }
        assert_eq!((all.changes.len(), all.left_out()), (500, Some(500)));
        let moments = all.looked_at();
        assert_eq!((moments.len(), moments[0], moments.last()), (MAX_MOMENTS, 0, Some(&998)));
        assert!(moments.is_sorted());
    }
}
