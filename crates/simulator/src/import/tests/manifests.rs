//! Manifests and dumps.

use serde_json::json;

use super::{manifests, refusal};
use crate::import::ClusterInput;

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n";

#[test]
fn documents_and_lists_in_both_languages_give_the_same_objects() {
    let yaml = "
---
# nothing but a comment
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 2, memory: 1Gi, pods: 10}}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: a}
  spec: {containers: [{name: c, resources: {requests: {cpu: 1.5}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: b, namespace: x}
  spec: {nodeName: n1, containers: [{name: c}]}
";
    let json = r#"
{"apiVersion": "v1", "kind": "NodeList", "items": [
  {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": 2, "memory": "1Gi", "pods": 10}}}]}
{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [
  {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1.5}}}]}},
  {"metadata": {"name": "b", "namespace": "x"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}}]}
"#;
    let (from_yaml, from_json) =
        (manifests(&[("y", yaml)]).unwrap(), manifests(&[("j", json)]).unwrap());
    assert_eq!(from_yaml.pods, from_json.pods);
    assert_eq!(from_yaml.nodes, from_json.nodes);
    let [a, b] = &*from_yaml.pods else { panic!("{:?}", from_yaml.pods) };
    assert_eq!((a.key().as_str(), &*a.uid, a.is_assigned()), ("default/a", "pod:default/a", false));
    assert_eq!((b.key().as_str(), b.node_name.as_deref()), ("x/b", Some("n1")));
    assert_eq!(&*a.spec.scheduler_name, "default-scheduler");
    assert_eq!(a.requests.accounted.milli_cpu, 1500);
    assert_eq!(from_yaml.nodes[0].allocatable.milli_cpu, 2000);
    assert_eq!(from_yaml.warnings, Vec::<String>::new());
}

#[test]
fn pods_that_have_ended_are_left_out_and_counted() {
    let text = format!("{POD}status: {{phase: Failed}}\n");
    let objects = manifests(&[("f", &text)]).unwrap();
    assert_eq!((objects.pods.len(), objects.n_finished), (0, 1));
    let phase = objects.finished.get(&"default/p".parse().unwrap());
    assert_eq!(phase.map(|phase| &**phase), Some("Failed"), "{objects:?}");
}

#[test]
fn other_kinds_are_kept_with_a_namespace_if_they_have_one() {
    let text = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: s}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
";
    let objects = manifests(&[("f", text)]).unwrap();
    let keys: Vec<String> =
        objects.objects.iter().map(|object| format!("{} {}", object.kind, object.key())).collect();
    assert_eq!(keys, ["PersistentVolumeClaim default/c", "StorageClass s", "Widget w"]);
}

#[test]
fn what_an_api_server_fills_in_is_filled_in() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec:
  hostNetwork: true
  initContainers: [{name: i, resources: {limits: {cpu: 100m}}}]
  containers:
  - name: c
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: 4, pods: 5}}
";
    let objects = manifests(&[("f", text)]).unwrap();
    let names: Vec<&str> = objects.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["web-00001", "web-00002"]);
    let requests = &objects.pods[0].requests.accounted;
    assert_eq!((requests.milli_cpu, requests.memory), (1000, 1 << 30));
    assert_eq!(objects.pods[0].spec.host_ports[0].port, 80);
    let node = &objects.nodes[0];
    assert_eq!((node.allocatable.milli_cpu, node.allowed_pods), (4000, 5));
}

#[test]
fn a_pod_level_limit_becomes_a_request_unless_containers_ask() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  resources: {limits: {cpu: 4, memory: 4Gi}}
  containers: [{name: c, resources: {requests: {cpu: 1}}}]
";
    let requests = manifests(&[("f", text)]).unwrap().pods[0].requests.accounted.clone();
    assert_eq!((requests.milli_cpu, requests.memory), (1000, 4 << 30));
}

