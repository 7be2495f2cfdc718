//! Judgement by another engine: was this node right, is any pod lost, is everything settled in the end?
//!
//! The judge is an engine without failing plugins that is given the plain state of things and asked about one pod from
//! scratch. It shares the plugins with those it judges, and nothing of what they maintain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{AttemptResult, Engine, Input, Turn};
use kube_scheduler_framework::EventObject;
use kube_scheduler_queue::QueuedPod;

use super::audit;
use super::claims::CLAIM;
use super::instance::{Instance, Role};
use super::server::KINDS;
use super::setup::{FOREIGN, Setup};
use super::simulation::Simulation;

/// Rounds in which a simulation without faults must settle.
const MAX_ROUNDS: usize = 20_000;
/// The longest that any pod waits for time alone: for volumes to be bound, and for the unschedulable to be tried again.
const LONG: Duration = Duration::from_secs(700);

/// How often a question comes after a round of everybody's work.
const ASKED_ONCE_IN: u64 = 10;

/// What a scheduler knew before a decision.
#[derive(Debug)]
pub(super) struct Before {
    inputs: Vec<Input>,
    pods: Vec<Arc<Pod>>,
    shared_ports: BTreeSet<Arc<str>>,
}

impl Before {
    pub(super) fn of(instance: &Instance) -> Self {
        let shown = &instance.shown;
        let cluster = instance.engine.cluster();
        let mut inputs: Vec<Input> =
            shown.nodes.values().cloned().map(Input::NodeApplied).collect();
        inputs.extend(shown.objects.values().cloned().map(Input::ObjectApplied));
        // Objects as the scheduler expects them to be, in place of those that were shown.
        inputs.extend(cluster.objects().assumed().cloned().map(Input::ObjectApplied));
        // So are claims of devices that are known from answers before a watch shows them.
        let claims = cluster.objects().list("resource.k8s.io", CLAIM);
        inputs.extend(claims.cloned().map(Input::ObjectApplied));
        let assigned = shown.pods.values().filter(|pod| pod.is_assigned());
        inputs.extend(assigned.chain(cluster.assumed_pods()).cloned().map(Input::PodApplied));
        Self {
            inputs,
            pods: shown.pods.values().cloned().collect(),
            shared_ports: shown.shared_ports.clone(),
        }
    }

    /// Whether the node of a decision is one where the pod fits.
    pub(super) fn judge(self, turn: &Turn, setup: &Setup, now: Timestamp) -> Result<()> {
        let AttemptResult::Assumed(node) = &turn.result else { return Ok(()) };
        let mut judge = setup.judge()?;
        for input in self.inputs {
            judge.handle(input, now);
        }
        let Some(pod) = self.pods.iter().find(|pod| pod.uid == turn.pod.uid) else {
            bail!("pod {} is placed and not known", turn.pod);
        };
        let explanation = judge.explain(pod, 0, now).context("the pod is not ours")?;
        if self.shared_ports.contains(node) && !pod.spec.host_ports.is_empty() {
            return Ok(());
        }
        let answer = explanation.nodes.iter().find(|answer| answer.name == *node);
        // An error on one node, such as that its pool is incomplete, ends the fresh look. The attempt need not have looked there:
        // it began with the node that the pod was nominated to, or took some of the nodes.
        if answer.is_none() && explanation.error.is_some() {
            return Ok(());
        }
        ensure!(
            answer.is_some_and(|answer| answer.status.is_success()),
            "pod {} is placed on {node}, where a fresh look says {:?} (before any node: {})",
            turn.pod,
            answer.map(|answer| answer.status.message()),
            explanation.pre_filter.message()
        );
        Ok(())
    }
}

impl Simulation {
    /// Ends faults and lets everything settle; then no pod may be lost and nothing may be left over.
    pub(super) fn conclude(&mut self) -> Result<()> {
        self.heal()?;
        self.settle(Duration::from_secs(60)).context("once faults have ended")?;
        // Events alone must have brought back every pod that they help.
        self.nobody_is_lost(false).context("once faults have ended and backoffs are over")?;
        self.let_pass(LONG);
        self.settle(LONG).context("after a long time")?;
        self.let_pass(LONG);
        self.settle(LONG).context("after a very long time")?;
        self.nobody_is_lost(true).context("after a long time without faults")?;
        self.everything_is_reported()?;
        self.nothing_is_left()?;
        self.clear()?;
        self.settle(Duration::from_secs(60)).context("while everything is deleted")?;
        self.let_pass(LONG);
        self.settle(LONG).context("after everything was deleted")?;
        self.asking.end()?;
        self.tables_are_empty()
    }

