//! Changes that make a pod fit together with its group.
//!
//! A change of the pod is made to all pods of the group that wait and are like it. What a group needs is more than what one of its
//! pods lacks on a node, so that amounts are found by trials.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::{GroupPolicy, Pod};
use kube_scheduler_engine::{Engine, Input};

use super::candidates::Candidate;
use super::repairs::{Combination, models};
use crate::amounts::{overhead_of, requested};
use crate::course::Course;
use crate::explanation::ExplainOptions;
use crate::explanation::group::trial;
use crate::interrupt::Interrupt;

/// How many nodes may be added.
const MAX_NODES: usize = 1_000;
/// How many of a pod's requests are lowered, one at a time.
const MAX_REQUESTS: usize = 8;

/// The group of a pod, of which pods have to fit together.
pub(super) struct GroupOfPod {
    namespace: Arc<str>,
    /// Its name, as pods give it.
    name: Arc<str>,
    /// Its waiting pods that are like the pod, without it.
    alike: Vec<Arc<Pod>>,
    n_waiting: usize,
}

impl GroupOfPod {
    pub(super) fn of(engine: &Engine, pod: &Pod) -> Option<Self> {
        let name = pod.spec.pod_group.clone()?;
        let state = engine.cluster().pod_group(&pod.namespace, &name)?;
        let mut alike: Vec<Arc<Pod>> =
            state.unscheduled().filter(|other| other.uid != pod.uid).cloned().collect();
        let n_waiting = alike.len() + 1;
        alike.retain(|other| other.spec == pod.spec && other.requests == pod.requests);
        Some(Self { namespace: pod.namespace.clone(), name, alike, n_waiting })
    }

    /// The changes that may help the group beside those that open nodes for its pods.
    pub(super) fn changes(&self, engine: &Engine, pod: &Pod) -> BTreeSet<Combination> {
        let cluster = engine.cluster();
        let group = cluster.pod_group_object(&self.namespace, &self.name).ok();
        let min_count = match group.map(|group| group.policy) {
            Some(GroupPolicy::Gang { min_count }) => i64::from(min_count),
            _ => 0,
        };
        let of_group = (min_count > 1).then(|| Candidate::LowerMinCount {
            namespace: self.namespace.clone(),
            group: self.name.clone(),
            from: min_count,
            by: min_count - 1,
        });
        let requested = requested(pod).into_iter().map(|(resource, total)| {
            let overhead = overhead_of(pod, &resource);
            (resource, total.saturating_sub(overhead), overhead)
        });
        let requested = requested.filter(|(_, from, _)| *from > 1).take(MAX_REQUESTS);
        let requests = requested.map(|(resource, from, overhead)| Candidate::LowerRequest {
            resource,
            less: from - 1,
            from,
            overhead,
            is_exact: false,
        });
        let count = self.n_waiting.min(MAX_NODES);
        let nodes = models(cluster).into_iter().map(|node| Candidate::AddNodesLike { node, count });
        of_group
            .into_iter()
            .chain(requests)
            .chain(nodes)
            .map(|one| Combination::new(vec![one]))
            .collect()
    }

    /// Gives the pod as it is after the changes to the engine, and makes them to the pods that are like it.
    pub(super) fn apply(&self, changes: &[Candidate], pod: &Arc<Pod>, course: &mut Course) {
        if !changes.iter().any(Candidate::is_of_pod) {
            return;
        }
        course.handle(Input::PodApplied(pod.clone()));
        for other in &self.alike {
            let mut other = (**other).clone();
            changes.iter().rev().for_each(|change| change.apply_to(&mut other));
            course.handle(Input::PodApplied(Arc::new(other)));
        }
    }
}

/// The pods that would be evicted for the group of a pod, if the pod then gets a node: none if they fit without.
pub(super) fn victims_of_group(
    course: &Course,
    pod: &Arc<Pod>,
    may_evict: bool,
    interrupt: &Interrupt,
) -> Option<Vec<String>> {
    let options = ExplainOptions::ALL;
    let attempt = trial::group_of(&course.engine, pod, options, interrupt, course.now)?.attempt?;
    let helps = attempt.verdict == "Fits" || attempt.verdict == "FitsAfterPreemption" && may_evict;
    (helps && attempt.places_pod != Some(false)).then_some(attempt.victims)
}
