//! One engine and its API server in virtual time, where every request succeeds at once and the watch shows it, for tests of
//! decisions. Objects come as text (`kube_scheduler_framework::testing::grammar`) or as inputs.
//!
//! Invariant: whatever happens is a function of what comes in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{Effect, Engine, Input, PodRef, Token, Turn};

use crate::fixtures::applied;
use crate::replies::success;

/// More attempts than are due at any moment of a test: pods that are tried again at once would never come to an end.
const MAX_TURNS: usize = 200;

/// An engine, the time, and what the API server has.
#[derive(Debug)]
pub struct LiveCluster {
    /// The engine.
    pub engine: Engine,
    /// The time.
    pub now: Timestamp,
    /// The pods as the API server has them, by name.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// Every effect.
    pub log: Vec<String>,
    /// Whatever was bound, also if it is gone.
    pub placed: BTreeSet<String>,
    /// Whatever was to be evicted, in order.
    pub evicted: Vec<String>,
    /// Whether evicted pods stay until they are deleted.
    pub victims_stay: bool,
    /// Whether pods start when they are bound.
    pub pods_start: bool,
    /// Whether no member of a gang may be bound before enough of them have a node.
    pub expects_quorum: bool,
    /// The pod whose binding is not answered, and the binding, once it is asked for.
    pub held: Option<(&'static str, Option<Token>)>,
}

impl LiveCluster {
    /// When all of them begin.
    pub const START: Timestamp = Timestamp::from_millis(1_000_000);

    /// An empty one.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            now: Self::START,
            pods: BTreeMap::new(),
            log: Vec::new(),
            placed: BTreeSet::new(),
            evicted: Vec::new(),
            victims_stay: false,
            pods_start: false,
            expects_quorum: false,
            held: None,
        }
    }

    /// The watch shows these objects: statements between newlines or semicolons, none of which has one inside.
    pub fn apply(&mut self, text: &str) {
        let statements = text.split(['\n', ';']).filter(|text| !text.trim().is_empty());
        statements.for_each(|statement| self.handle(applied(statement)));
    }

    /// Something is reported to the engine, and what it asks for then is done.
    pub fn handle(&mut self, input: Input) {
        self.report(input);
        self.carry_out();
    }

    fn report(&mut self, input: Input) {
        match &input {
            Input::PodApplied(pod) => {
                self.pods.insert(pod.name.to_string(), pod.clone());
            }
            Input::PodDeleted { name, .. } => {
                self.pods.remove(&**name);
            }
            _ => {}
        }
        self.engine.handle(input, self.now);
    }

    /// A pod goes; that it is gone is no error.
    pub fn delete(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
            self.handle(Input::PodDeleted { namespace, name });
        }
    }

    /// Does what the engine asks for.
    pub fn carry_out(&mut self) {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return;
            }
            effects.into_iter().for_each(|effect| self.carry_out_one(effect));
        }
    }

    fn carry_out_one(&mut self, effect: Effect) {
        self.log.push(effect.to_string());
        let pod = match &effect {
            Effect::WriteBinding { token, pod, .. } => {
                if self.expects_quorum {
                    assert_eq!(quorum_fault(&self.engine, pod), None);
                }
                if let Some((held, binding)) =
                    self.held.as_mut().filter(|(it, _)| **it == *pod.name)
                {
                    assert!(binding.replace(*token).is_none(), "{held} is bound twice");
                    return;
                }
                self.placed.insert(pod.name.to_string());
                pod
            }
            Effect::EvictPod { pod, .. } => {
                self.evicted.push(pod.name.to_string());
                pod
            }
            Effect::PatchStatus { pod, .. }
            | Effect::ClearNomination { pod, .. }
            | Effect::WriteObject { pod, .. } => pod,
            _ => return,
        };
        let known = self.pods.get(&*pod.name).filter(|known| known.uid == pod.uid).cloned();
        let started = self.pods_start.then_some(self.now);
        for input in success(effect, known.as_ref(), started) {
            if !self.victims_stay || !matches!(input, Input::PodDeleted { .. }) {
                self.report(input);
            }
        }
    }

    /// One attempt, if any is due. The cluster's state is what a recount finds.
    pub fn turn(&mut self) -> Option<Turn> {
        let turn = self.engine.schedule_next(self.now);
        assert_eq!(check(self.engine.cluster()), []);
        self.carry_out();
        turn
    }

    /// Time passes, and whatever is due then is tried.
    pub fn pass(&mut self, length: Duration) {
        self.now = self.now + length;
        self.handle(Input::TimePassed);
        let n_turns = (0..MAX_TURNS).take_while(|_| self.turn().is_some()).count();
        assert!(n_turns < MAX_TURNS, "the attempts do not end: {:#?}", self.log);
        assert_eq!(check(self.engine.cluster()), []);
    }

    /// Some time, longer than any backoff, in which the scheduler does what it can.
    pub fn run(&mut self) {
        for _ in 0..4 {
            self.pass(Duration::from_secs(400));
            assert_eq!(self.engine.cluster().n_assumed(), 0, "{:#?}", self.log);
        }
    }

    /// The pods that have a node, in the order of their names.
    pub fn bound(&self) -> Vec<&str> {
        self.pods.values().filter(|pod| pod.is_assigned()).map(|pod| &*pod.name).collect()
    }

    /// Whether a pod has been bound, also if it is gone.
    pub fn is_placed(&self, pod: &str) -> bool {
        self.placed.contains(pod)
    }

    /// Whether an event of the pod and its condition have this text.
    pub fn says(&self, pod: &str, text: &str) -> bool {
        let Some(pod) = self.pods.get(pod) else { return false };
        ["event", "patch"].iter().all(|what| {
            let start = format!("{what} {} ", pod.key());
            self.log.iter().any(|line| line.starts_with(&start) && line.contains(text))
        })
    }
}

/// What is wrong with binding this pod now: fewer of its gang have a node, as far as the scheduler knows, than have to.
pub fn quorum_fault(engine: &Engine, pod: &PodRef) -> Option<String> {
    let cluster = engine.cluster();
    let name = engine.known_pod(&pod.namespace, &pod.name)?.spec.pod_group.clone()?;
    let group = cluster.pod_group_object(&pod.namespace, &name).ok()?;
    let min_count = group.min_count()?;
    let n_scheduled = cluster.pod_group(&pod.namespace, &name).map_or(0, |it| it.n_scheduled());
    let is_enough = usize::try_from(min_count).is_ok_and(|min_count| n_scheduled >= min_count);
    (!is_enough).then(|| format!("{pod} is bound, {n_scheduled} of {min_count} have a node"))
}
