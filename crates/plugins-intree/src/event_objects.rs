//! The objects of cluster events, as the kinds that queueing hints expect.
//!
//! Invariant: an object of another kind is an error, and an error means "queue the pod": a hint never loses a pod.

use std::sync::Arc;

use kube_scheduler_framework::EventObject;
use kube_scheduler_framework::api::{Node, Object, Pod};

/// Old and new object of an event; either may be absent.
pub(crate) type Pair<'a, T> = (Option<&'a Arc<T>>, Option<&'a Arc<T>>);

/// Both objects as nodes.
pub(crate) fn nodes<'a>(
    old: Option<&'a EventObject>,
    new: Option<&'a EventObject>,
) -> Result<Pair<'a, Node>, String> {
    pair("node", EventObject::as_node, old, new)
}

/// Both objects as pods.
pub(crate) fn pods<'a>(
    old: Option<&'a EventObject>,
    new: Option<&'a EventObject>,
) -> Result<Pair<'a, Pod>, String> {
    pair("pod", EventObject::as_pod, old, new)
}

/// Both objects as objects of any kind but pods and nodes.
pub(crate) fn others<'a>(
    old: Option<&'a EventObject>,
    new: Option<&'a EventObject>,
) -> Result<Pair<'a, Object>, String> {
    pair("object of another kind", EventObject::as_object, old, new)
}

fn pair<'a, T>(
    expected: &str,
    pick: fn(&EventObject) -> Option<&Arc<T>>,
    old: Option<&'a EventObject>,
    new: Option<&'a EventObject>,
) -> Result<Pair<'a, T>, String> {
    let one = |object: Option<&'a EventObject>| match object {
        None => Ok(None),
        Some(object) => match pick(object) {
            Some(inner) => Ok(Some(inner)),
            None => Err(format!("expected a {expected}, but got a {}", kind_of(object))),
        },
    };
    Ok((one(old)?, one(new)?))
}

fn kind_of(object: &EventObject) -> &'static str {
    match object {
        EventObject::Pod(_) => "pod",
        EventObject::Node(_) => "node",
        _ => "object of another kind",
    }
}
