//! What a fixture may become by one change.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_cache::ClusterState;

use super::fixture::Fixture;
use super::objects::{node, pod};

/// The fixture after each single change that it suggests, with the change in words.
pub(super) fn changed_fixtures(fixture: &Fixture) -> Vec<(String, Fixture)> {
    let cluster = fixture.cluster();
    let nodes: Vec<Arc<Node>> =
        cluster.order().iter().filter_map(|idx| cluster.node(*idx).cloned()).collect();
    let running: Vec<Arc<Pod>> = cluster.all_pods().map(|(pod, _)| pod.clone()).collect();
    let mut changes = SingleChanges { fixture, changed: Vec::new() };
    changes.of_nodes(&nodes);
    changes.of_pods(&nodes, &running);
    for template in nodes.iter().take(2) {
        let new = Node { name: "changed".into(), uid: "changed".into(), ..(**template).clone() };
        changes.add(format!("a node like {} comes", template.name), |cluster| {
            cluster.add_node(Arc::new(new))
        });
    }
    changes.of_objects(&all_objects(cluster));
    changes.changed
}

/// A fixture, and what it may become.
struct SingleChanges<'a> {
    fixture: &'a Fixture,
    changed: Vec<(String, Fixture)>,
}

impl SingleChanges<'_> {
    fn add<T>(&mut self, what: String, change: impl FnOnce(&mut ClusterState) -> T) {
        let mut fixture = self.fixture.clone();
        // What cannot be done is no change.
        let _ = change(fixture.cluster_mut());
        fixture.cluster_mut().refresh_order();
        self.changed.push((what, fixture));
    }

    fn of_nodes(&mut self, nodes: &[Arc<Node>]) {
        let labels = nodes.iter().flat_map(|node| node.labels.iter());
        let labels: BTreeSet<(&str, &str)> = labels.collect();
        for one in nodes {
            let name = &one.name;
            let mut update = |what: &str, node: Node| {
                self.add(format!("node {name} {what}"), |cluster| {
                    cluster.update_node(Arc::new(node))
                });
            };
            for &(key, value) in &labels {
                let others = one.labels.iter().filter(|(other, _)| *other != key);
                let without: Vec<(&str, &str)> = others.collect();
                let gone = without.iter().copied().collect();
                update(&format!("loses label {key}"), Node { labels: gone, ..(**one).clone() });
                for value in [value, "changed"] {
                    let labels = without.iter().copied().chain([(key, value)]).collect();
                    let relabelled = Node { labels, ..(**one).clone() };
                    update(&format!("gets label {key}={value}"), relabelled);
                }
            }
            let cordoned = Node { unschedulable: !one.unschedulable, ..(**one).clone() };
            update("is cordoned or not", cordoned);
            let template = node(name)
                .taint("changed", "", "NoSchedule")
                .allocatable("cpu", "1")
                .annotation("changed", "yes")
                .build();
            let tainted = Node { taints: template.taints.clone(), ..(**one).clone() };
            update("gets other taints", tainted);
            let smaller = Node { allocatable: template.allocatable.clone(), ..(**one).clone() };
            update("gets smaller", smaller);
            let annotated = Node { annotations: template.annotations.clone(), ..(**one).clone() };
            update("gets other annotations", annotated);
            self.add(format!("node {name} is gone"), |cluster| cluster.remove_node(name));
        }
    }

    fn of_pods(&mut self, nodes: &[Arc<Node>], running: &[Arc<Pod>]) {
        for Node { name, .. } in nodes.iter().map(|node| &**node) {
            let new = pod("changed").request("cpu", "100m").on(name).build();
            let copies = running.iter().map(|pod| {
                let uid = format!("{}-copy", pod.uid);
                Arc::new(Pod { uid: uid.into(), ..pod.with_node_name(name) })
            });
            for pod in [new].into_iter().chain(copies) {
                let what = format!("a pod like {} comes to node {name}", pod.key());
                self.add(what, |cluster| cluster.add_pod(pod));
            }
        }
        for pod in running {
            self.add(format!("pod {} is gone", pod.key()), |cluster| cluster.remove_pod(&pod.uid));
        }
    }

    fn of_objects(&mut self, objects: &[Arc<Object>]) {
        for object in objects {
            let mut relabelled = (**object).clone();
            relabelled.set_field(&["changed"], "yes".into());
            relabelled.labels = [("changed", "yes")].into_iter().collect();
            let named = format!("{} {}", object.kind, object.key());
            self.add(format!("{named} changes"), |cluster| {
                cluster.upsert_object(Arc::new(relabelled))
            });
            self.add(format!("{named} is gone"), |cluster| {
                let Object { group, kind, namespace, name, .. } = &**object;
                cluster.remove_object(group, kind, namespace, name)
            });
        }
    }
}

fn all_objects(cluster: &ClusterState) -> Vec<Arc<Object>> {
    let objects = cluster.objects();
    let kinds: Vec<(Arc<str>, Arc<str>)> = objects.kinds().collect();
    kinds.iter().flat_map(|(group, kind)| objects.list(group, kind).cloned()).collect()
}
