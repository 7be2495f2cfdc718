//! How many more pods may be evicted under a disruption budget.
//!
//! Difference from Kubernetes: the number of expected pods is the number of matching pods, not the scale of their
//! controllers, since no controllers run here.

use serde_json::{Value, json};

use crate::clock::to_rfc3339;
use crate::kinds::{DISRUPTION_BUDGETS, PODS};
use crate::object::{StoredObject, at, child_mut, int_at, list_at, text_at};
use crate::selectors::label_selector_in;
use crate::store::{State, Store};

/// A budget's numbers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) current_healthy: i64,
    pub(crate) desired_healthy: i64,
    pub(crate) expected_pods: i64,
    pub(crate) allowed: i64,
}

/// Counts the pods that `budget` covers.
pub(crate) fn allowance(state: &State, budget: &Value) -> Allowance {
    let namespace = text_at(budget, &["metadata", "namespace"]);
    let mut expected_pods = 0;
    let mut current_healthy = 0;
    for pod in state.objects_in(PODS, namespace).filter(|pod| selects(budget, pod)) {
        // Position 1 of a pod's selectable fields is its phase.
        if matches!(pod.field(1), "Succeeded" | "Failed") {
            continue;
        }
        expected_pods += 1;
        let value = pod.value();
        let terminating = at(&value, &["metadata", "deletionTimestamp"]).is_some();
        current_healthy += i64::from(!terminating && is_ready(&value));
    }
    let desired_healthy =
        match (at(budget, &["spec", "minAvailable"]), at(budget, &["spec", "maxUnavailable"])) {
            (Some(least), _) => portion(least, expected_pods),
            (None, Some(most)) => (expected_pods - portion(most, expected_pods)).max(0),
            (None, None) => (expected_pods - 1).max(0),
        };
    let allowed = if expected_pods == 0 { 0 } else { (current_healthy - desired_healthy).max(0) };
    Allowance { current_healthy, desired_healthy, expected_pods, allowed }
}

/// Whether `budget` covers `pod`, both in the same namespace.
pub(crate) fn selects(budget: &Value, pod: &StoredObject) -> bool {
    let Some(selector) = at(budget, &["spec", "selector"]).filter(|selector| selector.is_object())
    else {
        return false;
    };
    label_selector_in(selector).is_some_and(|selector| selector.matches(pod.labels()))
}

/// Writes the current numbers into the status of every budget of a namespace, as the disruption controller does.
pub(crate) fn refresh(store: &Store, namespaces: &[String]) {
    // The closure returns no error, so neither does the write.
    let _ = store.write(|state| {
        for namespace in namespaces {
            let budgets: Vec<Value> = state
                .objects_in(DISRUPTION_BUDGETS, namespace)
                .map(|budget| budget.value())
                .collect();
            for budget in budgets {
                refresh_one(state, budget);
            }
        }
        Ok(())
    });
}

fn refresh_one(state: &mut State, mut budget: Value) {
    let numbers = allowance(state, &budget);
    let generation = int_at(&budget, &["metadata", "generation"]).unwrap_or(1);
    let sufficient = numbers.allowed > 0;
    let before = budget.get("status").cloned().unwrap_or_default();
    let now = to_rfc3339(state.now);
    let status = child_mut(&mut budget, "status");
    status.insert("currentHealthy".into(), numbers.current_healthy.into());
    status.insert("desiredHealthy".into(), numbers.desired_healthy.into());
    status.insert("expectedPods".into(), numbers.expected_pods.into());
    status.insert("disruptionsAllowed".into(), numbers.allowed.into());
    status.insert("observedGeneration".into(), generation.into());
    let condition = json!({
        "type": "DisruptionAllowed", "status": if sufficient { "True" } else { "False" },
        "reason": if sufficient { "SufficientPods" } else { "InsufficientPods" },
        "message": "", "observedGeneration": generation,
    });
    crate::object::set_condition(crate::object::list_mut(status, "conditions"), condition, &now);
    if budget.get("status") != Some(&before) {
        state.put(DISRUPTION_BUDGETS, budget);
    }
}

/// Whether the pod's condition says that it is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    list_at(pod, &["status", "conditions"]).iter().any(|condition| {
        text_at(condition, &["type"]) == "Ready" && text_at(condition, &["status"]) == "True"
    })
}

/// A count, or a percentage of `total` rounded up.
fn portion(value: &Value, total: i64) -> i64 {
    if let Some(count) = value.as_i64() {
        return count.max(0);
    }
    let percent: i64 = value
        .as_str()
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    (total.saturating_mul(percent.clamp(0, 1000)) + 99) / 100
}
