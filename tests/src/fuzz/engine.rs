//! The engine under objects and histories of the fuzzer's choice.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use kube_scheduler_answers::{Inquiry, Question};
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_cache::check;
use kube_scheduler_config::{Configuration, FeatureGates, load};
use kube_scheduler_engine::{Engine, EngineOptions, Input, TableSize};

use crate::fixtures::applied;
use crate::history::History;
use crate::replies::write_bindings_alone;

const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
";
/// The most attempts after one input; more than the pods of a cluster can need.
const MAX_TURNS: usize = 50;
/// The most steps of a history.
const MAX_STEPS: usize = 80;

/// An engine with a few nodes and pods.
pub(super) struct SmallCluster {
    engine: Engine,
    now: Timestamp,
    before: BTreeMap<&'static str, usize>,
    came: Vec<Input>,
}

impl SmallCluster {
    pub(super) fn new() -> Self {
        static CONFIGURATION: LazyLock<Configuration> =
            LazyLock::new(|| load(CONFIG, &FeatureGates::default()).unwrap());
        let registry = kube_scheduler_plugins_intree::registry();
        let engine = Engine::new(&CONFIGURATION, &registry, EngineOptions::default()).unwrap();
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let mut cluster = Self { engine, now, before: BTreeMap::new(), came: Vec::new() };
        for at in 0..3 {
            let zone = at % 2;
            cluster
                .handle(applied(&format!("node n{at} memory=4Gi pods=10 x.y/gpu=2 zone=z{zone}")));
        }
        for at in 0..2 {
            let pod = format!("pod p{at} cpu=1 memory=1Gi node=n{at} label:app=web");
            cluster.handle(applied(&pod));
        }
        cluster.before = cluster.sizes();
        cluster
    }

    /// A copy of the moment, from which a question is answered.
    pub(super) fn inquiry(&self, question: &Question) -> Inquiry {
        Inquiry::new(question, &self.engine, self.now)
    }

    /// Applies an object and remembers it, so that it can go again.
    pub(super) fn apply(&mut self, input: Input) {
        self.came.push(input.clone());
        self.handle(input);
        self.turns();
    }

    /// Applies an object twice, lets time pass, and takes away all that came. The tables must be as they were.
    pub(super) fn comes_and_goes(mut self, input: Input) {
        self.apply(input.clone());
        self.apply(input);
        self.assert_consistent();
        self.now = self.now + Duration::from_secs(400);
        self.handle(Input::TimePassed);
        self.turns();
        self.assert_consistent();
        for input in std::mem::take(&mut self.came).into_iter().rev() {
            if let Some(end) = end_of(input) {
                self.handle(end);
                self.turns();
            }
        }
        self.assert_consistent();
        let after = self.sizes();
        // What took the name of a node or pod of the beginning has taken it along.
        let is_smaller =
            ["pods known", "nodes"].iter().any(|table| after[table] < self.before[table]);
        assert!(
            is_smaller || after == self.before,
            "left behind: {after:?}, before: {:?}",
            self.before
        );
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        write_bindings_alone(&mut self.engine, self.now);
    }

    fn turns(&mut self) {
        for _ in 0..MAX_TURNS {
            let turn = self.engine.schedule_next(self.now);
            write_bindings_alone(&mut self.engine, self.now);
            if turn.is_none() {
                return;
            }
        }
        panic!("the attempts do not end");
    }

    fn assert_consistent(&self) {
        assert_eq!(check(self.engine.cluster()), []);
    }

    /// The tables that a deletion empties. Others are bounded in bytes.
    fn sizes(&self) -> BTreeMap<&'static str, usize> {
        let sizes = self.engine.table_sizes().into_iter();
        let bound = sizes.filter(|size| size.is_bound_to_objects);
        bound.map(|size| (size.table, size.n_entries)).collect()
    }
}

/// What takes away the object that came.
fn end_of(input: Input) -> Option<Input> {
    Some(match input {
        Input::PodApplied(pod) => {
            Input::PodDeleted { namespace: pod.namespace.clone(), name: pod.name.clone() }
        }
        Input::NodeApplied(node) => Input::NodeDeleted { name: node.name.clone() },
        Input::ObjectApplied(object) => Input::ObjectDeleted(object),
        _ => return None,
    })
}

/// The first eight bytes choose the kinds of pods, every two after them a step. An engine that caches answers and one
/// that does not decide alike, the cluster's state is what a recount finds, and nothing is left at the end.
pub(super) fn history(bytes: &[u8]) {
    let Some((seed, steps)) = bytes.split_first_chunk::<8>() else { return };
    let run = |uses_class_cache| {
        let options = EngineOptions { seed: 7, uses_class_cache, ..EngineOptions::default() };
        let mut history = History::new(u64::from_le_bytes(*seed), 0, options).unwrap();
        for step in steps.chunks_exact(2).take(MAX_STEPS) {
            history.steer(u16::from_le_bytes([step[0], step[1]]).into());
            history.run(1).unwrap();
        }
        assert_eq!(check(history.engine.cluster()), []);
        let log = history.run(0).unwrap().to_vec();
        history.wind_up().unwrap();
        let left = history.engine.table_sizes().into_iter();
        let is_empty =
            |size: &TableSize| size.n_entries == 0 && size.n_bytes.is_none_or(|n| n == 0);
        let left = left.filter(|size| size.is_bound_to_objects && !is_empty(size));
        (log, left.collect::<Vec<_>>())
    };
    let (cached, fresh) = (run(true), run(false));
    assert_eq!(cached.0, fresh.0);
    assert_eq!((cached.1, fresh.1), (Vec::new(), Vec::new()), "left behind");
}
