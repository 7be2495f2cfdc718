//! Claims that come with the pods of a question.

use std::sync::Arc;

use kube_scheduler_answers::{Answer, Inquiry, Interrupt, Question, QuestionKind, Visibility};
use kube_scheduler_api_types::{CompileOptions, Object};
use kube_scheduler_engine::Input;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW};

fn object(cluster: &mut Cluster, object: Value) {
    let object = Arc::new(Object::from_value(object).unwrap());
    cluster.engine.handle(Input::ObjectApplied(object), NOW);
}

/// Two nodes, and a class whose volumes are made where the pod goes.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new().node("a", "4", json!({})).node("b", "4", json!({}));
    object(
        &mut cluster,
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
            "provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    cluster
}

fn volume_claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
}

fn device_claim(name: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name}, "spec": {"devices": {"requests": []}}})
}

/// A pod with a claim for a volume.
fn pod(claim: &str) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
}

fn question(kind: QuestionKind, spec: &Value) -> Result<Question, String> {
    let arguments = json!({"namespace": "default", "spec": spec});
    Question::from_arguments(kind, &arguments, "default", &CompileOptions::default())
        .map_err(|error| error.to_string())
}

fn answer(cluster: &Cluster, kind: QuestionKind, spec: &Value) -> Answer {
    let question = question(kind, spec).unwrap();
    let inquiry = Inquiry::new(&question, &cluster.engine, NOW);
    inquiry.answer(&question, &Interrupt::default()).unwrap()
}

fn answered(cluster: &Cluster, kind: QuestionKind, spec: &Value) -> Value {
    serde_json::to_value(answer(cluster, kind, spec)).unwrap()
}

#[test]
fn a_claim_of_the_question_is_there_for_its_pod() {
    let cluster = cluster();
    let claims = json!([volume_claim("data")]);
    let pod = pod("data");
    for (kind, spec, field, with, without) in [
        (
            QuestionKind::Explanation,
            json!({"pod": pod}),
            "verdict",
            json!("Fits"),
            json!("DoesNotFit"),
        ),
        (
            QuestionKind::Preemption,
            json!({"pod": pod}),
            "verdict",
            json!("Fits"),
            json!("DoesNotFit"),
        ),
        (QuestionKind::Capacity, json!({"pod": pod, "max": 1}), "count", json!(1), json!(0)),
        (
            QuestionKind::WhatIf,
            json!({"changes": [{"addPods": {"pod": pod}}]}),
            "fits",
            json!(true),
            json!(false),
        ),
    ] {
        assert_eq!(answered(&cluster, kind, &spec)[field], without, "{kind:?}");
        let mut spec = spec;
        spec["objects"] = claims.clone();
        let found = answered(&cluster, kind, &spec);
        assert_eq!((&found[field], &found["warnings"]), (&with, &Value::Null), "{kind:?}");
    }
    // Nothing of it stays behind.
    let known = cluster.engine.cluster().objects().list("", "PersistentVolumeClaim").count();
    assert_eq!(known, 0);
}

#[test]
fn claims_are_there_before_and_after_the_changes() {
    let mut waiting = pod("data");
    waiting["metadata"] = json!({"namespace": "default", "name": "waiting", "uid": "w"});
    waiting["spec"]["schedulerName"] = json!("default-scheduler");
    let waiting = kube_scheduler_api_types::Pod::from_value(&waiting).unwrap();
    let cluster = cluster().pod(Arc::new(waiting));
    let spec = json!({"changes": [{"cordon": {"name": "a"}}, {"cordon": {"name": "b"}}]});
    let unchanged = answered(&cluster, QuestionKind::WhatIf, &spec);
    assert_eq!(unchanged["otherPending"], 1, "it would be pending in any case: {unchanged:#}");
    let mut with = spec;
    with["objects"] = json!([volume_claim("data")]);
    let changed = answered(&cluster, QuestionKind::WhatIf, &with);
    assert_eq!(changed["otherPending"], 0, "it would have a node without the changes: {changed:#}");
    assert_eq!(changed["pending"][0]["pod"], "default/waiting");
}

