//! Calls extenders in their order and combines their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_scheduler_api_types::validation::quoted;
use kube_scheduler_api_types::{KeyedMap, Node, Pod};
use kube_scheduler_cache::{ClusterState, NodeIdx};
use kube_scheduler_framework::preemption::PreemptionCandidate;
use kube_scheduler_framework::{MAX_NODE_SCORE, Status};

use super::{
    Extender, ExtenderCallError, ExtenderFilterResult, ExtenderReport, ExtenderVictims,
    MAX_EXTENDER_PRIORITY,
};
use crate::panic_message::panic_message;

/// All extenders of a scheduler, shared by its profiles.
///
/// Invariant: those whose failures count come before those that may be ignored, each in the order of configuration.
#[derive(Clone, Default)]
pub struct Extenders(Arc<[Arc<dyn Extender>]>);

impl fmt::Debug for Extenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|extender| extender.name())).finish()
    }
}

impl FromIterator<Arc<dyn Extender>> for Extenders {
    fn from_iter<T: IntoIterator<Item = Arc<dyn Extender>>>(extenders: T) -> Self {
        let mut extenders: Vec<_> = extenders.into_iter().collect();
        extenders.sort_by_key(|extender| extender.is_ignorable());
        Self(extenders.into())
    }
}

/// The combined filter answers of all extenders about some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVerdicts {
    /// The nodes that all extenders left, in the order in which they were given.
    pub survivors: Vec<NodeIdx>,
    /// The statuses that extenders gave for rejected nodes; of two statuses for a node the later one counts. Nodes may be
    /// dropped without any status.
    pub statuses: Vec<(NodeIdx, Status)>,
}

impl Extenders {
    /// Whether there are no extenders.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many extenders there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in the order in which they are asked.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Extender>> {
        self.0.iter()
    }

    /// Whether any of them turns nodes down or scores them: then one fitting node is not enough.
    pub fn judge_nodes(&self) -> bool {
        self.iter().any(|extender| extender.verbs().filter || extender.verbs().prioritize)
    }

    /// The first extender from position `from` on that binds and is interested in the pod, with its position.
    pub fn binder(&self, pod: &Pod, from: usize) -> Option<(usize, &Arc<dyn Extender>)> {
        let mut extenders = self.0.iter().enumerate().skip(from);
        extenders.find(|(_, extender)| extender.verbs().bind && extender.is_interested(pod))
    }

    /// Lets every extender narrow `nodes`, each seeing what the one before left.
    ///
    /// # Errors
    /// If an extender that must not be ignored fails.
    pub fn filter(
        &self,
        cluster: &ClusterState,
        pod: &Arc<Pod>,
        nodes: Vec<NodeIdx>,
    ) -> Result<ExtenderVerdicts, Status> {
        let mut verdicts = ExtenderVerdicts { survivors: nodes, statuses: Vec::new() };
        for extender in self.iter() {
            if verdicts.survivors.is_empty() {
                break;
            }
            if !extender.verbs().filter || !extender.is_interested(pod) {
                continue;
            }
            let asked = objects(cluster, &verdicts.survivors);
            let answer = caught(|| extender.filter(pod, &asked))
                .and_then(|result| Ok((kept(&**extender, &asked, &result)?, result)));
            match answer {
                Ok((is_kept, result)) => {
                    verdicts.statuses.extend(failures(cluster, result));
                    let mut is_kept = is_kept.into_iter();
                    verdicts.survivors.retain(|_| is_kept.next().unwrap_or(false));
                }
                Err(error) if extender.is_ignorable() => {
                    extender.report(ExtenderReport::FilterIgnored { error: &error.0 });
                }
                Err(error) => return Err(Status::error(error.0)),
            }
        }
        Ok(verdicts)
    }

    /// For each of `nodes`, in their order, what the extenders add to its score, or `None` when none mentioned it: of nodes with the
    /// best total those that were mentioned go first. `None` for all when no extender is interested in the pod. One that fails adds
    /// nothing.
    pub fn prioritize(
        &self,
        cluster: &ClusterState,
        pod: &Arc<Pod>,
        nodes: &[NodeIdx],
    ) -> Option<Vec<Option<i64>>> {
        let interested: Vec<_> =
            self.iter().filter(|extender| extender.is_interested(pod)).collect();
        if interested.is_empty() {
            return None;
        }
        let asked = objects(cluster, nodes);
        let mut scores: Vec<Option<i64>> = vec![None; nodes.len()];
        let mut pending = Vec::new();
        for extender in interested {
            if extender.verbs().prioritize {
                pending.push((extender, caught(|| Ok(extender.prioritize(pod, &asked)))));
            } else {
                // An extender that does not score counts as having mentioned every node.
                scores.iter_mut().for_each(|score| *score = score.or(Some(0)));
            }
        }
        let positions: KeyedMap<&str, usize> =
            asked.iter().enumerate().map(|(at, node)| (&*node.name, at)).collect();
        for (extender, started) in pending {
            let answer = started.and_then(caught);
            let answer = answer.unwrap_or_else(|error| {
                extender.report(ExtenderReport::NotScored { pod, error: &error.0 });
                Vec::new()
            });
            let scale = extender.weight().wrapping_mul(MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY);
            for priority in answer {
                let (node, score) = (&*priority.host, priority.score);
                extender.report(ExtenderReport::Scored { pod, node, score });
                let Some(&at) = positions.get(node) else { continue };
                let sum = scores[at].unwrap_or(0);
                scores[at] = Some(sum.wrapping_add(score.wrapping_mul(scale)));
            }
        }
        Some(scores)
    }

    /// Lets every extender that supports preemption drop candidates and change victims. Candidates keep their order; nodes
    /// that an extender adds follow in the order of the node list. The error is that of an extender that must not be
    /// ignored.
    pub fn preempt(
        &self,
        cluster: &ClusterState,
        pod: &Arc<Pod>,
        mut candidates: Vec<PreemptionCandidate>,
    ) -> Result<Vec<PreemptionCandidate>, Status> {
        for extender in self.iter() {
            if candidates.is_empty() {
                break;
            }
            if !extender.verbs().preempt || !extender.is_interested(pod) {
                continue;
            }
            let asked: Vec<_> = candidates
                .iter()
                .filter_map(|candidate| {
                    Some((cluster.node(candidate.node)?.clone(), candidate.clone()))
                })
                .collect();
            let answer = caught(|| extender.preempt(pod, &asked))
                .and_then(|answer| resolved(cluster, &**extender, answer));
            let mut answer = match answer {
                Ok(answer) => answer,
                Err(error) if extender.is_ignorable() => {
                    extender.report(ExtenderReport::PreemptIgnored { error: &error.0 });
                    continue;
                }
                Err(error) => return Err(Status::error(error.0)),
            };
            for (node, candidate) in &answer {
                if !candidate.victims.is_empty() {
                    continue;
                }
                if !extender.is_ignorable() {
                    let text = format!("expected at least one victim pod on node {}", quoted(node));
                    return Err(Status::error(text));
                }
                extender.report(ExtenderReport::NoVictims { node });
            }
            answer.retain(|(_, candidate)| !candidate.victims.is_empty());
            // The answer comes by node name. Among equal candidates the first one is taken, so the order must not depend on
            // how the extender lists them.
            let place = |candidate: &PreemptionCandidate| {
                let before = candidates.iter().position(|known| known.node == candidate.node);
                (before.unwrap_or(usize::MAX), cluster.position(candidate.node))
            };
            answer.sort_by_key(|(_, candidate)| place(candidate));
            candidates = answer.into_iter().map(|(_, candidate)| candidate).collect();
        }
        Ok(candidates)
    }
}

