//! The smallest changes that make a pod fit.

use std::sync::Arc;

use kube_scheduler_answers::{
    ExplainOptions, Interrupt, Subject, Suggestion, Visibility, explain, suggestions,
};
use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_engine::Input;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

fn suggested(cluster: &mut Cluster, pod: &Arc<Pod>) -> Vec<Suggestion> {
    let subject = Subject::Manifest(pod.clone());
    let answer = explain(&mut cluster.engine, &subject, ExplainOptions::ALL, NOW).unwrap();
    suggestions(&cluster.engine, pod, &answer, &Interrupt::default(), NOW)
}

fn texts(suggestions: &[Suggestion]) -> Vec<String> {
    suggestions.iter().map(|one| one.changes.join(" and ")).collect()
}

fn tainted() -> Value {
    json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
}

#[test]
fn requests_go_down_to_exactly_what_is_free() {
    let running = pod("running", "700m", json!({"nodeName": "a"}));
    let mut cluster =
        Cluster::new().node("a", "2", json!({})).node("b", "1", json!({})).pod(running);
    let wanted = pod("p", "3", json!({}));
    let found = suggested(&mut cluster, &wanted);
    assert_eq!(texts(&found)[0], "request 1300m of cpu instead of 3000m");
    assert_eq!((found[0].size, found[0].n_feasible), (56, 1));
    let fits = |cluster: &mut Cluster, cpu: &str| {
        let subject = Subject::Manifest(pod("p", cpu, json!({})));
        cluster.explain(&subject).unwrap().n_feasible
    };
    assert_eq!((fits(&mut cluster, "1300m"), fits(&mut cluster, "1301m")), (1, 0));
}

/// Two containers that ask for so much CPU, and the overhead of a RuntimeClass.
fn with_overhead(cpu: [&str; 2], overhead: &str) -> Arc<Pod> {
    let container = |cpu: &str| json!({"name": cpu, "resources": {"requests": {"cpu": cpu}}});
    let overhead = json!({"cpu": overhead, "memory": "64Mi"});
    pod("p", "0", json!({"containers": cpu.map(container), "overhead": overhead}))
}

#[test]
fn amounts_are_what_containers_may_ask_for_beside_the_overhead() {
    let running = pod("running", "700m", json!({"nodeName": "a"}));
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(running);
    let found = suggested(&mut cluster, &with_overhead(["1", "2"], "250m"));
    assert_eq!(texts(&found)[0], "request 1050m of cpu instead of 3000m, beside 250m of overhead");
    assert_eq!((found[0].size, found[0].n_feasible), (65, 1));
    let fits = |cluster: &mut Cluster, cpu: [&str; 2]| {
        let subject = Subject::Manifest(with_overhead(cpu, "250m"));
        cluster.explain(&subject).unwrap().n_feasible
    };
    let exactly = fits(&mut cluster, ["1", "50m"]);
    assert_eq!((exactly, fits(&mut cluster, ["1", "51m"])), (1, 0));
    // Containers cannot give up the overhead.
    let lowered = |cluster: &mut Cluster, overhead: &str| {
        let found = suggested(cluster, &with_overhead(["1", "2"], overhead));
        let lowered = found.into_iter().find(|one| one.codes == ["LowerRequest"]);
        lowered.map(|one| one.changes.concat())
    };
    let least = "request 1m of cpu instead of 3000m, beside 1299m of overhead";
    assert_eq!(lowered(&mut cluster, "1299m").as_deref(), Some(least));
    assert_eq!(lowered(&mut cluster, "1300m"), None);
}

#[test]
fn every_kind_of_change_is_found_and_the_smallest_comes_first() {
    let mut cluster = Cluster::new()
        .node("big", "8", tainted())
        .node("off", "8", json!({"unschedulable": true}))
        .node("small", "1", json!({}));
    let found = suggested(&mut cluster, &pod("p", "4", json!({})));
    assert_eq!(
        texts(&found),
        [
            "tolerate the taint gpu:NoSchedule",
            "uncordon node off",
            "request 1000m of cpu instead of 4000m",
            "one more node like off",
        ]
    );
    let subject = Subject::Manifest(pod("p", "4", json!({})));
    let mut answer = cluster.explain(&subject).unwrap();
    answer.suggestions.clone_from(&found);
    let hidden = answer.visible_to(Visibility { nodes: false, all_pods: true });
    assert_eq!(
        texts(&hidden.suggestions),
        [
            "tolerate a taint",
            "uncordon a node",
            "request 1000m of cpu instead of 4000m",
            "one more node like one that is there",
        ]
    );
    let sizes: Vec<u32> = found.iter().map(|one| one.size).collect();
    assert!(sizes.is_sorted(), "{sizes:?}");
}

