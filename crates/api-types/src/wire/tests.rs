//! Reading JSON: absent, null and odd fields.

use serde_json::{Value, json};

use super::*;
use crate::quantity::Quantity;
use crate::storage::VolumeSource;

fn read<T: serde::de::DeserializeOwned>(json: Value) -> T {
    let from_value = serde_json::from_value(json.clone()).unwrap();
    // Text and tree must be read alike; the caller checks the result once.
    let _: T = serde_json::from_str(&json.to_string()).unwrap();
    from_value
}

#[test]
fn null_is_absent_everywhere() {
    let nulls = |names: &[&str]| {
        names
            .iter()
            .map(|name| ((*name).to_owned(), Value::Null))
            .collect::<serde_json::Map<_, _>>()
    };
    assert_eq!(
        read::<Pod>(json!({"metadata": null, "spec": null, "status": null, "kind": null})),
        Pod::default()
    );
    let metadata = nulls(&[
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "labels",
        "annotations",
        "ownerReferences",
    ]);
    let spec = nulls(&[
        "nodeName",
        "schedulerName",
        "priority",
        "preemptionPolicy",
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "containers",
        "initContainers",
        "overhead",
        "resources",
        "hostNetwork",
        "hostUsers",
        "schedulingGates",
        "volumes",
        "resourceClaims",
        "schedulingGroup",
    ]);
    let status = nulls(&[
        "phase",
        "startTime",
        "nominatedNodeName",
        "conditions",
        "resourceClaimStatuses",
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
        "containerStatuses",
        "initContainerStatuses",
        "resources",
        "allocatedResources",
    ]);
    assert_eq!(
        read::<Pod>(json!({"metadata": metadata, "spec": spec, "status": status})),
        Pod::default()
    );
    let spec = nulls(&["unschedulable", "taints"]);
    let status = nulls(&["allocatable", "images", "conditions", "declaredFeatures"]);
    assert_eq!(read::<Node>(json!({"spec": spec, "status": status})), Node::default());
    let container =
        nulls(&["name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules"]);
    assert_eq!(read::<Container>(Value::Object(container)), Container::default());
    let elements: Pod =
        read(json!({"spec": {"containers": [null], "tolerations": [null, {"key": null}]}}));
    assert_eq!((elements.spec.containers.len(), elements.spec.tolerations.len()), (1, 2));
}

#[test]
fn unknown_fields_are_skipped_whatever_they_hold() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let pod: Pod = serde_json::from_str(&format!(
        r#"{{"futureField": {deep}, "metadata": {{"managedFields": [{{"fieldsV1": {{"f:x": {{}}}}}}]}},
            "spec": {{"containers": [{{"name": "a", "env": [{{"name": "A"}}], "livenessProbe": {{"x": [1, "2", null]}}}}]}}}}"#
    ))
    .unwrap();
    assert_eq!(&*pod.spec.containers[0].name, "a");
}

#[test]
fn absent_and_empty_differ_only_where_it_matters() {
    let selector = |json: Value| {
        read::<Pod>(json!({ "spec": json })).spec.node_selector.map(|labels| labels.len())
    };
    assert_eq!(selector(json!({})), None);
    assert_eq!(selector(json!({"nodeSelector": null})), None);
    assert_eq!(selector(json!({"nodeSelector": {}})), Some(0));
    let preferred = |json: Value| read::<NodeAffinity>(json).preferred.map(|terms| terms.len());
    assert_eq!(preferred(json!({})), None);
    assert_eq!(preferred(json!({"preferredDuringSchedulingIgnoredDuringExecution": []})), Some(0));
}

