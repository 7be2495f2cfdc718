//! The binding subresource: the one way in which a pod gets its node.

use kube_scheduler_api_types::validation::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::clock::to_rfc3339;
use crate::kinds::PODS;
use crate::object::{at, child_mut, list_at, list_mut, map_mut, meta_mut, set_condition, text_at};
use crate::status::StatusError;
use crate::store::Store;

/// Binds the pod to the node that the `Binding` object names. As in Kubernetes, the node need not exist.
pub(crate) fn bind(
    store: &Store,
    namespace: &str,
    name: &str,
    binding: &Value,
    dry_run: bool,
) -> Result<(), StatusError> {
    let conflict = |why: &str| Err(StatusError::conflict(PODS.get(), "pods/binding", name, why));
    check(name, binding)?;
    let node = text_at(binding, &["target", "name"]);
    store.write(|state| {
        let Some(current) = state.get(PODS, namespace, name) else {
            return Err(StatusError::not_found(PODS.get(), name));
        };
        let uid = text_at(binding, &["metadata", "uid"]);
        if !uid.is_empty() && uid != current.uid() {
            return conflict(&format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid()
            ));
        }
        // Position 0 of a pod's selectable fields is its node.
        if !current.field(0).is_empty() {
            return conflict(&format!(
                "pod {name} is already assigned to node {:?}",
                current.field(0)
            ));
        }
        let mut pod = current.value();
        if at(&pod, &["metadata", "deletionTimestamp"]).is_some() {
            return conflict(&format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        if !list_at(&pod, &["spec", "schedulingGates"]).is_empty() {
            return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        if dry_run {
            return Ok(());
        }
        child_mut(&mut pod, "spec").insert("nodeName".into(), node.into());
        let meta = meta_mut(&mut pod);
        for part in ["annotations", "labels"] {
            if let Some(given) = at(binding, &["metadata", part]).and_then(Value::as_object) {
                let own = map_mut(meta.entry(part).or_insert(Value::Null));
                own.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        let now = to_rfc3339(state.now);
        let status = child_mut(&mut pod, "status");
        status.remove("nominatedNodeName");
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null});
        set_condition(list_mut(status, "conditions"), condition, &now);
        state.put(PODS, pod);
        Ok(())
    })
}

fn check(name: &str, binding: &Value) -> Result<(), StatusError> {
    let given = text_at(binding, &["metadata", "name"]);
    if !given.is_empty() && given != name {
        return Err(StatusError::bad_request("name in URL does not match name in Binding object"));
    }
    let target_kind = text_at(binding, &["target", "kind"]);
    let mut errors = Vec::new();
    if !target_kind.is_empty() && target_kind != "Node" {
        let path = FieldPath::new("target.kind");
        errors.push(FieldError::unsupported(path, target_kind, &["Node", "<empty>"]));
    }
    if text_at(binding, &["target", "name"]).is_empty() {
        errors.push(FieldError::required(FieldPath::new("target.name"), ""));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(StatusError::invalid(crate::kinds::BINDINGS.get(), name, &errors))
    }
}
