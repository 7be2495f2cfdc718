//! Draining nodes: round by round, as many pods as disruption budgets let go.
//!
//! A round ends when the scheduler has placed what it can; pods that got a node count as healthy in the next one. Invariant: it
//! ends, because every round but the last evicts a pod.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_engine::Input;

use super::WITHOUT_STATUS;
use super::budgets::{Budgets, EvictionVerdict, is_overlooked};
use super::changes::{Touched, is_of_node, recreate};
use super::data::BlockedAnswer;
use crate::course::Course;
use crate::format::count;
use crate::pod_name::PodName;

/// What became of the pods of drained nodes.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// The round in which each pod went.
    pub(super) rounds: BTreeMap<PodName, usize>,
    pub(super) n_rounds: usize,
    /// The pods that never go.
    pub(super) blocked: Vec<BlockedAnswer>,
}

/// Evicts the pods of all `nodes`, and lets the scheduler go on in between.
pub(super) fn drain(
    course: &mut Course,
    nodes: &BTreeSet<Arc<str>>,
    touched: &mut Touched,
) -> Drained {
    let mut drained = Drained::default();
    if nodes.is_empty() {
        return drained;
    }
    let mut budgets = Budgets::of(&course.engine);
    if !budgets.without_status.is_empty() {
        let budgets = budgets.without_status.join(", ");
        touched.warnings.push(format!("{WITHOUT_STATUS}: {budgets}"));
    }
    let mut lost: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let mut left = pods_to_evict(course, nodes);
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
        if allowed.is_empty() || course.is_cut_short {
            let is_cut_short = course.is_cut_short;
            let untried = allowed.iter().map(|pod| not_reached(pod));
            let refused = refused.iter().map(|(pod, verdict)| match is_cut_short {
                true => not_reached(pod),
                false => blocked(pod, verdict),
            });
            drained.blocked = untried.chain(refused).collect();
            drained.blocked.sort_by(|a, b| a.pod.cmp(&b.pod));
            lost.into_iter().for_each(|(node, n)| touched.add_lost(&node, n));
            return drained;
        }
        drained.n_rounds += 1;
        let names = allowed.iter().map(|pod| PodName::from(&**pod));
        drained.rounds.extend(names.map(|name| (name, drained.n_rounds)));
        evict(course, allowed, &mut budgets, touched, &mut lost);
        let (n_bound, n_evicted) = (course.bound.len(), course.evictions.len());
        course.run();
        course.bound[n_bound..].iter().for_each(|pod| budgets.placed(pod));
        for eviction in &course.evictions[n_evicted..] {
            budgets.lost(&eviction.pod);
        }
        left = refused.into_iter().map(|(pod, _)| pod).collect();
    }
}

/// The pods that leave with their nodes, most important first.
fn pods_to_evict(course: &Course, nodes: &BTreeSet<Arc<str>>) -> Vec<Arc<Pod>> {
    let is_drained = |pod: &&Arc<Pod>| {
        pod.node_name.as_ref().is_some_and(|node| nodes.contains(node)) && !is_of_node(pod)
    };
    let mut pods: Vec<Arc<Pod>> = course.engine.known_pods().filter(is_drained).cloned().collect();
    pods.sort_by_key(|pod| (Reverse(pod.priority()), pod.key()));
    pods
}

fn is_known(course: &Course, pod: &Pod) -> bool {
    let known = course.engine.known_pod(&pod.namespace, &pod.name);
    known.is_some_and(|known| known.uid == pod.uid)
}

/// Evicts pods, and counts by node those that no controller creates again.
fn evict(
    course: &mut Course,
    pods: Vec<Arc<Pod>>,
    budgets: &mut Budgets,
    touched: &mut Touched,
    lost: &mut BTreeMap<Arc<str>, usize>,
) {
    for pod in &pods {
        course.delete(pod);
        if is_overlooked(pod) {
            budgets.lost(pod);
        }
    }
    // Whoever is evicted for another pod now is chosen by what budgets still allow.
    for budget in budgets.recounted() {
        course.handle(Input::ObjectApplied(budget));
    }
    for pod in pods {
        if !recreate(course, &pod, touched)
            && let Some(node) = &pod.node_name
        {
            *lost.entry(node.clone()).or_default() += 1;
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
