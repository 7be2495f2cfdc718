//! Why a pod goes where it goes, or nowhere.

mod compose;
mod data;
pub(crate) mod group;
mod table;
mod visibility;

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodSpec, Timestamp};
use kube_scheduler_engine::{self as engine, Engine, PodPlace};

pub(crate) use self::compose::{BEING_DELETED, is_being_deleted, place_answer};
pub use self::data::{
    Decision, Explanation, FeasibleNode, LostAnswer, PlaceAnswer, PreemptionAnswer, RejectedNodes,
    Rejection, ScoreAnswer, ShortageAnswer, Suggestion, Verdict,
};
pub use self::group::{DomainsAnswer, FailedMembers, GroupAnswer, GroupAttempt};
pub(crate) use self::table::{examples_cell, gated_by};
pub use self::visibility::Visibility;
pub(crate) use self::visibility::{
    ERROR_HIDDEN, NODES_HIDDEN, OTHERS_HIDDEN, PODS_HIDDEN, is_beside, is_of, merged,
};
use crate::Refusal;
use crate::interrupt::Interrupt;
use crate::pod_name::PodName;

/// What is said where it is not known how the pod fares with its group.
const ALONE: &str = "the pod group was not evaluated as a whole; this verdict is for the pod alone";

/// The pod that a question is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// A pod that the scheduler knows, by its name.
    Known(PodName),
    /// A pod given as a manifest. The scheduler need not know it.
    Manifest(Arc<Pod>),
}

impl Subject {
    /// The pod, in the group that it belongs to; `None` if the engine does not know it.
    pub fn pod_in(&self, engine: &Engine) -> Option<Arc<Pod>> {
        match self {
            Self::Known(name) => engine.known_pod(&name.namespace, &name.name).cloned(),
            Self::Manifest(pod) => Some(in_its_group(engine, pod)),
        }
    }
}

/// How many nodes an explanation lists by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainOptions {
    /// How many nodes that are rejected for the same reasons are named; the others are counted.
    pub max_examples: usize,
    /// How many feasible nodes are listed, the best first.
    pub max_feasible: usize,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { max_examples: 3, max_feasible: 10 }
    }
}

impl ExplainOptions {
    /// Options with which every node is named.
    pub const ALL: Self = Self { max_examples: usize::MAX, max_feasible: usize::MAX };

    /// What an answer lists at most that is sent to a program.
    pub const SENT: Self = Self { max_examples: 10, max_feasible: 100 };
}

/// Explains what an attempt at the pod would find now. O(nodes × plugins), plus the search for pods to evict. Nothing
/// that is scheduled depends on it.
///
/// # Errors
/// If there is no such pod, or no profile is responsible for it.
pub fn explain(
    engine: &mut Engine,
    subject: &Subject,
    options: ExplainOptions,
    now: Timestamp,
) -> Result<Explanation, Refusal> {
    explain_until(engine, subject, options, &Interrupt::default(), now)
}

/// As [`explain`]; after an `interrupt` the pod's group is not tried any more.
pub(crate) fn explain_until(
    engine: &mut Engine,
    subject: &Subject,
    options: ExplainOptions,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Result<Explanation, Refusal> {
    let found = found_about(engine, subject, now)?;
    Ok(explanation_in_group(engine, found, options, interrupt, now))
}

/// The explanation of what was found, in which the pod's group has the last word: a pod gets no node while its group does not.
pub(crate) fn explanation_in_group(
    engine: &Engine,
    found: ExplainedPod,
    options: ExplainOptions,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Explanation {
    let group = match found.pod.is_assigned() || is_being_deleted(&found.pod) {
        true => None,
        false => group::trial::group_of(engine, &found.pod, options, interrupt, now),
    };
    let mut answer = explanation_of(found, options, now);
    // Pods of its group may take its room, or be what it has to be near.
    match group.as_ref().map(GroupAnswer::verdict_of_pod) {
        Some(Some(verdict)) if answer.judged() != Verdict::Error && answer.judged() != verdict => {
            answer.judge_by_group(verdict);
        }
        Some(None) => answer.warnings.push(ALONE.to_owned()),
        _ => {}
    }
    if answer.judged() == Verdict::Fits {
        answer.waits_for.clear();
    }
    if group.as_ref().is_some_and(|group| group.attempt.is_some())
        && answer.verdict != Verdict::Gated
    {
        // The group held the pod back, and does not any more: with this pod it is tried.
        answer.gated = None;
    }
    answer.group = group;
    answer
}

/// What an attempt at a pod would find now.
#[derive(Debug)]
pub(crate) struct ExplainedPod {
    pub(crate) pod: Arc<Pod>,
    /// Where the pod is, if it is not only a manifest.
    place: Option<PodPlace>,
    pub(crate) explanation: engine::AttemptExplanation,
}

/// Asks the engine.
pub(crate) fn found_about(
    engine: &mut Engine,
    subject: &Subject,
    now: Timestamp,
) -> Result<ExplainedPod, Refusal> {
    let pod = match subject {
        Subject::Known(name) => {
            subject.pod_in(engine).ok_or_else(|| Refusal::NoSuchPod(name.clone()))?
        }
        Subject::Manifest(pod) => in_its_group(engine, pod),
    };
    let place = engine.place_of(&pod.namespace, &pod.name).filter(|_| is_known(engine, &pod));
    let random = engine.next_random();
    let found = match engine.explain(&pod, random, now) {
        Some(found) => found,
        // Another scheduler has given it its node.
        None if pod.is_assigned() => engine::AttemptExplanation::nothing_yet(&pod),
        None => return Err(not_ours(engine, &pod)),
    };
    Ok(ExplainedPod { pod, place, explanation: found })
}

/// The explanation of what was found.
pub(crate) fn explanation_of(
    found: ExplainedPod,
    options: ExplainOptions,
    now: Timestamp,
) -> Explanation {
    let ExplainedPod { pod, place, explanation } = found;
    compose::compose(&pod, place, explanation, options, now)
}

/// The pod in the group that it belongs to, which plugins may tell by its labels, as the engine has the pods that it knows.
fn in_its_group(engine: &Engine, pod: &Arc<Pod>) -> Arc<Pod> {
    let pod_group = engine.group_of(pod);
    if pod_group == pod.spec.pod_group {
        return pod.clone();
    }
    let spec = Arc::new(PodSpec { pod_group, ..(*pod.spec).clone() });
    Arc::new(Pod { spec, ..(**pod).clone() })
}

/// Whether the engine knows this very pod, and not only one of its name.
pub(crate) fn is_known(engine: &Engine, pod: &Pod) -> bool {
    engine.known_pod(&pod.namespace, &pod.name).is_some_and(|known| known.uid == pod.uid)
}

/// Whether a profile of the engine is responsible for the pod.
pub(crate) fn is_ours(engine: &Engine, pod: &Pod) -> bool {
    let name = &pod.spec.scheduler_name;
    engine.profiles().iter().any(|profile| profile.scheduler_name == *name)
}

/// That another scheduler is responsible for the pod.
pub(crate) fn not_ours(engine: &Engine, pod: &Pod) -> Refusal {
    let profiles: Vec<&str> =
        engine.profiles().iter().map(|profile| &*profile.scheduler_name).collect();
    Refusal::NotOurs {
        pod: PodName::from(pod),
        scheduler: pod.spec.scheduler_name.to_string(),
        profiles: profiles.join(", "),
    }
}
