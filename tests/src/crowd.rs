//! Crowds: many pods of few kinds in a cluster that changes, decided by two engines side by side.
//!
//! One engine shares evaluations between equal pods and follows the others, the other evaluates everything from scratch for
//! each pod. In every other crowd some of the pods want devices, in every third volumes, in
//! every fourth they belong to groups, and in every third they have numbers. Every other one has disruption budgets, and in
//! every other one most pods fight for little room. What a [`History`](crate::history::History) tries in breadth (bindings that fail,
//! late answers) is left out here; instead every pod is decided at once, so that most decisions come out of kept answers, in clusters
//! with enough nodes for each way of telling them apart.

mod budgets;
mod devices;
mod draining;
mod foresight;
mod group_questions;
mod groups;
mod herd;
mod kinds;
mod numbered;
mod questions;
mod racks;
mod reports;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube_scheduler_answers::Idleness;
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_config::load;
use kube_scheduler_engine::{
    AttemptResult, Effect, Engine, EngineOptions, Input, PodRef, StatusPatch, Turn,
};
use kube_scheduler_examples::{cheap_nodes, gang, reserved_pools};
use kube_scheduler_runtime::Registry;
use serde_json::json;

use self::devices::Devices;
pub use self::draining::DrainCounts;
pub use self::foresight::Foreseen;
use self::group_questions::GroupOutcome;
use self::groups::Groups;
use self::kinds::Kinds;
use self::numbered::PodNumbering;
use self::reports::Reports;
use self::volumes::Volumes;
use crate::fault::apply_patch;
use crate::history::{ApiServer, Numbers, PodKey};

/// The in-tree plugins, the examples, one that reads all over the cluster, and one that counts pods.
fn registry() -> Result<Registry> {
    let mut registry = kube_scheduler_plugins_intree::registry();
    registry.register(cheap_nodes::NAME, cheap_nodes::new)?;
    registry.register(gang::NAME, gang::new)?;
    registry.register(reserved_pools::NAME, reserved_pools::new)?;
    registry.register(herd::Herd::NAME, |_, _| Ok(Arc::new(herd::Herd)))?;
    registry.register(racks::Racks::NAME, |_, _| Ok(Arc::new(racks::Racks)))?;
    Ok(registry)
}

/// Two engines and the cluster that they see.
#[derive(Debug)]
pub struct Crowd {
    shared: Engine,
    fresh: Engine,
    numbers: Numbers,
    kinds: Kinds,
    server: ApiServer,
    devices: Devices,
    volumes: Volumes,
    groups: Groups,
    numbered: PodNumbering,
    /// How often kept answers were used for pods with claims or extended resources.
    n_kept_of_devices: u64,
    now: Timestamp,
    n_created: u64,
    n_nodes: u64,
    max_pods: usize,
    n_bound: u64,
    asks: bool,
    n_answers: u64,
    n_group_answers: u64,
    foresees: bool,
    /// What was answered about the pod that has just come.
    foresight: Option<foresight::Foresight>,
    foreseen: Foreseen,
    reports: Reports,
    /// The pod of the last decision.
    current: String,
    /// The pods that were evicted since the last decision.
    evicted: Vec<String>,
    n_explained_texts: u64,
    n_explained_preemptions: u64,
    n_explained_evictions: u64,
    /// Whether there are budgets at any time, and not only for nodes that are drained.
    has_budgets: bool,
    /// Whether most pods are large, and have priorities of their own.
    is_contended: bool,
    drains: bool,
    drained: DrainCounts,
    /// The pods that were evicted since a question about what would happen, and for whom.
    evicted_since_asked: Vec<(PodKey, String)>,
    /// The pods that were evicted for others since a node is being drained.
    pushed_out: Vec<serde_json::Value>,
    /// Whether a node is being drained: pods that get a node are ready then.
    is_draining: bool,
    /// Tells when the scheduler cannot do any more, which ends a round of draining.
    idleness: Idleness,
}

/// The clusters: small ones, and some with so many host names that plugins no longer group nodes by the value.
const CLUSTER_SIZES: [u64; 5] = [3, 9, 30, 70, 150];
/// Those that are soon full.
const CONTENDED_SIZES: [u64; 3] = [3, 6, 9];

impl Crowd {
    /// A cluster with its nodes and without pods.
    pub fn new(seed: u64) -> Result<Self> {
        Self::with_longest_hold(seed, EngineOptions::default().longest_hold)
    }

