//! All preemptions that are being carried out, and what they wait for.
//!
//! Invariants: `by_preemptor` and `by_last_victim` know every task that has not been released; every token that is out
//! belongs to a task and is counted in its `n_out`. Whether a pod is held back is two look-ups, however many tasks run.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::{PluginName, RunningPreemptions};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::HeldAttempt;
use crate::effect::Token;

/// What a preemption does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// In the background, this comes first.
    Begun,
    Nominations,
    /// All victims but the last.
    Others,
    Last,
    /// With an attempt that waits, this comes first.
    BegunHeld,
    Everybody,
    NominationsAfter,
    Done,
}

/// One preemption.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) preemptor: Arc<Pod>,
    /// The plugin that wants it.
    pub(super) plugin: PluginName,
    pub(super) node: Arc<str>,
    /// Those that are not going already; none only when an attempt waits.
    pub(super) victims: Vec<Arc<Pod>>,
    pub(super) step: Step,
    /// How many answers are out.
    pub(super) n_out: usize,
    /// The first error.
    pub(super) error: Option<String>,
    pub(super) has_failed_to_evict: bool,
    /// Whether the last victim was seen to go.
    pub(super) is_last_going: bool,
    pub(super) begun: Timestamp,
    /// The attempt that waits, if one does.
    pub(super) held: Option<HeldAttempt>,
}

impl Task {
    /// Goes on to the next step.
    pub(super) fn next_step(&mut self) -> Step {
        self.step = match self.step {
            Step::Begun => Step::Nominations,
            Step::Nominations if self.victims.len() > 1 => Step::Others,
            Step::Nominations => Step::Last,
            Step::Others if self.has_failed_to_evict => Step::Done,
            Step::Others => Step::Last,
            Step::BegunHeld => Step::Everybody,
            Step::Everybody if self.has_failed_to_evict => Step::Done,
            Step::Everybody => Step::NominationsAfter,
            Step::Last | Step::NominationsAfter | Step::Done => Step::Done,
        };
        self.step
    }

    /// Whom to evict in this step.
    pub(super) fn victims_of(&self, step: Step) -> Vec<Arc<Pod>> {
        let Some((last, others)) = self.victims.split_last() else { return Vec::new() };
        match step {
            Step::Others => others.to_vec(),
            Step::Last => vec![last.clone()],
            Step::Everybody => self.victims.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether the preemptor must not be tried yet.
    fn holds_preemptor_back(&self) -> bool {
        self.held.is_none() && !(self.step == Step::Last && self.is_last_going)
    }
}

/// What an answer is about.
#[derive(Clone, Debug)]
pub(super) enum Errand {
    Evict(Arc<Pod>),
    ClearNomination,
}

type Tasks = SmallVec<[u64; 1]>;

/// All preemptions that are being carried out.
#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    tasks: BTreeMap<u64, Task>,
    by_preemptor: FxHashMap<Arc<str>, Tasks>,
    by_last_victim: FxHashMap<Arc<str>, Tasks>,
    by_token: FxHashMap<Token, (u64, Errand)>,
    n_held: usize,
    next_task: u64,
    next_token: u64,
}

impl Preemptions {
    /// How many are being carried out.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// What is in which table, and how much of it.
    pub(crate) fn table_sizes(&self) -> [(&'static str, usize); 4] {
        [
            ("preemptions", self.tasks.len()),
            ("pods that preempt", self.by_preemptor.len()),
            ("last victims", self.by_last_victim.len()),
            ("answers that preemptions wait for", self.by_token.len()),
        ]
    }

    /// Whether an attempt waits for its preemption, and nobody else may be tried.
    pub(crate) const fn holds_an_attempt(&self) -> bool {
        self.n_held > 0
    }

    /// A pod is gone, or about to go.
    pub(crate) fn pod_goes(&mut self, uid: &str) {
        if self.tasks.is_empty() {
            return;
        }
        for id in self.by_last_victim.get(uid).into_iter().flatten() {
            if let Some(task) = self.tasks.get_mut(id) {
                task.is_last_going = true;
            }
        }
    }

    pub(super) fn insert(&mut self, task: Task) -> u64 {
        self.next_task += 1;
        let id = self.next_task;
        self.n_held += usize::from(task.held.is_some());
        self.by_preemptor.entry(task.preemptor.uid.clone()).or_default().push(id);
        if let Some(last) = task.victims.last() {
            self.by_last_victim.entry(last.uid.clone()).or_default().push(id);
        }
        self.tasks.insert(id, task);
        id
    }

    pub(super) fn get(&self, id: u64) -> Option<&Task> {
        self.tasks.get(&id)
    }

    /// The task, if it waits for nothing.
    pub(super) fn idle(&mut self, id: u64) -> Option<&mut Task> {
        self.tasks.get_mut(&id).filter(|task| task.n_out == 0)
    }

    /// Something is sent out for the task; the token comes back with the answer.
    pub(super) fn send(&mut self, id: u64, errand: Errand) -> Token {
        self.next_token += 1;
        let token = Token(self.next_token);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.n_out += 1;
            self.by_token.insert(token, (id, errand));
        }
        token
    }

    /// What an answer is about; a token is good for one answer.
    pub(super) fn redeem(&mut self, token: Token) -> Option<(u64, Errand)> {
        let (id, errand) = self.by_token.remove(&token)?;
        self.tasks.get_mut(&id)?.n_out -= 1;
        Some((id, errand))
    }

    /// Something went wrong; the first error is kept.
    pub(super) fn failed(&mut self, id: u64, error: String, is_eviction: bool) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if is_eviction && !task.has_failed_to_evict {
            task.has_failed_to_evict = true;
            // An attempt that fails says which eviction failed, not which nomination.
            task.error = Some(error);
        } else {
            task.error.get_or_insert(error);
        }
    }

    /// The preemptor is not held back by this task any more.
    pub(super) fn release(&mut self, id: u64) {
        let Some(task) = self.tasks.get(&id) else { return };
        drop_from(&mut self.by_preemptor, &task.preemptor.uid, id);
        if let Some(last) = task.victims.last() {
            drop_from(&mut self.by_last_victim, &last.uid, id);
        }
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Task> {
        self.release(id);
        let task = self.tasks.remove(&id)?;
        self.n_held -= usize::from(task.held.is_some());
        Some(task)
    }
}

fn drop_from(index: &mut FxHashMap<Arc<str>, Tasks>, uid: &Arc<str>, id: u64) {
    let Some(tasks) = index.get_mut(uid) else { return };
    tasks.retain(|task| *task != id);
    if tasks.is_empty() {
        index.remove(uid);
    }
}

impl RunningPreemptions for Preemptions {
    fn is_preempting(&self, uid: &str) -> bool {
        self.by_preemptor.get(uid).is_some_and(|tasks| {
            tasks.iter().any(|id| self.tasks.get(id).is_some_and(Task::holds_preemptor_back))
        })
    }
}
