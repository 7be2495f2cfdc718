//! The worst pods of one tenant: what they leave behind, and that everything is counted right meanwhile
//! (`docs/security.md`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{AttemptResult, Effect, Engine, EngineOptions, Input, WorkLimits};
use kube_scheduler_tests::fixtures::{
    GANG_GATES, applied, engine, gates, object_applied, pod_applied,
};
use kube_scheduler_tests::replies::write_bindings;
use kube_scheduler_tests::tenants::beside::{Pace, Play, play, quantile};
use kube_scheduler_tests::tenants::{KINDS, Kind, Share};
use serde_json::json;

/// A tenth of the worst is enough to see what stays.
const SHARE: Share = Share(10);

/// How much the core does in a microsecond at least: the dearest units take 9.9 ns (`bench-tenants --units`).
const UNITS_PER_MICRO: u64 = 100;

/// A cluster of others, to which a tenant's pods come.
struct TenantCluster {
    engine: Engine,
    now: Timestamp,
    /// What an attempt may cost.
    limit: u64,
}

impl TenantCluster {
    fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    fn with(options: EngineOptions) -> Self {
        Self::sized(6, options)
    }

    fn sized(n_nodes: usize, options: EngineOptions) -> Self {
        let limit = options.work.base + options.work.per_node * n_nodes as u64;
        let engine = engine(options);
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let mut cluster = Self { engine, now, limit };
        for at in 0..n_nodes {
            let words = format!("cpu=64 memory=64Gi pods=200 label:zone=z{}", at % 3);
            cluster.handle(applied(&format!("node n{at} {words}")));
        }
        cluster
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    fn add(&mut self, kind: &Kind, at: usize, share: Share) {
        let mut json = (kind.pod)(at, share);
        let name = format!("evil{at}");
        for (key, value) in [("namespace", "tenant"), ("name", &name), ("uid", &name)] {
            json["metadata"][key] = value.into();
        }
        self.handle(pod_applied(&json));
    }

    /// Adds a plain pod of another tenant, makes all attempts that are due, and says what its own one cost.
    fn place_plain(&mut self, name: &str) -> u64 {
        self.handle(applied(&format!("pod other/{name} label:app={name}")));
        let costs = costs(self);
        for (pod, units, result) in &costs {
            let is_refused =
                matches!(result, AttemptResult::Error(text) if text.contains("too expensive"));
            assert_eq!(is_refused, *units > self.limit, "{pod}, {units}: {result:?}");
        }
        let (_, units, result) = costs.iter().find(|(pod, ..)| pod == name).unwrap();
        assert!(matches!(result, AttemptResult::Assumed(_)), "{result:?}");
        *units
    }

    fn remove(&mut self, at: usize) {
        let name = format!("evil{at}").into();
        self.handle(Input::PodDeleted { namespace: "tenant".into(), name });
    }

    /// How many entries the tables have, apart from those that are bounded by a number of bytes.
    fn sizes(&self) -> BTreeMap<&'static str, usize> {
        let bounded = [
            "changes of nodes",
            "changes of claims and devices",
            "signatures",
            "evaluations",
            "followed counters",
            "namespaces with costly pods",
            "plugins",
        ];
        let sizes = self.engine.table_sizes().into_iter();
        let sizes = sizes.filter(|size| !bounded.contains(&size.table));
        sizes.map(|size| (size.table, size.n_entries)).collect()
    }
}

#[test]
fn nothing_is_left_of_the_worst_pods_and_all_is_counted_right_meanwhile() {
    for kind in &KINDS {
        let mut cluster = TenantCluster::new();
        let before = cluster.sizes();
        for at in 0..6 {
            cluster.add(kind, at, SHARE);
            costs(&mut cluster);
        }
        cluster.now = cluster.now + Duration::from_secs(400);
        costs(&mut cluster);
        assert_eq!(check(cluster.engine.cluster()), [], "{}", kind.name);
        // Columns are for labels that nodes have, and there are two.
        assert!(cluster.engine.cluster().n_label_columns() <= 2, "{}", kind.name);
        (0..6).for_each(|at| cluster.remove(at));
        costs(&mut cluster);
        let mut after = cluster.sizes();
        after.insert("label columns", before["label columns"]);
        assert_eq!(after, before, "{}", kind.name);
        assert_eq!(check(cluster.engine.cluster()), [], "{}", kind.name);
    }
}