#[test]
fn priority_comes_from_classes_wherever_they_stand() {
    let classes = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
preemptionPolicy: Never
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 7
globalDefault: true
";
    let pod = |name: &str, rest: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c}}]{rest}}}\n"
        )
    };
    let pods = [
        pod("a", ", priorityClassName: high"),
        pod("b", ""),
        pod("c", ", priority: 3, priorityClassName: gone"),
        pod("d", ", priorityClassName: system-node-critical"),
    ]
    .concat();
    let objects = manifests(&[("pods", &pods), ("classes", classes)]).unwrap();
    let found: Vec<(i32, bool)> =
        objects.pods.iter().map(|pod| (pod.priority(), pod.spec.never_preempts)).collect();
    assert_eq!(found, [(1000, true), (7, false), (3, false), (2_000_001_000, false)]);
    assert_eq!(
        refusal(&pod("a", ", priorityClassName: gone")),
        "f: document 1, line 5: pod default/a: spec.priorityClassName: there is no PriorityClass \"gone\" in the input; \
         add it, or set spec.priority"
    );
}

/// A controller's pods have this template.
const TEMPLATE: &str = "template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}";

fn pod_names(text: &str) -> Vec<String> {
    let objects = manifests(&[("f", text)]).unwrap();
    assert_eq!(objects.warnings, Vec::<String>::new());
    objects.pods.iter().map(|pod| pod.key()).collect()
}

#[test]
fn controllers_without_pods_get_them() {
    let text = format!(
        "
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec: {{replicas: 2, {TEMPLATE}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: lone}}
spec: {{containers: [{{name: c}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: ns}}
spec: {{replicas: 1, {TEMPLATE}}}
---
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status: {{allocatable: {{pods: 10}}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent}}
spec: {{{TEMPLATE}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec: {{jobTemplate: {{spec: {{parallelism: 2, {TEMPLATE}}}}}}}
"
    );
    let names = pod_names(&text);
    assert_eq!(names[..3], ["default/db-0", "default/db-1", "default/lone"]);
    let rest: Vec<(&str, &str)> =
        names[3..].iter().map(|name| name.split_at(name.len() - 5)).collect();
    let [(web, "00001"), ("default/agent-", "00002"), jobs @ ..] = &rest[..] else {
        panic!("{rest:?}")
    };
    assert!(web.starts_with("ns/web-"), "{web}");
    assert_eq!(*jobs, [("default/nightly-1-", "00003"), ("default/nightly-1-", "00004")]);
    let objects = manifests(&[("f", &text)]).unwrap();
    let kinds: Vec<&str> = objects.objects.iter().map(|object| &*object.kind).collect();
    assert_eq!(kinds, ["StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "CronJob", "Job"]);
}

#[test]
fn controllers_with_pods_stay_as_they_are() {
    let owned = |kind: &str, name: &str, owner_kind: &str, owner: &str, spec: &str| {
        format!(
            "
---
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, ownerReferences: [{{kind: {owner_kind}, name: {owner}, controller: true}}]}}
spec: {spec}"
        )
    };
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: api}}\nspec: {{replicas: 3, {TEMPLATE}}}"
    );
    let pod = owned("Pod", "api-5d4-x", "ReplicaSet", "api-5d4", "{containers: [{name: c}]}");
    let pod = pod.replace("apps/v1", "v1");
    // With what is between them, and without.
    let set = owned("ReplicaSet", "api-5d4", "Deployment", "api", &format!("{{{TEMPLATE}}}"));
    assert_eq!(pod_names(&format!("{deployment}{set}{pod}")), ["default/api-5d4-x"]);
    assert_eq!(pod_names(&format!("{deployment}{pod}")), ["default/api-5d4-x"]);
    // A set of its own stands for the Deployment.
    assert_eq!(pod_names(&format!("{deployment}{set}")), ["default/api-5d4-00001"]);
    // Another Deployment's.
    let other = deployment.replace("name: api", "name: ap");
    assert_eq!(pod_names(&format!("{other}{pod}")).len(), 4);
    let done = "
apiVersion: batch/v1
kind: Job
metadata: {name: done}
status: {conditions: [{type: Complete, status: 'True'}]}";
    assert_eq!(pod_names(done).len(), 0);
}

#[test]
fn workloads_get_the_groups_that_are_missing() {
    let of_1_36 =
        "podGroupTemplateRef: {workload: {workloadName: train, podGroupTemplateName: workers}}";
    let later = "workloadRef: {workloadName: train, templateName: workers}";
    for (version, reference) in
        [("v1alpha2", of_1_36), ("v1alpha3", later), ("v1beta1", later), ("v1", later)]
    {
        let text = format!(
            "
apiVersion: scheduling.k8s.io/{version}
kind: Workload
metadata: {{name: train}}
spec: {{podGroupTemplates: [{{name: workers, schedulingPolicy: {{gang: {{minCount: 2}}}}}}]}}
"
        );
        let groups = |text: &str| -> Vec<String> {
            let objects = manifests(&[("f", text)]).unwrap().objects;
            let groups = objects.iter().filter(|object| &*object.kind == "PodGroup");
            groups.map(|group| group.key()).collect()
        };
        assert_eq!(groups(&text), ["default/train-workers"]);
        let made = format!(
            "---
apiVersion: scheduling.k8s.io/{version}
kind: PodGroup
metadata: {{name: mine}}
spec:
  {reference}
  schedulingPolicy: {{gang: {{minCount: 2}}}}
"
        );
        assert_eq!(groups(&format!("{text}{made}")), ["default/mine"], "{version}");
    }
}

#[test]
fn controllers_in_a_question_get_pods_that_are_asked_about() {
    let deployment = |name: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{replicas: 2, {TEMPLATE}}}"
        )
    };
    let mut input = ClusterInput::default();
    input.add_manifests("cluster", &deployment("there")).unwrap();
    input.begin_question("default");
    input.add_manifests("question", &deployment("new")).unwrap();
    let objects = input.finish().unwrap();
    assert!(objects.pods.is_empty());
    let names: Vec<String> = objects.asked_pods.iter().map(|pod| pod.key()).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.starts_with("default/new-")), "{names:?}");
}

