//! Which nodes have devices for which claims, remembered until something near the node changes: pods made from the same
//! template ask for the same again and again, and each of them changes the devices of one node.
//!
//! Allocations themselves are not kept. The one that is needed is found again, and is the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_scheduler_devices::{Classes, ExtendedClaim};
use kube_scheduler_framework::NodeView;
use kube_scheduler_framework::api::{Labels, Object};

/// So many questions are remembered; the one that was asked longest ago makes room.
const MAX_QUESTIONS: usize = 16;

/// What is asked of every node: all that decides beside the node and its devices.
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
    /// It has, and alternatives among the requests are served so well.
    Yes { score: i64 },
    /// It has not.
    No,
    /// It has not, and some of its pools are invalid.
    InvalidPools,
}

/// The answers to the latest questions, the latest one last.
#[derive(Default)]
pub(super) struct Answers(Mutex<Vec<(Question, Arc<Column>)>>);

/// The answers to one question, by node.
#[derive(Default)]
pub(super) struct Column(Mutex<Vec<Option<Known>>>);

struct Known {
    answer: Answer,
    /// See `DeviceState::stamp`.
    stamp: u64,
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
    /// The answers to a question.
    pub(super) fn to(&self, question: Question) -> Arc<Column> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// What was answered for a node, if nothing has changed since.
    pub(super) fn get(&self, node: &NodeView<'_>, stamp: u64) -> Option<Answer> {
        let all = self.all();
        let known = all.get(node.idx().index())?.as_ref()?;
        let is_same_name = Arc::ptr_eq(&known.name, node.name()) || known.name == *node.name();
        let labels = node.labels();
        let is_valid = known.stamp == stamp
            && is_same_name
            && (known.labels.is_same_allocation(labels) || known.labels == *labels);
        is_valid.then_some(known.answer)
    }

    pub(super) fn set(&self, node: &NodeView<'_>, stamp: u64, answer: Answer) {
        let mut all = self.all();
        let at = node.idx().index();
        if all.len() <= at {
            all.resize_with(at + 1, || None);
        }
        let (name, labels) = (node.name().clone(), node.labels().clone());
        all[at] = Some(Known { answer, stamp, name, labels });
    }

    fn all(&self) -> MutexGuard<'_, Vec<Option<Known>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
