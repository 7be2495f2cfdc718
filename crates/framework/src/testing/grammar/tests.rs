//! Each word against the JSON it stands for, random statements against builders, and errors.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::kinds::{COMMON, all};
use super::words::Word;
use super::{Statement, statements};
use crate::testing::json::merge;
use crate::testing::objects::{node, object, pod};

/// What the words of a statement add to `KIND n` without words.
#[track_caller]
fn check(kind: &str, words: &str, added: Value) {
    let mut expected = object(&format!("{kind} n")).to_json();
    merge(&mut expected, added);
    assert_eq!(object(&format!("{kind} n {words}")).to_json(), expected, "{kind} n {words}");
}

#[test]
fn words_of_every_kind() {
    check(
        "service",
        "label:a=b annotation:c/d=e",
        json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c/d": "e"}}}),
    );
    check(
        "pvc",
        "uid=u version=7 created=2026-01-01T00:00:00Z deleted=2026-01-02T00:00:00Z owner=p owner=q",
        json!({"metadata": {
            "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z",
            "ownerReferences": [{"uid": "p", "controller": true}, {"uid": "q", "controller": true}],
        }}),
    );
}

#[test]
fn words_of_nodes() {
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    check(
        "node",
        "cpu=2 example.com/gpu=1",
        json!({"status": {"allocatable": {"cpu": "2", "example.com/gpu": "1"}}}),
    );
    check(
        "node",
        "zone=a region=r",
        labels(json!({"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"})),
    );
    check(
        "node",
        "host=h label:zone=z",
        labels(json!({"kubernetes.io/hostname": "h", "zone": "z"})),
    );
    let taints = json!([
        {"key": "k", "value": "v", "effect": "NoSchedule"},
        {"key": "a/b", "value": "", "effect": "NoExecute"},
    ]);
    check(
        "node",
        "taint:k=v:NoSchedule taint:a/b:NoExecute unschedulable",
        json!({"spec": {"taints": taints, "unschedulable": true}}),
    );
    let images = json!([{"names": ["r:5/x:1"], "sizeBytes": 1024}, {"names": ["y"]}]);
    check(
        "node",
        "image=r:5/x:1=1Ki image=y feature=F",
        json!({"status": {"images": images, "declaredFeatures": ["F"]}}),
    );
    let bare = node("n cpu=- memory=- pods=- host=-").to_json();
    assert_eq!(bare["status"], json!({"allocatable": {}}));
    assert_eq!(bare["metadata"]["labels"], json!({}));
}