#[test]
fn a_question_may_be_about_what_has_a_name_of_the_cluster() {
    let named = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n";
    let running = POD.replace("{name: p}", "{name: p, uid: u}");
    let mut input = ClusterInput::default();
    input.add_manifests("cluster", &format!("{named}{running}")).unwrap();
    input.begin_question("default");
    input.add_manifests("question", &format!("{named}{running}")).unwrap();
    let objects = input.finish().unwrap();
    assert_eq!((objects.nodes.len(), objects.asked_nodes.len()), (1, 1));
    let (there, asked) = (&objects.pods[0], &objects.asked_pods[0]);
    assert_eq!((there.key(), &*there.uid), (asked.key(), "u"));
    assert_ne!(there.uid, asked.uid);

    let mut input = ClusterInput::default();
    input.begin_question("default");
    input.add_manifests("question", &format!("{POD}---\n{POD}")).unwrap();
    let refusal = input.finish().unwrap_err().to_string();
    assert!(refusal.contains("pod default/p is given twice"), "{refusal}");
}

#[test]
fn a_controller_in_a_question_gets_pods_besides_those_of_the_cluster() {
    let there = POD.replace(
        "{name: p}",
        "{name: web-0, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: s, controller: true}]}",
    );
    let set = format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: web}}\nspec: {{replicas: 2, {TEMPLATE}}}"
    );
    let mut input = ClusterInput::default();
    input.add_manifests("cluster", &there).unwrap();
    input.begin_question("default");
    input.add_manifests("question", &set).unwrap();
    let objects = input.finish().unwrap();
    assert_eq!(objects.pods.len(), 1);
    let names: Vec<String> = objects.asked_pods.iter().map(|pod| pod.key()).collect();
    assert_eq!(names, ["default/web-0", "default/web-1"]);
}

#[test]
fn what_the_cluster_has_counts_instead_of_what_a_question_says() {
    let set = format!(
        "
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: web}}
spec:
  replicas: 1
  volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{}}}}]
  {TEMPLATE}
"
    );
    let claim = "---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-web-0}
