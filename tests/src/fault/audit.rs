//! What is checked on the way: every decision against what the scheduler was shown, every effect against its cause, every
//! table against the pods there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use kube_scheduler_api_types::{Pod, Resources, Timestamp};
use kube_scheduler_engine::{AttemptResult, Effect, Engine, Input, PodRef, Token, Turn};

use super::chaos::Sleepers;
use super::claims::may_be_devices;
use super::instance::ShownCluster;

/// Attempts at one pod at one instant beyond which a scheduler is said to spin.
const MAX_ATTEMPTS_AT_ONCE: u32 = 50;
/// The longest note of an event, in bytes.
const MAX_NOTE_LEN: usize = 1024;

/// Why effects come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something was seen, or time has passed.
    News,
    /// A decision.
    Turn,
    /// The answer to the binding of this pod.
    Bound { uid: Arc<str>, is_done: bool },
}

/// What one scheduler did so far.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// Pods whose binding is being written.
    binding: BTreeSet<Arc<str>>,
    /// Pods with a request under way that their other writes wait for.
    writing: BTreeSet<Arc<str>>,
    /// Pods whose binding was written.
    bound: BTreeSet<Arc<str>>,
    /// What was said about a pod last.
    pub(super) said: BTreeMap<Arc<str>, String>,
    attempts_at: Option<Timestamp>,
    attempts: BTreeMap<Arc<str>, u32>,
    /// Effects of the turn under way.
    failed_in_turn: Vec<(PodRef, String)>,
    /// Whether victims are evicted after the attempt has ended.
    pub(super) preempts_in_background: bool,
    /// Evictions and withdrawals of nominations that were not answered yet.
    preempting: BTreeSet<Token>,
    /// Whether the current input says that an eviction failed.
    has_just_failed: bool,
    /// Whether an eviction failed, and no preemption has ended with an error since.
    owes_error: bool,
    pub(super) has_caught_up: bool,
    pub(super) n_decisions: u64,
    pub(super) n_assumed: u64,
}

impl Audit {
    pub(super) fn before(&mut self, input: &Input) {
        self.has_just_failed = false;
        match input {
            Input::PodEvicted { token, result } => {
                self.preempting.remove(token);
                self.has_just_failed = result.is_err();
                self.owes_error |= self.has_just_failed && self.preempts_in_background;
            }
            Input::NominationCleared { token, .. } => drop(self.preempting.remove(token)),
            _ => {}
        }
        if let Input::PodApplied(_) | Input::TimePassed = input {
            return;
        }
        // Anything else may be a reason to try again at once.
        self.attempts.clear();
    }

    pub(super) fn begin_turn(&mut self) {
        self.has_just_failed = false;
        self.failed_in_turn.clear();
    }

    /// Checks effects against what caused them.
    pub(super) fn effects(
        &mut self,
        effects: &[Effect],
        cause: &Cause,
        shown: &ShownCluster,
    ) -> Result<()> {
        let mut n_scheduled = 0;
        if let Cause::Bound { uid, is_done } = cause {
            self.binding.remove(uid);
            if *is_done {
                self.bound.insert(uid.clone());
            }
        }
        for (at, effect) in effects.iter().enumerate() {
            match effect {
                Effect::WriteBinding { pod, .. } => self.binding_asked(&pod.uid)?,
                Effect::RecordEvent { pod, reason, .. } if reason == "Scheduled" => {
                    n_scheduled += 1;
                    let is_due =
                        matches!(cause, Cause::Bound { uid, is_done: true } if *uid == pod.uid);
                    ensure!(is_due, "pod {pod} is called scheduled because of {cause:?}");
                }
                Effect::RecordEvent { pod, reason, note, .. } if reason == "FailedScheduling" => {
                    if note.starts_with("skip schedule deleting pod") {
                        continue;
                    }
                    self.failed_in_turn.push((pod.clone(), note.clone()));
                    self.said.insert(pod.uid.clone(), note.clone());
                    ensure!(
                        condition_says(pod, note, &effects[at..], shown),
                        "pod {pod} fails with {note:?} and its condition does not say so"
                    );
                }
                _ => {}
            }
        }
        if matches!(cause, Cause::Bound { is_done: true, .. }) {
            ensure!(n_scheduled == 1, "{n_scheduled} events for one binding: {cause:?}");
        }
        Ok(())
    }

