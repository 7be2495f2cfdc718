//! All preemptions that are being carried out, and what they wait for.
//!
//! Invariants: `by_last_victim` knows every task that has not been released; every token that is out belongs to a task and
//! is counted in its `n_out`; [`HeldPreemptors`] counts exactly the tasks with `holds_preemptor`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Pod, Timestamp};
use kube_scheduler_framework::ApiError;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{HeldAttempt, HeldPreemptors, Plan, Preemptor};
use crate::effect::Token;

/// What a preemption does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nominations of less important pods to the node are being cleared.
    Nominations,
    /// All victims but the last are being evicted.
    Others,
    /// The last victim is being evicted.
    Last,
    /// All victims are being evicted.
    Everybody,
}

impl Step {
    /// The steps of a preemption in the background, and those of one that an attempt waits for.
    pub(super) const IN_BACKGROUND: &[Self] = &[Self::Nominations, Self::Others, Self::Last];
    pub(super) const FOR_HELD: &[Self] = &[Self::Everybody, Self::Nominations];
}

/// One preemption.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) preemptor: Preemptor,
    /// Its victims are empty only when an attempt waits.
    pub(super) plan: Plan,
    /// The step that it is in, if it has started.
    pub(super) step: Option<Step>,
    /// Those after it. A failed eviction is the end of the task once its step is over.
    pub(super) steps_left: &'static [Step],
    /// How many answers are out.
    pub(super) n_out: usize,
    /// The first error.
    pub(super) error: Option<ApiError>,
    pub(super) has_failed_to_evict: bool,
    /// Whether the last victim was seen to go.
    pub(super) is_last_going: bool,
    /// Whether the preemptor must not be tried yet because of this task.
    pub(super) holds_preemptor: bool,
    pub(super) started: Timestamp,
    /// The attempt that waits, if one does.
    pub(super) held: Option<HeldAttempt>,
}

impl Task {
    /// What the preemptor is.
    pub(super) fn noun(&self) -> &'static str {
        if self.preemptor.members.is_empty() { "pod" } else { "podgroup" }
    }

    /// The preemptor may be tried again as far as this task goes.
    fn let_preemptor_go(&mut self, held_back: &mut HeldPreemptors) {
        if std::mem::take(&mut self.holds_preemptor) {
            held_back.release(&self.preemptor.identity.uid);
        }
    }

    /// Once the last victim is seen to go, nothing has to be waited for but its end, which is an event of its own.
    fn let_preemptor_go_if_last_goes(&mut self, held_back: &mut HeldPreemptors) {
        if self.step == Some(Step::Last) && self.is_last_going {
            self.let_preemptor_go(held_back);
        }
    }
}

/// What an answer is about.
#[derive(Clone, Debug)]
pub(super) enum Errand {
    Evict(Arc<Pod>),
    ClearNomination,
}

/// The number of a preemption; never used twice.
pub(crate) type TaskId = u64;

/// All preemptions that are being carried out.
#[derive(Debug, Default)]
pub(super) struct TaskTable {
    tasks: BTreeMap<TaskId, Task>,
    by_last_victim: KeyedMap<Arc<str>, SmallVec<[TaskId; 1]>>,
    by_token: FxHashMap<Token, (TaskId, Errand)>,
    n_held: usize,
    last_id: TaskId,
    last_token: u64,
}

impl TaskTable {
    /// An empty table that gives no number which this one has given.
    pub(super) fn fork(&self) -> Self {
        let Self { last_id, last_token, .. } = *self;
        Self { last_id, last_token, ..Self::default() }
    }