/// Makes all attempts that are due; all bindings succeed. What they cost, in units of work, by pod.
fn costs(cluster: &mut TenantCluster) -> Vec<(String, u64, AttemptResult)> {
    let mut costs = Vec::new();
    loop {
        let turn = cluster.engine.schedule_next(cluster.now);
        write_bindings(&mut cluster.engine, cluster.now);
        let Some(turn) = turn else { return costs };
        costs.push((turn.pod.name.to_string(), turn.work, turn.result));
    }
}

#[test]
fn each_attempt_for_the_worst_pods_is_bounded_and_others_cost_what_they_did() {
    const N_NODES: usize = 500;
    for kind in &KINDS {
        let mut cluster = TenantCluster::sized(N_NODES, EngineOptions::default());
        let quiet = cluster.place_plain("before");
        assert!(quiet <= cluster.limit / 500, "{quiet}");
        for at in 0..2 {
            cluster.add(kind, at, Share::WHOLE);
            // The next pod is placed at once, whatever happens to the others.
            assert_eq!(cluster.place_plain(&format!("beside{at}")), quiet, "{}", kind.name);
        }
        // Those that failed are tried again.
        cluster.now = cluster.now + Duration::from_secs(600);
        assert_eq!(cluster.place_plain("after"), quiet, "{}", kind.name);
    }
}

/// A pod may name any node, and stays there until it is deleted if the node does not exist.
#[test]
fn invented_node_names_cost_others_nothing_and_leave_nothing() {
    const N_NODES: usize = 50;
    const N_PODS: usize = 3000;
    let mut cluster = TenantCluster::sized(N_NODES, EngineOptions::default());
    let quiet = cluster.place_plain("before");
    let (sizes, slots) = (cluster.sizes(), cluster.engine.cluster().capacity());
    assert_eq!(slots, N_NODES);
    for at in 0..N_PODS {
        cluster.handle(applied(&format!("pod tenant/evil{at} node=gone{at}")));
    }
    assert_eq!(cluster.engine.cluster().capacity(), N_NODES + N_PODS);
    assert_eq!(cluster.place_plain("beside"), quiet);
    assert_eq!(check(cluster.engine.cluster()), []);
    // In an order in which the last slots are not the last to go.
    for at in (0..N_PODS).rev().step_by(2).chain((0..N_PODS).step_by(2)) {
        cluster.remove(at);
    }
    assert_eq!(cluster.engine.cluster().capacity(), slots);
    assert_eq!(cluster.place_plain("after"), quiet);
    for name in ["beside", "after"] {
        cluster.handle(Input::PodDeleted { namespace: "other".into(), name: name.into() });
    }
    costs(&mut cluster);
    assert_eq!(cluster.sizes(), sizes);
    assert_eq!(check(cluster.engine.cluster()), []);
}