#[test]
fn dates() {
    let created =
        |json: Value| read::<ObjectMeta>(json!({ "creationTimestamp": json })).creation_timestamp.0;
    assert_eq!(created(json!(null)), None);
    assert_eq!(created(json!("")), None);
    assert_eq!(created(json!("0001-01-01T00:00:00Z")), None);
    assert_eq!(created(json!("2026-01-02T03:04:06Z")).unwrap().to_string(), "2026-01-02T03:04:06Z");
    assert_eq!(
        created(json!("2026-01-02T03:04:06.123456+02:00")).unwrap().to_string(),
        "2026-01-02T01:04:06.123456Z"
    );
    assert!(created(json!("9999-01-01T00:00:00Z")) > created(json!("2026-01-01T00:00:00Z")));
    assert!(created(json!("1000-01-01T00:00:00Z")) < created(json!("1970-01-01T00:00:00Z")));
    assert!(
        serde_json::from_value::<ObjectMeta>(json!({"creationTimestamp": "yesterday"})).is_err()
    );
    assert!(serde_json::from_value::<ObjectMeta>(json!({"creationTimestamp": 17})).is_err());
}

#[test]
fn resource_lists_are_sorted_and_the_last_of_a_name_counts() {
    let list: ResourceList =
        serde_json::from_str(r#"{"memory": "1Gi", "cpu": 1, "a/b": null, "cpu": 2.5}"#).unwrap();
    let names: Vec<&str> = list.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a/b", "cpu", "memory"]);
    assert_eq!(list.get("cpu"), Some(&Quantity::from_milli(2500)));
    assert_eq!(list.get("a/b"), Some(&Quantity::ZERO));
    assert_eq!(list.get("pods"), None);
}

#[test]
fn volumes() {
    let source = |json: Value| read::<Volume>(json).source;
    for kind in ["configMap", "secret", "projected", "downwardAPI", "emptyDir"] {
        assert_eq!(source(json!({"name": "v", kind: {"x": [1]}})), None, "{kind}");
    }
    assert_eq!(source(json!({"name": "v", "hostPath": null})), None);
    assert_eq!(
        source(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}})),
        Some(VolumeSource::Claim { claim: "c".into(), is_read_only: true })
    );
    let class = |json: Value| {
        source(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": json}}}}))
    };
    assert_eq!(
        class(json!("fast")),
        Some(VolumeSource::Ephemeral { storage_class: Some("fast".into()) })
    );
    assert_eq!(class(json!(null)), Some(VolumeSource::Ephemeral { storage_class: None }));
    assert_eq!(
        source(json!({"ephemeral": {}})),
        Some(VolumeSource::Ephemeral { storage_class: None })
    );
    assert_eq!(
        source(json!({"csi": {"driver": "d"}})),
        Some(VolumeSource::Csi { driver: "d".into() })
    );
    assert_eq!(
        source(json!({"gcePersistentDisk": {"pdName": "d"}})),
        Some(VolumeSource::GcePersistentDisk { disk: "d".into(), is_read_only: false })
    );
    assert_eq!(
        source(json!({"awsElasticBlockStore": {"volumeID": "d"}})),
        Some(VolumeSource::AwsElasticBlockStore { volume_id: "d".into() })
    );
    assert_eq!(
        source(json!({"rbd": {"monitors": ["a", "b"], "pool": "p", "image": "i"}})),
        Some(VolumeSource::Rbd {
            monitors: ["a".into(), "b".into()].into(),
            pool: "p".into(),
            image: "i".into(),
            is_read_only: false
        })
    );
    assert_eq!(
        source(json!({"iscsi": {"iqn": "q", "readOnly": false}})),
        Some(VolumeSource::Iscsi { iqn: "q".into(), is_read_only: false })
    );
    let image: Volume = serde_json::from_str(
        r#"{"name": "v", "image": {"reference": "r", "pullPolicy": "Always"}}"#,
    )
    .unwrap();
    assert_eq!(image.image_reference.as_deref(), Some("r"));
    assert_eq!(
        image.source,
        Some(VolumeSource::Other {
            kind: "image".into(),
            json: r#"{"pullPolicy":"Always","reference":"r"}"#.into()
        })
    );
}