    /// All tasks, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// What is in which table, and how much of it.
    pub(super) fn sizes(&self) -> [(&'static str, usize); 3] {
        [
            ("preemptions", self.tasks.len()),
            ("last victims", self.by_last_victim.len()),
            ("answers that preemptions wait for", self.by_token.len()),
        ]
    }

    /// Whether an attempt waits for any of them.
    pub(super) const fn holds_an_attempt(&self) -> bool {
        self.n_held > 0
    }

    /// A pod is gone, or about to go.
    pub(super) fn pod_goes(&mut self, uid: &str, held_back: &mut HeldPreemptors) {
        if self.tasks.is_empty() {
            return;
        }
        for id in self.by_last_victim.get(uid).into_iter().flatten() {
            if let Some(task) = self.tasks.get_mut(id) {
                task.is_last_going = true;
                task.let_preemptor_go_if_last_goes(held_back);
            }
        }
    }

    pub(super) fn insert(&mut self, task: Task, held_back: &mut HeldPreemptors) -> TaskId {
        self.last_id += 1;
        let id = self.last_id;
        self.n_held += usize::from(task.held.is_some());
        if task.holds_preemptor {
            held_back.hold(&task.preemptor.identity.uid);
        }
        if let Some(last) = task.plan.victims.last() {
            self.by_last_victim.entry(last.uid.clone()).or_default().push(id);
        }
        self.tasks.insert(id, task);
        id
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(&id)
    }

    /// Takes the task to its next step, if it waits for nothing; `None` inside when there is none left.
    pub(super) fn next_step(
        &mut self,
        id: TaskId,
        held_back: &mut HeldPreemptors,
    ) -> Option<Option<Step>> {
        let task = self.tasks.get_mut(&id).filter(|task| task.n_out == 0)?;
        let left = if task.has_failed_to_evict { &[] } else { task.steps_left };
        task.step = left.first().copied();
        task.steps_left = left.get(1..).unwrap_or_default();
        task.let_preemptor_go_if_last_goes(held_back);
        Some(task.step)
    }

    /// The pods to evict in the step that the task is in.
    pub(super) fn victims(&self, id: TaskId) -> Vec<Arc<Pod>> {
        let Some(task) = self.tasks.get(&id) else { return Vec::new() };
        let Some((last, others)) = task.plan.victims.split_last() else { return Vec::new() };
        match task.step {
            Some(Step::Others) => others.to_vec(),
            Some(Step::Last) => vec![last.clone()],
            Some(Step::Everybody) => task.plan.victims.clone(),
            Some(Step::Nominations) | None => Vec::new(),
        }
    }

    /// Something is sent out for the task; the token comes back with the answer.
    pub(super) fn send(&mut self, id: TaskId, errand: Errand) -> Token {
        self.last_token += 1;
        let token = Token(self.last_token);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.n_out += 1;
            self.by_token.insert(token, (id, errand));
        }
        token
    }

    /// What an answer is about; a token is good for one answer.
    pub(super) fn redeem(&mut self, token: Token) -> Option<(TaskId, Errand)> {
        let (id, errand) = self.by_token.remove(&token)?;
        self.tasks.get_mut(&id)?.n_out -= 1;
        Some((id, errand))
    }

    /// Something went wrong; the first error is kept.
    pub(super) fn failed(&mut self, id: TaskId, error: ApiError, is_eviction: bool) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if is_eviction && !task.has_failed_to_evict {
            task.has_failed_to_evict = true;
            // An attempt that fails says which eviction failed, not which nomination.
            task.error = Some(error);
        } else {
            task.error.get_or_insert(error);
        }
    }

    /// The preemptor is not held back by this task any more, and its last victim is of no interest.
    pub(super) fn release(&mut self, id: TaskId, held_back: &mut HeldPreemptors) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.let_preemptor_go(held_back);
        let Some(last) = task.plan.victims.last() else { return };
        let Some(ids) = self.by_last_victim.get_mut(&last.uid) else { return };
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            self.by_last_victim.remove(&last.uid);
        }
    }

    pub(super) fn remove(&mut self, id: TaskId, held_back: &mut HeldPreemptors) -> Option<Task> {
        self.release(id, held_back);
        let task = self.tasks.remove(&id)?;
        self.n_held -= usize::from(task.held.is_some());
        Some(task)
    }
}