    fn with_longest_hold(seed: u64, longest_hold: Duration) -> Result<Self> {
        let mut numbers = Numbers::new(seed);
        let groups = Groups::new(seed);
        let config = load(&kinds::configuration(&mut numbers).to_string(), &groups.gates())?;
        let engine = |uses_class_cache| {
            let options = EngineOptions {
                seed: 7,
                uses_class_cache,
                gates: groups.gates(),
                plans_gangs_exactly: groups.are_planned_exactly(),
                longest_hold,
                ..EngineOptions::default()
            };
            anyhow::Ok(Engine::new(&config, &registry()?, options)?)
        };
        let (shared, fresh) = (engine(true)?, engine(false)?);
        // Numbers of their own, so that crowds without these stay as they are.
        let mut more = Numbers::new(seed ^ 0xb0_d9e7);
        let (has_budgets, is_contended) = (more.one_in(2), more.one_in(2));
        let sizes: &[u64] = if is_contended { &CONTENDED_SIZES } else { &CLUSTER_SIZES };
        let n_nodes = sizes[numbers.below(sizes.len() as u64) as usize];
        let kinds = Kinds::new(&mut numbers);
        let now = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
        let mut crowd = Self {
            shared,
            fresh,
            kinds,
            server: ApiServer::default(),
            devices: Devices::new(seed),
            volumes: Volumes::new(seed),
            groups,
            numbered: PodNumbering::new(seed),
            n_kept_of_devices: 0,
            now,
            n_created: 0,
            n_nodes,
            max_pods: 20 + numbers.below(200) as usize,
            n_bound: 0,
            asks: false,
            n_answers: 0,
            n_group_answers: 0,
            foresees: false,
            foresight: None,
            foreseen: Foreseen::default(),
            reports: Reports::default(),
            current: String::new(),
            evicted: Vec::new(),
            n_explained_texts: 0,
            n_explained_preemptions: 0,
            n_explained_evictions: 0,
            has_budgets,
            is_contended,
            drains: false,
            drained: DrainCounts::default(),
            evicted_since_asked: Vec::new(),
            pushed_out: Vec::new(),
            is_draining: false,
            idleness: Idleness::new(now),
            numbers,
        };
        for at in 0..n_nodes {
            crowd.put_node(at)?;
        }
        Ok(crowd)
    }

    /// Has decisions explained by the sharing engine right before, and compares.
    #[must_use]
    pub fn asking(self) -> Self {
        Self { asks: true, ..self }
    }

    /// Has the sharing engine asked what would happen before a pod comes, and compares.
    #[must_use]
    pub fn foreseeing(self) -> Self {
        Self { foresees: true, ..self }
    }

    /// A cluster that drains nodes now and then, after asking the sharing engine what would happen, and compares.
    pub fn draining(seed: u64) -> Result<Self> {
        // Answers do not wait until a gang gives up the room that it holds, after which others may have it.
        let crowd = Self::with_longest_hold(seed, Duration::from_secs(1_000 * 3_600))?;
        // Claims of devices of pods that come again are made by controllers that there are none of.
        Ok(Self { drains: true, devices: Devices::none(), ..crowd })
    }

    /// What was as had been answered when nodes were drained.
    pub fn drained(&self) -> DrainCounts {
        self.drained
    }

    /// How many explanations were compared with decisions.
    pub fn n_answers(&self) -> u64 {
        self.n_answers
    }

    /// How many explanations of groups were compared with what came of them.
    pub fn n_group_answers(&self) -> u64 {
        self.n_group_answers
    }

    /// How many of those about pods gave the text that was then reported.
    pub fn n_explained_texts(&self) -> u64 {
        self.n_explained_texts
    }

    /// How many of them named the node and the pods that were then evicted there.
    pub fn n_explained_preemptions(&self) -> u64 {
        self.n_explained_preemptions
    }

    /// How many pods were evicted then.
    pub fn n_explained_evictions(&self) -> u64 {
        self.n_explained_evictions
    }

    /// What was as had been answered before a pod came.
    pub fn foreseen(&self) -> Foreseen {
        self.foreseen
    }

    /// Lets `n` random things happen. The error says what the engines disagree about.
    pub fn run(&mut self, n: usize) -> Result<()> {
        (0..n).try_for_each(|step| self.step().with_context(|| format!("step {step}")))
    }

    /// How many pods were bound.
    pub fn n_bound(&self) -> u64 {
        self.n_bound
    }

    /// How often the sharing engine brought kept answers up to date.
    pub fn n_kept(&self) -> u64 {
        self.shared.class_cache_counts().hits
    }

