//! Whether pods are ready, as disruption budgets and controllers that have too many pods see it.

use kube_scheduler_api_types::Pod;

/// Whether the pod's `Ready` condition is true, as Kubernetes has it. A pod without any condition comes from a manifest, and is
/// taken for ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = &pod.status.conditions;
    let ready = conditions.iter().find(|condition| *condition.kind == *"Ready");
    ready.map_or(conditions.is_empty(), |condition| *condition.status == *"True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_is_ready_if_it_says_so_or_says_nothing() {
        let is_ready = |conditions: Value| {
            let pod = json!({"metadata": {"namespace": "a", "name": "p"}, "status": {"conditions": conditions}});
            is_ready(&Pod::from_value(&pod).unwrap())
        };
        assert!(is_ready(json!([])));
        assert!(is_ready(json!([{"type": "Ready", "status": "True"}])));
        assert!(!is_ready(json!([{"type": "Ready", "status": "False"}])));
        assert!(!is_ready(json!([{"type": "PodScheduled", "status": "True"}])));
    }
}