#[test]
fn a_claim_that_the_cluster_has_counts_as_it_is_there() {
    let mut cluster = cluster();
    let mut there = volume_claim("data");
    there["metadata"]["namespace"] = json!("default");
    there["spec"]["storageClassName"] = json!("none");
    object(&mut cluster, there);
    let spec = json!({"pod": pod("data"), "objects": [volume_claim("data")]});
    let found = answer(&cluster, QuestionKind::Explanation, &spec);
    let warning = "PersistentVolumeClaim default/data: the cluster has one, which counts instead";
    let text = found.table(false);
    assert!(text.contains(&format!("note: {warning}\n")), "{text}");
    let found = serde_json::to_value(found).unwrap();
    assert_eq!((&found["verdict"], &found["warnings"]), (&json!("DoesNotFit"), &json!([warning])));
}

#[test]
fn a_claim_that_was_made_for_a_pod_is_for_the_one_of_the_question() {
    let mut pod = pod("data");
    pod["spec"]["volumes"] = json!([]);
    pod["spec"]["resourceClaims"] = json!([{"name": "d", "resourceClaimTemplateName": "t"}]);
    pod["status"] = json!({"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "p-d"}]});
    let mut claim = device_claim("p-d");
    let owned = |name: &str| json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "x", "controller": true}]);
    claim["metadata"]["ownerReferences"] = owned("p");
    let spec = json!({"pod": pod, "objects": [claim]});
    let found = answered(&cluster(), QuestionKind::Explanation, &spec);
    assert_eq!(found["verdict"], "Fits", "{found:#}");
    claim["metadata"]["ownerReferences"] = owned("other");
    let spec = json!({"pod": pod, "objects": [claim]});
    let found = answered(&cluster(), QuestionKind::Explanation, &spec);
    assert!(found.to_string().contains("was not created for Pod"), "{found:#}");
}

#[test]
fn who_may_list_no_nodes_may_not_try_names_of_volumes() {
    let demands = |claim: Value| {
        let spec = json!({"pod": pod("data"), "objects": [claim]});
        let question = question(QuestionKind::Explanation, &spec).unwrap();
        question.demands
    };
    let of = |nodes| Visibility { nodes, all_pods: false };
    assert_eq!(demands(volume_claim("data")), of(false));
    let mut bound = volume_claim("data");
    bound["spec"]["volumeName"] = json!("volume-of-others");
    assert_eq!(demands(bound), of(true));
    assert_eq!(demands(device_claim("data")), of(false));
    let mut allocated = device_claim("data");
    allocated["status"] = json!({"allocation": {}});
    assert_eq!(demands(allocated), of(true));
}