    /// A failed eviction ends its preemption: no further pod is evicted for it, and it says that it failed.
    pub(super) fn evictions(&mut self, effects: &[Effect], notes: &[String]) -> Result<()> {
        for effect in effects {
            if let Effect::EvictPod { token, pod, .. } = effect {
                ensure!(!self.has_just_failed, "pod {pod} is evicted after an eviction failed");
                self.preempting.insert(*token);
            } else if let Effect::ClearNomination { token, .. } = effect {
                self.preempting.insert(*token);
            }
        }
        if notes.iter().any(|note| note.starts_with("error occurred during async preemption")) {
            self.owes_error = false;
        }
        ensure!(
            !self.owes_error || !self.preempting.is_empty(),
            "an eviction failed, and its preemption ended as if it had not"
        );
        Ok(())
    }

    /// A scheduler starts to write a binding.
    pub(super) fn binding_asked(&mut self, uid: &Arc<str>) -> Result<()> {
        ensure!(!self.bound.contains(uid), "pod {uid} was bound and is bound again");
        ensure!(self.binding.insert(uid.clone()), "pod {uid} is bound twice at once");
        Ok(())
    }

    /// A request about a pod sets out.
    pub(super) fn write_starts(&mut self, pod: &PodRef) -> Result<()> {
        ensure!(self.writing.insert(pod.uid.clone()), "two writes of pod {pod} are under way");
        Ok(())
    }

    /// A request about a pod has ended.
    pub(super) fn write_ends(&mut self, uid: &str) {
        self.writing.remove(uid);
    }

    /// Checks a decision against what the scheduler was shown.
    pub(super) fn turn(
        &mut self,
        turn: &Turn,
        engine: &Engine,
        shown: &ShownCluster,
        now: Timestamp,
    ) -> Result<()> {
        self.n_decisions += 1;
        if self.attempts_at != Some(now) {
            self.attempts_at = Some(now);
            self.attempts.clear();
        }
        let n_attempts = self.attempts.entry(turn.pod.uid.clone()).or_default();
        *n_attempts += 1;
        ensure!(*n_attempts <= MAX_ATTEMPTS_AT_ONCE, "pod {} is tried over and over", turn.pod);
        let key = (turn.pod.namespace.clone(), turn.pod.name.clone());
        let pod = shown.pods.get(&key).filter(|pod| pod.uid == turn.pod.uid);
        match &turn.result {
            AttemptResult::Assumed(node) => {
                self.n_assumed += 1;
                let Some(pod) = pod else { bail!("pod {} is placed and not known", turn.pod) };
                ensure!(!pod.is_assigned(), "pod {} is placed and has a node", turn.pod);
                if let Some(problem) = over_commits(pod, node, engine, shown) {
                    bail!("pod {} on node {node}: {problem}", turn.pod);
                }
            }
            AttemptResult::Unschedulable(message) | AttemptResult::Error(message) => {
                // Without a pod of this UID nothing is reported; with a preemption to wait for, not yet.
                if pod.is_some() && !engine_holds_an_attempt(engine) {
                    let note = truncated(message);
                    let is_reported = |(reported, text): &(PodRef, String)| {
                        reported.uid == turn.pod.uid && *text == note
                    };
                    let is_prefix = |(reported, text): &(PodRef, String)| {
                        reported.uid == turn.pod.uid && text.starts_with(&*note)
                    };
                    ensure!(
                        self.failed_in_turn
                            .iter()
                            .any(|reported| is_reported(reported) || is_prefix(reported)),
                        "pod {} fails with {note:?}, and the event says {:?}",
                        turn.pod,
                        self.failed_in_turn
                    );
                }
            }
            AttemptResult::Skipped => {
                let is_over = pod.is_none_or(|pod| pod.deletion_requested.is_some())
                    || engine.cluster().is_assumed(&turn.pod.uid);
                ensure!(is_over, "pod {} is passed over", turn.pod);
            }
        }
        Ok(())
    }
}

fn engine_holds_an_attempt(engine: &Engine) -> bool {
    engine.n_preempting() > 0 && engine.queue().in_flight_pods().next().is_some()
}

