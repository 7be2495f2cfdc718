//! Kinds that servers serve in different versions, and what is different in them.
//!
//! The engine writes objects as the oldest of these versions has them. PodGroups are in `v1alpha2` of Kubernetes 1.36, and in
//! `v1alpha3` and `v1beta1` of 1.37, where the condition of scheduling has another name; `v1` is planned to follow. What else
//! differs in their fields is read in each form.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::{Object, lock};
use serde_json::Value;

/// Name of the kind, and versions, the best first. What a server without the definition of a custom kind does not serve is
/// looked for here, too, so that it is said once.
const VERSIONS: [(&str, &[&str]); 2] = [
    (POD_GROUPS, &["v1", "v1beta1", "v1alpha3", OLDEST]),
    ("podgroups.scheduling.x-k8s.io", &["v1alpha1"]),
];

const POD_GROUPS: &str = "podgroups.scheduling.k8s.io";
const OLDEST: &str = "v1alpha2";
/// The condition in the oldest version, and in those after it.
const CONDITIONS: [&str; 2] = ["PodGroupScheduled", "PodGroupInitiallyScheduled"];

/// The versions in which a kind may be served; empty where all servers serve it in the same one.
pub(super) fn of(name: &str) -> &'static [&'static str] {
    VERSIONS.iter().find(|known| known.0 == name).map_or(&[], |known| known.1)
}

/// In which versions a server serves such kinds, as far as it was asked.
#[derive(Debug, Default)]
pub(crate) struct ServedVersions(Mutex<BTreeMap<String, &'static str>>);

impl ServedVersions {
    /// The server serves the kind of this name in this version.
    pub(crate) fn set(&self, name: &str, version: &'static str) {
        let mut versions = lock(&self.0);
        versions.insert(name.to_owned(), version);
    }

    /// Whether the server has named the version in which it serves the kind of this name.
    pub(crate) fn have(&self, name: &str) -> bool {
        lock(&self.0).contains_key(name)
    }

    /// The version in which the kind of this group and plural is served; `None` if it is the usual one.
    pub(crate) fn get(&self, group: &str, plural: &str) -> Option<&'static str> {
        let versions = lock(&self.0);
        versions.get(&format!("{plural}.{group}")).copied()
    }
}

/// An object of a kind as the engine reads it.
pub(crate) fn as_read(name: &str, object: Arc<Object>) -> Arc<Object> {
    if name != POD_GROUPS || &*object.version == OLDEST {
        return object;
    }
    let [old, new] = CONDITIONS;
    let Cow::Owned(json) = renamed(&Value::from(&*object.json), new, old) else { return object };
    Arc::new(Arc::unwrap_or_clone(object).with_json(json))
}

/// A patch of an object's status as a server takes it that serves the kind in `version`.
pub(crate) fn as_written<'p>(
    kind: &str,
    patch: &'p Value,
    version: Option<&str>,
) -> Cow<'p, Value> {
    if kind != "PodGroup" || version.is_none_or(|version| version == OLDEST) {
        return Cow::Borrowed(patch);
    }
    let [old, new] = CONDITIONS;
    renamed(patch, old, new)
}

/// The same with another type of condition in its status.
fn renamed<'v>(value: &'v Value, from: &str, to: &str) -> Cow<'v, Value> {
    let conditions = value["status"]["conditions"].as_array();
    if !conditions.into_iter().flatten().any(|condition| condition["type"] == from) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    for condition in value["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"] == from {
            condition["type"] = to.into();
        }
    }
    Cow::Owned(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(version: &str, condition: &str) -> Arc<Object> {
        let json = json!({
            "apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "n"},
            "status": {"conditions": [{"type": "DisruptionTarget"}, {"type": condition}]},
        });
        Arc::new(Object::from_value(json).unwrap())
    }

    #[test]
    fn the_condition_is_read_by_its_first_name() {
        let types = |object: Arc<Object>| {
            let conditions = object.json["status"]["conditions"].as_array().unwrap().to_vec();
            conditions
                .iter()
                .map(|one| one["type"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        for version in ["v1", "v1beta1", "v1alpha3"] {
            let read = as_read(POD_GROUPS, group(version, "PodGroupInitiallyScheduled"));
            assert_eq!(&*read.version, version);
            assert_eq!(types(read), ["DisruptionTarget", "PodGroupScheduled"]);
        }
        let old = group("v1alpha2", "PodGroupInitiallyScheduled");
        let untouched = types(old.clone());
        assert_eq!(
            types(as_read(POD_GROUPS, old.clone())),
            untouched,
            "not a name of that version"
        );
        assert_eq!(types(as_read("services", old)), untouched);
    }

    #[test]
    fn the_condition_is_written_by_the_name_of_the_served_version() {
        let patch = json!({"status": {"conditions": [{"type": "PodGroupScheduled"}]}});
        let written = |kind, version| {
            as_written(kind, &patch, version)["status"]["conditions"][0]["type"].clone()
        };
        for version in ["v1", "v1beta1", "v1alpha3"] {
            assert_eq!(written("PodGroup", Some(version)), "PodGroupInitiallyScheduled");
        }
        assert_eq!(written("PodGroup", Some("v1alpha2")), "PodGroupScheduled");
        assert_eq!(written("PodGroup", None), "PodGroupScheduled");
        assert_eq!(written("ResourceClaim", Some("v1beta1")), "PodGroupScheduled");
    }

    #[test]
    fn what_was_not_asked_for_is_the_usual_version() {
        let served = ServedVersions::default();
        assert_eq!(served.get("scheduling.k8s.io", "podgroups"), None);
        served.set(POD_GROUPS, "v1beta1");
        assert_eq!(served.get("scheduling.k8s.io", "podgroups"), Some("v1beta1"));
        assert_eq!(of("nodes"), &[] as &[&str]);
    }
}
