//! InterPodAffinity against a model that looks at every pod, key and value, on random clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_cache::{ClusterState, NodeOverlay};
use kube_scheduler_framework::api::{Labels, Pod, PodAffinity, PodAffinityTerm};
use kube_scheduler_framework::testing::{self, Fixture, Reads, fixture, reads_of};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, ClusterView, CycleState, EventObject, EventResource, FeasibleNodes,
    NodeView, Normalization, Plugin,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::support::{hint, plugin, plugin_with, raw_scores, scan, text};

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const NAMESPACES: [&str; 3] = ["default", "red", "nowhere"];

fn selector() -> impl Strategy<Value = Value> {
    select(vec![
        Value::Null,
        json!({}),
        json!({"matchLabels": {"app": "a"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
        json!({"matchLabels": {"app": "b"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
    ])
}

fn term() -> impl Strategy<Value = Value> {
    let namespaces = select(vec![json!([]), json!(["red"]), json!(["red", "default"])]);
    let namespace_selector = select(vec![
        Value::Null,
        Value::Null,
        json!({}),
        json!({"matchLabels": {"team": "x"}}),
        json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}),
    ]);
    let key = select(vec!["zone", "host", "rack"]);
    (selector(), namespaces, namespace_selector, key).prop_map(
        |(selector, namespaces, namespace_selector, key)| {
            let mut term = json!({"topologyKey": key, "namespaces": namespaces});
            if !selector.is_null() {
                term["labelSelector"] = selector;
            }
            if !namespace_selector.is_null() {
                term["namespaceSelector"] = namespace_selector;
            }
            term
        },
    )
}

fn affinity() -> impl Strategy<Value = Value> {
    let terms = || prop::collection::vec(term(), 0..3);
    let weighted = || prop::collection::vec((1..=3_i32, term()), 0..3);
    let half = move || {
        (terms(), weighted()).prop_map(|(required, preferred)| {
            let preferred: Vec<Value> = preferred
                .into_iter()
                .map(|(weight, term)| json!({"weight": weight, "podAffinityTerm": term}))
                .collect();
            json!({
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            })
        })
    };
    prop_oneof![
        2 => Just(json!({})),
        1 => half().prop_map(|half| json!({"podAffinity": half})),
        1 => half().prop_map(|half| json!({"podAntiAffinity": half})),
        1 => (half(), half()).prop_map(|(a, b)| json!({"podAffinity": a, "podAntiAffinity": b})),
    ]
}

/// What a pod adds to an empty one.
fn pod_parts() -> impl Strategy<Value = Value> {
    let labels = select(vec![
        json!({}),
        json!({"app": "a"}),
        json!({"app": "b"}),
        json!({"app": "b", "tier": "1"}),
    ]);
    (labels, select(&NAMESPACES[..]), affinity()).prop_map(|(labels, namespace, affinity)| {
        json!({
            "metadata": {"labels": labels, "namespace": namespace},
            "spec": {"affinity": affinity},
        })
    })
}

fn nodes() -> impl Strategy<Value = Vec<Value>> {
    let zone =
        select(vec![json!({}), json!({"zone": "a"}), json!({"zone": "b"}), json!({"zone": ""})]);
    let rack = any::<bool>();
    prop::collection::vec((zone, rack), NODES.len()).prop_map(|nodes| {
        let labelled = |(at, (mut labels, has_rack)): (usize, (Value, bool))| {
            labels["host"] = NODES[at].into();
            if has_rack {
                labels["rack"] = "r".into();
            }
            json!({"metadata": {"labels": labels}})
        };
        nodes.into_iter().enumerate().map(labelled).collect()
    })
}

fn world() -> impl Strategy<Value = Fixture> {
    (nodes(), prop::collection::vec((select(&NODES[..]), pod_parts()), 0..7)).prop_map(
        |(nodes, pods)| {
            let mut world = fixture("namespace default label:team=x; namespace red label:team=y");
            for (name, fields) in NODES.iter().zip(nodes) {
                world = world.with_node(testing::node(name).with(fields));
            }
            for (at, (on, fields)) in pods.into_iter().enumerate() {
                world = world.with_pod(running(&format!("e{at}"), on, fields));
            }
            world
        },
    )
}

/// A pod on a node whose UID is its name.
fn running(name: &str, node: &str, fields: Value) -> Arc<Pod> {
    testing::pod(&format!("{name} uid={name} node={node}")).with(fields).build()
}

fn pending(fields: Value) -> Arc<Pod> {
    testing::pod("p").with(fields).build()
}

type Sums = BTreeMap<(String, String), i64>;

/// The plugin as the reference describes it.
struct Model<'a> {
    cluster: &'a ClusterState,
    pod: &'a Pod,
}

fn lists(
    affinity: &Option<Arc<PodAffinity>>,
) -> (Vec<&PodAffinityTerm>, Vec<(i64, &PodAffinityTerm)>) {
    let Some(affinity) = affinity else { return Default::default() };
    let preferred = affinity.preferred.iter().map(|w| (i64::from(w.weight), &w.term));
    (affinity.required.iter().collect(), preferred.collect())
}

impl Model<'_> {
    /// Whether a term of the pod itself means `other`.
    fn wants(&self, term: &PodAffinityTerm, other: &Pod) -> bool {
        let is_selected = |labels: &Labels| {
            term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(labels))
        };
        let named = term.namespaces.contains(&other.namespace);
        let labels = self.cluster.objects().namespace_labels(&other.namespace);
        let in_scope = named || is_selected(&Labels::default()) || labels.is_some_and(is_selected);
        in_scope && term.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels))
    }

    /// Whether a term of `_` means the pod itself.
    fn is_meant(&self, term: &PodAffinityTerm) -> bool {
        let labels = self.cluster.objects().namespace_labels(&self.pod.namespace);
        let labels = labels.cloned().unwrap_or_default();
        let in_scope = term.namespaces.contains(&self.pod.namespace)
            || term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(&labels));
        in_scope
            && term.selector.as_ref().is_some_and(|selector| selector.matches(&self.pod.labels))
    }

    /// Calls `each` with every pod and the labels of its node.
    fn each_pod(&self, mut each: impl FnMut(&Pod, &Labels)) {
        for (other, idx) in self.cluster.all_pods() {
            if let Some(node) = self.cluster.node(idx) {
                each(other, &node.labels);
            }
        }
    }

    fn add(sums: &mut Sums, key: &str, labels: &Labels, amount: i64) {
        if let Some(value) = labels.get(key) {
            *sums.entry((key.to_owned(), value.to_owned())).or_default() += amount;
        }
    }

    /// What Filter says about each node; `None` when PreFilter skips.
    fn filter(&self) -> Option<BTreeMap<String, String>> {
        let (affinity, _) = lists(&self.pod.spec.pod_affinity);
        let (anti_affinity, _) = lists(&self.pod.spec.pod_anti_affinity);
        let (mut existing, mut wanted, mut unwanted) = (Sums::new(), Sums::new(), Sums::new());
        self.each_pod(|other, labels| {
            for term in lists(&other.spec.pod_anti_affinity).0 {
                if self.is_meant(term) {
                    Self::add(&mut existing, &term.topology_key, labels, 1);
                }
            }
            if !affinity.is_empty() && affinity.iter().all(|term| self.wants(term, other)) {
                affinity.iter().for_each(|t| Self::add(&mut wanted, &t.topology_key, labels, 1));
            }
            for term in anti_affinity.iter().filter(|term| self.wants(term, other)) {
                Self::add(&mut unwanted, &term.topology_key, labels, 1);
            }
        });
        if existing.is_empty() && affinity.is_empty() && anti_affinity.is_empty() {
            return None;
        }
        let may_be_first =
            wanted.is_empty() && affinity.iter().all(|term| self.wants(term, self.pod));
        let is_any = |sums: &Sums, key: &str, labels: &Labels| {
            let value = labels.get(key).map(|value| (key.to_owned(), value.to_owned()));
            value.is_some_and(|place| sums.contains_key(&place))
        };
        let judge = |labels: &Labels| {
            let lacks_key = affinity.iter().any(|t| !labels.contains_key(&t.topology_key));
            let is_missing = affinity.iter().any(|t| !is_any(&wanted, &t.topology_key, labels));
            if lacks_key || is_missing && !may_be_first {
                "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules"
            } else if anti_affinity.iter().any(|t| is_any(&unwanted, &t.topology_key, labels)) {
                "Unschedulable: node(s) didn't match pod anti-affinity rules"
            } else if labels.iter().any(|(key, _)| is_any(&existing, key, labels)) {
                "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules"
            } else {
                "ok"
            }
        };
        let nodes = self.cluster.order().iter().filter_map(|idx| self.cluster.node(*idx));
        Some(nodes.map(|node| (node.name.to_string(), judge(&node.labels).to_owned())).collect())
    }

    /// Raw scores in the order of nodes; `None` when PreScore skips.
    fn scores(&self, hard_weight: i64, ignores_others: bool) -> Option<Vec<i64>> {
        let (_, liked) = lists(&self.pod.spec.pod_affinity);
        let (_, disliked) = lists(&self.pod.spec.pod_anti_affinity);
        if ignores_others && liked.is_empty() && disliked.is_empty() {
            return None;
        }
        let mut sums = Sums::new();
        self.each_pod(|other, labels| {
            for (weight, term) in liked.iter().filter(|(_, term)| self.wants(term, other)) {
                Self::add(&mut sums, &term.topology_key, labels, *weight);
            }
            for (weight, term) in disliked.iter().filter(|(_, term)| self.wants(term, other)) {
                Self::add(&mut sums, &term.topology_key, labels, -weight);
            }
            let (required, preferred) = lists(&other.spec.pod_affinity);
            for term in required.into_iter().filter(|t| hard_weight > 0 && self.is_meant(t)) {
                Self::add(&mut sums, &term.topology_key, labels, hard_weight);
            }
            for (weight, term) in preferred.into_iter().filter(|(_, term)| self.is_meant(term)) {
                Self::add(&mut sums, &term.topology_key, labels, weight);
            }
            for (weight, term) in lists(&other.spec.pod_anti_affinity).1 {
                if self.is_meant(term) {
                    Self::add(&mut sums, &term.topology_key, labels, -weight);
                }
            }
        });
        if sums.is_empty() {
            return None;
        }
        let of = |labels: &Labels| {
            let pairs = labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            pairs.filter_map(|place| sums.get(&place)).sum()
        };
        let nodes = self.cluster.order().iter().filter_map(|idx| self.cluster.node(*idx));
        Some(nodes.map(|node| of(&node.labels)).collect())
    }
}