#[test]
fn selectors_ports_and_anti_affinity_are_dropped() {
    let anti_affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}},
    ]}});
    let running = pod("running", "1", json!({"nodeName": "a"}));
    let mut cluster = Cluster::new().node("a", "4", json!({})).pod(running);
    let code = |cluster: &mut Cluster, spec| {
        suggested(cluster, &pod("p", "1", spec))
            .iter()
            .map(|one| one.codes.join("+"))
            .collect::<Vec<_>>()
    };
    assert_eq!(code(&mut cluster, json!({"nodeSelector": {"disk": "fast"}})), ["DropNodeSelector"]);
    let found = code(&mut cluster, json!({"affinity": anti_affinity}));
    assert_eq!(found, ["DropPodAntiAffinity", "RaisePriority", "AddNodeLike"]);
}

#[test]
fn of_long_lists_what_helps_is_to_drop_them() {
    let terms = |app: &str| {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}});
        json!({"requiredDuringSchedulingIgnoredDuringExecution": vec![term; 20]})
    };
    let mut cluster = with_zones(1);
    let affinity = json!({"podAffinity": terms("none"), "podAntiAffinity": terms("web")});
    let found = suggested(&mut cluster, &pod("p", "1", json!({"affinity": affinity})));
    let codes: Vec<String> = found.iter().map(|one| one.codes.join("+")).collect();
    assert_eq!(codes[0], "DropPodAffinity+DropPodAntiAffinity", "{codes:?}");
}

#[test]
fn two_changes_are_combined_where_one_does_not_do() {
    let mut cluster =
        Cluster::new().node("big", "8", tainted()).node("off", "1", json!({"unschedulable": true}));
    let wanted = pod("p", "9", json!({}));
    let found = suggested(&mut cluster, &wanted);
    let first = &texts(&found)[0];
    assert_eq!(
        first,
        "request 8000m of cpu instead of 9000m and tolerate the taint gpu:NoSchedule"
    );
}

#[test]
fn a_higher_priority_comes_with_its_victims() {
    let running = pod("running", "2", json!({"nodeName": "a", "priority": 50}));
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(running);
    let found = suggested(&mut cluster, &pod("p", "2", json!({})));
    let raise = found.iter().find(|one| one.codes == ["RaisePriority"]).unwrap();
    assert_eq!(raise.changes, ["priority 51 instead of 0"]);
    assert_eq!((&*raise.victims, raise.size), (&["default/running".to_owned()][..], 61));
}

#[test]
fn no_priority_is_suggested_that_would_not_help_or_cannot_be_given() {
    let running =
        |priority: i32| pod("running", "2", json!({"nodeName": "a", "priority": priority}));
    let codes = |running: Arc<Pod>, spec: Value| {
        let mut cluster = Cluster::new().node("a", "2", json!({})).pod(running);
        let found = suggested(&mut cluster, &pod("p", "2", spec));
        found.iter().map(|one| one.codes.join("+")).collect::<Vec<_>>()
    };
    assert_eq!(codes(running(5), json!({})), ["RaisePriority", "AddNodeLike"]);
    assert_eq!(codes(running(5), json!({"preemptionPolicy": "Never"})), ["AddNodeLike"]);
    assert_eq!(codes(running(999_999_999), json!({})), ["RaisePriority", "AddNodeLike"]);
    assert_eq!(codes(running(1_000_000_000), json!({})), ["AddNodeLike"]);
}

#[test]
fn affinity_to_a_node_by_name_is_dropped() {
    let by_name = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}}});
    let running = pod("running", "2", json!({"nodeName": "b"}));
    let mut cluster =
        Cluster::new().node("a", "2", json!({})).node("b", "2", json!({})).pod(running);
    let found = suggested(&mut cluster, &pod("p", "2", by_name));
    assert_eq!(found[0].codes, ["DropNodeAffinity"], "{found:?}");
}

