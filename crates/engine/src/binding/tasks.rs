//! PreBind work that the engine leads itself: it writes objects for tasks and wakes them.
//!
//! Invariants: a task is asked for one step at a time, and only when what it waits for may have come; at most one of its
//! writes is under way; a task ends with its binding, whatever it waits for, and answers that come later find nobody.

use std::sync::Arc;

use kube_scheduler_api_types::{Object, Timestamp};
use kube_scheduler_framework::{
    Commands, ObjectKey, PluginName, PreBindTask, Sources, Status, TaskContext, TaskEvent,
    TaskStep, WriteError,
};
use smallvec::SmallVec;

use super::expect::expect_at_once;
use super::steps::pre_bind_failure;
use super::{Binding, Stage};
use crate::effect::{Effect, PodRef, Token};
use crate::engine::Engine;
use crate::guard::guarded;

/// Work of one PreBind plugin that is under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) plugin: PluginName,
    /// The reading from which it is measured, if it is.
    pub(super) begun: Option<u64>,
    pub(super) work: Work,
}

/// What the work waits for.
#[derive(Debug)]
pub(super) enum Work {
    /// The shell, which awaits a future.
    Outside(Token),
    /// The answer to a write.
    Write(Token, Box<dyn PreBindTask>),
    /// Time or objects.
    Sleep { task: Box<dyn PreBindTask>, until: Option<Timestamp>, objects: Vec<ObjectKey> },
}

impl Running {
    /// Whether the work waits for this answer.
    pub(super) fn awaits(&self, token: Token) -> bool {
        matches!(self.work, Work::Outside(other) | Work::Write(other, _) if other == token)
    }

    /// Whether nothing outside of the engine is done for it at the moment.
    pub(super) fn sleeps(&self) -> bool {
        matches!(self.work, Work::Sleep { .. })
    }
}

impl Binding {
    /// The PreBind work that is under way.
    pub(super) fn running(&self) -> &[Running] {
        match &self.stage {
            Stage::PreBind { running, .. } => running,
            Stage::Permit(_) | Stage::BindOutside { .. } | Stage::Bind { .. } => &[],
        }
    }

    /// What the tasks that sleep wait for.
    pub(super) fn sleepers(&self) -> impl Iterator<Item = (Option<Timestamp>, &[ObjectKey])> {
        self.running().iter().filter_map(|running| match &running.work {
            Work::Sleep { until, objects, .. } => Some((*until, &objects[..])),
            Work::Outside(_) | Work::Write(..) => None,
        })
    }

    fn has_failed(&self) -> bool {
        matches!(&self.stage, Stage::PreBind { failure: Some(_), .. })
    }

    /// A plugin's PreBind has ended; the first failure counts.
    pub(super) fn pre_bind_ended(&mut self, status: Status, plugin: &PluginName) {
        if let Stage::PreBind { failure: failure @ None, .. } = &mut self.stage {
            *failure = pre_bind_failure(status, plugin);
        }
    }
}

impl Engine {
    /// One step of a task: what it waits for now, or how it ended. Once another plugin has failed, it does not go on.
    pub(super) fn step_task(
        &mut self,
        binding: &mut Binding,
        plugin: &PluginName,
        mut task: Box<dyn PreBindTask>,
        event: TaskEvent,
        later: &mut Commands,
        now: Timestamp,
    ) -> Result<Work, Status> {
        let Self { cluster, bindings, queue, preemptions, pods, .. } = &mut *self;
        let Binding { state, pod, node, .. } = binding;
        let known = pods.get(&pod.namespace, &pod.name);
        let mut asked = Commands::default();
        let step = guarded(|| {
            task.step(
                &mut TaskContext {
                    cx: Sources {
                        cluster,
                        pods,
                        waiting: bindings,
                        nominated: queue,
                        preemptions,
                        now,
                    }
                    .unrecorded(),
                    state,
                    pod,
                    node,
                    pod_exists: known.is_some_and(|known| known.uid == pod.uid),
                    commands: &mut asked,
                },
                event,
            )
        });
        let step = step.unwrap_or_else(|panic| {
            asked = Commands::default();
            TaskStep::Done(panic)
        });
        let refused = expect_at_once(cluster, asked, later);
        refused.into_iter().for_each(|refused| self.note(refused));
        match step {
            TaskStep::Done(status) => Err(status),
            _ if binding.has_failed() => Err(Status::SUCCESS),
            TaskStep::Write(object) => {
                let token = self.bindings.token(&binding.pod.uid);
                let (pod, plugin) = (PodRef::from(&*binding.pod), plugin.clone());
                self.effects.push(Effect::WriteObject { token, pod, plugin, object });
                Ok(Work::Write(token, task))
            }
            TaskStep::Wait { until, objects } => {
                // A time that is past already would wake it over and over without any time passing.
                let until = until.map(|until| until.max(now + std::time::Duration::from_nanos(1)));
                Ok(Work::Sleep { task, until, objects })
            }
            other => Err(Status::error(format!("step not understood: {other:?}"))),
        }
    }

