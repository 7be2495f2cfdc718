//! A cache of which nodes have devices for which claims. An answer is kept until devices of the node are taken or released. Pods
//! made from the same template ask the same question, and each of them changes the devices of one node.
//!
//! Allocations themselves are not kept: for the chosen node the search is repeated, and finds the same one.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use kube_scheduler_devices::{Classes, DeviceState, ExtendedClaim};
use kube_scheduler_framework::api::{Labels, Node, Object, lock};
use kube_scheduler_framework::{ClusterView, NodeView};

/// How many questions are remembered; beyond that, the one that was asked longest ago is evicted.
const MAX_QUESTIONS: usize = 16;
/// How many bytes a claim of a pod may have, on average, for anything about them to be remembered, which they stay in memory for. The
/// engine counts twice as many for each, since its decoded form is kept, too.
const MAX_CLAIM_BYTES: usize = 16 << 10;

/// Whether nothing about these claims is remembered.
pub(super) fn are_large<'a>(claims: impl ExactSizeIterator<Item = &'a Arc<Object>>) -> bool {
    let most = MAX_CLAIM_BYTES * claims.len();
    claim_bytes(claims) > most
}

fn claim_bytes<'a>(claims: impl IntoIterator<Item = &'a Arc<Object>>) -> usize {
    claims.into_iter().map(|claim| claim.n_bytes()).sum()
}

/// What is asked of every node: all that the answer depends on, apart from the node and its devices.
#[derive(Clone)]
pub(super) struct Question {
    /// The claims to allocate.
    pub(super) claims: Vec<Arc<Object>>,
    /// What the special claim among them asks for.
    pub(super) special: Option<Arc<ExtendedClaim>>,
    /// The classes that the claims name.
    pub(super) classes: Classes,
}

/// Whether a node has what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has the devices; `score` says how well the alternatives among the requests are served.
    Yes { score: i64 },
    /// It does not have them.
    No,
    /// It does not have them, and some of its pools are invalid.
    InvalidPools,
}

/// The answers to the latest questions, the latest one last.
#[derive(Default)]
pub(super) struct Answers(Mutex<Vec<(Question, Arc<Column>)>>);

/// The answers to one question.
#[derive(Default)]
pub(super) struct Column(Mutex<Table>);

/// The answers to one question, by node.
///
/// Invariant: the answer of a node that has not changed is right for the devices as they were after the change that was followed
/// last.
#[derive(Default)]
pub(super) struct Table {
    /// See `DeviceState::latest_change`.
    followed: u64,
    /// By slot.
    answers: Vec<Option<NodeAnswer>>,
}

/// The answer about a node, and what of the node it depends on.
struct NodeAnswer {
    answer: Answer,
    /// The object that the answer was made for: a cheap test whether the slot still has the same node. Weak, so that nodes which are
    /// gone are not kept in memory.
    node: Weak<Node>,
    name: Arc<str>,
    labels: Labels,
}

impl Question {
    fn is_same(&self, other: &Self) -> bool {
        let is_same_claim = |(a, b): (&Arc<Object>, &Arc<Object>)| {
            Arc::ptr_eq(a, b) || a.json["spec"] == b.json["spec"]
        };
        let has_class = |(name, class): (&Arc<str>, &Arc<_>)| {
            other.classes.get(name).is_some_and(|known| Arc::ptr_eq(known, class))
        };
        self.claims.len() == other.claims.len()
            && self.classes.len() == other.classes.len()
            && self.special == other.special
            && self.classes.iter().all(has_class)
            && self.claims.iter().zip(&other.claims).all(is_same_claim)
    }
}

impl Answers {
    /// What is remembered takes, in bytes. O(questions and their claims).
    pub(super) fn n_bytes(&self) -> usize {
        let all = lock(&self.0);
        let of = |(question, column): &(Question, Arc<Column>)| {
            claim_bytes(&question.claims) + column.table().n_bytes()
        };
        all.iter().map(of).sum()
    }

