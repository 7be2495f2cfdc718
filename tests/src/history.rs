//! Random histories of a small cluster, run through the engine: everything that happens is a function of a seed.
//!
//! Pods, nodes and every kind of object around them appear, change and go at any time, also in the middle of a pod's
//! binding; answers to what the engine asks for come late, out of order, or as errors. What comes back is the decision
//! log: one line per turn and per effect, in order.

mod api_server;
pub(crate) mod shapes;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube_scheduler_api_types::{Object, Timestamp};
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{Effect, Engine, EngineOptions, EvictionOutcome, Input, Token};
use kube_scheduler_framework::{ApiError, ObjectWrite};
use serde_json::json;

pub(crate) use self::api_server::{ApiServer, PodKey};
pub use kube_scheduler_api_types::numbers::Numbers;

/// Something the engine asked for that is not answered yet.
#[derive(Clone, Debug)]
enum OpenRequest {
    Binding { token: Token, uid: String, node: String },
    Write { token: Token, object: Arc<Object> },
    Eviction { token: Token, uid: String },
    Nomination { token: Token, uid: String },
}

/// One history under way.
#[derive(Debug)]
pub struct History {
    /// The engine it runs through.
    pub engine: Engine,
    seed: u64,
    numbers: Numbers,
    /// Whether pods have numbers, as those of a StatefulSet have. Nothing is drawn for it, so that all else stays as it is.
    are_numbered: bool,
    now: Timestamp,
    n_created: u64,
    server: ApiServer,
    asked: Vec<OpenRequest>,
    log: Vec<String>,
}

/// How many kinds of pods a history has.
const N_SHAPES: u64 = 4;
/// How many node names there are; nodes come and go under them.
const MAX_NODES: u64 = 12;
/// More turns than the end of any history takes.
const MAX_LAST_TURNS: usize = 10_000;