/// Budgets whose selectors are longer than any that a person writes, and pods with labels of their own under them.
#[test]
fn disruption_budgets_of_a_tenant_do_not_make_the_preemption_of_others_expensive() {
    let mut cluster = TenantCluster::new();
    let requirement = |at: usize| json!({"key": format!("k{at}"), "operator": "DoesNotExist"});
    let selector = json!({"matchExpressions": (0..3000).map(requirement).collect::<Vec<_>>()});
    for at in 0..20 {
        cluster.handle(applied(&format!("pdb tenant/b{at} allowed=0 selector={selector}")));
    }
    for at in 0..60 {
        let words = format!("cpu=6400m label:app=evil{at} node=n{}", at % 6);
        cluster.handle(applied(&format!("pod tenant/evil{at} {words}")));
    }
    // None of them is refused, although every one looks for pods to evict.
    for at in 0..300 {
        let name = format!("big{at}");
        cluster.handle(applied(&format!("pod other/{name} cpu=32 label:app={name} priority=100")));
        let costs = costs(&mut cluster);
        let (_, units, result) = costs.iter().find(|(pod, ..)| *pod == name).unwrap();
        assert!(matches!(result, AttemptResult::Unschedulable(_)), "{result:?}");
        assert!(*units < 1000, "{units}");
        cluster.handle(Input::PodDeleted { namespace: "other".into(), name: name.into() });
    }
}

/// The rows as inputs, in units of work: a unit takes what the benchmark measures for the most expensive ones.
#[test]
fn others_wait_hardly_longer_while_a_tenant_does_its_worst_for_ten_minutes() {
    let quiet = Play {
        n_nodes: 200,
        length: Duration::from_secs(600),
        others_per_second: 5,
        tenants: None,
        pace: Pace::PerMicro(UNITS_PER_MICRO),
    };
    let beside = Play { tenants: Some((300, 40)), ..quiet };
    let (quiet, beside) = (play(&quiet).unwrap(), play(&beside).unwrap());
    assert!(quiet.waits.len() > 2500 && beside.waits.len() > 2500);
    assert!(beside.n_tenant > 100 && beside.n_refused > 50, "{beside:?}");
    let p99 = |sorted: &[Duration]| quantile(sorted, 990);
    assert!(p99(&quiet.attempts) > Duration::ZERO);
    assert!(p99(&beside.attempts) <= 2 * p99(&quiet.attempts));
    assert!(
        p99(&beside.waits) <= 2 * p99(&quiet.waits),
        "{:?}, quiet {:?}",
        p99(&beside.waits),
        p99(&quiet.waits)
    );
}

#[test]
fn a_pod_that_is_too_expensive_is_never_tried_and_says_so_and_comes_back_later_each_time() {
    let work = WorkLimits { base: 1000, per_node: 0, refill_per_second: 1 };
    let mut cluster = TenantCluster::with(EngineOptions { work, ..EngineOptions::default() });
    let constraints: Vec<_> = (0..200)
        .map(|at| {
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": format!("a{at}")}}})
        })
        .collect();
    let json = json!({"metadata": {"namespace": "tenant", "name": "evil", "uid": "evil"},
        "spec": {"topologySpreadConstraints": constraints}});
    cluster.handle(pod_applied(&json));
    let start = cluster.now;
    let mut failed_at = Vec::new();
    while failed_at.len() < 4 {
        if let Some(turn) = cluster.engine.schedule_next(cluster.now) {
            let AttemptResult::Error(message) = turn.result else { panic!("{:?}", turn.result) };
            assert!(message.contains("most of them for its topology spread"), "{message}");
            assert!(turn.work > 1000);
            let (mut has_event, mut has_condition) = (false, false);
            for effect in cluster.engine.drain_effects().collect::<Vec<_>>() {
                match effect {
                    Effect::RecordEvent { note, .. } => has_event |= note == message,
                    Effect::PatchStatus { .. } => has_condition = true,
                    _ => {}
                }
            }
            assert!(has_event);
            assert!(has_condition || !failed_at.is_empty());
            failed_at.push(cluster.now.saturating_since(start).as_secs());
            // Others are not affected.
            cluster.place_plain(&format!("plain{}", failed_at.len()));
        }
        cluster.now = cluster.now + Duration::from_secs(1);
        assert_eq!(cluster.engine.cluster().n_followed(), 0);
    }
    let waits: Vec<_> = failed_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((10..=12).contains(&waits[0]), "{waits:?}");
    assert!(waits[1] >= 2 * waits[0] - 2 && waits[2] >= 2 * waits[1] - 2, "{waits:?}");
}