    /// The answers to a question.
    pub(super) fn to(&self, question: Question) -> Arc<Column> {
        if are_large(question.claims.iter()) {
            return Arc::default();
        }
        let mut all = lock(&self.0);
        let known = all.iter().position(|(known, _)| known.is_same(&question));
        let entry = match known {
            Some(at) => all.remove(at),
            None => {
                if all.len() == MAX_QUESTIONS {
                    all.remove(0);
                }
                (question, Arc::default())
            }
        };
        let column = entry.1.clone();
        all.push(entry);
        column
    }
}

impl Column {
    /// All answers.
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }

    /// What was answered for a node, if nothing has changed since.
    pub(super) fn get(&self, state: &DeviceState, node: &NodeView<'_>) -> Option<Answer> {
        let mut table = self.table();
        if table.follow(state, node.cluster()) { table.get(node) } else { None }
    }

    /// Remembers the answer that `state` gives for a node.
    pub(super) fn set(&self, state: &DeviceState, node: &NodeView<'_>, answer: Answer) {
        let mut table = self.table();
        if table.follow(state, node.cluster()) {
            table.set(node, answer);
        }
    }
}

impl Table {
    fn n_bytes(&self) -> usize {
        self.answers.capacity() * size_of::<Option<NodeAnswer>>()
    }

    /// Forgets the answers about nodes whose devices were taken or released. False if the table is ahead of `state`. O(changes).
    pub(super) fn follow(&mut self, state: &DeviceState, cluster: ClusterView<'_>) -> bool {
        let latest = state.latest_change();
        if latest > self.followed {
            self.forget_changed(state, cluster);
            self.followed = latest;
        }
        latest == self.followed
    }

    fn forget_changed(&mut self, state: &DeviceState, cluster: ClusterView<'_>) {
        let Some(changed) = state.nodes_changed_after(self.followed) else {
            self.answers.clear();
            return;
        };
        for name in changed {
            // A node that is gone may come back to the slot that it had, as it was.
            let Some(idx) = cluster.node_idx(name) else {
                self.answers.clear();
                return;
            };
            if let Some(answer) = self.answers.get_mut(idx.index()) {
                *answer = None;
            }
        }
    }

    /// What was answered for a node.
    #[inline]
    pub(super) fn get(&mut self, node: &NodeView<'_>) -> Option<Answer> {
        let known = self.answers.get_mut(node.idx().index())?.as_mut()?;
        let is_known = std::ptr::eq(known.node.as_ptr(), Arc::as_ptr(node.node()));
        (is_known || known.is_about(node)).then_some(known.answer)
    }

    fn set(&mut self, node: &NodeView<'_>, answer: Answer) {
        let at = node.idx().index();
        if self.answers.len() <= at {
            self.answers.resize_with(at + 1, || None);
        }
        let (name, labels) = (node.name().clone(), node.labels().clone());
        self.answers[at] =
            Some(NodeAnswer { answer, node: Arc::downgrade(node.node()), name, labels });
    }
}

impl NodeAnswer {
    /// Whether a node's new object is what the answer about it was made from.
    #[cold]
    fn is_about(&mut self, node: &NodeView<'_>) -> bool {
        let is_same_name = Arc::ptr_eq(&self.name, node.name()) || self.name == *node.name();
        let is_same = is_same_name
            && (self.labels.is_same_allocation(node.labels()) || self.labels == *node.labels());
        if is_same {
            self.node = Arc::downgrade(node.node());
        }
        is_same
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_claims_are_not_remembered() {
        let question = |uid: usize, n: usize| {
            let opaque = "x".repeat(n);
            let claim = json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": "c", "namespace": "d", "uid": format!("{uid}")},
                "spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": opaque}}]}},
            });
            let claims = vec![Arc::new(Object::from_value(claim).unwrap())];
            Question { claims, special: None, classes: Classes::default() }
        };
        let answers = Answers::default();
        assert!(Arc::ptr_eq(&answers.to(question(0, 1_000)), &answers.to(question(1, 1_000))));
        let large = MAX_CLAIM_BYTES + 1;
        assert!(!Arc::ptr_eq(&answers.to(question(2, large)), &answers.to(question(3, large))));
        assert_eq!(answers.0.lock().unwrap().len(), 1);
    }
}