impl History {
    /// An empty cluster. `percentage` is `percentageOfNodesToScore`.
    pub fn new(seed: u64, percentage: i32, options: EngineOptions) -> Result<Self> {
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": percentage,
        });
        let config = load(&config.to_string(), &FeatureGates::default())?;
        Ok(Self {
            engine: Engine::new(&config, &kube_scheduler_plugins_intree::registry(), options)?,
            seed,
            numbers: Numbers::new(seed),
            // Not for the first few seeds, of which tests know what happens.
            are_numbered: Numbers::nth(seed, 124).is_multiple_of(3),
            now: Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?,
            n_created: 0,
            server: ApiServer::default(),
            asked: Vec::new(),
            log: Vec::new(),
        })
    }

    /// Lets `n` random things happen and gives the decision log so far.
    pub fn run(&mut self, n: usize) -> Result<&[String]> {
        for _ in 0..n {
            self.step()?;
        }
        Ok(&self.log)
    }

    /// Decides what happens next, up to the next call: for a fuzzer, each step of which is to depend on a few bytes only.
    pub fn steer(&mut self, by: u64) {
        self.numbers = Numbers::new(by);
    }

    /// Ends the history: everything that exists is deleted, whatever is under way, and every outstanding answer is given.
    /// Nothing of it may be left in the engine.
    pub fn wind_up(&mut self) -> Result<()> {
        for input in self.server.clear()? {
            self.feed(input);
            if self.numbers.one_in(3) {
                self.answer()?;
            }
        }
        // Attempts end one after the other; a binding that is given up may ask for one more thing.
        for _ in 0..MAX_LAST_TURNS {
            if self.asked.is_empty() && !self.engine.has_ready() {
                break;
            }
            self.engine.schedule_next(self.now);
            self.take_effects();
            self.answer()?;
        }
        ensure!(self.asked.is_empty() && !self.engine.has_ready(), "the history does not end");
        self.let_pass(Duration::from_secs(3600));
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        self.now = self.now + Duration::from_millis(self.numbers.below(400));
        match self.numbers.below(21) {
            0 => {
                let name = self.node_name();
                let node = shapes::node(&name, &mut self.numbers);
                let input = self.server.put_node(node)?;
                self.feed(input);
            }
            1 if self.numbers.one_in(4) => {
                let name = self.node_name();
                let input = self.server.delete_node(&name);
                self.feed_some(input);
            }
            2..=5 => self.create_pod()?,
            6 => self.change_pod()?,
            7 => {
                let key = self.server.any_pod(&mut self.numbers);
                let input = key.and_then(|key| self.server.delete_pod(&key));
                self.feed_some(input);
            }
            8..=10 => self.answer()?,
            11 => {
                let seconds = self.numbers.below(40);
                self.let_pass(Duration::from_secs(seconds));
            }
            12 | 13 => {
                let mut object = shapes::object(&mut self.numbers);
                if self.are_numbered && self.n_created.is_multiple_of(2) {
                    shapes::select_by_number(&mut object);
                }
                let input = self.server.put_object(object)?;
                self.feed(input);
            }
            14 if self.numbers.one_in(3) => {
                let input = self.server.delete_any_object(&mut self.numbers)?;
                self.feed_some(input);
            }
            15 => {
                let on_node = |_: &ApiServer, node: &str| {
                    vec![(shapes::HOSTNAME.to_owned(), node.to_owned())]
                };
                for input in self.server.control_volumes(on_node)? {
                    self.feed(input);
                }
            }
            _ => {
                if let Some(turn) = self.engine.schedule_next(self.now) {
                    self.log.push(format!("{turn:?}"));
                }
            }
        }
        self.take_effects();
        Ok(())
    }

    fn feed(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.take_effects();
    }

    fn feed_some(&mut self, input: Option<Input>) {
        if let Some(input) = input {
            self.feed(input);
        }
    }

    fn let_pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.feed(Input::TimePassed);
    }

    fn node_name(&mut self) -> String {
        format!("node-{}", self.numbers.below(MAX_NODES))
    }

    fn create_pod(&mut self) -> Result<()> {
        self.n_created += 1;
        // Names come back, so that pods are re-created under the name of one that may still be on its way.
        let namespace = self.numbers.pick(&shapes::NAMESPACES);
        let name = format!("pod-{}", self.numbers.below(20));
        let key: PodKey = (namespace.to_owned(), name);
        if self.server.pods.contains_key(&key) {
            return Ok(());
        }
        // A few shapes per history: pods of one shape share evaluations, which is what histories are to try.
        let kind = self.numbers.below(N_SHAPES);
        let mut shape = Numbers::new(self.seed.wrapping_mul(N_SHAPES).wrapping_add(kind));
        let spec = shapes::pod_spec(&mut shape);
        let labels = shapes::pod_labels(&mut shape);
        let mut pod = json!({
            "metadata": {
                "name": key.1, "namespace": key.0, "uid": format!("uid-{}", self.n_created), "labels": labels,
            },
            "spec": spec,
            "status": {"phase": "Pending"},
        });
        if self.are_numbered {
            shapes::give_number(&mut pod, self.n_created, kind);
        }
        let input = self.server.put_pod(pod)?;
        self.feed(input);
        Ok(())
    }

    fn change_pod(&mut self) -> Result<()> {
        let Some(key) = self.server.any_pod(&mut self.numbers) else { return Ok(()) };
        let labels = shapes::pod_labels(&mut self.numbers);
        let asks_deletion = self.numbers.one_in(10);
        let input = self.server.change_pod(&key, |pod| {
            pod["metadata"]["labels"] = labels;
            pod["spec"]["schedulingGates"] = json!([]);
            if asks_deletion {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
        })?;
        self.feed_some(input);
        Ok(())
    }

    /// Answers one of the outstanding questions, out of order at times, with success most of the time.
    fn answer(&mut self) -> Result<()> {
        let Some(n) = u64::try_from(self.asked.len()).ok().filter(|n| *n > 0) else {
            return Ok(());
        };
        let at = usize::try_from(self.numbers.below(n))?;
        match self.asked.swap_remove(at) {
            OpenRequest::Binding { token, uid, node } => self.answer_binding(token, &uid, &node),
            OpenRequest::Eviction { token, uid } => self.answer_eviction(token, &uid),
            OpenRequest::Nomination { token, uid } => self.answer_nomination(token, &uid),
            OpenRequest::Write { token, object } => self.answer_write(token, &object),
        }
    }

    fn answer_write(&mut self, token: Token, object: &Object) -> Result<()> {
        let written = if self.numbers.one_in(6) {
            Err("InternalError")
        } else {
            self.server.replace_object(object)?
        };
        let (seen, result) = match written {
            Ok((seen, stored)) => (Some(seen), Ok(stored)),
            Err(reason) => {
                let message = format!("write refused: {reason}").into();
                (None, Err(ApiError { code: None, reason: reason.into(), message }))
            }
        };
        self.feed_in_any_order(seen, Input::ObjectWritten { token, result });
        Ok(())
    }

    /// The watch may be faster than the answer.
    fn feed_in_any_order(&mut self, seen: Option<Input>, answer: Input) {
        if self.numbers.one_in(2) {
            self.feed_some(seen);
            self.feed(answer);
        } else {
            self.feed(answer);
            self.feed_some(seen);
        }
    }

    fn answer_eviction(&mut self, token: Token, uid: &str) -> Result<()> {
        let Some(key) = self.server.pod_of(uid) else {
            self.feed(Input::PodEvicted { token, result: Ok(EvictionOutcome::AlreadyGone) });
            return Ok(());
        };
        if self.numbers.one_in(5) {
            self.feed(Input::PodEvicted { token, result: Err(ApiError::new("", "boom")) });
            return Ok(());
        }
        // Some pods take their time; they may be deleted later.
        let seen = if self.numbers.one_in(3) {
            self.server.change_pod(&key, |pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            })?
        } else {
            self.server.delete_pod(&key)
        };
        self.feed_in_any_order(
            seen,
            Input::PodEvicted { token, result: Ok(EvictionOutcome::Deleted) },
        );
        Ok(())
    }

    fn answer_nomination(&mut self, token: Token, uid: &str) -> Result<()> {
        let key = self.server.pod_of(uid).filter(|_| !self.numbers.one_in(5));
        let Some(key) = key else {
            let result = Err(ApiError::new("NotFound", "pods \"x\" not found"));
            self.feed(Input::NominationCleared { token, result });
            return Ok(());
        };
        let seen = self.server.change_pod(&key, |pod| {
            pod["status"]["nominatedNodeName"] = json!(null);
        })?;
        self.feed_in_any_order(seen, Input::NominationCleared { token, result: Ok(()) });
        Ok(())
    }

    fn answer_binding(&mut self, token: Token, uid: &str, node: &str) -> Result<()> {
        let key = self.server.pod_of(uid).filter(|_| !self.numbers.one_in(5));
        let Some(key) = key else {
            let result = Err(ApiError::new("NotFound", "pods \"x\" not found"));
            self.feed(Input::BindingWritten { token, result });
            return Ok(());
        };
        let seen = self.server.change_pod(&key, |pod| pod["spec"]["nodeName"] = node.into())?;
        self.feed_in_any_order(seen, Input::BindingWritten { token, result: Ok(()) });
        Ok(())
    }

    fn take_effects(&mut self) {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.log.push(effect.to_string());
                self.take(effect);
            }
        }
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::WriteBinding { token, pod, node } => {
                let (uid, node) = (pod.uid.to_string(), node.to_string());
                self.asked.push(OpenRequest::Binding { token, uid, node });
            }
            Effect::WriteObject {
                write: ObjectWrite::Replace(object),
                awaited_by: Some((token, _)),
                ..
            } => self.asked.push(OpenRequest::Write { token, object }),
            Effect::EvictPod { token, pod, .. } => {
                self.asked.push(OpenRequest::Eviction { token, uid: pod.uid.to_string() });
            }
            Effect::ClearNomination { token, pod } => {
                self.asked.push(OpenRequest::Nomination { token, uid: pod.uid.to_string() });
            }
            _ => {}
        }
    }
}
