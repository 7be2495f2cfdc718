//! Disruption budgets: which pods a PodDisruptionBudget protects from eviction.
//!
//! Quirks: a budget counts down for every pod it covers in order of importance, even for pods that are kept in the end;
//! every matching budget counts down, even after another one was found violated.
//!
//! Behaviour in `docs/spec/preemption.md` §5.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::{Json, LabelSelector, Pod, wire};
use serde::Deserialize;

use super::candidate::SomePods;

/// What a budget says; read once, and kept with its object.
#[derive(Debug)]
struct Terms {
    /// `None` where it covers nothing, as an empty one does here.
    selector: Option<LabelSelector>,
    allowed: i64,
    /// Names of pods whose disruption is counted already.
    disrupted: BTreeSet<String>,
}

impl Terms {
    fn read(json: &Json) -> Self {
        let selector = json.get("spec").and_then(|spec| spec.get("selector"));
        let selector =
            selector.and_then(|selector| wire::LabelSelector::deserialize(selector).ok());
        let selector = selector.and_then(|selector| LabelSelector::from_wire(&selector).ok());
        let status = json.get("status");
        let allowed = status
            .and_then(|status| status.get("disruptionsAllowed"))
            .and_then(|value| value.as_i64());
        let disrupted = status
            .and_then(|status| status.get("disruptedPods"))
            .and_then(|value| value.as_object());
        Self {
            selector: selector.filter(|selector| !selector.is_empty()),
            allowed: allowed.unwrap_or(0),
            disrupted: disrupted
                .into_iter()
                .flat_map(|pods| pods.iter().map(|(name, _)| name.to_owned()))
                .collect(),
        }
    }

    /// Whether a pod of the budget's namespace is covered.
    fn cover(&self, pod: &Pod) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
            && !self.disrupted.contains(&*pod.name)
    }
}

/// One budget that may cover pods.
#[derive(Debug)]
struct Budget {
    name: Arc<str>,
    terms: Arc<Terms>,
}

/// All budgets of the cluster, as they are in one attempt.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    by_namespace: BTreeMap<Arc<str>, Vec<Budget>>,
    n_budgets: usize,
}

/// How many more pods budgets let go, for those that have been counted down.
#[derive(Debug, Default)]
pub(super) struct Left<'a>(BTreeMap<(&'a str, &'a str), i64>);

impl<'a> Left<'a> {
    /// Counts a budget down; says whether it lets one more go.
    fn take(&mut self, namespace: &'a str, budget: &'a Budget) -> bool {
        let left = self.0.entry((namespace, &budget.name)).or_insert(budget.terms.allowed);
        *left -= 1;
        *left >= 0
    }
}

impl Budgets {
    pub(super) fn of(cluster: ClusterView<'_>) -> Self {
        let mut budgets = Self::default();
        for object in cluster.objects().list("policy", "PodDisruptionBudget") {
            let terms = object.read_as(Terms::read);
            if terms.selector.is_some() {
                let of_namespace = budgets.by_namespace.entry(object.namespace.clone());
                of_namespace.or_default().push(Budget { name: object.name.clone(), terms });
                budgets.n_budgets += 1;
            }
        }
        budgets
    }

    pub(super) fn len(&self) -> usize {
        self.n_budgets
    }

    /// The budgets that cover a pod, with their namespace.
    fn covering(&self, pod: &Pod) -> impl Iterator<Item = (&str, &Budget)> {
        let of_namespace = self.by_namespace.get_key_value(&pod.namespace);
        let of_namespace = of_namespace.filter(|_| !pod.labels.is_empty()).into_iter();
        let all = of_namespace.flat_map(|(name, all)| all.iter().map(|budget| (&**name, budget)));
        all.filter(|(_, budget)| budget.terms.cover(pod))
    }

    /// Counts a pod down from what is `left`; says whether all budgets let it go. Those after one that does not are not
    /// counted down.
    pub(super) fn let_go<'a>(&'a self, pod: &Pod, left: &mut Left<'a>) -> bool {
        self.covering(pod).all(|(namespace, budget)| left.take(namespace, budget))
    }

    /// Splits pods, most important first, into those whose eviction would violate a budget and the others. Both keep
    /// the order.
    pub(super) fn split<'a>(&self, pods: SomePods<'a>) -> (SomePods<'a>, SomePods<'a>) {
        if self.n_budgets == 0 {
            return (SomePods::new(), pods);
        }
        let mut left = Left::default();
        pods.into_iter().partition(|pod| self.violated_by(pod, &mut left, |_| {}))
    }

    /// The names of the budgets that evicting a pod would violate, for each pod whose eviction would, most important first.
    pub(super) fn violations<'a>(&self, pods: SomePods<'a>) -> Vec<(&'a Arc<Pod>, Vec<Arc<str>>)> {
        let mut left = Left::default();
        let violations = pods.into_iter().filter_map(|pod| {
            let mut names = Vec::new();
            self.violated_by(pod, &mut left, |name| names.push(name.clone()))
                .then_some((pod, names))
        });
        violations.collect()
    }

    /// Counts a pod down from what is `left`; says whether that violates a budget, and which.
    fn violated_by<'a>(
        &'a self,
        pod: &Pod,
        left: &mut Left<'a>,
        mut violated: impl FnMut(&Arc<str>),
    ) -> bool {
        let mut is_violating = false;
        for (namespace, budget) in self.covering(pod) {
            if !left.take(namespace, budget) {
                is_violating = true;
                violated(&budget.name);
            }
        }
        is_violating
    }
}

#[cfg(test)]
mod tests;
