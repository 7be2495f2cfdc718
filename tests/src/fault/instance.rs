//! One scheduler: an engine, the watches that feed it, and what it still has to write.
//!
//! What goes into the engine and what comes out is treated as the daemon treats it, by the same code where that needs no
//! I/O: `engine::KnownObjects` before the engine, `writes::Outbox` behind it. What comes out is checked on the way by the
//! [audit](super::audit).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, ensure};
use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_engine::{Effect, Engine, Input, PodRef, Token, Turn, WatchedKey};
use kube_scheduler_framework::ObjectKey;
use kube_scheduler_writes::Outbox;

use super::asking::Asking;
use super::audit::{Audit, Cause};
use super::chaos::{Dial, Intent, Sleepers};
use super::follower::Follower;
use super::server::Server;
use super::trace::Trace;
use crate::history::Numbers;

/// How often a question comes right after a decision.
const ASKED_ONCE_IN: u64 = 2;

/// What the engine was shown, kept apart from it.
#[derive(Debug, Default)]
pub(super) struct ShownCluster {
    pub(super) pods: BTreeMap<WatchedKey, Arc<Pod>>,
    pub(super) nodes: BTreeMap<Arc<str>, Arc<Node>>,
    pub(super) objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Nodes on which two pods ever held the same host port.
    pub(super) shared_ports: BTreeSet<Arc<str>>,
}

impl ShownCluster {
    fn take(&mut self, input: &Input) {
        match input {
            Input::PodApplied(pod) => {
                self.pods.insert((pod.namespace.clone(), pod.name.clone()), pod.clone());
            }
            Input::PodDeleted { namespace, name } => {
                self.pods.remove(&(namespace.clone(), name.clone()));
            }
            Input::NodeApplied(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
            }
            Input::NodeDeleted { name } => {
                self.nodes.remove(name);
            }
            Input::ObjectApplied(object) => {
                self.objects.insert(ObjectKey::from(&**object), object.clone());
            }
            Input::ObjectDeleted(object) => {
                self.objects.remove(&ObjectKey::from(&**object));
            }
            _ => {}
        }
    }
}

/// What a scheduler may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Follows everything and decides nothing.
    Standby,
    /// Decides once it has seen everything up to `barrier`.
    Leader { renewed: Timestamp, barrier: u64 },
}

/// A binding that a plugin writes itself.
#[derive(Clone, Debug)]
pub(super) struct OwnBinding {
    pub(super) token: Token,
    pub(super) pod: PodRef,
    pub(super) node: Arc<str>,
}

/// A plugin's work that the shell awaits.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) token: Token,
    pub(super) is_cancelled: bool,
}

/// One scheduler.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) engine: Engine,
    pub(super) followers: Vec<Follower>,
    pub(super) shown: ShownCluster,
    pub(super) outbox: Outbox,
    pub(super) works: Vec<Work>,
    /// Bindings that plugins write themselves, to be sent.
    pub(super) own_bindings: Vec<OwnBinding>,
    pub(super) now: Timestamp,
    pub(super) role: Role,
    /// Whether it was asked to stop: it decides nothing more and only waits for answers.
    pub(super) is_leaving: bool,
    /// Until when it gets no time to run.
    pub(super) frozen_until: Option<Timestamp>,
    /// Whether an object re-created under its name is passed on as a change.
    merges_recreations: bool,
    pub(super) audit: Audit,
    pub(super) sleepers: Arc<Sleepers>,
    dial: Arc<Dial>,
}