    /// How often it did so for pods that want devices.
    pub fn n_kept_of_devices(&self) -> u64 {
        self.n_kept_of_devices
    }

    fn step(&mut self) -> Result<()> {
        self.now = self.now + Duration::from_millis(self.numbers.below(400));
        for input in self.devices.step(&mut self.server, self.n_nodes)? {
            self.feed(&input)?;
        }
        for input in self.volumes.step(&mut self.server, self.n_nodes)? {
            self.feed(&input)?;
        }
        let input = self.groups.step(&mut self.server)?;
        self.feed_some(input)?;
        let input = self.numbered.step(&mut self.server)?;
        self.feed_some(input)?;
        if self.has_budgets && self.numbers.one_in(30) {
            self.put_budgets()?;
        } else if self.has_budgets && self.numbers.one_in(2) {
            self.count_for_budgets()?;
        }
        if self.drains && self.numbers.one_in(8) {
            self.drain()?;
        }
        match self.numbers.below(60) {
            0 => {
                let at = self.numbers.below(self.n_nodes + 2);
                self.put_node(at)?;
            }
            1 if self.numbers.one_in(4) => {
                let name = kinds::node_name(self.numbers.below(self.n_nodes));
                let input = self.server.delete_node(&name);
                self.feed_some(input)?;
            }
            2 => {
                let object = kinds::object(&mut self.numbers);
                let input = self.server.put_object(object)?;
                self.feed(&input)?;
            }
            3 if self.numbers.one_in(3) => {
                let input = self.server.delete_any_object(&mut self.numbers)?;
                self.feed_some(input)?;
            }
            4 => {
                let labels = self.kinds.any_labels(&mut self.numbers);
                let input = match self.server.any_pod(&mut self.numbers) {
                    Some(key) => {
                        self.server.change_pod(&key, |pod| pod["metadata"]["labels"] = labels)?
                    }
                    None => None,
                };
                self.feed_some(input)?;
            }
            5 => {
                let input = match self.server.any_pod(&mut self.numbers) {
                    Some(key) => self.server.change_pod(&key, |pod| {
                        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                    })?,
                    None => None,
                };
                self.feed_some(input)?;
            }
            6..=19 => self.delete_pod()?,
            20 => {
                self.now = self.now + Duration::from_secs(self.numbers.below(400));
                self.feed(&Input::TimePassed)?;
            }
            _ => self.create_pod()?,
        }
        self.decide()
    }

    fn put_node(&mut self, at: u64) -> Result<()> {
        let node = kinds::node(at, &mut self.numbers);
        let input = self.server.put_node(node)?;
        self.feed(&input)
    }

    fn create_pod(&mut self) -> Result<()> {
        if self.server.pods.len() >= self.max_pods {
            self.delete_pod()?;
        }
        self.n_created += 1;
        let mut pod = self.kinds.pod(self.n_created, &mut self.numbers);
        // Few kinds have a priority; answers are to be about evictions, too.
        if self.is_contended && !self.numbers.one_in(4) {
            pod["spec"]["priority"] = (10 * self.numbers.below(100)).into();
            let cpu = self.numbers.pick(&["1", "2", "3"]);
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        } else if (self.asks || self.foresees || self.drains) && self.numbers.one_in(8) {
            pod["spec"]["priority"] = 100.into();
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
        }
        if let Some(claim) = self.devices.give_wish(&mut pod) {
            let input = self.server.put_object(claim)?;
            self.feed(&input)?;
        }
        self.groups.give_group(&mut pod);
        self.numbered.give_number(&mut pod);
        for made in self.volumes.give_wish(&mut pod) {
            let input = self.server.put_object(made)?;
            self.feed(&input)?;
        }
        let input = self.server.put_pod(pod)?;
        if self.foresees { self.foresee(&input) } else { self.feed(&input) }
    }

    fn delete_pod(&mut self) -> Result<()> {
        let key = self.server.any_pod(&mut self.numbers);
        let input = key.and_then(|key| self.server.delete_pod(&key));
        self.feed_some(input)
    }

