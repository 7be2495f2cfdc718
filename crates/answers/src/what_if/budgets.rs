//! Disruption budgets as the eviction API reads them, and what is left of them while nodes are drained.
//!
//! A budget's margin is what it has healthy beyond what it needs. The eviction of a healthy pod takes one away, and a pod that gets a
//! node gives one back: it is taken to become ready.
//! What the eviction of an unready pod takes, it has back when it is counted again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Json, LabelSelector, Object, Pod, wire};
use kube_scheduler_engine::Engine;
use kube_scheduler_framework::ObjectStore;
use serde::Deserialize;
use serde_json::Value;

use crate::readiness::is_ready;

const GROUP: &str = "policy";
const KIND: &str = "PodDisruptionBudget";
/// A pod does not count as disrupted by its eviction in these phases, and so needs no budget.
const IDLE_PHASES: [&str; 3] = ["Pending", "Succeeded", "Failed"];

/// One budget.
#[derive(Debug)]
struct Budget {
    name: Arc<str>,
    selector: LabelSelector,
    /// What was left of it at first, and what is left now.
    first_margin: i64,
    margin: i64,
    /// What evictions of pods that were not healthy have taken of it since it was counted.
    lent: i64,
    /// The object with the status of this margin, for a budget that has one.
    stored: Option<(Object, i64)>,
    /// How many healthy pods it needs.
    desired_healthy: i64,
    /// Whether pods that are not ready may go in any case.
    lets_unready_go: bool,
}

/// All budgets, by namespace.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    by_namespace: BTreeMap<Arc<str>, Vec<Budget>>,
    /// The UIDs of pods that got a node and are taken to be ready, whatever their status says.
    placed: BTreeSet<Arc<str>>,
    /// The names of those that have no status yet; what they allow is counted here.
    pub(super) without_status: Vec<String>,
}

/// What the eviction API answers about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvictionVerdict {
    Allowed,
    /// The budget has nothing left. `needs` healthy pods are wanted.
    Exhausted {
        budget: Arc<str>,
        needs: i64,
        never_allowed: bool,
    },
    /// Several budgets cover the pod, which the API does not support.
    Several(Vec<Arc<str>>),
}

impl Budgets {
    /// The budgets that an engine knows.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut budgets = Self::default();
        for object in engine.cluster().objects().list(GROUP, KIND) {
            let Some(budget) = Budget::of(object) else { continue };
            let status = &object.json["status"];
            let budget = match status["disruptionsAllowed"].as_i64() {
                Some(allowed) => budget.with_status(object, status, allowed),
                None => {
                    budgets.without_status.push(object.key());
                    budget.counted(engine, object)
                }
            };
            budgets.by_namespace.entry(object.namespace.clone()).or_default().push(budget);
        }
        budgets
    }

    /// Asks for the eviction of a pod, and counts it if a budget allows it.
    pub(super) fn evict(&mut self, pod: &Pod) -> EvictionVerdict {
        let is_idle = IDLE_PHASES.contains(&&*pod.status.phase);
        if is_idle || pod.deletion_requested.is_some() || is_overlooked(pod) {
            return EvictionVerdict::Allowed;
        }
        let mut covering: Vec<&mut Budget> = self.covering(pod).collect();
        let [budget] = &mut covering[..] else {
            let names: Vec<Arc<str>> = covering.iter().map(|budget| budget.name.clone()).collect();
            return match names.is_empty() {
                true => EvictionVerdict::Allowed,
                false => EvictionVerdict::Several(names),
            };
        };
        let is_ready = is_ready(pod);
        if !is_ready {
            let has_enough = budget.margin >= 0 && budget.desired_healthy > 0;
            if has_enough || budget.lets_unready_go {
                return EvictionVerdict::Allowed;
            }
        }
        if budget.margin <= budget.lent {
            return EvictionVerdict::Exhausted {
                budget: budget.name.clone(),
                needs: budget.desired_healthy,
                never_allowed: budget.first_margin <= 0,
            };
        }
        match is_ready {
            true => budget.margin -= 1,
            false => budget.lent += 1,
        }
        EvictionVerdict::Allowed
    }

    /// Counts a pod that got a node as healthy.
    pub(super) fn placed(&mut self, pod: &Pod) {
        self.placed.insert(pod.uid.clone());
        self.covering(pod).for_each(|budget| budget.margin += 1);
    }

    /// Counts a pod that went without any budget being asked, as in preemption. One that was not healthy costs nothing.
    pub(super) fn lost(&mut self, pod: &Pod) {
        if self.placed.contains(&pod.uid) || counts_as_healthy(pod) {
            self.covering(pod).for_each(|budget| budget.margin -= 1);
        }
    }

    /// Counts again as the controller of budgets does. Returns the objects whose status says something else by then, with what it
    /// will say.
    pub(super) fn recounted(&mut self) -> Vec<Arc<Object>> {
        let all = self.by_namespace.values_mut().flatten();
        all.filter_map(|budget| {
            budget.lent = 0;
            let (object, margin) = budget.stored.as_mut().filter(|(_, at)| *at != budget.margin)?;
            *margin = budget.margin;
            let healthy = budget.desired_healthy.saturating_add(*margin);
            let allowed = Value::from((*margin).max(0));
            object.set_field(&["status", "disruptionsAllowed"], allowed.into());
            object.set_field(&["status", "currentHealthy"], Value::from(healthy).into());
            Some(Arc::new(object.clone()))
        })
        .collect()
    }

    fn covering<'a>(&'a mut self, pod: &'a Pod) -> impl Iterator<Item = &'a mut Budget> {
        let in_namespace = self.by_namespace.get_mut(&pod.namespace).into_iter().flatten();
        in_namespace.filter(|budget| budget.selector.matches(&pod.labels))
    }
}

