//! Disruption budgets: which pods a PodDisruptionBudget protects from eviction.
//!
//! Quirks: a budget counts down for every pod it covers in order of importance, even for pods that are kept in the end;
//! every matching budget counts down, even after another one was found violated.
//!
//! Behaviour in `docs/spec/preemption.md` §5.1.

mod coverage;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{ClusterView, GroupObjects};

use self::coverage::NamespaceBudgets;
use super::victims::SomePods;

const KIND: &str = "PodDisruptionBudget";

/// The budgets of the cluster, as they are in one attempt. Those of a namespace are read when a pod of it is asked about, and compared
/// once with all pods that share their labels.
///
/// What others write must not use up what the namespace that preempts may cost, nor what it does use up theirs. So only its own budgets
/// count as work; what is done for others is bounded for each set of labels and for each namespace (`coverage.rs`).
#[derive(Debug)]
pub(super) struct Budgets<'a> {
    objects: GroupObjects<'a>,
    /// The namespace that preempts.
    payer: Arc<str>,
    by_namespace: BTreeMap<Arc<str>, NamespaceBudgets>,
    /// What the payer's own have cost.
    n_compared: u64,
}

/// How many more pods budgets let go, for those that have been counted down: by the numbers of the namespace and of the budget.
#[derive(Debug, Default)]
pub(super) struct RemainingBudgets(BTreeMap<(usize, usize), i64>);

impl RemainingBudgets {
    /// Counts a budget down; says whether it lets one more go.
    fn take(&mut self, budget: (usize, usize), allowed: i64) -> bool {
        let left = self.0.entry(budget).or_insert(allowed);
        *left -= 1;
        *left >= 0
    }
}

impl<'a> Budgets<'a> {
    /// All budgets, for an attempt of a namespace.
    pub(super) fn of(cluster: ClusterView<'a>, payer: &str) -> Self {
        let objects = cluster.objects_of("policy");
        Self { objects, payer: payer.into(), by_namespace: BTreeMap::new(), n_compared: 0 }
    }

    /// How many there are in the cluster.
    pub(super) fn len(&self) -> usize {
        self.objects.n_objects(KIND)
    }

    /// How much reading and comparing those of the payer has cost since the last time, in units.
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.n_compared)
    }

    /// Counts the budgets that cover the pod down, as long as `then` says so, which learns the name of each and whether it lets the
    /// pod go. A budget that was not compared lets nothing go, and is not counted down.
    fn count_down(
        &mut self,
        pod: &Pod,
        left: &mut RemainingBudgets,
        mut then: impl FnMut(&Arc<str>, bool) -> bool,
    ) {
        if pod.labels.is_empty() {
            return;
        }
        let Self { objects, payer, by_namespace, n_compared } = self;
        let is_own = *pod.namespace == **payer;
        if !by_namespace.contains_key(&pod.namespace) {
            let number = by_namespace.len();
            let read = NamespaceBudgets::read(number, objects.list_in(KIND, &pod.namespace));
            *n_compared += if is_own { read.len() as u64 } else { 0 };
            by_namespace.insert(pod.namespace.clone(), read);
        }
        let Some(budgets) = by_namespace.get_mut(&pod.namespace) else { return };
        let (cover, work) = budgets.cover(pod);
        *n_compared += if is_own { work } else { 0 };
        for at in &cover.budgets {
            let Some(budget) = budgets.get(*at) else { continue };
            if budget.terms.is_disrupted(pod) {
                continue;
            }
            let lets_go = left.take((budgets.number, *at), budget.terms.allowed);
            if !then(&budget.name, lets_go) {
                return;
            }
        }
        if let Some(budget) = cover.not_compared.and_then(|at| budgets.get(at)) {
            then(&budget.name, false);
        }
    }

    /// Counts a pod down from what is `left`; says whether all budgets let it go. Those after one that does not are not
    /// counted down.
    pub(super) fn let_go(&mut self, pod: &Pod, left: &mut RemainingBudgets) -> bool {
        let mut all = true;
        self.count_down(pod, left, |_, lets_go| {
            all = lets_go;
            lets_go
        });
        all
    }

    /// Splits pods, most important first, into those whose eviction would violate a budget and the others. Both keep
    /// the order.
    pub(super) fn split<'p>(&mut self, pods: SomePods<'p>) -> (SomePods<'p>, SomePods<'p>) {
        if self.len() == 0 {
            return (SomePods::new(), pods);
        }
        let mut left = RemainingBudgets::default();
        pods.into_iter().partition(|pod| self.violated_by(pod, &mut left, |_| {}))
    }

    /// The names of the budgets that evicting a pod would violate, for each pod whose eviction would, most important first.
    pub(super) fn violations<'p>(
        &mut self,
        pods: SomePods<'p>,
    ) -> Vec<(&'p Arc<Pod>, Vec<Arc<str>>)> {
        let mut left = RemainingBudgets::default();
        let violations = pods.into_iter().filter_map(|pod| {
            let mut names = Vec::new();
            self.violated_by(pod, &mut left, |name| names.push(name.clone()))
                .then_some((pod, names))
        });
        violations.collect()
    }

    /// Counts a pod down from what is `left`; says whether that violates a budget, and which.
    fn violated_by(
        &mut self,
        pod: &Pod,
        left: &mut RemainingBudgets,
        mut violated: impl FnMut(&Arc<str>),
    ) -> bool {
        let mut is_violating = false;
        self.count_down(pod, left, |name, lets_go| {
            if !lets_go {
                is_violating = true;
                violated(name);
            }
            true
        });
        is_violating
    }
}

#[cfg(test)]
mod tests;