fn views(cluster: &ClusterState) -> Vec<NodeView<'_>> {
    cluster.order().iter().filter_map(|idx| ClusterView::unrecorded(cluster).node(*idx)).collect()
}

/// What Filter says about each node, asked one by one and all at once; `None` when PreFilter skips.
fn filter(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> Option<BTreeMap<String, String>> {
    let mut state = CycleState::new();
    let status = plugin.as_pre_filter().unwrap().pre_filter(&world.cx(), &mut state, pod).status;
    if status.is_skip() {
        assert!(scan(world, plugin, pod).is_none());
        return None;
    }
    assert!(status.is_success());
    let ask =
        |view: &NodeView<'_>| plugin.as_filter().unwrap().filter(&world.cx(), &state, pod, view);
    let one_by_one: BTreeMap<String, String> = views(world.cluster())
        .iter()
        .map(|view| (view.name().to_string(), text(&ask(view))))
        .collect();
    let verdicts = scan(world, plugin, pod).unwrap().unwrap();
    for view in views(world.cluster()) {
        let status = verdicts.rejection(view.idx()).cloned().unwrap_or_default();
        assert_eq!(text(&status), one_by_one[&**view.name()], "{}", view.name());
    }
    Some(one_by_one)
}

/// Raw scores, asked one by one and all at once; `None` when PreScore skips.
fn scores(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> Option<Vec<i64>> {
    assert_eq!(plugin.as_score().unwrap().normalization(), Normalization::MinMax);
    let at_once = raw_scores(world, plugin, pod).map(Result::unwrap);
    let mut state = CycleState::new();
    let nodes = world.cluster().order();
    let status = plugin.as_pre_score().unwrap().pre_score(
        &world.cx(),
        &mut state,
        pod,
        &FeasibleNodes::unrecorded(nodes),
    );
    let score = |view: &NodeView<'_>| {
        plugin.as_score().unwrap().score(&world.cx(), &state, pod, view).unwrap()
    };
    let one_by_one =
        status.is_success().then(|| views(world.cluster()).iter().map(score).collect::<Vec<_>>());
    assert_eq!(at_once, one_by_one);
    at_once
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_answer_is_the_models(
        world in world(),
        parts in pod_parts(),
        hard_weight in 0..3_i64,
        ignores_others in any::<bool>(),
    ) {
        let mut world = world;
        let args = json!({
            "hardPodAffinityWeight": hard_weight,
            "ignorePreferredTermsOfExistingPods": ignores_others,
        });
        let plugin = plugin_with("InterPodAffinity", args);
        let pod = pending(parts);
        for kept in ["nothing", "columns", "counters"] {
            match kept {
                "columns" => {
                    ["zone", "host", "rack"].iter().for_each(|key| world.cluster_mut().ensure_label_column(key));
                }
                "counters" => {
                    // The last round has asked for all that the plugin reads.
                    world.cluster_mut().follow_requested();
                }
                _ => {}
            }
            let model = Model { cluster: world.cluster(), pod: &pod };
            prop_assert_eq!(filter(&world, &*plugin, &pod), model.filter());
            prop_assert_eq!(scores(&world, &*plugin, &pod), model.scores(hard_weight, ignores_others));
        }
    }

    /// Following hypothetical pods ends where really changing the cluster does, and undoing them where it began.
    /// `hint` checks that no pod that is worth a retry is left out by topics.
    #[test]
    fn hints_are_asked_about_every_pod_that_they_say_yes_to(
        waiting in pod_parts(),
        before in prop::option::of(pod_parts()),
        after in prop::option::of(pod_parts()),
        name in select(vec!["InterPodAffinity", "PodTopologySpread"]),
        other in select(vec!["p uid=p", "q uid=q node=n0", "q uid=q", "q uid=q nominated=n0"]),
    ) {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}}});
        let mut waiting = waiting;
        waiting["spec"]["topologySpreadConstraints"] = json!([constraint]);
        let waiting = testing::pod("p uid=p").with(waiting).build();
        let object = |parts: Value| EventObject::Pod(testing::pod(other).with(parts).build());
        let action = match (&before, &after) {
            (Some(_), None) => ActionType::DELETE,
            (None, _) => ActionType::ADD,
            (Some(_), Some(_)) => ActionType::UPDATE_POD_LABEL,
        };
        let event = ClusterEvent::new(EventResource::AssignedPod, action);
        hint(&*plugin(name), event, &waiting, before.map(object), after.map(object));
    }

    #[test]
    fn hypothetical_pods_count_as_real_ones(
        world in world(),
        parts in pod_parts(),
        on in select(&NODES[..]),
        changes in prop::collection::vec((0..9_usize, pod_parts()), 1..8),
    ) {
        let plugin = plugin_with("InterPodAffinity", Value::Null);
        let pod = pending(parts);
        let before = Model { cluster: world.cluster(), pod: &pod }.filter();
        // A plugin that skipped is not notified of hypothetical pods.
        prop_assume!(before.is_some());
        let mut state = CycleState::new();
        plugin.as_pre_filter().unwrap().pre_filter(&world.cx(), &mut state, &pod);
        let extensions = plugin.as_pre_filter().unwrap().extensions().unwrap();
        let untouched = state.clone();
        let idx = world.view(on).idx();
        let mut overlay = NodeOverlay::new(idx);
        let mut after = world.clone();
        let mut done: Vec<(bool, Arc<Pod>)> = Vec::new();
        for (at, extra) in changes {
            let uid = format!("e{at}");
            let (is_added, changed) = match after.cluster().node_of_pod(&uid) {
                Some(node) if node == idx => (false, after.cluster_mut().remove_pod(&uid).unwrap()),
                Some(_) => continue,
                None => {
                    let added = running(&uid, on, extra);
                    after.cluster_mut().add_pod(added.clone()).unwrap();
                    (true, added)
                }
            };
            tell(&world, extensions, &mut state, &mut overlay, &pod, is_added, &changed);
            done.push((is_added, changed));
            let model = Model { cluster: after.cluster(), pod: &pod }.filter();
            let expected = model.map_or_else(|| "ok".to_owned(), |answers| answers[on].clone());
            let view = NodeView::hypothetical(world.cluster(), &overlay).unwrap();
            let answer = plugin.as_filter().unwrap().filter(&world.cx(), &state, &pod, &view);
            prop_assert_eq!(text(&answer), expected);
        }
        for (is_added, changed) in done.iter().rev() {
            tell(&world, extensions, &mut state, &mut overlay, &pod, !is_added, changed);
        }
        for state in [state, untouched] {
            let ask = |view: &NodeView<'_>| {
                let answer = plugin.as_filter().unwrap().filter(&world.cx(), &state, &pod, view);
                (view.name().to_string(), text(&answer))
            };
            prop_assert_eq!(Some(views(world.cluster()).iter().map(ask).collect()), before.clone());
        }
    }

    /// What a pod without terms sees holds as long as the terms and the nodes' labels do, and the numbers of the counters
    /// that it got: while the version of the terms is the same, what PreFilter stored answers as if it had been stored again.
    #[test]
    fn plain_pods_depend_on_terms_and_counters_alone(
        world in world(),
        on in select(&NODES[..]),
        extra in pod_parts(),
        removes in any::<bool>(),
        labels in select(vec![json!({"app": "a"}), json!({"app": "b", "tier": "1"})]),
    ) {
        let plugin = plugin_with("InterPodAffinity", Value::Null);
        let plain = pending(json!({"metadata": {"labels": labels}}));
        let phases = reads_of(&*plugin, world.sources(), &plain).phases();
        prop_assert!(phases.can_be_grouped(), "{phases:?}");
        let reads = phases.union();
        let expected = Reads::AFFINITY_TERMS.union(Reads::COUNTER_HANDLES).union(Reads::COUNTERS);
        prop_assert_eq!(reads.union(expected), expected);
        let is_any = world.cluster().affinity_terms().iter().next().is_some();
        prop_assert!(is_any || reads == Reads::AFFINITY_TERMS);
        let mut after = world.clone();
        if removes {
            after.cluster_mut().remove_pod("e0").ok();
        } else {
            after.cluster_mut().add_pod(running("new", on, extra)).unwrap();
        }
        let is_same_version =
            world.cluster().affinity_terms_version() == after.cluster().affinity_terms_version();
        if is_same_version {
            let cached = answers_after(&world, &after, &*plugin, &plain);
            prop_assert_eq!(cached, answers_after(&after, &after, &*plugin, &plain));
        }
    }
}