#[test]
fn where_nothing_helps_that_is_said() {
    let mut cluster = Cluster::new().node("a", "2", json!({}));
    let pod = pod(
        "p",
        "1",
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}),
    );
    let subject = Subject::Manifest(pod.clone());
    let mut answer = explain(&mut cluster.engine, &subject, ExplainOptions::ALL, NOW).unwrap();
    answer.suggest(&cluster.engine, &pod, &Interrupt::default(), NOW);
    assert_eq!(answer.suggestions, []);
    let note = "note: none of the changes that were tried makes it fit";
    assert!(answer.table(false).contains(note), "{}", answer.table(false));
}

#[test]
fn a_pod_that_fits_needs_nothing() {
    let mut cluster = Cluster::new().node("a", "2", json!({}));
    assert_eq!(suggested(&mut cluster, &pod("p", "2", json!({}))), []);
}

/// A cluster with a node in each zone, and pods of the app in zone a.
fn with_zones(n_pods: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for (name, spec) in [("a", json!({})), ("b", json!({"unschedulable": true}))] {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}},
            "spec": spec,
            "status": {"allocatable": {"cpu": "64", "memory": "8Gi", "pods": "110"}},
        });
        let node = Arc::new(Node::from_value(&node).unwrap());
        cluster.engine.handle(Input::NodeApplied(node), NOW);
    }
    for at in 0..n_pods {
        cluster = cluster.pod(of_app(&format!("p-{at}"), json!({"nodeName": "a"})));
    }
    cluster
}

fn of_app(name: &str, spec: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c"}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(Pod::from_value(&pod).unwrap())
}

fn spread(when_unsatisfiable: &str, max_skew: u32) -> Value {
    json!({"topologyKey": "topology.kubernetes.io/zone", "maxSkew": max_skew, "whenUnsatisfiable": when_unsatisfiable,
           "labelSelector": {"matchLabels": {"app": "web"}}})
}

#[test]
fn max_skew_goes_up_to_exactly_the_number_at_which_a_node_opens() {
    let mut cluster = with_zones(5);
    let hard = |max_skew| vec![spread("DoNotSchedule", max_skew)];
    let asked = |constraints: Vec<Value>| {
        of_app("asked", json!({"topologySpreadConstraints": constraints}))
    };
    let found = suggested(&mut cluster, &asked(hard(2)));
    assert_eq!(
        texts(&found)[..2],
        [
            "maxSkew 6 instead of 2 in the topology spread constraint over topology.kubernetes.io/zone",
            "ScheduleAnyway instead of DoNotSchedule in the topology spread constraint over topology.kubernetes.io/zone",
        ]
    );
    assert_eq!((found[0].size, found[0].n_feasible, found[1].size), (24, 1, 30));
    let fits = |cluster: &mut Cluster, max_skew| {
        cluster.explain(&Subject::Manifest(asked(hard(max_skew)))).unwrap().n_feasible
    };
    assert_eq!((fits(&mut cluster, 5), fits(&mut cluster, 6)), (0, 1));
    // Two soft constraints over one key are refused by the API server.
    let both = [hard(1), vec![spread("ScheduleAnyway", 1)]].concat();
    let codes: Vec<_> =
        suggested(&mut cluster, &asked(both)).into_iter().flat_map(|one| one.codes).collect();
    assert!(codes.contains(&"DropSpreadConstraint"), "{codes:?}");
    assert!(!codes.contains(&"SoftenSpreadConstraint"), "{codes:?}");
}

#[test]
fn volumes_are_moved_by_their_labels_and_places_are_hidden() {
    let mut cluster = with_zones(0);
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": "data", "uid": "data",
                     "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "volume"}, "status": {"phase": "Bound"},
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "volume", "labels": {"topology.kubernetes.io/zone": "c__d"}},
        "spec": {"claimRef": {"namespace": "default", "name": "data", "uid": "data"}},
        "status": {"phase": "Bound"},
    });
    for object in [claim, volume] {
        let object = Arc::new(Object::from_value(object).unwrap());
        cluster.engine.handle(Input::ObjectApplied(object), NOW);
    }
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let asked = of_app("asked", json!({"volumes": volumes}));
    let found = suggested(&mut cluster, &asked);
    let text = "the volume of claim default/data at topology.kubernetes.io/zone=a";
    assert_eq!((&texts(&found)[..], found[0].n_feasible), (&[text.to_owned()][..], 1));
    let mut answer = cluster.explain(&Subject::Manifest(asked)).unwrap();
    answer.suggestions = found;
    let hidden = answer.visible_to(Visibility { nodes: false, all_pods: true });
    assert_eq!(texts(&hidden.suggestions), ["a volume at another place"]);
}