fn objects(cluster: &ClusterState, nodes: &[NodeIdx]) -> Vec<Arc<Node>> {
    nodes.iter().filter_map(|idx| cluster.node(*idx).cloned()).collect()
}

/// Runs a call into an extender; a panic is an error like any other.
fn caught<T>(ask: impl FnOnce() -> Result<T, ExtenderCallError>) -> Result<T, ExtenderCallError> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| {
        let message = panic_message(&*panic).unwrap_or("no message");
        Err(format!("extender panicked: {message}").into())
    })
}

/// For each node asked about, whether it passes. The error names a node that was not asked about.
fn kept(
    extender: &dyn Extender,
    asked: &[Arc<Node>],
    result: &ExtenderFilterResult,
) -> Result<Vec<bool>, ExtenderCallError> {
    let positions: KeyedMap<&str, usize> =
        asked.iter().enumerate().map(|(at, node)| (&*node.name, at)).collect();
    let mut is_kept = vec![false; asked.len()];
    for node in &result.nodes {
        let Some(&at) = positions.get(&**node) else {
            return Err(format!(
                "extender {} claims a filtered node {} which is not found in the input node list",
                quoted(extender.name()),
                quoted(node),
            )
            .into());
        };
        is_kept[at] = true;
    }
    Ok(is_kept)
}

/// The statuses of rejected nodes that exist. If a node is in both maps, "preemption cannot help" wins.
fn failures(
    cluster: &ClusterState,
    result: ExtenderFilterResult,
) -> impl Iterator<Item = (NodeIdx, Status)> {
    let ExtenderFilterResult { failed, failed_and_unresolvable, .. } = result;
    let failed = failed.into_iter().map(|(node, reason)| (node, Status::unschedulable(reason)));
    let unresolvable = failed_and_unresolvable
        .into_iter()
        .map(|(node, reason)| (node, Status::unresolvable(reason)));
    failed.chain(unresolvable).filter_map(|(node, status)| Some((cluster.node_idx(&node)?, status)))
}

/// Finds the nodes and pods that an extender named.
fn resolved(
    cluster: &ClusterState,
    extender: &dyn Extender,
    answer: BTreeMap<String, ExtenderVictims>,
) -> Result<Vec<(String, PreemptionCandidate)>, ExtenderCallError> {
    let mut candidates = Vec::new();
    for (name, wanted) in answer {
        let Some(node) = cluster.node_idx(&name) else {
            return Err(format!("nodeinfo not found for node name {}", quoted(&name)).into());
        };
        let there: KeyedMap<&str, &Arc<Pod>> =
            cluster.pods_on(node).map(|pod| (&*pod.uid, pod)).collect();
        let mut victims = Vec::new();
        let mut seen = BTreeSet::new();
        for uid in wanted.uids {
            let Some(victim) = there.get(&*uid) else {
                return Err(format!(
                    "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is not found on \
                     that node",
                    extender.name(),
                )
                .into());
            };
            // An extender may name a pod twice; it is evicted once.
            if seen.insert(uid) {
                victims.push((*victim).clone());
            }
        }
        let n_pdb_violations = wanted.n_pdb_violations;
        candidates.push((name, PreemptionCandidate { node, victims, n_pdb_violations }));
    }
    Ok(candidates)
}
