//! Questions of all kinds at any moment, for simulations: asking must change nothing that is scheduled.
//!
//! As in the daemon, each is answered from a copy of the engine, at once or after the engine has gone on.
//!
//! Invariants: what is asked is a function of the seed and of what the engine knows; the engine is only read.

use anyhow::{Context, Result, ensure};
use kube_scheduler_answers::{Answer, Inquiry, Interrupt, Question, QuestionKind, Refusal};
use kube_scheduler_api_types::{CompileOptions, Pod, PodGroup, Timestamp};
use kube_scheduler_engine::Engine;
use serde_json::{Value, json};

use crate::history::{Numbers, shapes};

/// Asks, and counts.
#[derive(Debug)]
pub struct Questioner {
    numbers: Numbers,
    n_asked: usize,
    n_answered: u64,
}

/// A copy that was made for a question and waits, while the engine goes on.
#[derive(Debug)]
pub struct Waiting {
    question: Question,
    inquiry: Inquiry,
    /// What was answered from another copy of the same moment.
    expected: String,
}

impl Questioner {
    /// Questions that follow from a seed.
    pub fn new(seed: u64) -> Self {
        // Other numbers than those of the simulation itself.
        Self { numbers: Numbers::new(seed ^ 0xa_5c_ed), n_asked: 0, n_answered: 0 }
    }

    /// How many questions were answered. Others were refused, because what they are about does not exist.
    pub fn n_answered(&self) -> u64 {
        self.n_answered
    }

    /// True once in `n` times: a question comes now.
    pub fn comes(&mut self, n: u64) -> bool {
        self.numbers.one_in(n)
    }

    /// Asks one question of the next kind; some of them twice, to be answered later from the copy that is returned.
    ///
    /// # Errors
    /// If the question is not understood.
    pub fn ask(&mut self, engine: &Engine, now: Timestamp) -> Result<Option<Waiting>> {
        let kind = QuestionKind::ALL[self.n_asked % QuestionKind::ALL.len()];
        self.n_asked += 1;
        let (namespace, spec) = self.spec(kind, engine);
        let arguments = match kind.is_namespaced() {
            true => json!({"namespace": namespace, "spec": spec}),
            false => json!({"spec": spec}),
        };
        let question =
            Question::from_arguments(kind, &arguments, "default", &CompileOptions::default())
                .with_context(|| format!("{} {arguments}", kind.kind()))?;
        let waits = self.numbers.one_in(4);
        let waiting = waits.then(|| Inquiry::new(&question, engine, now));
        let interrupt = Interrupt::default();
        if !waits && self.numbers.one_in(8) {
            interrupt.set();
        }
        let answer = Inquiry::new(&question, engine, now).answer(&question, &interrupt);
        self.n_answered += u64::from(answer.is_ok());
        let expected = text(&answer)?;
        Ok(waiting.map(|inquiry| Waiting { question, inquiry, expected }))
    }

    /// The namespace of a question, and what is asked.
    fn spec(&mut self, kind: QuestionKind, engine: &Engine) -> (String, Value) {
        let any_namespace = self.numbers.pick(&shapes::NAMESPACES).to_owned();
        match kind {
            QuestionKind::Explanation | QuestionKind::Preemption => {
                let known = self.any_pod(engine).filter(|_| !self.numbers.one_in(3));
                let (namespace, mut spec) = match known {
                    Some(pod) => (pod.namespace.to_string(), json!({"podName": *pod.name})),
                    None => (any_namespace, json!({"pod": self.manifest(engine)})),
                };
                if kind == QuestionKind::Explanation {
                    spec["suggest"] = self.numbers.one_in(2).into();
                }
                (namespace, spec)
            }
            QuestionKind::WhatIf => {
                let n_changes = 1 + self.numbers.below(3);
                let changes: Vec<Value> = (0..n_changes).map(|_| self.change(engine)).collect();
                (any_namespace, json!({"changes": changes}))
            }
            QuestionKind::Drain => {
                let disable_eviction = self.numbers.one_in(3);
                let nodes = [self.any_node(engine)];
                (String::new(), json!({"nodes": nodes, "disableEviction": disable_eviction}))
            }
            QuestionKind::Capacity => {
                let (max, steps) = (1 + self.numbers.below(20), self.numbers.one_in(2));
                let pod = self.manifest(engine);
                (any_namespace, json!({"pod": pod, "max": max, "steps": steps}))
            }
            QuestionKind::Fragmentation => {
                (String::new(), json!({"by": "topology.kubernetes.io/zone", "maxShapes": 8}))
            }
            _ => (any_namespace, json!({"limit": 5})),
        }
    }

