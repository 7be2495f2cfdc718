//! A test: what this crate asks of an API server is allowed by the roles in packaging/, which are kube-scheduler's.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{KNOWN, WatchedKind};

/// What is asked for beside lists and watches: verb, group, resource, and where in this crate.
const REQUESTS: [(&str, &str, &str, &str); 20] = [
    ("create", "", "pods/binding", "writes/pods: bindings"),
    ("patch", "", "pods/status", "writes/pods: conditions and nominations"),
    ("get", "", "pods", "writes/pods: what became of an unanswered binding"),
    ("delete", "", "pods", "writes/pods: victims of preemption"),
    ("create", "events.k8s.io", "events", "writes/events: new events"),
    ("patch", "events.k8s.io", "events", "writes/events: series"),
    ("create", "", "events", "writes/events: servers without events.k8s.io; leader election"),
    ("get", "", "persistentvolumes", "writes/objects: conflicts"),
    ("update", "", "persistentvolumes", "writes/objects: volume binding"),
    ("update", "", "persistentvolumeclaims", "writes/objects: volume binding"),
    ("get", "resource.k8s.io", "resourceclaims", "writes/objects: conflicts"),
    ("update", "resource.k8s.io", "resourceclaims", "writes/objects: finalizers"),
    ("update", "resource.k8s.io", "resourceclaims/status", "writes/objects: allocations"),
    (
        "patch",
        "resource.k8s.io",
        "resourceclaims/status",
        "writes/objects: reservations taken back",
    ),
    ("create", "resource.k8s.io", "resourceclaims", "writes/objects: claims of extended resources"),
    ("delete", "resource.k8s.io", "resourceclaims", "writes/objects: claims of extended resources"),
    ("get", "coordination.k8s.io", "leases", "leader election"),
    ("update", "coordination.k8s.io", "leases", "leader election"),
    ("create", "authentication.k8s.io", "tokenreviews", "serve: who asks"),
    ("create", "authorization.k8s.io", "subjectaccessreviews", "serve: who may ask"),
];

/// What is followed for features that are off unless a gate or the configuration turns them on; a file of its own has their roles.
const OF_FEATURES: [&str; 3] = [
    "scheduling.k8s.io/podgroups",
    "scheduling.x-k8s.io/podgroups",
    "resource.k8s.io/devicetaintrules",
];

/// `verb group/resource` of all rules of all ClusterRoles.
fn allowed(text: &str) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    for document in text.split("\n---\n") {
        let document: Value = serde_saphyr::from_str(document).unwrap();
        if document["kind"] != "ClusterRole" {
            continue;
        }
        for rule in document["rules"].as_array().unwrap() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let rights = texts(&rule["verbs"]);
                    allowed.extend(rights.iter().map(|verb| format!("{verb} {group}/{resource}")));
                }
            }
        }
    }
    allowed
}

#[test]
fn the_roles_allow_every_request() {
    let usual = allowed(include_str!("../../../../packaging/manifests/rbac.yaml"));
    let of_features = allowed(include_str!("../../../../packaging/manifests/rbac-features.yaml"));
    assert!(!usual.contains("create /pods"), "the roles are read");
    let kinds = WatchedKind::all_for(KNOWN.iter().map(|known| known.0));
    assert_eq!(kinds.len(), KNOWN.len() + 3);
    for kind in kinds {
        // `/api/v1/pods` or `/apis/GROUP/VERSION/pods`.
        let parts: Vec<&str> = kind.path.split('/').collect();
        let (group, resource) = match parts.as_slice() {
            ["", "api", _, resource] => ("", *resource),
            ["", "apis", group, _, resource] => (*group, *resource),
            _ => panic!("{}", kind.path),
        };
        let is_of_feature = OF_FEATURES.contains(&&*format!("{group}/{resource}"));
        for verb in ["list", "watch"] {
            let right = format!("{verb} {group}/{resource}");
            assert_eq!(of_features.contains(&right), is_of_feature, "{right}");
            assert_eq!(usual.contains(&right), !is_of_feature, "{right}: followed");
        }
    }
    for (verb, group, resource, place) in REQUESTS {
        let right = format!("{verb} {group}/{resource}");
        assert!(usual.contains(&right), "{right}: asked for in {place}, and not allowed");
    }
    // Conditions of groups.
    assert!(of_features.contains("patch scheduling.k8s.io/podgroups/status"));
}
