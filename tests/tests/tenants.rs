//! The worst pods of one tenant: what they leave behind, and that everything is counted right meanwhile
//! (`docs/security.md`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Node, Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{Effect, Engine, EngineOptions, Input};
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
        let config = load(CONFIG, &FeatureGates::default()).unwrap();
        let registry = kube_scheduler_plugins_intree::registry();
        let engine = Engine::new(&config, &registry, EngineOptions::default()).unwrap();
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
        let bounded = ["signatures", "evaluations", "followed counters"];
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
