//! Groups, workloads and pods that name them, as a client sends them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::api::WriteOptions;
use crate::api::create::create;
use crate::api::delete::{DeleteOptions, delete};
use crate::api::update::{Part, Target, modify};
use crate::group_protection::Protection;
use crate::history::ChangeType;
use crate::kinds::{KindId, PODS, PRIORITY_CLASSES};
use crate::selectors::Selection;
use crate::store::Store;
use crate::testing;

/// A client creates an object.
fn put(store: &Store, kind: KindId, value: Value) -> Result<Value, String> {
    let namespace = if kind.get().namespaced { "default" } else { "" };
    create(store, kind, namespace, value, &WriteOptions::default())
        .map(|object| object.value())
        .map_err(|error| error.to_string())
}

fn put_group(store: &Store, spec: Value) -> Result<Value, String> {
    put(store, POD_GROUPS, json!({"metadata": {"name": "train"}, "spec": spec}))
}

fn change(store: &Store, part: Part, change: impl FnOnce(&mut Value)) -> Result<Value, String> {
    let target = Target { kind: POD_GROUPS, namespace: "default", name: "train", part };
    let changed = modify(store, target, &WriteOptions::default(), |group| {
        let mut group = group.clone();
        change(&mut group);
        Ok(group)
    });
    changed.map(|object| object.value()).map_err(|error| error.to_string())
}

fn has_group(store: &Store) -> bool {
    store.get(POD_GROUPS, "default", "train").is_some()
}

/// What the controller does after everything that happened.
fn protect(store: &Arc<Store>) {
    let mut protection = Protection::default();
    for pod in store.list(PODS, &Selection::all()).items {
        protection.see_pod(&pod, ChangeType::Added);
    }
    for group in store.list(POD_GROUPS, &Selection::all()).items {
        protection.see_group(&group, ChangeType::Added);
    }
    protection.release_empty(store);
}

fn gang(min_count: i64) -> Value {
    json!({"schedulingPolicy": {"gang": {"minCount": min_count}}})
}

fn pod(name: &str, membership: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "containers": [{"name": "main", "image": "registry/app:1"}], "schedulingGroup": membership,
        "terminationGracePeriodSeconds": 0,
    }})
}

#[test]
fn a_group_is_completed_by_the_server() {
    let store = testing::store();
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    put(&store, PRIORITY_CLASSES, class).unwrap();
    let mut spec = gang(3);
    spec["priorityClassName"] = "high".into();
    let group = json!({
        "metadata": {"name": "train"}, "spec": spec, "status": {"conditions": [{"type": "X"}]},
    });
    let group = put(&store, POD_GROUPS, group).unwrap();
    assert_eq!(group["spec"]["disruptionMode"], "Pod");
    assert_eq!(group["spec"]["priority"], 1000);
    assert_eq!(group["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(group["metadata"]["generation"], 1);
    assert!(group["status"].is_null(), "the status comes through its subresource alone");
}

#[test]
fn a_group_that_cannot_be_is_refused_with_the_field_that_is_wrong() {
    let with = |field: &str, value: Value| {
        let mut spec = gang(1);
        spec[field] = value;
        spec
    };
    let cases = [
        (
            json!({}),
            "spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`",
        ),
        (
            json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}),
            "spec.schedulingPolicy: Invalid value: \"{`basic`, `gang`}\": must specify exactly one of: `basic`, `gang`",
        ),
        (
            gang(0),
            "spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            with("schedulingConstraints", json!({"topology": [{"key": "a"}, {"key": "b"}]})),
            "spec.schedulingConstraints.topology: Invalid value: 2: must have at most 1 item",
        ),
        (
            with("schedulingConstraints", json!({"topology": [{}]})),
            "spec.schedulingConstraints.topology[0].key: Required value",
        ),
        (
            with("disruptionMode", json!("Node")),
            "spec.disruptionMode: Unsupported value: \"Node\": supported values: \"Pod\", \"PodGroup\"",
        ),
        (
            with("resourceClaims", json!([{"name": "gpu"}])),
            "spec.resourceClaims[0]: Invalid value: \"\": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        ),
        (with("priorityClassName", json!("none")), "no PriorityClass with name none was found"),
        (
            with(
                "podGroupTemplateRef",
                json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}),
            ),
            "workload \"w\" not found",
        ),
    ];
    for (spec, why) in cases {
        let error = put_group(&testing::store(), spec.clone()).expect_err("refused");
        assert!(error.contains(why), "{spec}: {error}");
    }
}

