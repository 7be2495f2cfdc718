//! Questions of all kinds at any moment, for simulations: asking must change nothing that is scheduled.
//!
//! As in the daemon, each is answered from a copy of the engine, at once or after the engine has gone on.
//!
//! Everything that a question can hold is asked: [`missing`](Questioner::missing) says what was not.
//!
//! Invariants: what is asked is a function of the seed and of what the engine knows; the engine is only read.

use std::collections::BTreeSet;

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
    /// The changes that were in questions with an answer, and `objects` if such a question had some.
    answered: BTreeSet<String>,
}

/// A copy that was made for a question and waits, while the engine goes on.
#[derive(Debug)]
pub struct WaitingQuestion {
    question: Question,
    inquiry: Inquiry,
    /// What was answered from another copy of the same moment.
    expected: String,
}

impl Questioner {
    /// Questions that follow from a seed.
    pub fn new(seed: u64) -> Self {
        // Other numbers than those of the simulation itself.
        Self {
            numbers: Numbers::new(seed ^ 0xa_5c_ed),
            n_asked: 0,
            n_answered: 0,
            answered: BTreeSet::new(),
        }
    }

    /// How many questions were answered. Others were refused, because what they are about does not exist.
    pub fn n_answered(&self) -> u64 {
        self.n_answered
    }

    /// What a question can hold and none had that was answered by these: kinds of changes, and `objects`.
    pub fn missing<'q>(questioners: impl IntoIterator<Item = &'q Self>) -> BTreeSet<String> {
        let schema = kube_scheduler_answers::schema();
        let kinds = schema["$defs"]["ChangeSpec"]["oneOf"].as_array().into_iter().flatten();
        let kinds = kinds.filter_map(|kind| kind["required"][0].as_str());
        let mut missing: BTreeSet<String> = kinds.chain(["objects"]).map(str::to_owned).collect();
        for questioner in questioners {
            missing.retain(|part| !questioner.answered.contains(part));
        }
        missing
    }

    /// True once in `n` times: a question comes now.
    pub fn comes(&mut self, n: u64) -> bool {
        self.numbers.one_in(n)
    }

    /// Asks one question of the next kind; some of them twice, to be answered later from the copy that is returned.
    ///
    /// # Errors
    /// If the question is not understood.
    pub fn ask(&mut self, engine: &Engine, now: Timestamp) -> Result<Option<WaitingQuestion>> {
        let kind = QuestionKind::ALL[self.n_asked % QuestionKind::ALL.len()];
        self.n_asked += 1;
        let (namespace, mut spec) = self.spec(kind, engine);
        let takes_objects = !matches!(
            kind,
            QuestionKind::Drain | QuestionKind::Queue | QuestionKind::Fragmentation
        );
        if takes_objects && self.numbers.one_in(3) {
            spec["objects"] = self.objects();
        }
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
        if answer.is_ok() {
            self.n_answered += 1;
            let changes = spec["changes"].as_array().into_iter().flatten();
            let changes = changes.filter_map(Value::as_object).flat_map(|change| change.keys());
            self.answered.extend(changes.cloned());
            self.answered.extend(spec.get("objects").map(|_| "objects".to_owned()));
        }
        let expected = text(&answer)?;
        Ok(waiting.map(|inquiry| WaitingQuestion { question, inquiry, expected }))
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
        match self.numbers.below(13) {
            0 | 1 => {
                let count = 1 + self.numbers.below(3);
                json!({"addPods": {"pod": self.manifest(engine), "count": count}})
            }
            2 => match self.any_pod(engine) {
                Some(pod) => json!({"deletePod": {"name": *pod.name, "namespace": *pod.namespace}}),
                None => json!({"cordon": {"name": node}}),
            },
            3 => json!({"addNodesLike": {"name": node, "count": 1 + self.numbers.below(2)}}),
            4 => json!({"removeNode": {"name": node}}),
            5 if self.numbers.one_in(2) => json!({"uncordon": {"name": node}}),
            5 => json!({"cordon": {"name": node}}),
            6 => json!({"drain": {"name": node, "disableEviction": self.numbers.one_in(2)}}),
            7 => match self.any_pod(engine) {
                Some(pod) => json!({"evictPod": {"name": *pod.name, "namespace": *pod.namespace}}),
                None => json!({"cordon": {"name": node}}),
            },
            8 => {
                let name = format!("asked-{}", self.numbers.below(3));
                json!({"addNode": {"node": shapes::node(&name, &mut self.numbers)}})
            }
            9 => {
                let gang = json!({"gang": {"minCount": 1 + self.numbers.below(3)}});
                json!({"addPodGroup": {"podGroup": {
                    "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "asked"},
                    "spec": {"schedulingPolicy": gang},
                }}})
            }
            10 => json!({"addWorkload": {"workload": self.workload(engine)}}),
            11 => {
                json!({"taint": {"name": node, "key": "dedicated", "value": "x", "effect": "NoSchedule"}})
            }
            _ => json!({"label": {"name": node, "key": "disk", "value": "ssd"}}),
        }
    }

    /// A controller that does not exist, with a few pods.
    fn workload(&mut self, engine: &Engine) -> Value {
        let template = self.manifest(engine);
        let labels = template["metadata"]["labels"].clone();
        let template = json!({"metadata": {"labels": labels}, "spec": template["spec"]});
        let (version, kind) = self.numbers.pick(&[
            ("apps/v1", "Deployment"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "DaemonSet"),
            ("batch/v1", "Job"),
        ]);
        let mut spec = json!({"selector": {"matchLabels": labels}, "template": template});
        let n_pods = 1 + self.numbers.below(3);
        match kind {
            "DaemonSet" => {}
            "Job" => spec["parallelism"] = n_pods.into(),
            _ => spec["replicas"] = n_pods.into(),
        }
        if kind == "StatefulSet" && self.numbers.one_in(2) {
            spec["volumeClaimTemplates"] = json!([self.claim("data")]);
        }
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "asked"}, "spec": spec})
    }

    /// What comes with pods: a claim for a volume, which the cluster may have, and a service that selects some.
    fn objects(&mut self) -> Value {
        let name = self.numbers.pick(&shapes::CLAIMS);
        let labels = shapes::pod_labels(&mut self.numbers);
        json!([
            self.claim(name),
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "asked"}, "spec": {"selector": labels}},
        ])
    }

    fn claim(&mut self, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {
                "storageClassName": self.numbers.pick(&["local", "grown"]), "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
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

impl WaitingQuestion {
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