#[test]
fn claims_are_checked() {
    let changed = |change: fn(&mut Value)| {
        let mut claim = volume_claim("data");
        change(&mut claim);
        json!([claim])
    };
    let many: Vec<Value> = (0..1_001).map(|n| volume_claim(&format!("data-{n}"))).collect();
    let expected = "spec.objects[0]: expected a PersistentVolumeClaim, Service or ReplicationController of v1, a ReplicaSet or \
                    StatefulSet of apps, or a ResourceClaim of resource.k8s.io, with a name";
    let named = "PersistentVolumeClaim default/data";
    let mut claim = device_claim("data");
    claim["spec"]["devices"]["requests"] = json!([{}]);
    for (claims, problem) in [
        (json!(7), "spec.objects: invalid type".to_owned()),
        (json!(many), "spec.objects: 1001: at most 1000 are allowed".to_owned()),
        (json!([7]), "spec.objects[0]: ".to_owned()),
        (json!([{}]), expected.to_owned()),
        (changed(|claim| claim["kind"] = json!("PersistentVolume")), expected.to_owned()),
        (changed(|claim| claim["metadata"] = json!(null)), expected.to_owned()),
        (
            json!([volume_claim("data"), volume_claim("data")]),
            format!("spec.objects[1]: {named}: is given twice"),
        ),
        (
            changed(|claim| claim["spec"]["accessModes"] = json!([7])),
            format!("spec.objects[0].spec.accessModes[0]: {named}: invalid type: integer `7`"),
        ),
        (
            changed(|claim| claim["spec"]["resources"]["requests"]["storage"] = json!("much")),
            format!(
                "spec.objects[0].spec.resources.requests.storage: {named}: \"much\": expected a quantity such as 10Gi"
            ),
        ),
        (
            json!([claim]),
            "spec.objects[0].spec.devices.requests[0]: ResourceClaim default/data: missing field `name`"
                .to_owned(),
        ),
        (
            json!([{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": 7}}}]),
            "spec.objects[0].spec.selector.app: Service default/web: invalid type: integer `7`".to_owned(),
        ),
        (
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
                "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}]),
            "spec.objects[0].spec.selector: ReplicaSet default/web: ".to_owned(),
        ),
    ] {
        let spec = json!({"pod": pod("data"), "objects": claims});
        let error = question(QuestionKind::Capacity, &spec).unwrap_err();
        assert!(error.starts_with(&problem), "{problem}: {error}");
    }
}

/// A claim for a device in all the words that scheduling reads, with a device.
fn allocated_claim(name: &str) -> Value {
    let selector = json!({"cel": {"expression": "device.driver == 'd'"}});
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": [selector],
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]});
    let term =
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
    let result = json!({"request": "r", "driver": "d", "pool": "a", "device": "0"});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u"}]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}],
            "constraints": [{"requests": ["r"], "matchAttribute": "d/model"}],
            "config": [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {}}}]}},
        "status": {"reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}],
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}}})
}

/// A bound claim for a volume in all the words that scheduling reads.
fn bound_claim(name: &str) -> Value {
    let mut claim = volume_claim(name);
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes",
        "volume.kubernetes.io/selected-node": "a"});
    claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    claim["spec"]["volumeName"] = json!("pv");
    claim["spec"]["volumeMode"] = json!("Filesystem");
    claim["spec"]["selector"] = json!({"matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
    claim
}

/// Every place in a value, as a pointer.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), all);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{n}"), all);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands where in a claim, the question is refused or answered.
    #[test]
    fn odd_claims_break_nothing(which in 0..4_usize, changes in prop::collection::vec((any::<prop::sample::Index>(), 0..13_usize), 1..3)) {
        let odd = [json!(null), json!(0), json!(-1), json!(1e300), json!(u64::MAX), json!(true), json!(""), json!("é\u{0}"),
            json!("9".repeat(400)), json!([]), json!([null]), json!({}), json!({"a": [{"b": null}]})];
        let mut claim = [volume_claim, device_claim, allocated_claim, bound_claim][which]("c");
        for (place, value) in changes {
            let mut all = Vec::new();
            places(&claim, "", &mut all);
            *claim.pointer_mut(place.get::<String>(&all)).unwrap() = odd[value].clone();
        }
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            "resourceClaims": [{"name": "d", "resourceClaimName": "c"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "d"}]}}]}});
        let mut cluster = cluster();
        object(&mut cluster, json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}));
        let devices = json!([{"name": "0", "attributes": {"d/model": {"string": "m"}}}]);
        object(&mut cluster, json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"},
            "spec": {"driver": "d", "nodeName": "a", "devices": devices,
                "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}}}));
        let others = [volume_claim, allocated_claim][usize::from(which % 3 == 0)]("c");
        for (kind, spec) in [
            (QuestionKind::Explanation, json!({"pod": pod, "suggest": true, "objects": [claim, others]})),
            (QuestionKind::WhatIf, json!({"changes": [{"addPods": {"pod": pod}}], "objects": [others, claim]})),
            (QuestionKind::Capacity, json!({"pod": pod, "max": 3, "objects": [claim, others]})),
        ] {
            if let Ok(question) = question(kind, &spec) {
                let inquiry = Inquiry::new(&question, &cluster.engine, NOW);
                drop(inquiry.answer(&question, &Interrupt::default()));
            }
        }
    }
}