spec: {volumeName: v}
";
    let class = |value| {
        format!(
            "---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: high}}
value: {value}
---
{}",
            POD.replace("containers:", "priorityClassName: high\n  containers:")
        )
    };
    let group = |count| {
        format!(
            "---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {{name: g}}
spec: {{schedulingPolicy: {{gang: {{minCount: {count}}}}}}}
"
        )
    };
    let mut input = ClusterInput::default();
    let there = format!("{set}{claim}{}{}", class(5), group(2));
    input.add_manifests("cluster", &there).unwrap();
    input.begin_question("default");
    let asked = format!("{set}{}{}", class(7), group(3));
    input.add_manifests("question", &asked).unwrap();
    let objects = input.finish().unwrap();

    let priorities: Vec<(String, i32)> =
        objects.asked_pods.iter().map(|pod| (pod.key(), pod.priority())).collect();
    assert_eq!(priorities, [("default/web-0".to_owned(), 0), ("default/p".to_owned(), 5)]);
    let mut kinds: Vec<&str> = objects.objects.iter().map(|object| &*object.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["PersistentVolumeClaim", "PodGroup", "PriorityClass", "StatefulSet"]);
    let text = objects.objects.iter().map(|object| format!("{object:?}")).collect::<String>();
    assert!(text.contains("volumeName"), "the claim that has a volume: {text}");
    assert_eq!(objects.asked_others, [""; 0]);
    assert_eq!(
        objects.warnings,
        [
            "question: document 1, line 7: PersistentVolumeClaim default/data-web-0: the cluster has one, which counts instead",
            "question: document 4, line 23: PodGroup default/g: the cluster has one, which counts instead",
        ]
    );
}

#[test]
fn controllers_of_every_kind_are_no_obstacle_to_a_question() {
    let text = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set}
spec: {replicatedJobs: []}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: Workload
metadata: {name: train}
spec: {podGroupTemplates: [{name: workers, schedulingPolicy: {gang: {minCount: 2}}}]}
";
    let mut input = ClusterInput::default();
    input.begin_question("default");
    input.add_manifests("question", text).unwrap();
    let objects = input.finish().unwrap();
    assert_eq!(objects.asked_others, [""; 0]);
    assert_eq!(objects.asked_manifests.len(), 1);
}

#[test]
fn a_mistake_in_a_template_is_found_there() {
    let text = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: c
        resources: {requests: {cpu: -1}}
";
    let error = manifests(&[("f", text)]).unwrap_err().to_string();
    assert!(error.starts_with("f: document 1, line 10: pod default/web-"), "{error}");
    let endless = text.replace("spec:\n  template", "spec:\n  replicas: 2000000000\n  template");
    let error = manifests(&[("f", &endless)]).unwrap_err().to_string();
    assert!(error.starts_with("f: document 1, line "), "{error}");
    assert!(
        error.ends_with("would create there would be more than 150000 such objects"),
        "{error}"
    );
}

#[test]
fn a_node_that_takes_no_pods_is_pointed_out() {
    let text =
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 1}}\n";
    assert_eq!(
        manifests(&[("f", text)]).unwrap().warnings,
        [
            "f: document 1, line 1: node n1: status.allocatable says nothing of pods, so none fits there"
        ]
    );
}

#[test]
fn errors_name_the_place_the_object_and_the_field() {
    let cases = [
        ("a: [", "f: line 1, column 4: unclosed bracket '['"),
        ("{\"a\": \n 1,}", "f: line 2, column 4: trailing comma"),
        (
            "- 1",
            "f: document 1, line 1: expected a Kubernetes object: a map with apiVersion, kind and metadata",
        ),
        ("apiVersion: v1\nmetadata: {name: x}", "f: document 1, line 1: kind: required"),
        ("kind: Pod\nmetadata: {name: x}", "f: document 1, line 1: apiVersion: required"),
        (
            "apiVersion: v1\nkind: Pod\nspec: {}",
            "f: document 1, line 1: Pod: metadata.name: required",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n- 3",
            "f: document 1, items[1], line 6: expected a Kubernetes object: a map with apiVersion, kind and metadata",
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration",
            "f: document 1, line 1: this is a scheduler configuration, not an object of a cluster: use --config",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers: []",
            "f: document 1, line 5: pod default/x: spec.containers: required: a pod has at least one container",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {priority: high, containers: [{name: c}]}",
            "f: document 1, line 4: pod default/x: spec.priority: invalid type: string \"high\", expected i32",
        ),
        (
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: 99999999999",
            "f: document 1, line 4: PriorityClass x: value: expected an integer of 32 bits, found 99999999999",
        ),
    ];
    for (text, expected) in cases {
        let found = refusal(text);
        assert!(found.starts_with(expected), "for {text:?}\n   found {found}\nexpected {expected}");
    }
}