/// Whether a failure shows in the pod's condition, or is about to.
fn condition_says(pod: &PodRef, note: &str, effects: &[Effect], shown: &ShownCluster) -> bool {
    let says_it = |message: &str| truncated(message) == note;
    let is_written = effects.iter().any(|effect| match effect {
        Effect::PatchStatus { pod: other, patch, .. } => {
            let condition = patch.condition.as_ref();
            other.uid == pod.uid && condition.is_some_and(|condition| says_it(&condition.message))
        }
        _ => false,
    });
    let known = shown.pods.get(&(pod.namespace.clone(), pod.name.clone()));
    let Some(known) = known.filter(|known| known.uid == pod.uid && !known.is_assigned()) else {
        return true;
    };
    let conditions = known.status.conditions.iter();
    is_written
        || conditions.into_iter().any(|it| &*it.kind == "PodScheduled" && says_it(&it.message))
}

fn truncated(message: &str) -> String {
    if message.len() <= MAX_NOTE_LEN {
        return message.to_owned();
    }
    let mut end = MAX_NOTE_LEN - 4;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &message[..end])
}

/// Why a pod does not go onto a node, by adding up what the scheduler was shown and what it has placed itself.
fn over_commits(
    pod: &Pod,
    node_name: &str,
    engine: &Engine,
    shown: &ShownCluster,
) -> Option<String> {
    let Some(node) = shown.nodes.get(node_name) else {
        return Some("there is no such node".to_owned());
    };
    let is_there =
        |other: &&Arc<Pod>| other.node_name.as_deref() == Some(node_name) && other.uid != pod.uid;
    let mut others: BTreeMap<&str, &Arc<Pod>> = BTreeMap::new();
    let assumed = engine.cluster().assumed_pods().filter(is_there);
    for other in shown.pods.values().filter(is_there).chain(assumed) {
        others.entry(&other.uid).or_insert(other);
    }
    let mut used = Resources::default();
    others.values().for_each(|other| used.add(&other.requests.accounted));
    let wanted = &pod.requests.fit;
    let allocatable = &node.allocatable;
    let amounts = [
        ("cpu", wanted.milli_cpu, used.milli_cpu, allocatable.milli_cpu),
        ("memory", wanted.memory, used.memory, allocatable.memory),
    ];
    // Without a device plugin, claims are counted instead.
    let is_counted = |name: &str| !may_be_devices(name) || allocatable.scalar(name) > Some(0);
    let scalars = wanted.scalars.iter().filter(|(name, _)| is_counted(name));
    let scalars = scalars.map(|(name, wanted)| {
        let amount = |of: &Resources| of.scalar(name).unwrap_or(0);
        (&**name, *wanted, amount(&used), amount(allocatable))
    });
    for (name, wanted, used, allocatable) in amounts.into_iter().chain(scalars) {
        if wanted > 0 && used + wanted > allocatable {
            return Some(format!("{name}: {used} in use, {wanted} wanted, {allocatable} there"));
        }
    }
    let n_pods = others.len() as i64;
    if n_pods + 1 > node.allowed_pods {
        return Some(format!("{n_pods} pods, {} allowed", node.allowed_pods));
    }
    if shown.shared_ports.contains(node_name) {
        return None;
    }
    let taken = others.values().flat_map(|other| other.spec.host_ports.iter());
    let clash = taken.into_iter().find(|port| pod.spec.host_ports.contains(port));
    clash.map(|port| format!("host port {} is taken", port.port))
}