    /// Lets both decide whatever is ready.
    fn decide(&mut self) -> Result<()> {
        while self.shared.has_ready() {
            let question =
                if self.asks { questions::ask(&mut self.shared, self.now) } else { None };
            let of_group =
                if self.asks { group_questions::ask(&mut self.shared, self.now) } else { None };
            let mut outcome = GroupOutcome::default();
            let foreseen = self.asks.then(|| {
                let mut fork = self.shared.fork(self.now);
                let turn = fork.schedule_next_observed(&mut outcome, self.now);
                turn.map(|turn| format!("{turn:?}"))
            });
            if let Some(question) = of_group {
                self.n_group_answers += u64::from(question.compare(&outcome)?);
            }
            let n_kept = self.n_kept();
            let turn = self.shared.schedule_next(self.now);
            if let Some(turn) = &turn {
                self.current = turn.pod.to_string();
                match &turn.group {
                    None => self.idleness.tried(&turn.pod.uid),
                    Some(group) => {
                        group.members.iter().for_each(|(pod, _)| self.idleness.tried(&pod.uid))
                    }
                }
            }
            let wants_devices = turn.as_ref().is_some_and(|turn| self.wants_devices(&turn.pod));
            self.n_kept_of_devices += if wants_devices { self.n_kept() - n_kept } else { 0 };
            let mut answered = None;
            if let (Some(question), Some(turn)) = (question, &turn)
                && question.compare(turn)?
            {
                self.n_answers += 1;
                answered = Some(question);
            }
            let shared = turn.as_ref().map(|turn| format!("{turn:?}"));
            let fresh = self.fresh.schedule_next(self.now);
            ensure!(
                foreseen.as_ref().is_none_or(|foreseen| *foreseen == shared),
                "a fork gives {foreseen:?}, the engine then gives {shared:?}"
            );
            // While a gang is planned ahead its members are counted where answers are kept, which costs less than trying them.
            let is_planned = self.groups.are_planned_exactly();
            let as_made = |turn: &Turn| match turn.group {
                Some(_) if is_planned => format!("{:?}", Turn { work: 0, ..turn.clone() }),
                _ => format!("{turn:?}"),
            };
            let (shared, fresh) = (turn.as_ref().map(as_made), fresh.as_ref().map(as_made));
            ensure!(shared == fresh, "shared answers give {shared:?}, fresh ones {fresh:?}");
            self.evicted.clear();
            self.take_effects()?;
            if let (Some(foresight), Some(turn)) = (&mut self.foresight, &turn) {
                let reported = (&self.reports, &self.server);
                foresight.compare_first(turn, &self.evicted, reported)?;
            }
            if let (Some(question), Some(turn)) = (answered, &turn) {
                self.compare_consequences(&question, &turn.result)?;
            }
        }
        ensure!(!self.fresh.has_ready(), "only the engine with fresh answers has more to decide");
        Ok(())
    }

    /// What was reported of the pod, and who was evicted for it, is as had been explained.
    fn compare_consequences(
        &mut self,
        question: &questions::Question,
        result: &AttemptResult,
    ) -> Result<()> {
        let reason = match result {
            AttemptResult::Unschedulable(_) => Some("Unschedulable"),
            AttemptResult::Error(_) => Some("SchedulerError"),
            _ => None,
        };
        if let (Some(reason), Some(text)) = (reason, question.message()) {
            self.reports.compare(&self.server, question.uid(), (reason, text))?;
            self.n_explained_texts += 1;
        }
        let evicted = std::mem::take(&mut self.evicted);
        let pod = self.server.pod_of(question.uid()).and_then(|key| self.server.pods.get(&key));
        let nominated = pod.and_then(|pod| pod["status"]["nominatedNodeName"].as_str());
        let n_evicted = question.compare_evictions(evicted, nominated)?;
        self.n_explained_evictions += n_evicted;
        self.n_explained_preemptions += u64::from(n_evicted > 0);
        Ok(())
    }

    fn wants_devices(&self, pod: &PodRef) -> bool {
        let pod = self.shared.known_pod(&pod.namespace, &pod.name);
        // Pods with other resources keep their answers in any case.
        pod.is_some_and(|pod| !pod.spec.resource_claims.is_empty())
    }

    fn feed(&mut self, input: &Input) -> Result<()> {
        self.shared.handle(input.clone(), self.now);
        self.fresh.handle(input.clone(), self.now);
        self.take_effects()
    }

    fn feed_some(&mut self, input: Option<Input>) -> Result<()> {
        input.map_or(Ok(()), |input| self.feed(&input))
    }

    fn take_effects(&mut self) -> Result<()> {
        loop {
            let shared: Vec<Effect> = self.shared.drain_effects().collect();
            let fresh: Vec<Effect> = self.fresh.drain_effects().collect();
            let texts = |effects: &[Effect]| -> Vec<String> {
                effects.iter().map(ToString::to_string).collect()
            };
            let (ours, theirs) = (texts(&shared), texts(&fresh));
            ensure!(ours == theirs, "shared answers give {ours:#?}, fresh ones {theirs:#?}");
            if shared.is_empty() {
                return Ok(());
            }
            for (shared, fresh) in shared.into_iter().zip(fresh) {
                self.take(shared, fresh)?;
            }
        }
    }