    /// Lets all schedulers work until nothing happens any more within `horizon`.
    fn settle(&mut self, horizon: Duration) -> Result<()> {
        let end = self.now + horizon;
        for _ in 0..MAX_ROUNDS {
            self.keep_time()?;
            if self.round()? {
                continue;
            }
            let next = self
                .instances()
                .filter(|it| it.role != Role::Standby)
                .flat_map(|it| [it.engine.next_deadline(), it.outbox.next_deadline()])
                .flatten()
                .min();
            // Schedulers come and go by the second.
            let is_led = self.leader().is_some();
            let next = match next {
                Some(next) if is_led => next.max(self.now + Duration::from_millis(1)),
                _ if !is_led => self.now + Duration::from_secs(1),
                _ => end,
            };
            if self.now >= end || (next > end && is_led) {
                return self.check_all();
            }
            let until = next.min(end);
            self.let_pass(until.saturating_since(self.now));
        }
        bail!("it does not settle");
    }

    /// All schedulers do what there is to do; false when there was nothing.
    fn round(&mut self) -> Result<bool> {
        let mut is_busy = false;
        for seat in 0..self.n_seats() {
            for follower in 0..self.kinds().len() {
                while self.receive(seat, follower)? {
                    is_busy = true;
                }
            }
            while self.send(seat)? {
                is_busy = true;
            }
            while self.end_work(seat)? {
                is_busy = true;
            }
        }
        while self.progress_any_request()? {
            is_busy = true;
        }
        while self.control_volumes()? {
            is_busy = true;
        }
        while self.control_devices()? {
            is_busy = true;
        }
        for seat in 0..self.n_seats() {
            is_busy |= self.decide(seat)?;
        }
        self.ask_once_in(ASKED_ONCE_IN)?;
        let revision = self.server.revision();
        self.let_go()?;
        Ok(is_busy || revision != self.server.revision())
    }

    fn check_all(&self) -> Result<()> {
        self.check_devices()?;
        self.server.check_reservations()?;
        for instance in self.instances() {
            audit::tables(&instance.engine, &instance.shown)?;
            audit::sleepers(&instance.sleepers, &instance.shown)?;
            audit::recomputed(&instance.engine)?;
        }
        Ok(())
    }

    /// An engine that is given the final state of the server.
    fn judge(&self) -> Result<Engine> {
        let mut judge = self.setup.judge()?;
        for kind in KINDS.iter().rev() {
            for object in self.server.list(kind) {
                judge.handle(object.into(), self.now);
            }
        }
        Ok(judge)
    }

    fn pending(&self) -> Vec<Arc<Pod>> {
        let pods = self.server.list("Pod").into_iter().filter_map(|followed| match followed {
            EventObject::Pod(pod) => Some(pod),
            EventObject::Node(_) | EventObject::Other(_) => None,
        });
        pods.filter(|pod| !pod.is_assigned() && *pod.spec.scheduler_name != *FOREIGN).collect()
    }

    /// No pending pod could be placed, or make room for itself.
    ///
    /// Parity: whether the nomination of a gated pod counts, such as one without its claim, depends on what was seen first, as in the
    /// reference. A judge that starts from the final state cannot tell, so the nodes of such pods are left out.
    fn nobody_is_lost(&mut self, after_all: bool) -> Result<()> {
        let mut judge = self.judge()?;
        let pending = self.pending();
        let may_wait = |pod: &&Arc<Pod>| {
            !pod.spec.resource_claims.is_empty() || !pod.spec.scheduling_gates.is_empty()
        };
        let waiting = pending.iter().filter(may_wait);
        let unclear: BTreeSet<&str> = waiting.filter_map(|pod| pod.nominated_node_name()).collect();
        for pod in &pending {
            let explanation = judge.explain(pod, 0, self.now).context("the pod is not ours")?;
            if explanation.gated.is_some() || pod.deletion_requested.is_some() {
                continue;
            }
            let mut nodes = explanation.nodes.iter().filter(|node| !unclear.contains(&*node.name));
            let fits = nodes.find(|node| node.status.is_success());
            if let Some(node) = fits
                && let Some(state) = self.state_of(pod, after_all)
            {
                bail!("pod {} uid={} fits on {} and is {state}", pod.key(), pod.uid, node.name);
            }
            let way_out = explanation.post_filter.filter(|_| after_all && unclear.is_empty());
            if let Some(way_out) = way_out.filter(|outcome| outcome.status.is_success()) {
                bail!("pod {} could preempt and does not: {:?}", pod.key(), way_out.nominating);
            }
        }
        Ok(())
    }