/// What Filter and Score say in `after` with what PreFilter stored `before`; PreScore runs in `after`.
fn answers_after(
    before: &Fixture,
    after: &Fixture,
    plugin: &dyn Plugin,
    pod: &Pod,
) -> (Option<Vec<String>>, Option<Vec<i64>>) {
    let (cx, mut state) = (after.cx(), CycleState::new());
    let nodes = views(after.cluster());
    let outcome = plugin.as_pre_filter().unwrap().pre_filter(&before.cx(), &mut state, pod);
    let filter = |view| text(&plugin.as_filter().unwrap().filter(&cx, &state, pod, view));
    let filtered = outcome.status.is_success().then(|| nodes.iter().map(filter).collect());
    let feasible = FeasibleNodes::unrecorded(after.cluster().order());
    let status = plugin.as_pre_score().unwrap().pre_score(&cx, &mut state, pod, &feasible);
    let score = |view| plugin.as_score().unwrap().score(&cx, &state, pod, view).unwrap();
    (filtered, status.is_success().then(|| nodes.iter().map(score).collect()))
}

fn tell(
    world: &Fixture,
    extensions: &dyn kube_scheduler_framework::PreFilterExtensions,
    state: &mut CycleState,
    overlay: &mut NodeOverlay,
    pod: &Pod,
    is_added: bool,
    changed: &Arc<Pod>,
) {
    let status = if is_added {
        overlay.add_pod(world.cluster(), changed);
        let view = NodeView::hypothetical(world.cluster(), overlay).unwrap();
        extensions.add_pod(&world.cx(), state, pod, changed, &view)
    } else {
        overlay.remove_pod(world.cluster(), &changed.uid).unwrap();
        let view = NodeView::hypothetical(world.cluster(), overlay).unwrap();
        extensions.remove_pod(&world.cx(), state, pod, changed, &view)
    };
    assert!(status.is_success());
}
