//! Disruption budgets: which pods a PodDisruptionBudget protects from eviction.
//!
//! Quirks: a budget counts down for every pod it covers in order of importance, even for pods that are kept in the end;
//! every matching budget counts down, even after another one was found violated.
//!
//! Behaviour in `docs/spec/preemption.md` §5.1.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::{LabelSelector, Object, Pod, wire};
use serde::Deserialize;

use super::candidate::SomePods;

/// One budget.
#[derive(Debug)]
struct Budget {
    namespace: Arc<str>,
    name: Arc<str>,
    /// Never empty: an empty selector covers nothing here.
    selector: LabelSelector,
    allowed: i64,
    /// Names of pods whose disruption is counted already.
    disrupted: BTreeSet<String>,
}

impl Budget {
    /// `None` when the budget can cover nothing.
    fn of(object: &Object) -> Option<Self> {
        let wire_selector = object.json.get("spec")?.get("selector")?;
        let wire_selector = wire::LabelSelector::deserialize(wire_selector).ok()?;
        let selector = LabelSelector::from_wire(&wire_selector)
            .ok()
            .filter(|selector| !selector.is_empty())?;
        let status = object.json.get("status");
        let allowed = status
            .and_then(|status| status.get("disruptionsAllowed"))
            .and_then(|value| value.as_i64());
        let disrupted = status
            .and_then(|status| status.get("disruptedPods"))
            .and_then(|value| value.as_object());
        Some(Self {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            selector,
            allowed: allowed.unwrap_or(0),
            disrupted: disrupted
                .into_iter()
                .flat_map(|pods| pods.iter().map(|(name, _)| name.to_owned()))
                .collect(),
        })
    }

    fn covers(&self, pod: &Pod) -> bool {
        self.namespace == pod.namespace
            && self.selector.matches(&pod.labels)
            && !self.disrupted.contains(&*pod.name)
    }
}

/// All budgets of the cluster, read once per attempt.
#[derive(Debug)]
pub(super) struct Budgets(Vec<Budget>);

impl Budgets {
    pub(super) fn of(cluster: ClusterView<'_>) -> Self {
        let objects = cluster.objects().list("policy", "PodDisruptionBudget");
        Self(objects.filter_map(|object| Budget::of(object)).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many more pods each budget lets go.
    pub(super) fn allowed(&self) -> Vec<i64> {
        self.0.iter().map(|budget| budget.allowed).collect()
    }

    /// Counts a pod down from what is `left`; says whether all budgets let it go. Those after one that does not are not
    /// counted down.
    pub(super) fn let_go(&self, pod: &Pod, left: &mut [i64]) -> bool {
        let covering = self.0.iter().zip(left).filter(|(budget, _)| budget.covers(pod));
        pod.labels.is_empty()
            || covering.map(|(_, left)| left).all(|left| {
                *left -= 1;
                *left >= 0
            })
    }

    /// Splits pods, most important first, into those whose eviction would violate a budget and the others. Both keep
    /// the order.
    pub(super) fn split<'a>(&self, pods: SomePods<'a>) -> (SomePods<'a>, SomePods<'a>) {
        if self.0.is_empty() {
            return (SomePods::new(), pods);
        }
        let mut left = self.allowed();
        pods.into_iter().partition(|pod| self.violated_by(pod, &mut left, |_| {}))
    }

    /// The names of the budgets that evicting a pod would violate, for each pod whose eviction would, most important first.
    pub(super) fn violations<'a>(&self, pods: SomePods<'a>) -> Vec<(&'a Arc<Pod>, Vec<Arc<str>>)> {
        let mut left = self.allowed();
        let violations = pods.into_iter().filter_map(|pod| {
            let mut names = Vec::new();
            self.violated_by(pod, &mut left, |name| names.push(name.clone()))
                .then_some((pod, names))
        });
        violations.collect()
    }

    /// Counts a pod down from what is `left`; says whether that violates a budget, and which.
    fn violated_by(
        &self,
        pod: &Pod,
        left: &mut [i64],
        mut violated: impl FnMut(&Arc<str>),
    ) -> bool {
        let mut is_violating = false;
        if !pod.labels.is_empty() {
            for (budget, left) in self.0.iter().zip(left) {
                if budget.covers(pod) {
                    *left -= 1;
                    if *left < 0 {
                        is_violating = true;
                        violated(&budget.name);
                    }
                }
            }
        }
        is_violating
    }
}