    /// Has both engines see what the server reports.
    fn see(&mut self, seen: Option<Input>) {
        if let Some(seen) = seen {
            self.shared.handle(seen.clone(), self.now);
            self.fresh.handle(seen, self.now);
        }
    }

    /// Writes into a pod's status. Both engines see the pod with its new nomination and conditions, which may wake it again where a
    /// plugin that rejected it has not said what it waits for.
    fn patch(&mut self, pod: &PodRef, patch: &StatusPatch) -> Result<()> {
        let key = (pod.namespace.to_string(), pod.name.to_string());
        let seen = self.server.change_pod(&key, |pod| apply_patch(pod, patch))?;
        self.see(seen);
        Ok(())
    }

    fn take(&mut self, shared: Effect, fresh: Effect) -> Result<()> {
        self.reports.note(&shared);
        match (shared, fresh) {
            (
                Effect::WriteBinding { token, pod, node },
                Effect::WriteBinding { token: other, .. },
            ) => {
                let key = (pod.namespace.to_string(), pod.name.to_string());
                let node: Arc<str> = node;
                let has_status = self.drains || self.has_budgets;
                let status = has_status.then(|| self.status_once_bound());
                let seen = self.server.change_pod(&key, |pod| {
                    pod["spec"]["nodeName"] = json!(*node);
                    if let Some(serde_json::Value::Object(status)) = status {
                        status.into_iter().for_each(|(field, value)| pod["status"][field] = value);
                    }
                })?;
                self.n_bound += 1;
                self.idleness.progressed(self.now);
                self.shared.handle(Input::BindingWritten { token, result: Ok(()) }, self.now);
                let answer = Input::BindingWritten { token: other, result: Ok(()) };
                self.fresh.handle(answer, self.now);
                self.see(seen);
            }
            (Effect::EvictPod { token, pod, patch }, Effect::EvictPod { token: other, .. }) => {
                let key = (pod.namespace.to_string(), pod.name.to_string());
                // Two members of a group may have chosen the same victim, which goes once.
                if let Some(victim) = self.server.pods.get(&key) {
                    self.pushed_out.extend(self.is_draining.then(|| victim.clone()));
                    self.evicted.push(pod.to_string());
                    self.evicted_since_asked.push((key.clone(), self.current.clone()));
                }
                self.idleness.progressed(self.now);
                patch.map_or(Ok(()), |patch| self.patch(&pod, &patch))?;
                let gone = self.server.delete_pod(&key);
                // Answers take it that evicted pods are seen to go before the answer comes. Otherwise the last victim may go after
                // it, and if that one is not among those which were in the way, nothing brings the pod back, as in the reference.
                self.see(gone);
                for seen in self.devices.remove_claims_of(&mut self.server, &pod.uid)? {
                    self.see(Some(seen));
                }
                let evicted = Ok(kube_scheduler_engine::EvictionOutcome::Deleted);
                let answer = Input::PodEvicted { token, result: evicted.clone() };
                self.shared.handle(answer, self.now);
                self.fresh.handle(Input::PodEvicted { token: other, result: evicted }, self.now);
            }
            (Effect::PatchStatus { pod, patch, .. }, _) => self.patch(&pod, &patch)?,
            (
                Effect::ClearNomination { token, pod },
                Effect::ClearNomination { token: other, .. },
            ) => {
                self.patch(&pod, &StatusPatch::NO_NOMINATION)?;
                self.shared.handle(Input::NominationCleared { token, result: Ok(()) }, self.now);
                let answer = Input::NominationCleared { token: other, result: Ok(()) };
                self.fresh.handle(answer, self.now);
            }
            (
                Effect::WriteObject { write, awaited_by, .. },
                Effect::WriteObject { awaited_by: other, .. },
            ) => {
                let devices::ClaimWrite { result, mut seen } =
                    self.devices.carry_out(&mut self.server, &write)?;
                if volumes::are_controlled(&write.key().kind) {
                    seen.extend(volumes::control(&mut self.server)?);
                }
                for (engine, awaited_by) in
                    [(&mut self.shared, awaited_by), (&mut self.fresh, other)]
                {
                    if let Some((token, _)) = awaited_by {
                        let result = result.clone();
                        engine.handle(Input::ObjectWritten { token, result }, self.now);
                    }
                    seen.iter().for_each(|seen| engine.handle(seen.clone(), self.now));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