    /// Stops a pod in PreBind whose place somebody more important needs. False if it is not there
    /// (`spec/core.md` §11). The binding fails as soon as nobody outside is at work for it any more.
    pub(crate) fn cancel_pre_bind(&mut self, uid: &str, by: &PluginName, now: Timestamp) -> bool {
        let is_in_pre_bind = |binding: &Binding| matches!(binding.stage, Stage::PreBind { .. });
        if !self.bindings.by_uid.get(uid).is_some_and(is_in_pre_bind) {
            return false;
        }
        let Some(mut binding) = self.bindings.remove(uid) else { return false };
        let uid = binding.pod.uid.clone();
        if let Stage::PreBind { running, failure: failure @ None, .. } = &mut binding.stage {
            let plugin = running.first().map(|running| running.plugin.clone()).unwrap_or_default();
            *failure = pre_bind_failure(Status::error(format!("preempted by {by}")), &plugin);
            let outside = running.iter().filter_map(|running| match running.work {
                Work::Outside(token) => Some(Effect::CancelWork { token }),
                Work::Write(..) | Work::Sleep { .. } => None,
            });
            self.effects.extend(outside);
        }
        self.bindings.insert(binding);
        self.run_pre_bind(&uid, now);
        true
    }

    /// The API server has answered a task's write.
    pub(crate) fn object_written(
        &mut self,
        token: Token,
        result: Result<Arc<Object>, WriteError>,
        now: Timestamp,
    ) {
        let Some(uid) = self.bindings.redeem(token) else { return };
        self.lead_tasks(&uid, |running| running.awaits(token), &TaskEvent::Written(result), now);
    }

    /// Wakes the tasks whose time has come, those that set off first before others.
    pub(crate) fn wake_due_tasks(&mut self, now: Timestamp) {
        while let Some(uid) = self.bindings.due(now) {
            let is_due = |running: &Running| matches!(running.work, Work::Sleep { until: Some(until), .. } if until <= now);
            self.lead_tasks(&uid, is_due, &TaskEvent::Woken, now);
        }
    }

    /// Wakes the tasks that wait for an object.
    pub(crate) fn wake_tasks_for(&mut self, object: &Object, now: Timestamp) {
        if !self.bindings.has_watchers() {
            return;
        }
        let key = ObjectKey::from(object);
        for uid in self.bindings.watchers(&key) {
            let watches = |running: &Running| matches!(&running.work, Work::Sleep { objects, .. } if objects.contains(&key));
            self.lead_tasks(&uid, watches, &TaskEvent::Woken, now);
        }
    }

    /// Wakes the tasks of a pod that is gone.
    pub(crate) fn wake_tasks_of(&mut self, uid: &Arc<str>, now: Timestamp) {
        self.lead_tasks(uid, Running::sleeps, &TaskEvent::Woken, now);
    }

    /// Lets those tasks of a pod go on that are meant, and the binding with them.
    fn lead_tasks(
        &mut self,
        uid: &Arc<str>,
        is_meant: impl Fn(&Running) -> bool,
        event: &TaskEvent,
        now: Timestamp,
    ) {
        let known = self.bindings.by_uid.get(uid);
        if !known.is_some_and(|binding| binding.running().iter().any(&is_meant)) {
            return;
        }
        let Some(mut binding) = self.bindings.remove(uid) else { return };
        let Stage::PreBind { running, .. } = &mut binding.stage else { return };
        let awaited = std::mem::take(running);
        let mut kept = SmallVec::new();
        let mut later = Commands::default();
        for running in awaited {
            if !is_meant(&running) {
                kept.push(running);
                continue;
            }
            let Running { plugin, begun, work } = running;
            let task = match work {
                Work::Write(_, task) | Work::Sleep { task, .. } => task,
                Work::Outside(_) => continue,
            };
            match self.step_task(&mut binding, &plugin, task, event.clone(), &mut later, now) {
                Ok(work) => kept.push(Running { plugin, begun, work }),
                Err(status) => {
                    self.pre_bind_measured(binding.profile, &plugin, status.code(), begun);
                    binding.pre_bind_ended(status, &plugin);
                }
            }
        }
        if let Stage::PreBind { running, .. } = &mut binding.stage {
            *running = kept;
        }
        self.bindings.insert(binding);
        self.carry_out(later, now);
        self.run_pre_bind(uid, now);
    }
}
