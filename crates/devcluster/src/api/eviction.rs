//! The eviction subresource: a deletion that disruption budgets can reject.

use serde_json::Value;

use super::delete::{DeleteOptions, delete_in};
use super::disruption::{Allowance, allowance, is_ready, selects};
use crate::kinds::{DISRUPTION_BUDGETS, PODS};
use crate::object::{at, text_at};
use crate::status::StatusError;
use crate::store::{State, Store};

/// Evicts a pod unless a disruption budget forbids it.
pub(crate) fn evict(
    store: &Store,
    namespace: &str,
    name: &str,
    eviction: &Value,
    dry_run: bool,
) -> Result<(), StatusError> {
    let mut options =
        DeleteOptions::from_body(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
    options.dry_run |= dry_run;
    store.write(|state| {
        let Some(pod) = state.get(PODS, namespace, name) else {
            return Err(StatusError::not_found(PODS.get(), name));
        };
        let value = pod.value();
        let idle =
            matches!(text_at(&value, &["status", "phase"]), "Succeeded" | "Failed" | "Pending");
        if !idle && at(&value, &["metadata", "deletionTimestamp"]).is_none() {
            check_budgets(state, namespace, name)?;
        }
        delete_in(state, PODS, namespace, name, &options).map(|_| ())
    })
}

fn check_budgets(state: &State, namespace: &str, name: &str) -> Result<(), StatusError> {
    let Some(pod) = state.get(PODS, namespace, name).filter(|pod| !pod.labels().is_empty()) else {
        return Ok(());
    };
    let budgets: Vec<Value> = state
        .objects_in(DISRUPTION_BUDGETS, namespace)
        .map(|budget| budget.value())
        .filter(|budget| selects(budget, pod))
        .collect();
    let [budget] = budgets.as_slice() else {
        if budgets.is_empty() {
            return Ok(());
        }
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(StatusError::with_code(500, why));
    };
    let numbers = allowance(state, budget);
    if numbers.allowed > 0 || may_go_unready(budget, &pod.value(), numbers) {
        return Ok(());
    }
    let cause = format!(
        "The disruption budget {} needs {} healthy pods and has {} currently",
        text_at(budget, &["metadata", "name"]),
        numbers.desired_healthy,
        numbers.current_healthy
    );
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Err(StatusError::too_many(message, "DisruptionBudget", cause))
}

/// Whether a pod that is not ready goes without asking what is allowed: always if the budget says so, and otherwise if enough others
/// are healthy.
fn may_go_unready(budget: &Value, pod: &Value, numbers: Allowance) -> bool {
    let policy = text_at(budget, &["spec", "unhealthyPodEvictionPolicy"]);
    let has_enough =
        numbers.desired_healthy > 0 && numbers.current_healthy >= numbers.desired_healthy;
    !is_ready(pod) && (policy == "AlwaysAllow" || has_enough)
}