impl Instance {
    pub(super) fn new(
        name: String,
        engine: Engine,
        outbox: Outbox,
        dial: Arc<Dial>,
        kinds: &[&'static str],
        merges_recreations: bool,
        now: Timestamp,
    ) -> Self {
        Self {
            name,
            engine,
            followers: kinds.iter().map(|kind| Follower::new(kind)).collect(),
            shown: ShownCluster::default(),
            outbox,
            works: Vec::new(),
            own_bindings: Vec::new(),
            now,
            role: Role::Standby,
            is_leaving: false,
            frozen_until: None,
            merges_recreations,
            audit: Audit::default(),
            sleepers: Arc::default(),
            dial,
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.followers.iter().all(|follower| follower.is_synced)
    }

    /// Whether it may decide: it leads, and has seen what the cluster was when it began to.
    pub(super) fn may_decide(&self, server: &Server) -> bool {
        let Role::Leader { barrier, .. } = self.role else { return false };
        self.is_synced()
            && !self.is_leaving
            && (self.audit.has_caught_up
                || self.followers.iter().all(|follower| follower.has_reached(barrier, server)))
    }

    /// Something arrives on one of the watches.
    pub(super) fn receive(
        &mut self,
        at: usize,
        server: &Server,
        numbers: &mut Numbers,
        trace: &mut Trace,
    ) -> Result<bool> {
        let Some(follower) = self.followers.get_mut(at) else { return Ok(false) };
        let mut inputs = Vec::new();
        let Some(word) = follower.receive(server, numbers, &mut inputs) else { return Ok(false) };
        if follower.kind == "Pod" || word != "reads a bookmark" {
            trace.add(format!("  {} {word} {}", self.name, follower.kind));
        }
        if self.merges_recreations && numbers.one_in(2) {
            merge_recreations(&mut inputs);
        }
        for input in inputs {
            self.feed(input, Cause::News, trace)?;
        }
        Ok(true)
    }

    /// Passes an input to the engine.
    pub(super) fn feed(&mut self, input: Input, cause: Cause, trace: &mut Trace) -> Result<()> {
        trace.add(format!("    {} {}", self.name, brief(&input)));
        self.note_shared_ports(&input);
        self.shown.take(&input);
        self.audit.before(&input);
        let is_about_time = matches!(input, Input::TimePassed);
        self.engine.handle(input, self.now);
        self.collect(cause, trace)?;
        if is_about_time && let Some(deadline) = self.engine.next_deadline() {
            // The daemon would spin.
            ensure!(
                deadline > self.now,
                "{}: nothing more is to be done, yet the next deadline {deadline} is not after {}",
                self.name,
                self.now
            );
        }
        Ok(())
    }

    /// Of two holders of a host port one goes, and the port counts as free: the reference's way, and ours. Such nodes are
    /// not judged by their ports.
    fn note_shared_ports(&mut self, input: &Input) {
        let Input::PodApplied(pod) = input else { return };
        let Some(node) = pod.node_name.as_ref().filter(|_| !pod.spec.host_ports.is_empty()) else {
            return;
        };
        let is_rival = |other: &&Arc<Pod>| {
            other.uid != pod.uid
                && other.node_name.as_ref() == Some(node)
                && other.spec.host_ports.iter().any(|port| pod.spec.host_ports.contains(port))
        };
        let mut others = self.shown.pods.values().chain(self.engine.cluster().assumed_pods());
        if others.any(|other| is_rival(&other)) {
            self.shown.shared_ports.insert(node.clone());
        }
    }

    /// One decision. False when there is none to be made.
    pub(super) fn decide(
        &mut self,
        trace: &mut Trace,
        asking: &mut Asking,
    ) -> Result<Option<Turn>> {
        self.audit.begin_turn();
        let Some(turn) = self.engine.schedule_next(self.now) else {
            self.collect(Cause::News, trace)?;
            return Ok(None);
        };
        trace.add(format!(
            "    {} decides {} {:?} attempt {}",
            self.name, turn.pod, turn.result, turn.attempts
        ));
        // A question may come between a decision and what follows from it.
        asking.once_in(ASKED_ONCE_IN, &self.engine, self.now)?;
        self.collect(Cause::Turn, trace)?;
        self.audit.turn(&turn, &self.engine, &self.shown, self.now)?;
        Ok(Some(turn))
    }

    /// Takes what the engine asks for.
    fn collect(&mut self, cause: Cause, trace: &mut Trace) -> Result<()> {
        let effects: Vec<Effect> = self.engine.drain_effects().collect();
        let notes: Vec<_> = self.engine.drain_notes().collect();
        for note in &notes {
            trace.add(format!("      {} notes: {note}", self.name));
        }
        self.engine.drain_bound().for_each(drop);
        for effect in &effects {
            trace.add(format!("      {} asks: {effect}", self.name));
        }
        ensure!(
            effects.is_empty() || self.role != Role::Standby,
            "{} does not lead, and asks for {:?}",
            self.name,
            effects.first()
        );
        self.audit.effects(&effects, &cause, &self.shown)?;
        self.audit.evictions(&effects, &notes)?;
        for effect in effects {
            self.take(effect);
        }
        Ok(())
    }

    fn take(&mut self, effect: Effect) {
        match self.outbox.push(effect, self.now) {
            Some(Effect::Await { token, .. }) => match self.dial.next_intent() {
                Some(Intent::Bind { pod, node }) => {
                    self.own_bindings.push(OwnBinding { token, pod, node });
                }
                Some(Intent::Work) | None => {
                    self.works.push(Work { token, is_cancelled: false });
                }
            },
            Some(Effect::CancelWork { token }) => {
                for work in self.works.iter_mut().filter(|work| work.token == token) {
                    work.is_cancelled = true;
                }
            }
            _ => {}
        }
    }
}

/// Leaves out deletions whose object is there again.
fn merge_recreations(inputs: &mut Vec<Input>) {
    let is_back = |gone: &Input, back: Option<&Input>| match (gone, back) {
        (Input::PodDeleted { namespace, name }, Some(Input::PodApplied(pod))) => {
            *namespace == pod.namespace && *name == pod.name
        }
        (Input::NodeDeleted { name }, Some(Input::NodeApplied(node))) => *name == node.name,
        (Input::ObjectDeleted(gone), Some(Input::ObjectApplied(back))) => {
            ObjectKey::from(&**gone) == ObjectKey::from(&**back)
        }
        _ => false,
    };
    let keeps: Vec<bool> =
        inputs.iter().enumerate().map(|(at, input)| !is_back(input, inputs.get(at + 1))).collect();
    let mut keeps = keeps.into_iter();
    inputs.retain(|_| keeps.next().unwrap_or(true));
}

/// One line for an input.
fn brief(input: &Input) -> String {
    match input {
        Input::PodApplied(pod) => format!(
            "sees pod {} uid={} revision={} node={} nominated={} leaving={}",
            pod.key(),
            pod.uid,
            pod.resource_version,
            pod.node_name.as_deref().unwrap_or_default(),
            pod.nominated_node_name().unwrap_or_default(),
            pod.deletion_requested.is_some(),
        ),
        Input::NodeApplied(node) => {
            format!("sees node {} revision={}", node.name, node.resource_version)
        }
        Input::ObjectApplied(object) => {
            format!("sees {} {} revision={}", object.kind, object.key(), object.resource_version)
        }
        Input::ObjectDeleted(object) => format!("misses {} {}", object.kind, object.key()),
        Input::ObjectWritten { token, result } => match result {
            Ok(object) => format!("wrote #{} revision={}", token.0, object.resource_version),
            Err(error) => format!("did not write #{}: {error}", token.0),
        },
        other => format!("gets {other:?}"),
    }
}
