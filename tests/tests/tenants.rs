//! The worst pods of one tenant: what they leave behind, and that everything is counted right meanwhile
//! (`docs/security.md`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Node, Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{AttemptResult, Effect, Engine, EngineOptions, Input, WorkLimits};
use kube_scheduler_tests::tenants::{KINDS, Kind, Share};
use serde_json::json;

const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
";

/// A tenth of the worst is enough to see what stays.
const SHARE: Share = Share(10);

struct World {
    engine: Engine,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    fn with(options: EngineOptions) -> Self {
        let config = load(CONFIG, &FeatureGates::default()).unwrap();
        let registry = kube_scheduler_plugins_intree::registry();
        let engine = Engine::new(&config, &registry, options).unwrap();
        let mut world = Self { engine, now: Timestamp::parse("2026-01-01T00:00:00Z").unwrap() };
        for at in 0..6 {
            let name = format!("n{at}");
            let json = json!({
                "metadata": {"name": name, "uid": name, "labels": {
                    "kubernetes.io/hostname": name, "zone": format!("z{}", at % 3),
                }},
                "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "200"}},
            });
            world.tell(Input::NodeApplied(Arc::new(Node::from_value(&json).unwrap())));
        }
        world
    }

    fn tell(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    fn add(&mut self, kind: &Kind, at: usize) {
        let mut json = (kind.pod)(at, SHARE);
        let name = format!("evil{at}");
        for (key, value) in [("namespace", "tenant"), ("name", &name), ("uid", &name)] {
            json["metadata"][key] = value.into();
        }
        self.tell(Input::PodApplied(Arc::new(Pod::from_value(&json).unwrap())));
    }

    fn remove(&mut self, at: usize) {
        let name = format!("evil{at}").into();
        self.tell(Input::PodDeleted { namespace: "tenant".into(), name });
    }

    /// Whatever is due; all bindings succeed.
    fn attempts(&mut self) {
        loop {
            let turn = self.engine.schedule_next(self.now);
            for effect in self.engine.drain_effects().collect::<Vec<_>>() {
                if let Effect::WriteBinding { token, .. } = effect {
                    self.tell(Input::BindingWritten { token, result: Ok(()) });
                }
            }
            if turn.is_none() {
                return;
            }
        }
    }

    /// How many entries the tables have, apart from those that are bounded by a number of bytes.
    fn sizes(&self) -> BTreeMap<&'static str, usize> {
        let bounded =
            ["signatures", "evaluations", "followed counters", "namespaces with costly pods"];
        let sizes = self.engine.table_sizes().into_iter();
        let sizes = sizes.filter(|size| !bounded.contains(&size.table));
        sizes.map(|size| (size.table, size.n_entries)).collect()
    }
}

#[test]
fn nothing_is_left_of_the_worst_pods_and_all_is_counted_right_meanwhile() {
    for kind in &KINDS {
        let mut world = World::new();
        let before = world.sizes();
        for at in 0..6 {
            world.add(kind, at);
            world.attempts();
        }
        world.now = world.now + Duration::from_secs(400);
        world.attempts();
        assert_eq!(check(world.engine.cluster()), [], "{}", kind.name);
        // Columns are for labels that nodes have, and there are two.
        assert!(world.engine.cluster().n_label_columns() <= 2, "{}", kind.name);
        (0..6).for_each(|at| world.remove(at));
        world.attempts();
        let mut after = world.sizes();
        after.insert("label columns", before["label columns"]);
        assert_eq!(after, before, "{}", kind.name);
        assert_eq!(check(world.engine.cluster()), [], "{}", kind.name);
    }
}

/// What all attempts that are due cost, in units of work, by pod.
fn costs(world: &mut World) -> Vec<(String, u64, AttemptResult)> {
    let mut costs = Vec::new();
    while let Some(turn) = world.engine.schedule_next(world.now) {
        costs.push((turn.pod.name.to_string(), turn.work.total(), turn.result));
        for effect in world.engine.drain_effects().collect::<Vec<_>>() {
            if let Effect::WriteBinding { token, .. } = effect {
                world.tell(Input::BindingWritten { token, result: Ok(()) });
            }
        }
    }
    costs
}

#[test]
fn the_worst_pods_stay_far_below_the_limit_of_an_attempt_and_cost_others_nothing() {
    // The same in every run: units, not time.
    const LIMIT: u64 = 1_000_000;
    for kind in &KINDS {
        let mut world = World::new();
        let plain = |world: &mut World, name: &str| {
            let json = json!({"metadata": {"namespace": "other", "name": name, "uid": name,
                "labels": {"app": name}}, "spec": {}});
            world.tell(Input::PodApplied(Arc::new(Pod::from_value(&json).unwrap())));
            let costs = costs(world);
            let own = costs.iter().find(|(pod, ..)| pod == name).unwrap();
            assert!(matches!(own.2, AttemptResult::Assumed(_)), "{}: {own:?}", kind.name);
            own.1
        };
        let quiet = plain(&mut world, "before");
        for at in 0..3 {
            world.add(kind, at);
            for (pod, units, _) in costs(&mut world) {
                assert!(units <= LIMIT, "{}: {pod} cost {units}", kind.name);
            }
        }
        let beside = plain(&mut world, "beside");
        assert!(beside <= 2 * quiet + 1000, "{}: {quiet} before, {beside} beside", kind.name);
    }
}

#[test]
fn an_attempt_over_its_limit_fails_and_says_so_and_the_pod_comes_back_later_each_time() {
    let work = WorkLimits { base: 100, per_node: 0, refill_per_second: 1 };
    let mut world = World::with(EngineOptions { work, ..EngineOptions::default() });
    let constraints: Vec<_> = (0..200)
        .map(|at| {
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": format!("a{at}")}}})
        })
        .collect();
    let json = json!({"metadata": {"namespace": "tenant", "name": "evil", "uid": "evil"},
        "spec": {"topologySpreadConstraints": constraints}});
    world.tell(Input::PodApplied(Arc::new(Pod::from_value(&json).unwrap())));
    let start = world.now;
    let mut failed_at = Vec::new();
    while failed_at.len() < 4 {
        if let Some(turn) = world.engine.schedule_next(world.now) {
            let AttemptResult::Error(message) = turn.result else { panic!("{:?}", turn.result) };
            assert!(message.contains("units of work; most of them for: topology"), "{message}");
            assert!(turn.work.total() > 100);
            let is_shown = |effect: Effect| match effect {
                Effect::RecordEvent { note, .. } => note == message,
                Effect::PatchStatus { .. } => true,
                other => panic!("{other:?}"),
            };
            let effects: Vec<_> = world.engine.drain_effects().collect();
            assert!(!effects.is_empty() && effects.into_iter().all(is_shown));
            failed_at.push(world.now.saturating_since(start).as_secs());
        }
        world.now = world.now + Duration::from_secs(1);
        assert_eq!(world.engine.cluster().n_followed(), 0);
    }
    let waits: Vec<_> = failed_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((10..=12).contains(&waits[0]), "{waits:?}");
    assert!(waits[1] >= 2 * waits[0] - 2 && waits[2] >= 2 * waits[1] - 2, "{waits:?}");
    // Others are not affected.
    let json =
        json!({"metadata": {"namespace": "other", "name": "plain", "uid": "plain"}, "spec": {}});
    world.tell(Input::PodApplied(Arc::new(Pod::from_value(&json).unwrap())));
    let plain = costs(&mut world).into_iter().find(|(pod, ..)| pod == "plain").unwrap();
    assert!(matches!(plain.2, AttemptResult::Assumed(_)), "{plain:?}");
}
