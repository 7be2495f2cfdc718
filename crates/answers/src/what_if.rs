//! What would happen if the cluster were changed.

mod budgets;
mod changes;
mod data;
mod rounds;
mod table;
mod visibility;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Taint, Timestamp};
use kube_scheduler_engine::Engine;

pub(crate) use self::budgets::Coverage;
pub(crate) use self::changes::{apply, is_of_node};
use self::data::Totals;
pub use self::data::{
    BlockedAnswer, EvictionAnswer, NodeDifference, PendingAnswer, PlacementAnswer, UngatedAnswer,
    WhatIf,
};
pub use self::rounds::MAX_RETURNS;
pub use self::workloads::Workload;
use crate::course::{Course, Eviction};
use crate::explanation::{
    BEING_DELETED, ExplainOptions, Subject, explanation_of, found_about, is_being_deleted, is_ours,
    not_ours,
};
use crate::format::as_of;
use crate::interrupt::Interrupt;
use crate::pod_name::PodName;
use crate::{API_VERSION, Refusal};

/// The beginning of the warning that lists budgets without a status.
const WITHOUT_STATUS: &str = "without a status, so that what is allowed was counted here";

/// The code of a pod that is not tried at all, and of how many of them it is said what would happen otherwise.
const SCHEDULING_GATED: &str = "SchedulingGated";
const MAX_UNGATED: usize = 100;

/// The code of a pod whose attempt failed by an error.
const SCHEDULER_ERROR: &str = "SchedulerError";

/// One change of the cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A pod is created.
    AddPod(Arc<Pod>),
    /// A pod group is created.
    AddPodGroup(Arc<Object>),
    /// A workload is created, with the objects and pods that its controller makes. Its pods count against the limit of changes.
    AddWorkload(Arc<Workload>),
    /// A pod is deleted.
    DeletePod(PodName),
    /// A pod is evicted as disruption budgets allow, after all other changes: in the rounds in which nodes are drained, and before
    /// the pods of these. A pod of a controller comes again without a node.
    EvictPod(PodName),
    /// A node joins.
    AddNode(Arc<Node>),
    /// Copies of an existing node join: empty, and with new names and host names.
    AddNodesLike {
        /// The existing node.
        node: Arc<str>,
        /// How many join.
        count: usize,
    },
    /// A node leaves. Pods of controllers that were on it come again without a node.
    RemoveNode(Arc<str>),
    /// A node takes no new pods.
    Cordon(Arc<str>),
    /// A node takes new pods again.
    Uncordon(Arc<str>),
    /// It is cordoned, and the pods of controllers that are on it, except for those of DaemonSets, come again without a node.
    /// Others of its pods are deleted for good.
    ///
    /// Pods go as disruption budgets allow. All nodes of a question are drained together, after all other changes: in each round
    /// as many pods are evicted as may go then, and the next one begins when the scheduler has placed what it can.
    Drain(Arc<str>),
    /// A node is drained at once, whatever budgets say: its pods are deleted and not evicted.
    DrainAtOnce(Arc<str>),
    /// A node gets a taint. `NoExecute` does not evict running pods here.
    Taint {
        /// The node.
        node: Arc<str>,
        /// The taint.
        taint: Taint,
    },
    /// A node gets a label.
    Label {
        /// The node.
        node: Arc<str>,
        /// The key.
        key: Arc<str>,
        /// The value.
        value: Arc<str>,
    },
}

impl Change {
    /// What the change counts against the limit: one, or the number of nodes that it adds.
    const fn size(&self) -> usize {
        match self {
            Self::AddNodesLike { count, .. } => *count,
            _ => 1,
        }
    }

    /// Whether pods go away from nodes.
    const fn moves_pods(&self) -> bool {
        matches!(
            self,
            Self::EvictPod(_) | Self::RemoveNode(_) | Self::Drain(_) | Self::DrainAtOnce(_)
        )
    }

    /// Several nodes are drained together: all of them are cordoned first, so that no pod goes from one to the other. With
    /// `disable_eviction`, pods are deleted at once, whatever budgets say.
    pub fn draining(nodes: &[String], disable_eviction: bool) -> Vec<Self> {
        let drain = if disable_eviction { Self::DrainAtOnce } else { Self::Drain };
        let name = |node: &String| Arc::<str>::from(node.as_str());
        let cordons = nodes.iter().map(|node| Self::Cordon(name(node)));
        cordons.chain(nodes.iter().map(|node| drain(name(node)))).collect()
    }
}

/// Limits of a question about changes: how many there may be, and how much may be tried.
#[derive(Clone, Debug)]
pub struct QuestionLimits {
    /// Changes in one question; each node that is added counts.
    pub max_changes: usize,
    /// Attempts at scheduling until the answer is cut short.
    pub max_attempts: u64,
    /// Cuts the answer short when it is set.
    pub interrupt: Interrupt,
}