#[test]
fn words_of_pods() {
    let spec = |spec: Value| json!({"spec": spec});
    check(
        "pod",
        "node=a priority=-5 scheduler=s preemption=Never",
        spec(
            json!({"nodeName": "a", "priority": -5, "schedulerName": "s", "preemptionPolicy": "Never"}),
        ),
    );
    check(
        "pod",
        "nominated=a phase=Running started=2026-01-01T00:00:00Z",
        json!({"status": {"nominatedNodeName": "a", "phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}),
    );
    check(
        "pod",
        "selector:disk=ssd gate=a gate=b",
        spec(
            json!({"nodeSelector": {"disk": "ssd"}, "schedulingGates": [{"name": "a"}, {"name": "b"}]}),
        ),
    );
    let tolerations = json!([
        {"operator": "Exists"},
        {"key": "k", "operator": "Exists"},
        {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "k", "operator": "Equal", "value": "v"},
        {"key": "k", "operator": "Equal", "value": "", "effect": "NoExecute"},
        {"key": "k", "operator": "Gt", "value": "5"},
    ]);
    check(
        "pod",
        r#"tolerate:* tolerate:k tolerate:k:NoSchedule tolerate:k=v tolerate:k=:NoExecute tolerate={"key": "k", "operator": "Gt", "value": "5"}"#,
        spec(json!({"tolerations": tolerations})),
    );
    let container = json!([{
        "name": "main", "image": "i:2", "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}},
        "ports": [
            {"containerPort": 80, "hostPort": 80},
            {"containerPort": 81, "hostPort": 81, "hostIP": "1.2.3.4", "protocol": "UDP"},
        ],
    }]);
    check(
        "pod",
        "cpu=1 hugepages-2Mi=4Mi image=i:2 port=80 port=1.2.3.4:81/UDP",
        spec(json!({"containers": container})),
    );
    let volumes = json!([
        {"name": "v0", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "v2", "hostPath": {"path": "/; '"}},
    ]);
    check(
        "pod",
        r#"claim=c ephemeral=data volume={"hostPath": {"path": "/; '"}}"#,
        spec(json!({"volumes": volumes})),
    );
}

#[test]
fn terms_and_constraints_of_pods() {
    let selector = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "old", "operator": "DoesNotExist"},
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
        ],
    });
    let term = |key: &str| json!({"topologyKey": key, "labelSelector": selector.clone()});
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    for (word, kind) in [("affinity", "podAffinity"), ("anti-affinity", "podAntiAffinity")] {
        let affinity = |list: Value| json!({"spec": {"affinity": {kind: list}}});
        check(
            "pod",
            &format!("{word}='host:app=web,tier in (a,b),!old' {word}=rack:"),
            affinity(json!({REQUIRED: [
                term("kubernetes.io/hostname"), {"topologyKey": "rack", "labelSelector": {}},
            ]})),
        );
        check(
            "pod",
            &format!("prefer-{word}='7:region:app=web,tier in (a,b),!old'"),
            affinity(json!({PREFERRED: [
                {"weight": 7, "podAffinityTerm": term("topology.kubernetes.io/region")},
            ]})),
        );
    }
    let expressions = json!([{"key": "disk", "operator": "NotIn", "values": ["ssd"]}, {"key": "gen", "operator": "Gt", "values": ["5"]}]);
    check(
        "pod",
        "node-affinity=gen>5,disk!=ssd node-affinity=zone prefer-node-affinity=3:zone",
        json!({"spec": {"affinity": {"nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": expressions}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
            ]},
            PREFERRED: [{"weight": 3, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}],
        }}}}),
    );
    check(
        "pod",
        "spread=zone:1:app=web prefer-spread=rack:2",
        json!({"spec": {"topologySpreadConstraints": [
            {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}},
            {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
        ]}}),
    );
    // A label can have one value only, so that both stay.
    check(
        "pod",
        "affinity=rack:a=x,a=y",
        json!({"spec": {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "rack", "labelSelector": {
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "In", "values": ["y"]},
            ],
        }}]}}}}),
    );
}

#[test]
fn words_of_storage() {
    check(
        "pvc",
        "storage=5Gi class=c access=ReadOnlyMany,ReadWriteMany mode=Block selector=a=b",
        json!({"spec": {
            "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "c", "volumeMode": "Block",
            "accessModes": ["ReadOnlyMany", "ReadWriteMany"], "selector": {"matchLabels": {"a": "b"}},
        }}),
    );
    check(
        "pvc",
        "volume=pv phase=Lost",
        json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}}),
    );
    check(
        "pvc",
        "bound=pv",
        json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
        }),
    );
    check(
        "pv",
        "storage=2Gi class=c access=ReadOnlyMany mode=Block phase=Bound csi=d:h claim=c",
        json!({
            "spec": {
                "capacity": {"storage": "2Gi"}, "storageClassName": "c", "volumeMode": "Block",
                "accessModes": ["ReadOnlyMany"], "csi": {"driver": "d", "volumeHandle": "h"},
                "claimRef": {"namespace": "default", "name": "c", "uid": "c-uid"},
            },
            "status": {"phase": "Bound"},
        }),
    );
    check(
        "pv",
        "claim=x/c:u csi=d node-affinity='zone in (a)'",
        json!({"spec": {
            "csi": {"driver": "d"}, "claimRef": {"namespace": "x", "name": "c", "uid": "u"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            ]}},
        }}),
    );
    check(
        "storageclass",
        "provisioner=p binding=Immediate",
        json!({"provisioner": "p", "volumeBindingMode": "Immediate"}),
    );
    check(
        "csinode",
        "driver=a driver=b:3",
        json!({"spec": {"drivers": [{"name": "a"}, {"name": "b", "allocatable": {"count": 3}}]}}),
    );
    check(
        "attachment",
        "driver=d node=n volume=v",
        json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
    );
    check(
        "capacity",
        "class=c free=1Gi topology=zone=a",
        json!({"storageClassName": "c", "capacity": "1Gi", "nodeTopology": {"matchLabels": {"zone": "a"}}}),
    );
}