#[test]
fn a_namespace_that_has_used_up_its_allowance_waits_and_others_do_not() {
    // The soft limit is 100 units, and ten attempts at the hard limit are the allowance.
    let work = WorkLimits { base: 1000, per_node: 0, refill_per_second: 100 };
    let mut cluster = TenantCluster::with(EngineOptions { work, ..EngineOptions::default() });
    let mut placed_and_refused = [0_usize, 0];
    let add = |cluster: &mut TenantCluster, namespace: &str, at: usize| {
        let terms = " node-affinity=zone".repeat(40);
        cluster.handle(applied(&format!("pod {namespace}/{namespace}{at} {terms}")));
    };
    for at in 0..50 {
        add(&mut cluster, "tenant", at);
        for (_, units, result) in costs(&mut cluster) {
            assert!((101..1000).contains(&units), "{units}");
            let is_refused = matches!(result, AttemptResult::Error(_));
            placed_and_refused[usize::from(is_refused)] += 1;
        }
    }
    let [mut placed, refused] = placed_and_refused;
    assert!(placed >= 10 && refused >= 10, "{placed} placed, {refused} refused");
    add(&mut cluster, "other", 0);
    assert!(matches!(costs(&mut cluster)[0].2, AttemptResult::Assumed(_)));
    // What comes back with time suffices for all of them in the end.
    for _ in 0..2000 {
        cluster.now = cluster.now + Duration::from_secs(10);
        let is_placed =
            |(_, _, result): &(_, _, AttemptResult)| matches!(result, AttemptResult::Assumed(_));
        placed += costs(&mut cluster).iter().filter(|cost| is_placed(cost)).count();
    }
    assert_eq!(placed, 50);
}

#[test]
fn pods_of_a_namespace_with_many_attempts_in_vain_are_not_tried_at_each_event() {
    let work = WorkLimits { base: 10_000, per_node: 0, refill_per_second: 1 };
    let mut cluster = TenantCluster::with(EngineOptions { work, ..EngineOptions::default() });
    let pod = |namespace: &str, name: &str, words: &str| {
        applied(&format!("pod {namespace}/{namespace}-{name} label:app=a {words}"))
    };
    // No node has the key, so nothing ever helps the pod.
    for namespace in ["tenant", "other"] {
        cluster.handle(pod(namespace, "waits", &" affinity=none:app=a".repeat(4)));
    }
    let mut tried_at: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
    for tenths in 0..450 {
        // Pods that the terms mean come all the time in one namespace, and rarely in the other one.
        let happens = [("tenant", true), ("other", tenths % 50 == 10)];
        for (namespace, _) in happens.into_iter().filter(|(_, happens)| *happens) {
            cluster.handle(pod(namespace, "comes", "node=n1"));
        }
        while let Some(turn) = cluster.engine.schedule_next(cluster.now) {
            assert!(matches!(turn.result, AttemptResult::Unschedulable(_)), "{:?}", turn.result);
            tried_at.entry(turn.pod.namespace.clone()).or_default().push(tenths);
        }
        for (namespace, _) in happens {
            let name = format!("{namespace}-comes").into();
            cluster.handle(Input::PodDeleted { namespace: namespace.into(), name });
        }
        cluster.engine.drain_effects().for_each(drop);
        cluster.now = cluster.now + Duration::from_millis(100);
    }
    // With nothing else to do, a pod is tried at each event, whatever its backoff.
    assert_eq!(tried_at["other"], [0, 10, 60, 110, 160, 210, 260, 310, 360, 410]);
    let tenant = &tried_at["tenant"];
    let n_early = tenant.windows(2).take_while(|pair| pair[1] == pair[0] + 1).count();
    assert!((50..200).contains(&n_early), "{tenant:?}");
    let waits: Vec<_> = tenant[n_early..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() >= 2 && waits.iter().all(|wait| (100..=120).contains(wait)), "{tenant:?}");
}