impl Default for QuestionLimits {
    fn default() -> Self {
        let interrupt = Interrupt::default();
        Self { max_changes: 10_000, max_attempts: 200_000, interrupt }
    }
}

/// Answers what would happen after `changes`, in their order: on a copy of the engine, which then schedules in virtual time
/// until no pod can make progress; nobody waits until a gang gives up the room that it holds. What would happen without them is found
/// out too, so that only differences are given.
///
/// O(nodes + pods) for the copy, and what the attempts take; the engine is not changed.
///
/// # Errors
/// If a change is about something that does not exist, or there are more than the limits allow.
pub fn what_if(
    engine: &Engine,
    changes: &[Change],
    limits: QuestionLimits,
    now: Timestamp,
) -> Result<WhatIf, Refusal> {
    what_if_under(engine, engine, changes, limits, now)
}

/// As [`what_if`], but another scheduler decides after the changes: `other` has the same cluster, and a configuration of its own.
/// Pods that run stay where they are.
///
/// # Errors
/// As of [`what_if`].
pub fn what_if_under(
    engine: &Engine,
    other: &Engine,
    changes: &[Change],
    limits: QuestionLimits,
    now: Timestamp,
) -> Result<WhatIf, Refusal> {
    let size = changes.iter().fold(0_usize, |sum, change| sum.saturating_add(change.size()));
    if size > limits.max_changes {
        return Err(Refusal::TooMuch { asked: size, max: limits.max_changes });
    }
    let course = |engine| Course::new(engine, now, limits.max_attempts, &limits.interrupt);
    let (mut before, mut after) = (course(engine), course(other));
    let mut touched = apply(&mut after, changes, limits.max_changes)?;
    before.run();
    let evicted = rounds::evict(&mut after, &mut touched);
    rounds::settle(&mut after, &mut touched);
    Ok(compose(engine, before, after, (touched, evicted), now))
}

/// Where every pod is that was placed in one of the courses, or has to do with the changes: its nodes before and after.
type Moves = BTreeMap<PodName, (Option<Arc<str>>, Option<Arc<str>>)>;

fn node_of(engine: &Engine, name: &PodName) -> Option<Arc<str>> {
    engine.known_pod(&name.namespace, &name.name)?.node_name.clone()
}

fn moves(before: &Course, after: &Course, touched: &changes::AffectedPods) -> Moves {
    let placed = before.placements.keys().chain(after.placements.keys());
    let evicted = before.evictions.iter().chain(&after.evictions);
    let evicted: BTreeSet<PodName> =
        evicted.map(|eviction| PodName::from(&*eviction.pod)).collect();
    let names: BTreeSet<&PodName> =
        placed.chain(&touched.asked).chain(&touched.gone).chain(&evicted).collect();
    let nodes = |name: &PodName| (node_of(&before.engine, name), node_of(&after.engine, name));
    names.into_iter().map(|name| (name.clone(), nodes(name))).collect()
}

fn compose(
    engine: &Engine,
    before: Course,
    mut after: Course,
    (mut touched, evicted): (changes::AffectedPods, rounds::EvictionRounds),
    now: Timestamp,
) -> WhatIf {
    let moves = moves(&before, &after, &touched);
    let is_asked = |name: &PodName| touched.asked.contains(name);
    let mut placements: Vec<PlacementAnswer> = Vec::new();
    let mut nodes: BTreeMap<Arc<str>, NodeDifference> = BTreeMap::new();
    for (name, (was, is)) in &moves {
        if let Some(node) = is.as_ref().filter(|_| was != is || is_asked(name)) {
            placements.push(PlacementAnswer {
                pod: name.to_string(),
                node: node.to_string(),
                instead_of: was.as_ref().filter(|_| was != is).map(ToString::to_string),
                asked: is_asked(name),
                round: evicted.rounds.get(name).copied(),
            });
        }
        if was == is {
            continue;
        }
        let sides = [(was, false), (is, true)];
        for (node, comes) in
            sides.into_iter().filter_map(|(node, side)| Some((node.as_ref()?, side)))
        {
            let entry = nodes.entry(node.clone()).or_insert_with(|| NodeDifference::of(node));
            let list = if comes { &mut entry.added } else { &mut entry.removed };
            list.push(name.to_string());
        }
    }
    let (mut pending, other_pending) = pending(&before, &after, &touched);
    say_what_gates_prevent(&mut after, &mut pending);
    let is_whole = after.cut_short.is_none();
    let fits = is_whole && pending.iter().all(|pod| !pod.asked) && evicted.blocked.is_empty();
    touched.warn_of_going();
    let mut warnings = touched.warnings;
    warnings.extend(before.warning_if_cut_short().or_else(|| after.warning_if_cut_short()));
    warnings.extend(after.warnings_about_outside());
    if engine.n_binding() > 0 {
        warnings.push("pods that are being bound count as bound".to_owned());
    }
    if !after.evictions.is_empty() && !touched.moves_pods {
        warnings
            .push("controllers of evicted pods, which would replace them, do not run".to_owned());
    }
    let evictions: Vec<EvictionAnswer> = after.evictions.iter().map(EvictionAnswer::from).collect();
    let totals = Totals {
        placed: placements.iter().filter(|placement| placement.asked).count(),
        left: pending.iter().filter(|pod| pod.asked).count(),
        evicted: evictions.len(),
        blocked: evicted.blocked.len(),
    };
    WhatIf {
        api_version: API_VERSION,
        kind: "WhatIf",
        as_of: as_of(now),
        fits,
        placements,
        evictions,
        pending,
        rounds: evicted.n_rounds,
        blocked: evicted.blocked,
        other_pending,
        nodes: nodes.into_values().collect(),
        warnings,
        totals,
    }
}