#[test]
fn words_of_the_rest() {
    check("service", "selector:app=web", json!({"spec": {"selector": {"app": "web"}}}));
    check(
        "pdb",
        "selector=app=web allowed=2",
        json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": 2}}),
    );
    check(
        "deviceclass",
        "resource=example.com/gpu",
        json!({"spec": {"extendedResourceName": "example.com/gpu"}}),
    );
    check("priorityclass", "value=9", json!({"value": 9}));
    check("pod", "group=g", json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}));
    let group = "podgroup g min=3 topology=zone topology=rack priority=7";
    let [zone, rack] = ["topology.kubernetes.io/zone", "rack"].map(|key| json!({"key": key}));
    let spec = json!({
        "schedulingPolicy": {"gang": {"minCount": 3}}, "schedulingConstraints": {"topology": [zone, rack]}, "priority": 7,
    });
    assert_eq!(object(group).to_json()["spec"], spec);
    assert_eq!(object("podgroup g").to_json()["spec"], json!({"schedulingPolicy": {"basic": {}}}));
    assert_eq!(
        object("namespace n").to_json(),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "uid": "n"}})
    );
    let any = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    assert_eq!(object(&format!("object {any}")).to_json(), any);
}

/// The words that the manual lists for a kind.
fn manual(kind: &str) -> Vec<&'static str> {
    let lines = include_str!("../grammar.rs").lines();
    let is_start = |line: &&str| {
        let line = line.strip_prefix("//! ").unwrap_or_default();
        line == kind || line.strip_prefix(kind).is_some_and(|rest| rest.starts_with("  "))
    };
    let mut lines = lines.skip_while(|line| !is_start(line));
    let first = lines.next().unwrap_or_else(|| panic!("{kind} is not in the manual"));
    let more = lines.take_while(|line| line.starts_with("//!      "));
    std::iter::once(first).chain(more).flat_map(str::split_whitespace).collect()
}

#[test]
fn every_word_is_in_the_manual() {
    let check = |name: &str, words: &[Word]| {
        let manual = manual(name);
        for word in words {
            let form = format!("{}{}", word.name, word.takes);
            assert!(manual.contains(&&*form), "{form} of {name}");
        }
    };
    check("any kind", COMMON);
    all().iter().for_each(|kind| check(kind.word, kind.words));
}

#[test]
fn statements_end_with_lines_and_semicolons_and_may_hold_json_over_lines() {
    let text = "
        # a comment; no statement
        node a;; node 'b' label:x=\"c; # d\"  # another
        pod ns/p cpu=1 {
            \"metadata\": {\"generation\": 3}
        } priority=2
        pvc c";
    let expected = [
        Statement::Node(node("a")),
        Statement::Node(node("b").label("x", "c; # d")),
        Statement::Pod(
            pod("p")
                .namespace("ns")
                .request("cpu", "1")
                .priority(2)
                .with(json!({"metadata": {"generation": 3}})),
        ),
        Statement::Object(object("pvc c")),
    ];
    assert_eq!(statements(text), Ok(expected.into()));
    assert_eq!(statements(" \n ; # nothing"), Ok(vec![]));
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(statements(text).unwrap_err().to_string(), expected, "{text}");
}

