//! The forms in which an object is served. Each version of an API has its own, and so have both APIs of events; an object
//! is stored in one of them ([`KindId::storage`]).
//!
//! Invariant: converting to the stored form and back gives the same object.

use serde_json::Value;

use crate::events;
use crate::kinds::{EVENTS_V1, KindId};

/// An object of a kind as a client sent it, in the form in which it is stored.
pub(crate) fn stored(kind: KindId, object: Value) -> Value {
    match kind {
        _ if kind == kind.storage() => object,
        EVENTS_V1 => events::to_core(object),
        _ => renamed(object, kind, kind.storage()),
    }
}

/// A stored object in the form of a kind.
pub(crate) fn served(kind: KindId, object: Value) -> Value {
    match kind {
        _ if kind == kind.storage() => object,
        EVENTS_V1 => events::from_core(object),
        _ => renamed(object, kind.storage(), kind),
    }
}

/// Versions that have the same fields differ in their name alone. One that is not expected stays, for checks to reject.
fn renamed(mut object: Value, from: KindId, to: KindId) -> Value {
    if let Some(version) = object.get_mut("apiVersion")
        && *version == from.get().api_version()
    {
        *version = to.get().api_version().into();
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_and_back_is_the_same_object() {
        for kind in KindId::all() {
            let object = json!({
                "apiVersion": kind.get().api_version(), "kind": kind.get().kind,
                "metadata": {"name": "x"}, "spec": {"count": 1},
            });
            let stored = stored(kind, object.clone());
            assert_eq!(stored["apiVersion"], kind.storage().get().api_version());
            assert_eq!(served(kind, stored), object);
        }
    }

    #[test]
    fn an_object_of_another_version_is_left_as_it_is() {
        let beta = KindId::by_plural("resource.k8s.io", "v1beta2", "deviceclasses").unwrap();
        let object = json!({"apiVersion": "example.com/v1", "kind": "DeviceClass"});
        assert_eq!(stored(beta, object.clone()), object);
    }
}