/// The pods that are asked about, or would have had a node without the changes, and have none; and how many others wait.
fn pending(
    before: &Course,
    after: &Course,
    touched: &changes::AffectedPods,
) -> (Vec<PendingAnswer>, usize) {
    let (mut listed, mut n_others) = (Vec::new(), 0);
    for (_, queued) in after.engine.queue().pending_pods() {
        let pod = &queued.entry().0;
        if is_being_deleted(pod) {
            continue;
        }
        let name = PodName::from(&**pod);
        let asked = touched.asked.contains(&name);
        let loses = node_of(&before.engine, &name).is_some();
        if !asked && !loses {
            n_others += 1;
            continue;
        }
        let (code, message) = match after.failures.get(&pod.uid) {
            Some((true, message)) => (SCHEDULER_ERROR, message.clone()),
            Some((false, message)) => ("Unschedulable", message.clone()),
            None if queued.is_gated() => {
                (SCHEDULING_GATED, "held back before any attempt".to_owned())
            }
            None => ("NotTried", "not tried".to_owned()),
        };
        let pod = name.to_string();
        listed.push(PendingAnswer { pod, asked, code, message, without_gates: None });
    }
    for name in &touched.asked {
        let known = after.engine.known_pod(&name.namespace, &name.name);
        let is_evicted = |eviction: &Eviction| PodName::from(&*eviction.pod) == *name;
        if known.is_none() && after.evictions.iter().any(is_evicted) {
            let message = "it gets a node, and is evicted for another pod then".to_owned();
            listed.push(PendingAnswer {
                pod: name.to_string(),
                asked: true,
                code: "Evicted",
                message,
                without_gates: None,
            });
        }
        let is_queued = after.engine.queue().get(&name.namespace, &name.name).is_some();
        let does_not_wait =
            |pod: &Arc<Pod>| !pod.is_assigned() && (!is_queued || is_being_deleted(pod));
        if known.is_some_and(does_not_wait) {
            let message =
                known.map(|pod| why_not_scheduled(&after.engine, pod)).unwrap_or_default();
            listed.push(PendingAnswer {
                pod: name.to_string(),
                asked: true,
                code: "NotScheduled",
                message,
                without_gates: None,
            });
        }
    }
    listed.sort_by(|a, b| a.pod.cmp(&b.pod));
    (listed, n_others)
}

/// Why a pod has no node and does not wait for one.
fn why_not_scheduled(engine: &Engine, pod: &Pod) -> String {
    match is_ours(engine, pod) {
        false => not_ours(engine, pod).to_string(),
        true if is_being_deleted(pod) => BEING_DELETED.to_owned(),
        true => "it is still on its way".to_owned(),
    }
}

/// Adds what would become of pods that are held back if they were not, each by itself, as things are at the end.
fn say_what_gates_prevent(after: &mut Course, pending: &mut [PendingAnswer]) {
    let gated = pending.iter_mut().filter(|pod| pod.code == SCHEDULING_GATED);
    for pod in gated.take(MAX_UNGATED) {
        let Ok(name) = pod.pod.parse() else { continue };
        if after.is_interrupted() {
            return;
        }
        let found = found_about(&mut after.engine, &Subject::Known(name), after.now);
        let Ok(found) =
            found.map(|found| explanation_of(found, ExplainOptions::default(), after.now))
        else {
            continue;
        };
        let preempted = found.preemption.and_then(|preemption| preemption.node);
        let node = found.decision.map(|decision| decision.node).or(preempted).unwrap_or_default();
        pod.without_gates = found.without_gates.map(|verdict| UngatedAnswer { verdict, node });
    }
}