#[test]
fn a_group_of_scheduler_plugins_has_its_own_rules() {
    let store = testing::store();
    let kind = KindId::by_manifest("scheduling.x-k8s.io/v1alpha1", "PodGroup").unwrap();
    let create =
        |spec: Value| put(&store, kind, json!({"metadata": {"generateName": "g-"}, "spec": spec}));
    let group = create(json!({"minMember": 2, "scheduleTimeoutSeconds": 10})).unwrap();
    assert_eq!(group["spec"], json!({"minMember": 2, "scheduleTimeoutSeconds": 10}));
    assert!(group["metadata"]["finalizers"].is_null(), "it is not protected");
    let none = create(json!({"minMember": 0})).unwrap_err();
    assert!(none.contains("spec.minMember: Invalid value: 0: spec.minMember in body should be greater than or equal to 1"), "{none}");
    let text = create(json!({"minMember": "two"})).unwrap_err();
    assert!(text.contains("spec.minMember in body must be of type integer"), "{text}");
}

#[test]
fn nothing_of_a_group_changes_but_its_status() {
    let store = testing::store();
    put_group(&store, gang(3)).unwrap();
    let error = change(&store, Part::Main, |group| {
        group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 2.into();
    });
    let error = error.expect_err("refused");
    assert!(error.contains("spec.schedulingPolicy: Invalid value"), "{error}");
    assert!(error.contains("field is immutable"), "{error}");
    let status = json!({"conditions": [{"type": "PodGroupScheduled", "status": "True"}]});
    let with_status = |group: &mut Value| group["status"] = status.clone();
    let ignored = change(&store, Part::Main, with_status).unwrap();
    assert!(ignored["status"].is_null());
    let written = change(&store, Part::Status, with_status).unwrap();
    assert_eq!(written["status"], status);
    assert_eq!(written["metadata"]["generation"], 1);
    let strange = json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x"}]});
    let error =
        change(&store, Part::Status, |group| group["status"] = strange).expect_err("refused");
    assert!(error.contains("status.resourceClaimStatuses[0].name"), "{error}");
}

#[test]
fn a_workload_has_its_own_rules() {
    let store = testing::store();
    let workload = |templates: Value| json!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": templates}});
    let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}});
    for (templates, why) in [
        (json!([]), "spec.podGroupTemplates: Required value"),
        (json!([template, template]), "spec.podGroupTemplates[1]: Duplicate value: \"workers\""),
        (
            json!([{"name": "workers"}]),
            "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: \"\": must specify one of",
        ),
        (
            json!([{"name": "a.b", "schedulingPolicy": {"basic": {}}}]),
            "spec.podGroupTemplates[0].name: Invalid value: \"a.b\"",
        ),
    ] {
        let error = put(&store, WORKLOADS, workload(templates)).expect_err("refused");
        assert!(error.contains(why), "{error}");
    }
    let stored = put(&store, WORKLOADS, workload(json!([template]))).unwrap();
    assert_eq!(stored["spec"]["podGroupTemplates"][0]["disruptionMode"], "Pod");
    let mut spec = gang(2);
    spec["podGroupTemplateRef"] =
        json!({"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}});
    put_group(&store, spec).unwrap();
}

#[test]
fn a_pod_names_one_group_and_keeps_it() {
    let store = testing::store();
    let error = put(&store, PODS, pod("a", json!({}))).expect_err("refused");
    let why = "spec.schedulingGroup: Invalid value: \"\": must specify one of: `podGroupName`";
    assert!(error.contains(why), "{error}");
    let error = put(&store, PODS, pod("a", json!({"podGroupName": "A_B"}))).expect_err("refused");
    assert!(error.contains("spec.schedulingGroup.podGroupName: Invalid value"), "{error}");
    // The group need not exist.
    let stored = put(&store, PODS, pod("a", json!({"podGroupName": "train"}))).unwrap();
    assert_eq!(stored["spec"]["schedulingGroup"]["podGroupName"], "train");
    let target = Target { kind: PODS, namespace: "default", name: "a", part: Part::Main };
    let changed = modify(&store, target, &WriteOptions::default(), |pod| {
        let mut pod = pod.clone();
        pod["spec"]["schedulingGroup"]["podGroupName"] = "other".into();
        Ok(pod)
    });
    let error = changed.expect_err("refused").to_string();
    assert!(error.contains("pod updates may not change fields"), "{error}");
}

#[test]
fn a_group_goes_after_its_pods() {
    let store = testing::store();
    put_group(&store, gang(1)).unwrap();
    put(&store, PODS, pod("a", json!({"podGroupName": "train"}))).unwrap();
    let options = DeleteOptions::default();
    delete(&store, POD_GROUPS, "default", "train", &options).unwrap();
    protect(&store);
    assert!(has_group(&store), "a pod belongs to it");
    delete(&store, PODS, "default", "a", &options).unwrap();
    protect(&store);
    assert!(!has_group(&store));
}

#[test]
fn a_group_that_nobody_deleted_stays() {
    let store = testing::store();
    put_group(&store, gang(1)).unwrap();
    protect(&store);
    assert!(has_group(&store));
}
