//! Decoding and compiling real, odd and hostile objects.

mod recorded;

use serde_json::{Value, json};

use crate::Timestamp;
use crate::affinity::PodAffinity;
use crate::node::Node;
use crate::object::Object;
use crate::options::CompileOptions;
use crate::pod::Pod;
use crate::topology::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};

fn pod(json: Value) -> Pod {
    Pod::from_value(&json).unwrap()
}

fn spec(spec: Value) -> crate::PodSpec {
    (*pod(json!({ "spec": spec })).spec).clone()
}

fn ports(spec: &crate::PodSpec) -> Vec<String> {
    spec.host_ports
        .iter()
        .map(|port| format!("{}/{}/{}", port.ip, port.protocol, port.port))
        .collect()
}

#[test]
fn errors_name_object_field_and_cause() {
    let error = |json: &str| Pod::from_json(json).unwrap_err().to_string();
    let quantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let bad_cpu = r#"{"kind": "Pod", "metadata": {"namespace": "default", "name": "web"}, "spec": {"containers": [{}, {"resources": {"requests": {"cpu": "1 core"}}}]}}"#;
    assert_eq!(
        error(bad_cpu),
        format!("pod default/web: spec.containers[1].resources.requests[cpu]: {quantity}")
    );
    let value: Value = serde_json::from_str(bad_cpu).unwrap();
    assert_eq!(Pod::from_value(&value).unwrap_err().to_string(), error(bad_cpu));
    assert_eq!(
        error(r#"{"metadata": {"name": "web"}, "spec": {"overhead": {"memory": true}}}"#),
        "pod web: spec.overhead[memory]: invalid type: boolean `true`, expected a quantity (a string or a number)"
    );
    assert_eq!(
        error(r#"{"metadata": {"name": "web", "labels": {"spec.x/y": 1}}}"#),
        "pod web: metadata.labels[spec.x/y]: invalid type: integer `1`, expected a string"
    );
    assert_eq!(
        error(r#"{"metadata": {"name": 7}, "spec": {"priority": "high"}}"#),
        "pod: metadata.name: invalid type: integer `7`, expected a string"
    );
    assert_eq!(
        error(r#"{"metadata": {"name": "a"}, "spec": {"priority": 3000000000}}"#),
        "pod a: spec.priority: invalid value: integer `3000000000`, expected i32"
    );
    assert_eq!(
        error(r#"{"metadata": {"name": "a"}, "spec": {"volumes": [{"rbd": {"monitors": 1}}]}}"#),
        "pod a: spec.volumes[0].rbd.monitors: invalid type: integer `1`, expected a list"
    );
    assert_eq!(error("{\"metadata\": {"), "pod: EOF while parsing an object at line 1 column 14");
    assert_eq!(error("[1]").split(':').next(), Some("pod"));
    assert_eq!(
        error(r#"{"kind": "Node", "metadata": {"name": "n"}}"#),
        "pod n: kind: expected \"Pod\", found \"Node\""
    );
    assert_eq!(
        Node::from_json(
            r#"{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4 cores"}}}"#
        )
        .unwrap_err()
        .to_string(),
        format!("node n: status.allocatable[cpu]: {quantity}")
    );
    assert!(Pod::from_json(b"\xff\xfe").is_err());
}

#[test]
fn hostile_sizes_neither_panic_nor_overflow_the_stack() {
    let labels = format!(
        r#"{{"metadata": {{"name": "a", "labels": {{"k": "{}"}}}}}}"#,
        "x".repeat(20 << 20)
    );
    assert_eq!(Pod::from_json(&labels).unwrap().labels.get("k").map(str::len), Some(20 << 20));
    let deep = "[".repeat(1 << 20);
    assert!(Pod::from_json(&deep).is_err());
    assert!(Pod::from_json(format!(r#"{{"spec": {{"volumes": [{{"hostPath": {deep}"#)).is_err());
    assert!(Object::from_json(&deep).is_err());
    let huge = json!({"spec": {"containers": (0..1000).map(|at| json!({
        "name": format!("c{at}"), "image": "x", "ports": [{"hostPort": -1}, {"hostPort": 2147483647}],
        "resources": {"requests": {"cpu": "9999999999E", "memory": "-9999999999999999999999999999999E", "pods": "8Ei"}},
    })).collect::<Vec<_>>()}});
    let pod = Pod::from_value(&huge).unwrap();
    assert_eq!(
        (pod.spec.images.n_containers, pod.spec.host_ports.len(), pod.spec.host_port_numbers.len()),
        (1000, 1000, 2)
    );
}

#[test]
fn a_bare_pod_has_the_api_servers_defaults() {
    let bare = pod(json!({}));
    assert_eq!(&*bare.spec.scheduler_name, "default-scheduler");
    assert_eq!((bare.priority(), bare.is_assigned(), bare.nominated_node_name()), (0, false, None));
    assert!(
        bare.spec.node_selector.is_none() && bare.created.is_none() && bare.controller.is_none()
    );
    assert_eq!(pod(json!({"spec": {"nodeName": ""}, "status": {"nominatedNodeName": ""}})), bare);
    assert_eq!(bare, pod(json!({})), "equal objects compile to equal pods");
}

#[test]
fn metadata_and_status_are_taken_over() {
    let pod = pod(json!({
        "metadata": {
            "uid": "u", "namespace": "ns", "name": "p", "resourceVersion": "7", "generation": 3, "labels": {"a": "b"},
            "creationTimestamp": "2026-01-02T03:04:06Z", "deletionTimestamp": "2026-01-02T03:04:07Z",
            "ownerReferences": [{"kind": "Node", "name": "x"}, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "r", "controller": true}],
        },
        "spec": {"nodeName": "n", "schedulerName": "mine", "priority": -5, "preemptionPolicy": "Never",
                 "schedulingGates": [{"name": "g1"}, {"name": "g2"}], "schedulingGroup": {"podGroupName": "pg"},
                 "resourceClaims": [{"name": "c", "resourceClaimName": "rc"}, {"name": "d", "resourceClaimTemplateName": "t"}]},
        "status": {"phase": "Pending", "startTime": "2026-01-02T03:04:08Z", "nominatedNodeName": "m",
                   "conditions": [{"type": "PodScheduled", "status": "False", "reason": "r", "message": "m", "observedGeneration": 2,
                                   "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:09Z"}],
                   "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "g"}, {"name": "d"}],
                   "extendedResourceClaimStatus": {"resourceClaimName": "e", "requestMappings": [{"containerName": "a", "resourceName": "b", "requestName": "c"}]},
                   "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "n", "containers": ["a"], "resources": {"cpu": "1"}}]},
    }));
    assert_eq!(
        (pod.key().as_str(), pod.priority(), pod.generation, pod.nominated_node_name()),
        ("ns/p", -5, 3, Some("m"))
    );
    assert_eq!(pod.controller.as_ref().map(|owner| &*owner.kind), Some("ReplicaSet"));
    assert!(
        pod.spec.never_preempts
            && pod.deletion_requested > pod.created
            && pod.status.started.is_some()
    );
    assert_eq!(pod.spec.pod_group.as_deref(), Some("pg"));
    assert_eq!(
        pod.spec.scheduling_gates.iter().map(|gate| &**gate).collect::<Vec<_>>(),
        ["g1", "g2"]
    );
    assert_eq!(pod.spec.resource_claims[1].template.as_deref(), Some("t"));
    let condition = &pod.status.conditions[0];
    assert_eq!(
        (&*condition.kind, condition.observed_generation, condition.last_probe),
        ("PodScheduled", 2, None)
    );
    assert_eq!(pod.status.resource_claim_statuses[1].1, None);
    assert_eq!(pod.claim_names().collect::<Vec<_>>(), ["rc"]);
    assert_eq!(
        pod.status.extended_resource_claim.as_ref().map(|claim| claim.mappings.len()),
        Some(1)
    );
    let [claim] = &*pod.status.node_resource_claims else { panic!("one claim") };
    assert_eq!((&*claim.claim, &*claim.containers[0], &*claim.resources[0].0), ("n", "a", "cpu"));
    assert_eq!(pod.requests.accounted.milli_cpu, 1000);
}

#[test]
fn host_ports_of_sidecars_and_containers_are_normalised() {
    let spec = spec(json!({
        "containers": [{"ports": [{"hostPort": 80}, {"containerPort": 8080}, {"hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"}]}],
        "initContainers": [{"ports": [{"hostPort": 81}]}, {"restartPolicy": "Always", "ports": [{"hostPort": 82, "hostIP": "::"}]}],
    }));
    assert_eq!(ports(&spec), ["::/TCP/82", "0.0.0.0/TCP/80", "127.0.0.1/UDP/53"]);
    assert_eq!(*spec.host_port_numbers, [53, 80, 81, 82]);
}

#[test]
fn images_keep_order_and_repeats() {
    let pod = pod(json!({"spec": {
        "initContainers": [{"image": "i"}],
        "containers": [{"image": "gcr.io:5000/root"}, {"image": "gcr.io:5000/root"}],
        "volumes": [{"name": "v", "image": {"reference": "m@sha256:1"}}],
    }}));
    let spec = &pod.spec;
    let names: Vec<&str> = spec.images.names.iter().map(|name| &**name).collect();
    assert_eq!(
        names,
        ["i:latest", "gcr.io:5000/root:latest", "gcr.io:5000/root:latest", "m@sha256:1"]
    );
    assert_eq!(spec.images.n_containers, 3);
    assert_eq!(pod.volumes.len(), 1);
}

#[test]
fn required_features_follow_the_specification() {
    let rule = json!([{"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}]);
    assert_eq!(spec(json!({})).required_features, 0);
    assert_eq!(spec(json!({"containers": rule})).required_features, 1 << 3);
    assert_eq!(
        spec(json!({"initContainers": rule, "hostNetwork": true, "hostUsers": false}))
            .required_features,
        0b11000
    );
    assert_eq!(spec(json!({"hostNetwork": true})).required_features, 0);
    assert_eq!(spec(json!({"hostNetwork": true, "hostUsers": true})).required_features, 0);
    assert_eq!(spec(json!({"hostUsers": false})).required_features, 0);
}

fn constraint(fields: Value, options: &CompileOptions) -> TopologySpreadConstraint {
    let labels = [("app", "web"), ("rev", "not a value!")].into_iter().collect();
    TopologySpreadConstraint::from_wire(&serde_json::from_value(fields).unwrap(), &labels, options)
}

#[test]
fn spread_constraints() {
    let on = CompileOptions::default();
    let plain = constraint(
        json!({"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}),
        &on,
    );
    assert_eq!((plain.max_skew, &*plain.topology_key, plain.min_domains), (2, "zone", None));
    assert_eq!(plain.when_unsatisfiable, WhenUnsatisfiable::DoNotSchedule);
    assert_eq!(
        (plain.node_affinity_policy, plain.node_taints_policy),
        (NodeInclusionPolicy::Honor, NodeInclusionPolicy::Ignore)
    );
    assert_eq!(plain.selector, None, "nothing is selected");

    let policies = constraint(
        json!({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "minDomains": 3, "whenUnsatisfiable": "Maybe"}),
        &on,
    );
    assert_eq!(
        (policies.node_affinity_policy, policies.node_taints_policy),
        (NodeInclusionPolicy::Ignore, NodeInclusionPolicy::Honor)
    );
    assert_eq!(
        (policies.when_unsatisfiable, policies.min_domains),
        (WhenUnsatisfiable::Unknown, Some(3))
    );

    let bad = constraint(
        json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
        &on,
    );
    assert_eq!(
        bad.selector_error.unwrap().to_string(),
        "\"Like\" is not a valid label selector operator"
    );
}

#[test]
fn match_label_keys_join_the_selector() {
    let on = CompileOptions::default();
    let keys = json!(["rev", "app", "missing", "app"]);
    let requirements = |selector: Value, options: &CompileOptions| {
        let compiled =
            constraint(json!({"labelSelector": selector, "matchLabelKeys": keys}), options);
        compiled.selector.map(|selector| {
            selector
                .requirements()
                .iter()
                .map(|r| format!("{}={}", r.key, r.values[0]))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(
        requirements(json!({}), &on).unwrap(),
        ["app=web", "rev=not a value!"],
        "the pod's values are not validated"
    );
    assert_eq!(requirements(json!({"matchLabels": {"x": "1"}}), &on).unwrap().len(), 3);
    assert_eq!(requirements(json!(null), &on), None, "nothing stays nothing");
    let off = CompileOptions { spread_match_label_keys: false, ..on };
    assert_eq!(requirements(json!({}), &off).unwrap(), [""; 0]);
}

#[test]
fn affinity_terms() {
    let affinity = |terms: Value| {
        let wire = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms,
                          "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": {"topologyKey": "z"}}]});
        PodAffinity::from_wire(&serde_json::from_value(wire).unwrap(), &"own".into())
    };
    let names = |term: Value| -> Vec<String> {
        affinity(json!([term])).required[0].namespaces.iter().map(|name| name.to_string()).collect()
    };
    assert_eq!(names(json!({})), ["own"]);
    assert_eq!(names(json!({"namespaces": ["b", "a", "b"]})), ["a", "b"]);
    assert_eq!(names(json!({"namespaceSelector": {}})), [""; 0]);
    assert_eq!(names(json!({"namespaces": ["a"], "namespaceSelector": {}})), ["a"]);

    let term = json!({"topologyKey": "k", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["app"]});
    let good = affinity(json!([term]));
    assert_eq!(
        good.required[0].selector.as_ref().map(|selector| selector.requirements().len()),
        Some(1)
    );
    assert_eq!(
        (good.n_required_given, good.n_preferred_given, good.preferred[0].weight),
        (1, 1, 7)
    );
    // One bad term empties its list, not the other.
    let bad = affinity(
        json!([term, {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
    );
    assert_eq!((bad.required.len(), bad.n_required_given, bad.preferred.len()), (0, 2, 1));
    assert_eq!(
        bad.required_error.unwrap().to_string(),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
    // Present counts, even without terms.
    let present = spec(json!({"affinity": {"podAffinity": {}}}));
    assert!(present.pod_affinity.is_some() && present.pod_anti_affinity.is_none());
}

#[test]
fn nodes() {
    let node = Node::from_value(&json!({
        "kind": "Node",
        "metadata": {"name": "n", "uid": "u", "labels": {"failure-domain.beta.kubernetes.io/zone": "old", "topology.kubernetes.io/zone": "new", "topology.kubernetes.io/region": "r"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]},
        "status": {
            "allocatable": {"cpu": "1500.5m", "memory": "1Gi", "pods": "110", "nvidia.com/gpu": "0", "storage": "5", "ephemeral-storage": "1"},
            "images": [{"names": ["a:1", "a@sha256:2"], "sizeBytes": 5}, {"names": null}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "declaredFeatures": ["Other", "UserNamespacesHostNetworkSupport"],
        },
    })).unwrap();
    assert_eq!(
        (node.allocatable.milli_cpu, node.allocatable.memory, node.allowed_pods),
        (1501, 1 << 30, 110)
    );
    assert_eq!(node.allocatable.scalars.as_slice(), [("nvidia.com/gpu".into(), 0)]);
    assert_eq!(node.allocatable_quantities.len(), 6);
    assert_eq!(
        (node.images.len(), node.images[0].size_bytes, node.images[1].names.len()),
        (2, 5, 0)
    );
    assert_eq!((node.feature_bits, node.declared_features.len()), (1 << 4, 2));
    assert!(node.unschedulable && node.taints[0].effect.is_hard());
    assert_eq!(node.zone_key(), "r:\0:old");
}

#[test]
fn when_taints_were_added_is_kept_beside_them() {
    let tainted = |times: [Value; 2]| {
        let taints =
            times.map(|time| json!({"key": "k", "effect": "NoExecute", "timeAdded": time}));
        Node::from_value(&json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap()
    };
    let (early, late) = (json!("2026-01-02T03:04:05Z"), json!("2026-01-02T03:04:06Z"));
    let never = tainted([Value::Null, Value::Null]);
    let once = tainted([Value::Null, early.clone()]);
    assert!(never.taint_times.is_empty());
    assert_eq!(*once.taint_times, [None, Timestamp::parse("2026-01-02T03:04:05Z")]);
    assert_eq!(never.taints, once.taints);
    for other in [[Value::Null, late], [early.clone(), Value::Null], [early.clone(), early]] {
        let other = tainted(other);
        assert!(
            ![&once.taint_times, &never.taint_times].contains(&&other.taint_times),
            "{other:?}"
        );
    }
    let bad = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"timeAdded": "today"}]}});
    assert!(Node::from_value(&bad).is_err());
}

#[test]
fn objects_of_other_kinds_keep_their_json() {
    let object = Object::from_json(r#"{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast", "uid": "u", "resourceVersion": "3", "labels": {"a": "b"}}, "provisioner": "p"}"#).unwrap();
    assert_eq!(
        (&*object.group, &*object.version, &*object.kind),
        ("storage.k8s.io", "v1", "StorageClass")
    );
    assert_eq!(
        (object.api_version().as_str(), object.key().as_str()),
        ("storage.k8s.io/v1", "fast")
    );
    assert_eq!(object.json["provisioner"], "p");
    let core = Object::from_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": "m"}})).unwrap();
    assert_eq!((&*core.group, core.api_version().as_str(), core.key().as_str()), ("", "v1", "m/n"));
    assert_eq!(
        Object::from_value(json!({"metadata": {"name": "x", "creationTimestamp": "soon"}}))
            .unwrap_err()
            .to_string(),
        "object x: metadata.creationTimestamp: \"soon\" is not a time in RFC 3339 form"
    );
}