#[test]
fn errors_name_the_line_the_word_and_what_is_allowed() {
    const KINDS: &str = "node, pod, namespace, pvc, pv, storageclass, csinode, csidriver, attachment, capacity, service, \
                         pdb, deviceclass, podgroup, priorityclass or object";
    check_error(
        "node a\n\n  nodes b",
        &format!("line 3: \"nodes\": no kind; a statement starts with {KINDS}"),
    );
    check_error("node", "line 1: node is followed by a name");
    check_error("node x/a", "line 1: \"x/a\": node has no namespace");
    check_error(
        "pdb p allow=1",
        "line 1: \"allow=1\": unknown; pdb takes selector=SELECTOR, allowed=NUMBER, label:KEY=VALUE, annotation:KEY=VALUE, \
         uid=TEXT, version=TEXT, created=TIME, deleted=TIME, owner=UID",
    );
    let error = statements("pod p\nnode n gpu=1").unwrap_err().to_string();
    assert!(
        error.starts_with("line 2: \"gpu=1\": unknown; node takes RESOURCE=QUANTITY, zone=ZONE"),
        "{error}"
    );
    check_error("node n zone:a", "line 1: \"zone:a\": the form is zone=ZONE");
    check_error("node n cpu", "line 1: \"cpu\": the form is cpu=QUANTITY");
    check_error(
        "node n unschedulable=yes",
        "line 1: \"unschedulable=yes\": the form is unschedulable",
    );
    check_error("node n label:a", "line 1: \"label:a\": the form is KEY=VALUE");
    check_error(
        "node n cpu=1x",
        "line 1: \"cpu=1x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    check_error("pod p priority=high", "line 1: \"priority=high\": \"high\" is no whole number");
    check_error(
        "pod p created=now",
        "line 1: \"created=now\": a time is like 2026-01-31T23:59:59Z",
    );
    check_error(
        "node n taint:k:Never",
        "line 1: \"taint:k:Never\": \"Never\" is no effect; allowed are NoSchedule, PreferNoSchedule and NoExecute",
    );
    check_error(
        "pod p spread=zone",
        "line 1: \"spread=zone\": the form is TOPOLOGY:SKEW[:SELECTOR]",
    );
    check_error(
        "pod p affinity=:a=b",
        "line 1: \"affinity=:a=b\": a topology key is zone, region, host or the key of a node label",
    );
    check_error("pod p node={}", "line 1: \"node=\": takes no JSON");
    check_error(
        "pod p volume=x",
        "line 1: \"volume=x\": the form is volume={\"hostPath\": {...}}: a volume as the API has it",
    );
    check_error("pod p affinity='zone: a", "line 1: \"affinity=\": the quote ' is not closed");
    check_error("object x", "line 1: \"object\": one JSON object follows, and nothing else");
    let error = statements("pod p {\"a\": }").unwrap_err().to_string();
    assert!(
        error.starts_with("line 1: no JSON object: expected value at line 1 column 7"),
        "{error}"
    );
    let error =
        statements("node n\npod p {\"spec\": {\"containers\": 5}}").unwrap_err().to_string();
    assert!(error.starts_with("line 2: pod default/p: spec.containers: "), "{error}");
    let error = statements("pod p affinity='zone:a in b'").unwrap_err();
    assert_eq!((error.line, &*error.word), (1, "affinity=zone:a in b"));
}