/// A claim for six devices in rows and columns of their own, which no node has; it takes some ten thousand steps to find that out
/// on each node. None is like another.
fn hopeless_claim(namespace: &str, name: &str) -> Input {
    let selector = json!({"cel": {"expression": format!("device.driver != '{namespace}-{name}'")}});
    let exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 6,
        "selectors": [selector]});
    let constraints = json!([{"distinctAttribute": "d/row"}, {"distinctAttribute": "d/column"}]);
    let requests = json!([{"name": "r", "exactly": exactly}]);
    object_applied(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}")},
        "spec": {"devices": {"requests": requests, "constraints": constraints}},
    }))
}

/// Thirty devices on a node, in six rows and five columns.
fn devices_on(node: &str) -> Input {
    let device = |at: usize| {
        let attributes = json!({"row": {"int": at / 5}, "column": {"int": at % 5}});
        json!({"name": at.to_string(), "attributes": attributes})
    };
    let devices: Vec<_> = (0..30).map(device).collect();
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    object_applied(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": node, "uid": node},
        "spec": {"driver": "d", "nodeName": node, "pool": pool, "devices": devices},
    }))
}

#[test]
fn searches_for_devices_are_taken_from_the_allowance_of_the_namespace() {
    let work = WorkLimits { base: 200_000, per_node: 0, refill_per_second: 1000 };
    let mut cluster = TenantCluster::with(EngineOptions { work, ..EngineOptions::default() });
    (0..6).for_each(|at| cluster.handle(devices_on(&format!("n{at}"))));
    cluster.handle(applied("deviceclass any"));
    let try_pod = |cluster: &mut TenantCluster, namespace: &str, name: &str| {
        cluster.handle(hopeless_claim(namespace, name));
        let claims =
            json!({"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}});
        cluster.handle(applied(&format!("pod {namespace}/{name} uid={namespace}-{name} {claims}")));
        let turn = cluster.engine.schedule_next(cluster.now).unwrap();
        cluster.handle(Input::PodDeleted { namespace: namespace.into(), name: name.into() });
        (turn.work, turn.result)
    };
    let mut n_searches = 0;
    let refusal = loop {
        let (units, result) = try_pod(&mut cluster, "tenant", &format!("p{n_searches}"));
        match result {
            // Nothing says beforehand that it takes 57,000 steps.
            AttemptResult::Unschedulable(_) => assert!(units < 1000, "{units}"),
            AttemptResult::Error(text) => break text,
            other => panic!("{other:?}"),
        }
        n_searches += 1;
    };
    // Ten attempts at the hard limit are the allowance.
    assert!((30..40).contains(&n_searches), "{n_searches}");
    assert!(refusal.contains("most of them for its searches, such as for devices"), "{refusal}");
    assert!(refusal.contains("more than the limit of 20000,"), "{refusal}");
    // Others search as long as they did.
    let (units, result) = try_pod(&mut cluster, "other", "p");
    assert!(matches!(result, AttemptResult::Unschedulable(_)), "{units}: {result:?}");
    cluster.now = cluster.now + Duration::from_secs(10_000);
    let (_, result) = try_pod(&mut cluster, "tenant", "later");
    assert!(matches!(result, AttemptResult::Unschedulable(_)), "{result:?}");
}

/// A member of a gang of ten, of which three have room on a node.
fn gang_member(at: usize) -> Input {
    let terms = " node-affinity=zone".repeat(40);
    applied(&format!("pod tenant/g{at} cpu=20 group=gang {terms}"))
}

#[test]
fn a_group_that_is_too_expensive_waits_as_a_whole_and_pays_for_its_members() {
    // A member costs less than that, and ten of them may cost 900 units together.
    let work = WorkLimits { base: 180, per_node: 0, refill_per_second: 1 };
    let gates = gates(GANG_GATES);
    let mut cluster =
        TenantCluster::with(EngineOptions { work, gates, ..EngineOptions::default() });
    cluster.handle(applied("podgroup tenant/gang min=10 topology=host"));
    (0..10).for_each(|at| cluster.handle(gang_member(at)));
    let (start, mut tried_at, mut works) = (cluster.now, Vec::new(), Vec::new());
    while tried_at.len() < 4 {
        if let Some(turn) = cluster.engine.schedule_next(cluster.now) {
            let AttemptResult::Error(message) = &turn.result else { panic!("{:?}", turn.result) };
            assert!(message.contains("the pod group is too expensive"), "{message}");
            let n_members = turn.group.map(|group| group.members.len());
            assert_eq!(n_members, Some(if tried_at.is_empty() { 10 } else { 11 }));
            tried_at.push(cluster.now.saturating_since(start).as_secs());
            works.push(turn.work);
            if tried_at.len() == 1 {
                // Who comes later is tried alone, and brings none of the others back.
                cluster.handle(gang_member(10));
                let turn = cluster.engine.schedule_next(cluster.now).unwrap();
                assert_eq!(turn.group.map(|group| group.members.len()), Some(1));
                assert!(turn.work <= 180, "{}", turn.work);
            }
            assert!(cluster.engine.schedule_next(cluster.now).is_none());
            cluster.engine.drain_effects().for_each(drop);
        }
        cluster.now = cluster.now + Duration::from_secs(1);
    }
    assert!((10..=12).contains(&tried_at[1]), "{tried_at:?}");
    // By then the members have used up what their namespace may spend, which comes back by a unit a second: enough for one of them.
    assert!(tried_at[2] > 200 && tried_at[3] > tried_at[2] + 40, "{tried_at:?}");
    assert!(works[1] > 900 && works[2] < 180, "{works:?}");
}

#[test]
fn large_gangs_of_plain_pods_are_not_charged() {
    // A gang is beyond what is free for its pods, 400 units, and two of them cost more than the allowance of 1,000.
    let work = WorkLimits { base: 100, per_node: 0, refill_per_second: 1 };
    let gates = gates(GANG_GATES);
    let mut cluster =
        TenantCluster::with(EngineOptions { work, gates, ..EngineOptions::default() });
    let bare = json!({"spec": {"containers": []}});
    for gang in 0..4 {
        let name = format!("gang{gang}");
        cluster.handle(applied(&format!("podgroup tenant/{name} min=50")));
        for at in 0..50 {
            cluster.handle(applied(&format!("pod tenant/{name}-{at} group={name} {bare}")));
        }
        let turn = cluster.engine.schedule_next(cluster.now).unwrap();
        assert!(turn.work > 500, "{}", turn.work);
        let results = turn.into_results();
        let n_placed =
            results.iter().filter(|(_, it)| matches!(it, AttemptResult::Assumed(_))).count();
        assert_eq!(n_placed, 50, "gang {gang}: {:?}", results.first());
        cluster.engine.drain_effects().for_each(drop);
    }
}

#[test]
fn work_does_not_depend_on_the_class_cache() {
    let works = |options: EngineOptions| {
        let mut cluster = TenantCluster::sized(100, options);
        let mut works = Vec::new();
        for kind in &KINDS {
            for at in 0..3 {
                cluster.add(kind, at, Share(100));
                works.extend(costs(&mut cluster));
                cluster.remove(at);
            }
        }
        works
    };
    let cached = works(EngineOptions::default());
    assert!(cached.len() >= 20, "{}", cached.len());
    let options = EngineOptions { uses_class_cache: false, ..EngineOptions::default() };
    assert_eq!(works(options), cached);
}

/// What a running pod is made of is taken in and put out on the core, and no limit of attempts counts it.
#[test]
fn of_the_worst_running_pods_few_parts_are_taken_in() {
    for kind in KINDS.iter().filter(|kind| kind.name.starts_with("Running")) {
        let mut cluster = TenantCluster::new();
        for at in 0..3 {
            cluster.add(kind, at, Share::WHOLE);
            let cluster = cluster.engine.cluster();
            let n_terms = cluster.affinity_terms().n_terms_of_all_kinds();
            assert!(n_terms <= 1_000, "{}: {n_terms} terms", kind.name);
            assert_eq!(cluster.requested().scalars().count(), 0, "{}", kind.name);
        }
        // Its pods are there all the same, and count for their node.
        let cluster = cluster.engine.cluster();
        assert_eq!(cluster.pod_count().get(cluster.node_idx("n1").unwrap()), 3, "{}", kind.name);
        assert_eq!(check(cluster), [], "{}", kind.name);
    }
}

/// Pods that keep all others out of the zone: those that are too many are known, but keep no pod out.
#[test]
fn terms_about_others_beyond_the_limit_do_not_count_and_an_event_says_so() {
    let mut cluster = TenantCluster::new();
    let repelling = |at: usize, n_terms: usize| {
        let term = |term: usize| {
            json!({"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {"matchExpressions": [
                {"key": format!("t{at}-{term}"), "operator": "DoesNotExist"}]}})
        };
        let terms: Vec<_> = (0..n_terms).map(term).collect();
        let json = json!({"metadata": {"namespace": "tenant", "name": format!("r{at}"), "uid": format!("r{at}")},
            "spec": {"nodeName": format!("n{at}"), "affinity": {"podAntiAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}});
        Arc::new(Pod::from_value(&json).unwrap())
    };
    let ignored = |effect| match effect {
        Effect::RecordEvent { reason, note, .. } if reason == "AffinityIgnored" => Some(note),
        _ => None,
    };
    let events = |cluster: &mut TenantCluster| -> Vec<String> {
        let by_standby = cluster.engine.drain_effects().filter_map(ignored).count();
        assert_eq!(by_standby, 0, "who does not decide says nothing");
        assert!(cluster.engine.schedule_next(cluster.now).is_none());
        cluster.engine.drain_effects().filter_map(ignored).collect()
    };
    // Five of six nodes: the first two are within the limit, and so are pods with few terms.
    for (at, n_terms) in [(0, 250), (1, 250), (2, 8), (3, 250), (4, 8)] {
        cluster.handle(Input::PodApplied(repelling(at, n_terms)));
        let said = events(&mut cluster);
        assert_eq!(said.len(), usize::from(at == 3), "{said:?}");
        assert!(said.iter().all(|note| note.contains("250 pod affinity terms")), "{said:?}");
    }
    // What others may use is the node without such terms, and the one whose terms do not count.
    let mut nodes = std::collections::BTreeSet::new();
    for at in 0..40 {
        cluster.handle(applied(&format!("pod other/p{at} cpu=1 memory=1Gi label:app=a{at}")));
        for (_, _, result) in costs(&mut cluster) {
            let AttemptResult::Assumed(node) = result else { panic!("{result:?}") };
            nodes.insert(node.to_string());
        }
    }
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["n3", "n5"]);
    assert_eq!(check(cluster.engine.cluster()), []);
    // A pod without new terms causes no event.
    cluster.handle(Input::PodApplied(repelling(3, 250)));
    assert_eq!(events(&mut cluster), Vec::<String>::new());
    // Once there is room, a pod that comes again counts, and none that is there changes.
    cluster.handle(Input::PodDeleted { namespace: "tenant".into(), name: "r0".into() });
    cluster.handle(Input::PodDeleted { namespace: "tenant".into(), name: "r3".into() });
    cluster.handle(Input::PodApplied(repelling(3, 250)));
    assert_eq!(events(&mut cluster), Vec::<String>::new());
    assert_eq!(check(cluster.engine.cluster()), []);
}