/// Compares the engine's tables with what it was shown: no pod is lost, none is made up.
pub(super) fn tables(engine: &Engine, shown: &ShownCluster) -> Result<()> {
    let (queue, cluster) = (engine.queue(), engine.cluster());
    ensure!(
        engine.n_known_pods() == shown.pods.len(),
        "{} pods are known, {} were shown",
        engine.n_known_pods(),
        shown.pods.len()
    );
    ensure!(cluster.n_nodes() == shown.nodes.len(), "{} nodes are known", cluster.n_nodes());
    for assumed in cluster.assumed_pods() {
        let known = shown.pods.get(&(assumed.namespace.clone(), assumed.name.clone()));
        ensure!(
            known.is_some_and(|known| known.uid == assumed.uid && !known.is_assigned()),
            "pod {} uid={} is assumed and not pending",
            assumed.key(),
            assumed.uid
        );
    }

    let is_ours = |pod: &Pod| {
        let mut profiles = engine.profiles().iter();
        profiles.any(|profile| profile.scheduler_name == pod.spec.scheduler_name)
    };
    let mut n_assigned = 0;
    for pod in shown.pods.values() {
        if pod.is_assigned() {
            n_assigned += 1;
            let known = cluster.pod(&pod.uid);
            ensure!(
                known.is_some_and(
                    |known| known.node_name == pod.node_name && !cluster.is_assumed(&pod.uid)
                ),
                "pod {} runs on {:?} and is counted on {:?}",
                pod.key(),
                pod.node_name,
                known.map(|known| known.node_name.clone())
            );
            ensure!(
                queue.get(&pod.namespace, &pod.name).is_none(),
                "pod {} has a node and is queued",
                pod.key()
            );
        } else if is_ours(pod) && pod.deletion_requested.is_none() {
            let queued = queue.get(&pod.namespace, &pod.name);
            let is_queued = queued.is_some_and(|queued| queued.entry().0.uid == pod.uid);
            let is_under_way = queue.is_in_flight(&pod.uid) || cluster.is_assumed(&pod.uid);
            ensure!(is_queued || is_under_way, "pod {} uid={} is lost", pod.key(), pod.uid);
            ensure!(
                !(is_queued && cluster.is_assumed(&pod.uid)),
                "pod {} is queued and assumed",
                pod.key()
            );
        }
    }
    ensure!(
        cluster.n_pods() == n_assigned + cluster.n_assumed(),
        "{} pods are counted, {n_assigned} run and {} are assumed",
        cluster.n_pods(),
        cluster.n_assumed()
    );
    queued_pods(engine, shown)
}

fn queued_pods(engine: &Engine, shown: &ShownCluster) -> Result<()> {
    let queue = engine.queue();
    let mut n_queued = 0;
    let mut rejected: BTreeMap<_, u64> = BTreeMap::new();
    for (_, queued) in queue.pending_pods() {
        n_queued += 1;
        let pod = &queued.entry().0;
        let known = shown.pods.get(&(pod.namespace.clone(), pod.name.clone()));
        ensure!(
            known.is_some_and(|known| known.uid == pod.uid),
            "pod {} uid={} is queued and gone",
            pod.key(),
            pod.uid
        );
        ensure!(
            known.is_none_or(|known| known.resource_version == pod.resource_version),
            "pod {} is queued as it was before",
            pod.key()
        );
        for plugin in queued.rejectors().iter() {
            *rejected.entry((plugin, queued.profile())).or_default() += 1;
        }
    }
    let counts = queue.pending_counts();
    ensure!(
        n_queued == counts.total() && n_queued == queue.len(),
        "{n_queued} pods are queued, {counts:?}"
    );
    for (plugin, profile, count) in queue.rejected_counts() {
        let expected = rejected.remove(&(plugin, profile)).unwrap_or(0);
        ensure!(
            count == expected,
            "{} turned {expected} queued pods down, counted are {count}",
            queue.plugin_name(plugin)
        );
    }
    ensure!(rejected.is_empty(), "rejections are not counted: {rejected:?}");
    for node in queue.nominated_nodes() {
        for nominee in queue.nominated_pods_for_node(node) {
            let key = (nominee.namespace.into(), nominee.name.into());
            let known = shown.pods.get(&key).filter(|known| *known.uid == *nominee.uid);
            ensure!(
                known.is_some_and(|known| !known.is_assigned()),
                "pod {}/{} uid={} is nominated to {node} and not pending",
                nominee.namespace,
                nominee.name,
                nominee.uid
            );
            ensure!(
                !engine.cluster().is_assumed(nominee.uid),
                "pod {}/{} is nominated to {node} and placed already",
                nominee.namespace,
                nominee.name
            );
        }
    }
    Ok(())
}

/// Nothing waits any more on behalf of a pod that is gone.
pub(super) fn sleepers(sleepers: &Sleepers, shown: &ShownCluster) -> Result<()> {
    for uid in sleepers.uids() {
        let is_known = shown.pods.values().any(|pod| pod.uid == uid);
        ensure!(is_known, "pod uid={uid} is gone, and its binding still waits");
    }
    Ok(())
}

/// Everything that the cluster state maintains, recomputed.
pub(super) fn recomputed(engine: &Engine) -> Result<()> {
    let differences = kube_scheduler_cache::check(engine.cluster());
    ensure!(
        differences.is_empty(),
        "the cluster state is not what recomputing gives: {}",
        differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    );
    Ok(())
}