/// A word of a pod, and what it does by the builder's methods.
#[derive(Clone, Debug)]
enum RandomWord {
    Label(&'static str, &'static str),
    Request(&'static str, &'static str),
    Selector(&'static str, &'static str),
    Tolerate(&'static str),
    Priority(i32),
    Node(&'static str),
    Scheduler(&'static str),
    Json(&'static str, i64),
}

fn random_word() -> impl Strategy<Value = RandomWord> {
    let key = || select(vec!["app", "zone", "example.com/x"]);
    let value = || select(vec!["a", "b c", "", "x;y", "#", "1.5"]);
    let resource = select(vec!["cpu", "memory", "example.com/gpu", "hugepages-2Mi"]);
    prop_oneof![
        (key(), value()).prop_map(|(key, value)| RandomWord::Label(key, value)),
        (resource, select(vec!["1", "2Gi", "500m", "1e3"]))
            .prop_map(|(r, n)| RandomWord::Request(r, n)),
        (key(), value()).prop_map(|(key, value)| RandomWord::Selector(key, value)),
        key().prop_map(RandomWord::Tolerate),
        any::<i32>().prop_map(RandomWord::Priority),
        value().prop_map(RandomWord::Node),
        value().prop_map(RandomWord::Scheduler),
        (key(), any::<i64>()).prop_map(|(key, value)| RandomWord::Json(key, value)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A text in the grammar is what the builders make, whatever the order of words and wherever lines end.
    #[test]
    fn statements_are_what_builders_make(
        pods in prop::collection::vec(prop::collection::vec(random_word(), 0..8), 0..5),
        ends in prop::collection::vec(select(vec![";", "\n", " ; # x\n\n", "\r\n"]), 5),
    ) {
        let mut text = String::new();
        let mut expected = Vec::new();
        for ((at, words), end) in pods.iter().enumerate().zip(&ends) {
            text += &format!("pod p{at}");
            let mut builder = pod(&format!("p{at}"));
            for word in words.clone() {
                let written;
                (written, builder) = match word {
                    RandomWord::Label(key, value) => (format!("label:{key}='{value}'"), builder.label(key, value)),
                    RandomWord::Request(key, value) => (format!("{key}={value}"), builder.request(key, value)),
                    RandomWord::Selector(key, value) => (format!("'selector:{key}={value}'"), builder.node_selector(key, value)),
                    RandomWord::Tolerate(key) => (format!("tolerate:{key}"), builder.toleration(key)),
                    RandomWord::Priority(value) => (format!("priority={value}"), builder.priority(value)),
                    RandomWord::Node(name) => (format!("node=\"{name}\""), builder.on(name)),
                    RandomWord::Scheduler(name) => (format!("scheduler='{name}'"), builder.scheduler_name(name)),
                    RandomWord::Json(key, value) => {
                        let json = json!({"metadata": {"annotations": {key: value.to_string()}}});
                        (json.to_string(), builder.with(json))
                    }
                };
                text += &format!(" {written}");
            }
            text += end;
            expected.push(Statement::Pod(builder));
        }
        prop_assert_eq!(statements(&text), Ok(expected), "{}", text);
    }

    #[test]
    fn any_text_gives_statements_or_an_error(
        parts in prop::collection::vec(select(vec![
            "node", "pod", "pv", "object", " ", "\n", ";", "#", "'", "\"", "{", "}", "{}", "{\"spec\": 5}", "=", ":", "-", "a",
            "é", "cpu=1", "cpu=", "taint:", "spread=zone:1", "claim=c", "label:a", "bound=", "port=::", "volume={}",
            "affinity=", "tolerate:*", "image=a=", "[", "null", "{\"spec\": {\"containers\": []}}", "/", ",", "in (",
        ]), 0..12),
        gaps in any::<u16>(),
    ) {
        let mut text = String::new();
        for (at, part) in parts.iter().enumerate() {
            text += part;
            text += if gaps >> at & 1 == 1 { " " } else { "" };
        }
        if let Err(error) = statements(&text) {
            prop_assert!(error.line >= 1 && error.line <= 1 + text.matches('\n').count());
            prop_assert!(!error.problem.is_empty());
        }
    }
}
