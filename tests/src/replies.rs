//! What an API server replies to what an engine asks for, and what a watch shows then.

use std::sync::Arc;

use kube_scheduler_api_types::{Object, Pod, PodStatus, Timestamp};
use kube_scheduler_engine::{Effect, Engine, EvictionOutcome, Input};
use kube_scheduler_framework::{ApiError, ObjectWrite};
use serde_json::json;

/// The reply to a request that succeeds, and what a watch shows of it: of the pod that the effect is about if that is `known`, as the
/// server has it. A pod that is bound has `started` then.
pub fn success(effect: Effect, known: Option<&Arc<Pod>>, started: Option<Timestamp>) -> Vec<Input> {
    let changed = |change: &dyn Fn(&mut Pod, &mut PodStatus)| {
        known.map(|known| {
            let (mut pod, mut status) = (Pod::clone(known), PodStatus::clone(&known.status));
            change(&mut pod, &mut status);
            pod.status = Arc::new(status);
            Input::PodApplied(Arc::new(pod))
        })
    };
    let (reply, shown) = match effect {
        Effect::WriteBinding { token, node, .. } => {
            let bound = changed(&|pod, status| {
                pod.node_name = Some(node.clone());
                status.started = started.or(status.started);
            });
            (Some(Input::BindingWritten { token, result: Ok(()) }), bound)
        }
        // An announcement is not needed any more: the binding comes at once.
        Effect::PatchStatus { patch, is_announcement: false, .. } => {
            let patched = changed(&|_, status| {
                if let Some(nominated) = &patch.nominated_node_name {
                    status.nominated_node_name.clone_from(nominated);
                }
                if let Some(condition) = &patch.condition {
                    let others = status.conditions.iter().filter(|it| it.kind != condition.kind);
                    status.conditions = others.cloned().chain([condition.clone()]).collect();
                }
            });
            (None, patched)
        }
        Effect::EvictPod { token, pod, .. } => {
            let (namespace, name) = (pod.namespace, pod.name);
            let result = Ok(EvictionOutcome::Deleted);
            (Some(Input::PodEvicted { token, result }), Some(Input::PodDeleted { namespace, name }))
        }
        Effect::ClearNomination { token, .. } => {
            let cleared = changed(&|_, status| status.nominated_node_name = None);
            (Some(Input::NominationCleared { token, result: Ok(()) }), cleared)
        }
        Effect::WriteObject { write, awaited_by, .. } => {
            let Some(stored) = stored(&write) else { return Vec::new() };
            let reply = awaited_by
                .map(|(token, _)| Input::ObjectWritten { token, result: Ok(stored.clone()) });
            (reply, (&*stored.kind != "Pod").then(|| Input::ObjectApplied(stored)))
        }
        _ => (None, None),
    };
    reply.into_iter().chain(shown).collect()
}

/// What an API server without other writers stores for a write; of a patch, what it is about. `None` for writes that no test leads to.
fn stored(write: &ObjectWrite) -> Option<Arc<Object>> {
    let mut object = match write {
        ObjectWrite::Replace(object) | ObjectWrite::ReplaceStatus(object) => (**object).clone(),
        ObjectWrite::Create(object) => {
            let mut created = (**object).clone();
            // Each pod has one such claim.
            let prefix = object.json["metadata"]["generateName"].as_str()?;
            let (name, uid) = (format!("{prefix}x"), format!("uid-{prefix}x"));
            created.set_field(&["metadata", "name"], name.as_str().into());
            created.set_field(&["metadata", "uid"], uid.as_str().into());
            (created.name, created.uid) = (name.into(), uid.into());
            created
        }
        ObjectWrite::PatchStatus { object, .. } => {
            let metadata = json!({"namespace": *object.namespace, "name": *object.name});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
            return Object::from_value(pod).ok().map(Arc::new);
        }
        _ => return None,
    };
    let revision: u64 = object.resource_version.parse().unwrap_or_default();
    let revision = (revision + 1).to_string();
    object.set_field(&["metadata", "resourceVersion"], revision.as_str().into());
    object.resource_version = revision.into();
    Some(Arc::new(object))
}

/// Bindings succeed, and all else has no reply.
pub fn write_bindings(engine: &mut Engine, now: Timestamp) {
    for effect in engine.drain_effects().collect::<Vec<_>>() {
        if let Effect::WriteBinding { token, .. } = effect {
            engine.handle(Input::BindingWritten { token, result: Ok(()) }, now);
        }
    }
}

/// Bindings succeed, and all else fails.
pub fn write_bindings_alone(engine: &mut Engine, now: Timestamp) {
    let refusal = || ApiError::new("", "no");
    for effect in engine.drain_effects().collect::<Vec<_>>() {
        let reply = match effect {
            Effect::WriteBinding { token, .. } => Input::BindingWritten { token, result: Ok(()) },
            Effect::WriteObject { awaited_by: Some((token, _)), .. } => {
                Input::ObjectWritten { token, result: Err(refusal()) }
            }
            Effect::EvictPod { token, .. } => Input::PodEvicted { token, result: Err(refusal()) },
            Effect::ClearNomination { token, .. } => {
                Input::NominationCleared { token, result: Err(refusal()) }
            }
            _ => continue,
        };
        engine.handle(reply, now);
    }
}
