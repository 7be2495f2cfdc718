//! Evicting pods, by name or with their nodes: round by round, as many as disruption budgets let go.
//!
//! A round ends when the scheduler has placed what it can; pods that got a node count as healthy in the next one. Invariant: it
//! ends, because every round but the last evicts a pod, and no pod comes again more than [`MAX_RETURNS`] times within them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_engine::Input;

use super::WITHOUT_STATUS;
use super::budgets::{Budgets, EvictionVerdict, is_overlooked};
use super::changes::{AffectedPods, is_of_node, recreate, recreate_if_controlled};
use super::data::BlockedAnswer;
use crate::course::{Course, StopReason};
use crate::format::count;
use crate::pod_name::PodName;

/// How often one pod comes again after it was evicted for another one. If it is evicted once more, this is taken to go on for ever:
/// two gangs that never become complete can alternately make room for their members, for example, which the pod takes again each time.
pub const MAX_RETURNS: usize = 16;

/// What became of the pods that are to be evicted.
#[derive(Debug, Default)]
pub(super) struct EvictionRounds {
    /// The round in which each pod went.
    pub(super) rounds: BTreeMap<PodName, usize>,
    pub(super) n_rounds: usize,
    /// The pods that never go.
    pub(super) blocked: Vec<BlockedAnswer>,
}

/// Evicts all pods that are to be evicted, and lets the scheduler go on in between.
pub(super) fn evict(course: &mut Course, touched: &mut AffectedPods) -> EvictionRounds {
    let mut evicted = EvictionRounds::default();
    if touched.to_drain.is_empty() && touched.to_evict.is_empty() {
        return evicted;
    }
    let mut budgets = Budgets::of(&course.engine);
    if !budgets.without_status.is_empty() {
        let budgets = budgets.without_status.join(", ");
        touched.warnings.push(format!("{WITHOUT_STATUS}: {budgets}"));
    }
    let mut lost = LostPods::default();
    let mut left = pods_to_evict(course, touched);
    loop {
        // A pod may have been evicted for another one meanwhile.
        left.retain(|pod| is_known(course, pod));
        let (mut allowed, mut refused) = (Vec::new(), Vec::new());
        for pod in std::mem::take(&mut left) {
            match budgets.evict(&pod) {
                EvictionVerdict::Allowed => allowed.push(pod),
                verdict => refused.push((pod, verdict)),
            }
        }
        if allowed.is_empty() || course.cut_short.is_some() {
            let is_cut_short = course.cut_short.is_some();
            let untried = allowed.iter().map(|pod| not_reached(pod));
            let refused = refused.iter().map(|(pod, verdict)| match is_cut_short {
                true => not_reached(pod),
                false => blocked(pod, verdict),
            });
            evicted.blocked = untried.chain(refused).collect();
            evicted.blocked.sort_by(|a, b| a.pod.cmp(&b.pod));
            lost.into_iter().for_each(|(node, n)| touched.add_lost(node.as_deref(), n));
            return evicted;
        }
        evicted.n_rounds += 1;
        let names = allowed.iter().map(|pod| PodName::from(&**pod));
        evicted.rounds.extend(names.map(|name| (name, evicted.n_rounds)));
        evict_at_once(course, allowed, &mut budgets, touched, &mut lost);
        let (n_bound, n_evicted) = (course.bound.len(), course.evictions.len());
        settle(course, touched);
        course.bound[n_bound..].iter().for_each(|pod| budgets.placed(pod));
        for eviction in &course.evictions[n_evicted..] {
            budgets.lost(&eviction.pod);
        }
        left = refused.into_iter().map(|(pod, _)| pod).collect();
    }
}