    fn change(&mut self, engine: &Engine) -> Value {
        let node = self.any_node(engine);
        match self.numbers.below(9) {
            0 | 1 => {
                let count = 1 + self.numbers.below(3);
                json!({"addPods": {"pod": self.manifest(engine), "count": count}})
            }
            2 => match self.any_pod(engine) {
                Some(pod) => json!({"deletePod": {"name": *pod.name, "namespace": *pod.namespace}}),
                None => json!({"uncordon": {"name": node}}),
            },
            3 => json!({"addNodesLike": {"name": node, "count": 1 + self.numbers.below(2)}}),
            4 => json!({"removeNode": {"name": node}}),
            5 => json!({"cordon": {"name": node}}),
            6 => json!({"drain": {"name": node, "disableEviction": self.numbers.one_in(2)}}),
            7 => {
                json!({"taint": {"name": node, "key": "dedicated", "value": "x", "effect": "NoSchedule"}})
            }
            _ => json!({"label": {"name": node, "key": "disk", "value": "ssd"}}),
        }
    }

    /// The name of a node; of one that does not exist if there is none.
    fn any_node(&mut self, engine: &Engine) -> String {
        let cluster = engine.cluster();
        let n = u64::try_from(cluster.order().len()).unwrap_or(u64::MAX);
        let at = usize::try_from(self.numbers.below(n)).unwrap_or(usize::MAX);
        let name = cluster.order().get(at).and_then(|idx| cluster.node_name(*idx));
        name.map_or_else(|| "missing".to_owned(), ToString::to_string)
    }

    /// A pod that the engine knows. The order in which it has them is that of a hash map.
    fn any_pod<'e>(&mut self, engine: &'e Engine) -> Option<&'e Pod> {
        let mut pods: Vec<&Pod> = engine.known_pods().map(|pod| &**pod).collect();
        pods.sort_by_key(|pod| (&pod.namespace, &pod.name));
        let n = u64::try_from(pods.len()).ok()?;
        pods.get(usize::try_from(self.numbers.below(n)).ok()?).copied()
    }

    /// A pod that does not exist: for one of the profiles, and of a group if there is one.
    fn manifest(&mut self, engine: &Engine) -> Value {
        let mut spec = shapes::pod_spec(&mut self.numbers);
        let labels = shapes::pod_labels(&mut self.numbers);
        let profiles: Vec<&str> =
            engine.profiles().iter().map(|profile| &*profile.scheduler_name).collect();
        spec["schedulerName"] = self.numbers.pick(&profiles).into();
        if self.numbers.one_in(4) {
            spec["priority"] = 100.into();
        }
        let groups = engine.cluster().objects().list(PodGroup::GROUP, PodGroup::KIND);
        let groups: Vec<&str> = groups.map(|group| &*group.name).collect();
        if !groups.is_empty() && self.numbers.one_in(2) {
            spec["schedulingGroup"] = json!({"podGroupName": self.numbers.pick(&groups)});
        }
        json!({"metadata": {"name": "asked", "labels": labels}, "spec": spec})
    }
}

impl Waiting {
    /// Answers from the copy.
    ///
    /// # Errors
    /// If the answer is another one than that of the moment at which the copy was made.
    pub fn answer(self) -> Result<()> {
        let Self { question, inquiry, expected } = self;
        let answer = text(&inquiry.answer(&question, &Interrupt::default()))?;
        let asked = question.spec();
        ensure!(
            answer == expected,
            "{} {asked} was answered with {expected}, and later from a copy of the same moment with {answer}",
            question.kind.kind()
        );
        Ok(())
    }
}

fn text(answer: &Result<Answer, Refusal>) -> Result<String> {
    Ok(match answer {
        Ok(answer) => serde_json::to_string(answer)?,
        Err(refusal) => refusal.to_string(),
    })
}
