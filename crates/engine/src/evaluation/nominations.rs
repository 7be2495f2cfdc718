//! Nodes whose answer changes because other pods are nominated to them.

use std::sync::{Arc, Weak};

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::Reads;
use kube_scheduler_framework::{NodeIdx, Status};
use kube_scheduler_runtime::{NominatedFilters, Runner, must_leave_room};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Evaluation;

/// The answers of nodes to which pods are nominated, kept for a class of pods: while many pods preempt others, hundreds of nodes
/// have nominated pods, and most are as they were at the attempt before.
///
/// Invariant: an answer is used only while the node [has not changed](Self::forget) in anything that the class's evaluation was
/// read from, and the same pods are nominated to it, in the same state.
#[derive(Debug, Default)]
pub(crate) struct NominatedVerdicts {
    by_node: FxHashMap<NodeIdx, NominatedVerdict>,
    /// The number of the latest attempt.
    attempt: u64,
}

#[derive(Debug)]
struct NominatedVerdict {
    /// The nominated pods that pods of the class must leave room for. They are compared by address: as long as there is a weak reference
    /// to a pod, no other pod gets its address, even if the pod is gone.
    pods: SmallVec<[Weak<Pod>; 1]>,
    rejection: Option<Status>,
    /// The latest attempt at which pods were nominated to the node.
    attempt: u64,
}

impl NominatedVerdicts {
    /// What they take, in bytes, if one pod is nominated to each node.
    pub(crate) fn n_bytes(&self) -> usize {
        let one = size_of::<(NodeIdx, NominatedVerdict)>() + size_of::<Pod>();
        self.by_node.capacity() * one
    }

    /// Forgets the answers of nodes that have changed.
    pub(crate) fn forget(&mut self, changed: &[NodeIdx]) {
        if !self.by_node.is_empty() {
            changed.iter().for_each(|node| drop(self.by_node.remove(node)));
        }
    }

    /// What is known of a node with these pods.
    fn get(&mut self, node: NodeIdx, pods: &[Arc<Pod>]) -> Option<Option<Status>> {
        let known = self.by_node.get_mut(&node)?;
        let is_same =
            |(known, pod): (&Weak<Pod>, &Arc<Pod>)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(pod));
        if known.pods.len() != pods.len() || !known.pods.iter().zip(pods).all(is_same) {
            return None;
        }
        known.attempt = self.attempt;
        Some(known.rejection.clone())
    }

    fn insert(&mut self, node: NodeIdx, pods: &[Arc<Pod>], rejection: Option<Status>) {
        let pods = pods.iter().map(Arc::downgrade).collect();
        let attempt = self.attempt;
        self.by_node.insert(node, NominatedVerdict { pods, rejection, attempt });
    }

    /// Forgets the nodes to which no pods are nominated any more.
    fn end(&mut self) {
        self.by_node.retain(|_, known| known.attempt == self.attempt);
        if self.by_node.is_empty() {
            self.by_node = FxHashMap::default();
        }
    }
}

/// The answers that differ from those of `evaluation` when `pod` leaves room for nominated pods (`docs/spec/core.md` §10.6).
/// The error is a filter's. Answers that are read from nothing but `followed` are looked up in the table beside it, and
/// kept there.
pub(crate) fn verdicts_with_nominated_pods(
    runner: &Runner<'_>,
    pod: &Pod,
    evaluation: &Evaluation,
    mut kept: Option<(&mut NominatedVerdicts, Reads)>,
) -> Result<Vec<(NodeIdx, Option<Status>)>, Status> {
    let cx = runner.cx;
    if let Some((known, _)) = &mut kept {
        known.attempt += 1;
    }
    let has_any = cx.nominated.has_nominated_pods();
    let nominations = if has_any { cx.nominated.nominations() } else { Vec::new() };
    let Evaluation { state, pre_filter, .. } = evaluation;
    let mut filters = None;
    let mut changed = Vec::new();
    for (name, mut pods) in nominations {
        pods.retain(|other| must_leave_room(pod, other));
        if pods.is_empty() {
            continue;
        }
        let Some(idx) = cx.cluster.node_idx(&name) else { continue };
        if evaluation.is_left_out(idx) {
            continue;
        }
        let known = kept.as_mut().and_then(|(known, _)| known.get(idx, &pods));
        let rejection = match known {
            Some(rejection) => rejection,
            None => {
                let filters = filters.get_or_insert_with(|| {
                    NominatedFilters::new(*runner, state, pod, &pre_filter.skip, &pre_filter.reads)
                });
                let alone = evaluation.verdicts.rejection(idx);
                let (rejection, reads) = rejection_with(filters, idx, &pods, alone)?;
                if let (Some((known, followed)), Some(reads)) = (&mut kept, reads)
                    && followed.union(reads) == *followed
                {
                    known.insert(idx, &pods, rejection.clone());
                }
                rejection
            }
        };
        changed.extend(rejection.map(|status| (idx, Some(status))));
    }
    if let Some((known, _)) = kept {
        known.end();
    }
    Ok(changed)
}

/// The rejection of a node with `pods`, if it differs from what it says `alone`, and what was read for it; `None` for that if single
/// pods were.
fn rejection_with(
    filters: &mut NominatedFilters<'_>,
    node: NodeIdx,
    pods: &[Arc<Pod>],
    alone: Option<&Status>,
) -> Result<(Option<Status>, Option<Reads>), Status> {
    let (status, reads) = filters.filter_with(node, pods, alone.is_none());
    if status.is_success() {
        // Without the pods, the node's answer is the one there is.
        return Ok((None, reads));
    }
    if !status.is_rejected() {
        return Err(status);
    }
    Ok(((alone != Some(&status)).then_some(status), reads))
}