    /// Where a pod is that ought to be on a node; `None` if only time can bring it back.
    ///
    /// Quirk: the hint of InterPodAffinity, as the reference's, takes terms as they are written, without the labels of
    /// namespaces, and overlooks pods that match by those. Time brings such a pod back, unless its own preemption held it back
    /// before: gated pods are left alone, as in the reference, until an event that helps.
    fn state_of(&mut self, pod: &Pod, after_all: bool) -> Option<String> {
        let Some(leader) = self.leader() else { return Some("nobody's".to_owned()) };
        let queue = leader.engine.queue();
        let queued = queue.get(&pod.namespace, &pod.name);
        let rejectors = queued.map(QueuedPod::rejectors).unwrap_or_default();
        let rejectors: Vec<&str> = rejectors.iter().map(|id| queue.plugin_name(id)).collect();
        let is_held_back = rejectors.contains(&"DefaultPreemption");
        if (!after_all || is_held_back) && rejectors.contains(&"InterPodAffinity") {
            return None;
        }
        let place = queue.place(&pod.namespace, &pod.name);
        let said = leader.audit.said.get(&pod.uid);
        Some(format!("{place:?} because of {rejectors:?}, said {said:?}"))
    }

    /// Every pending pod's condition says why it is pending.
    fn everything_is_reported(&mut self) -> Result<()> {
        for pod in self.pending() {
            if !pod.spec.scheduling_gates.is_empty() {
                continue;
            }
            let condition = pod.status.conditions.iter().find(|it| &*it.kind == "PodScheduled");
            let leader = self.leader().context("no scheduler leads")?;
            let queued = leader.engine.queue().get(&pod.namespace, &pod.name);
            if !pod.spec.resource_claims.is_empty() && queued.is_some_and(QueuedPod::is_gated) {
                // It waits for a claim that was not created.
                continue;
            }
            let said = leader.audit.said.get(&pod.uid);
            let place = leader.engine.queue().place(&pod.namespace, &pod.name);
            ensure!(place.is_some(), "pod {} is pending and not queued", pod.key());
            let reported = condition.map(|condition| condition.message.to_string());
            // Notes of events are cut off where they are too long, conditions are whole.
            let agrees = |said: &String, reported: &String| match said.strip_suffix(" ...") {
                Some(start) => reported.starts_with(start),
                None => reported == said,
            };
            ensure!(
                said.zip(reported.as_ref()).is_some_and(|(said, reported)| agrees(said, reported)),
                "pod {} is {place:?}, its condition says {reported:?}, the scheduler said {said:?}",
                pod.key()
            );
        }
        Ok(())
    }

    /// Nothing is under way any more, and every scheduler knows what the server has.
    fn nothing_is_left(&mut self) -> Result<()> {
        ensure!(self.leader().is_some(), "no scheduler leads");
        for instance in self.instances() {
            let (engine, name) = (&instance.engine, &instance.name);
            for size in engine.table_sizes() {
                let is_of_the_way = [
                    "assumed",
                    "answers",
                    "Permit",
                    "tasks",
                    "preemptions",
                    "pods that preempt",
                    "on their way",
                    "in flight",
                    "pending objects",
                ]
                .iter()
                .any(|word| size.table.contains(word));
                ensure!(!is_of_the_way || size.n_entries == 0, "{name} is left with {size:?}");
            }
            let load = instance.outbox.load();
            ensure!(
                !instance.outbox.has_pod_writes() && !instance.outbox.has_events(),
                "{name} is left with writes: {load:?}"
            );
            let n_pods = self.server.list("Pod").len();
            ensure!(
                instance.shown.pods.len() == n_pods,
                "{name} knows {} of {n_pods} pods",
                instance.shown.pods.len()
            );
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        for kind in KINDS {
            let keys: Vec<_> = self.server.all(kind).map(|(key, _)| key.clone()).collect();
            for key in keys {
                self.server.delete(kind, &key);
            }
        }
        Ok(())
    }

    fn tables_are_empty(&self) -> Result<()> {
        for instance in self.instances() {
            for size in instance.engine.table_sizes() {
                let is_empty = size.n_entries == 0 && size.n_bytes.is_none_or(|n| n == 0);
                ensure!(
                    !size.is_bound_to_objects || is_empty,
                    "{} keeps {size:?} of an empty cluster",
                    instance.name
                );
            }
        }
        Ok(())
    }
}