impl Budget {
    /// A budget with nothing left; `None` if it covers nothing. Other than for preemption, an empty selector covers the whole
    /// namespace here.
    fn of(object: &Object) -> Option<Self> {
        let spec = &object.json["spec"];
        Some(Self {
            name: object.name.clone(),
            selector: selector_of(object)?,
            first_margin: 0,
            margin: 0,
            lent: 0,
            stored: None,
            desired_healthy: 0,
            lets_unready_go: spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
        })
    }

    /// What the controller of budgets has counted.
    fn with_status(self, object: &Object, status: &Json, allowed: i64) -> Self {
        let number = |field: &str| status[field].as_i64().unwrap_or_default();
        let desired_healthy = number("desiredHealthy");
        let lacking = (number("currentHealthy") - desired_healthy).min(0);
        let margin = if allowed > 0 { allowed } else { lacking };
        let stored = Some((object.clone(), margin));
        Self { desired_healthy, margin, first_margin: margin, stored, ..self }
    }

    /// What that controller will count, with all pods that have a node taken for healthy if they do not say otherwise.
    fn counted(self, engine: &Engine, object: &Object) -> Self {
        let covered = engine
            .known_pods()
            .filter(|pod| pod.namespace == object.namespace && self.selector.matches(&pod.labels));
        let (mut expected, mut healthy) = (0, 0);
        for pod in covered {
            expected += 1;
            healthy += i64::from(pod.is_assigned() && counts_as_healthy(pod));
        }
        let spec = &object.json["spec"];
        let desired_healthy = match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
            (Some(least), _) => portion(least, expected),
            (None, Some(most)) => (expected - portion(most, expected)).max(0),
            (None, None) => (expected - 1).max(0),
        };
        let margin = healthy - desired_healthy;
        Self { desired_healthy, margin, first_margin: margin, ..self }
    }
}

/// What a budget covers in its namespace.
fn selector_of(object: &Object) -> Option<LabelSelector> {
    let selector = object.json.get("spec")?.get("selector")?;
    LabelSelector::from_wire(&wire::LabelSelector::deserialize(selector).ok()?).ok()
}

/// Which pods budgets cover, by namespace, whatever is left of them.
#[derive(Debug)]
pub(crate) struct Coverage(BTreeMap<Arc<str>, Vec<(Arc<str>, LabelSelector)>>);

impl Coverage {
    pub(crate) fn of(objects: &ObjectStore) -> Self {
        let mut coverage: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for object in objects.list(GROUP, KIND) {
            let Some(selector) = selector_of(object) else { continue };
            let in_namespace = coverage.entry(object.namespace.clone()).or_default();
            in_namespace.push((object.name.clone(), selector));
        }
        Self(coverage)
    }

    /// The names of the budgets that cover a pod.
    pub(crate) fn names(&self, pod: &Pod) -> Vec<String> {
        let in_namespace = self.0.get(&pod.namespace).filter(|_| !is_overlooked(pod));
        let covering = in_namespace.into_iter().flatten();
        let covering = covering.filter(|(_, selector)| selector.matches(&pod.labels));
        covering.map(|(name, _)| name.to_string()).collect()
    }
}

/// A number, or a percentage of `total`, rounded up.
fn portion(value: &Json, total: i64) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    total.saturating_mul(percent.unwrap_or(0).clamp(0, 100)).saturating_add(99) / 100
}

/// Whether the eviction API looks for no budget of the pod, although the controller of budgets may count it: one without labels.
pub(super) fn is_overlooked(pod: &Pod) -> bool {
    pod.labels.is_empty()
}

/// Whether the controller of budgets counts a pod on a node as healthy.
fn counts_as_healthy(pod: &Pod) -> bool {
    let is_idle = IDLE_PHASES.contains(&&*pod.status.phase);
    !is_idle && pod.deletion_requested.is_none() && is_ready(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up() {
        let of = |value: Value, total| portion(&Json::from(value), total);
        assert_eq!(of(serde_json::json!(2), 7), 2);
        assert_eq!(of(serde_json::json!("50%"), 7), 4);
        assert_eq!(of(serde_json::json!("0%"), 7), 0);
        assert_eq!(of(serde_json::json!("100%"), 7), 7);
    }
}