#[test]
fn an_impossible_quantity_is_found_in_every_list_and_language() {
    let with = |resources: &str| format!("---\n{POD}    resources:\n      {resources}\n");
    let malformed = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let quantity =
        format!("pod default/p: spec.containers[0].resources.requests[cpu]: {malformed}");
    assert_eq!(
        refusal(&with("requests: {cpu: 1 core}")),
        format!("f: document 1, line 9: {quantity}")
    );
    assert_eq!(
        refusal(&with("limits:\n        memory: -1Gi")),
        "f: document 1, line 10: pod default/p: spec.containers[0].resources.limits[memory]: \"-1Gi\" is negative, \
         expected 0 or more"
    );
    let json = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {
                "cpu": "1 core"}}}]}}]}"#;
    assert_eq!(refusal(json), format!("f: document 1, items[1], line 5: {quantity}"));
    assert_eq!(
        refusal(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus:\n  allocatable:\n    nvidia.com/gpu: 1x"
        ),
        format!("f: document 1, line 6: node n1: status.allocatable[nvidia.com/gpu]: {malformed}")
    );
}

#[test]
fn objects_and_identities_are_given_once() {
    let other = POD.replace("{name: p}", "{name: q, uid: u}");
    let third = POD.replace("{name: p}", "{name: r, uid: u}");
    let error = manifests(&[("f", POD), ("g", &format!("---\n{other}---\n{POD}"))]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "g: document 2, line 9: pod default/p is given twice, first in f: document 1, line 1"
    );
    let error = manifests(&[("f", &other), ("g", &third)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "g: document 1, line 3: pod default/r: metadata.uid: \"u\" is the uid of another pod already, in f: document 1, \
         line 1; leave it out to get a new one"
    );
}

const GROUP: &str =
    "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: train}\n";

#[test]
fn pod_groups_get_the_defaults_of_a_server() {
    let class =
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n";
    let group = format!(
        "{GROUP}spec: {{priorityClassName: high, schedulingPolicy: {{gang: {{minCount: 2}}}}}}\n"
    );
    let pod = format!("{POD}  schedulingGroup: {{podGroupName: train}}\n");
    let objects = manifests(&[("c", class), ("g", &group), ("p", &pod)]).unwrap();
    let group = objects.objects.iter().find(|object| *object.kind == *"PodGroup").unwrap();
    assert_eq!(group.key(), "default/train");
    assert_eq!(group.json["spec"]["disruptionMode"], "Pod");
    assert_eq!(group.json["spec"]["priority"].as_i64(), Some(7));
    assert!(group.json["spec"].get("preemptionPolicy").is_none(), "a group has none");
    assert_eq!(objects.warnings, Vec::<String>::new());
}

#[test]
fn pod_groups_of_later_versions_get_the_defaults_of_theirs() {
    let beta = GROUP.replace("v1alpha2", "v1beta1");
    let spec = "spec: {schedulingPolicy: {gang: {minCount: 2}}";
    for (more, mode) in [
        ("", json!({"single": {}})),
        (", disruptionMode: null", json!({"single": {}})),
        (", disruptionMode: {all: {}}, preemptionPolicy: Never", json!({"all": {}})),
    ] {
        let objects = manifests(&[("g", &format!("{beta}{spec}{more}}}\n"))]).unwrap();
        let [group] = &objects.objects[..] else { panic!("one group") };
        assert_eq!(serde_json::Value::from(&group.json["spec"]["disruptionMode"]), mode);
    }
}

#[test]
fn pod_groups_that_cannot_be_are_refused() {
    for (spec, why) in [
        ("{}", "spec.schedulingPolicy: expected exactly one of basic and gang"),
        (
            "{schedulingPolicy: {basic: {}, gang: {minCount: 1}}}",
            "spec.schedulingPolicy: expected exactly one of basic and gang",
        ),
        (
            "{schedulingPolicy: {gang: {minCount: 0}}}",
            "spec.schedulingPolicy.gang.minCount: expected a number from 1 to 2147483647, found 0",
        ),
        (
            "{schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: a}, {key: b}]}}",
            "spec.schedulingConstraints.topology: expected at most one, found 2",
        ),
        (
            "{schedulingPolicy: {basic: {}}, disruptionMode: Node}",
            "spec.disruptionMode: invalid value: string \"Node\", expected \"Pod\" or \"PodGroup\", or an object with",
        ),
        (
            "{schedulingPolicy: {basic: {}}, disruptionMode: {all: {}, single: {}}}",
            "spec.disruptionMode: expected exactly one of single and all",
        ),
        (
            "{schedulingPolicy: {basic: {}}, priorityClassName: none}",
            "there is no PriorityClass \"none\"",
        ),
    ] {
        let text = refusal(&format!("{GROUP}spec: {spec}\n"));
        assert!(text.contains("PodGroup default/train") && text.contains(why), "{text}");
    }
}

#[test]
fn a_group_that_is_not_there_is_a_warning() {
    let pod = format!("{POD}  schedulingGroup: {{podGroupName: train}}\n");
    let objects = manifests(&[("p", &pod)]).unwrap();
    let [warning] = &*objects.warnings else { panic!("{:?}", objects.warnings) };
    assert!(warning.contains("default/train (1 pod)"), "{warning}");
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}\n";

#[test]
fn controllers_that_lack_their_pods_are_counted_where_something_is_asked() {
    let nothing =
        DEPLOYMENT.replace("{template", "{replicas: 0, template").replace("name: d", "name: e");
    let set = DEPLOYMENT.replace("Deployment", "StatefulSet").replace(
        "{template",
        "{volumeClaimTemplates: [{metadata: {name: data}, spec: {}}], template",
    );
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: f, uid: f, controller: true}]";
    let with_pod = DEPLOYMENT.replace("Deployment", "ReplicaSet").replace("name: d", "name: f");
    let pod = POD.replace("{name: p}", &format!("{{name: p, {owner}}}"));
    let all = [DEPLOYMENT, &nothing, &set, &with_pod, &pod].join("---\n");
    let lacking = |asks: bool| {
        let mut input = ClusterInput::default();
        input.add_manifests("f", &all).unwrap();
        if asks {
            input.begin_question("default");
        }
        input.finish().unwrap().n_without_pods
    };
    assert_eq!((lacking(true), lacking(false)), (2, 0));
}

#[test]
fn a_question_may_be_confined_to_its_namespace() {
    let read = |confined: bool, namespace: &str| {
        let mut input = ClusterInput::default();
        input.begin_question(namespace);
        if confined {
            input.confine_question();
        }
        input.add_manifests("f", &POD.replace("{name: p}", "{name: p, namespace: x}")).unwrap();
        input.finish().map_err(|error| error.to_string())
    };
    assert!(read(false, "y").is_ok() && read(true, "x").is_ok());
    let refused = read(true, "y").unwrap_err();
    assert_eq!(
        refused,
        "f: document 1, line 3: pod x/p: metadata.namespace: \"x\" does not match the namespace that was given, \"y\""
    );
}

#[test]
fn negative_counts_are_refused() {
    for (kind, group, field) in
        [("Deployment", "apps/v1", "replicas"), ("Job", "batch/v1", "parallelism")]
    {
        let text = DEPLOYMENT
            .replace("Deployment", kind)
            .replace("apps/v1", group)
            .replace("{template", &format!("{{{field}: -1, template"));
        let refused = refusal(&text);
        assert!(refused.contains(&format!("spec.{field}")), "{refused}");
        assert!(refused.contains("expected 0 or more, found -1"), "{refused}");
    }
}