/// Goes on until nothing changes any more. Where pods go away from nodes, and are created again by their controllers, so are those
/// that are evicted for others.
pub(super) fn settle(course: &mut Course, touched: &mut AffectedPods) {
    loop {
        let n_before = course.evictions.len();
        course.run();
        if !touched.moves_pods || course.cut_short.is_some() || course.evictions.len() == n_before {
            return;
        }
        let evicted = course.evictions[n_before..].iter().map(|eviction| eviction.pod.clone());
        for pod in evicted.filter(|pod| !is_of_node(pod)).collect::<Vec<_>>() {
            // One of a group may have been chosen twice.
            let is_gone = course.engine.known_pod(&pod.namespace, &pod.name).is_none();
            if is_gone && recreate_if_controlled(course, &pod, touched) {
                let n_returns = touched.returns.entry(PodName::from(&*pod)).or_default();
                *n_returns += 1;
                if *n_returns > MAX_RETURNS {
                    course.cut_short = Some(StopReason::Circle);
                }
            }
        }
        if course.cut_short.is_some() {
            return;
        }
    }
}

/// The pods that are named, in their order, then those that leave with their nodes, most important first.
fn pods_to_evict(course: &Course, touched: &mut AffectedPods) -> Vec<Arc<Pod>> {
    let nodes = &touched.to_drain;
    let is_drained = |pod: &&Arc<Pod>| {
        pod.node_name.as_ref().is_some_and(|node| nodes.contains(node)) && !is_of_node(pod)
    };
    let mut drained: Vec<Arc<Pod>> =
        course.engine.known_pods().filter(is_drained).cloned().collect();
    drained.sort_by_key(|pod| (Reverse(pod.priority()), pod.key()));
    let mut seen = BTreeSet::new();
    let all = std::mem::take(&mut touched.to_evict).into_iter().chain(drained);
    all.filter(|pod| seen.insert(pod.uid.clone())).collect()
}

fn is_known(course: &Course, pod: &Pod) -> bool {
    let known = course.engine.known_pod(&pod.namespace, &pod.name);
    known.is_some_and(|known| known.uid == pod.uid)
}

/// How many pods no controller creates again, by the node that they leave with, if it is drained.
type LostPods = BTreeMap<Option<Arc<str>>, usize>;

/// Evicts pods, and counts those that no controller creates again.
fn evict_at_once(
    course: &mut Course,
    pods: Vec<Arc<Pod>>,
    budgets: &mut Budgets,
    touched: &mut AffectedPods,
    lost: &mut LostPods,
) {
    for pod in &pods {
        course.delete(pod);
        if is_overlooked(pod) {
            budgets.lost(pod);
        }
    }
    // Which pods are evicted for another one now depends on what budgets still allow.
    for budget in budgets.recounted() {
        course.handle(Input::ObjectApplied(budget));
    }
    for pod in pods {
        if !recreate(course, &pod, touched) {
            let node = pod.node_name.clone().filter(|node| touched.to_drain.contains(node));
            *lost.entry(node).or_default() += 1;
        }
    }
}

fn not_reached(pod: &Pod) -> BlockedAnswer {
    let message = "the answer is cut short".to_owned();
    answer(pod, "NotReached", Vec::new(), message)
}

fn blocked(pod: &Pod, verdict: &EvictionVerdict) -> BlockedAnswer {
    match verdict {
        EvictionVerdict::Several(budgets) => {
            let message =
                "more than one disruption budget covers it, which evictions do not support";
            answer(pod, "SeveralBudgets", budgets.clone(), message.to_owned())
        }
        EvictionVerdict::Exhausted { budget, needs, never_allowed } => {
            let needs = count(usize::try_from(*needs).unwrap_or_default(), "healthy pod");
            let (code, message) = match never_allowed {
                true => (
                    "NoDisruptionsAllowed",
                    format!("budget {budget} needs {needs} and allows no eviction"),
                ),
                false => (
                    "WaitsForReplacements",
                    format!(
                        "budget {budget} needs {needs}, and pods that were evicted find no place"
                    ),
                ),
            };
            answer(pod, code, vec![budget.clone()], message)
        }
        EvictionVerdict::Allowed => not_reached(pod),
    }
}

fn answer(pod: &Pod, code: &'static str, budgets: Vec<Arc<str>>, message: String) -> BlockedAnswer {
    BlockedAnswer {
        pod: pod.key(),
        node: pod.node_name.as_ref().map(ToString::to_string).unwrap_or_default(),
        code,
        budgets: budgets.iter().map(ToString::to_string).collect(),
        message,
    }
}
