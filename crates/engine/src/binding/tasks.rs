//! PreBind work that the engine carries out itself: it writes objects for tasks and wakes them.
//!
//! Invariants: a task is asked for one step at a time, and only when what it waits for may have come; at most one of its
//! writes is under way; a task ends with its binding, whatever it waits for, and later answers to it are dropped.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Object, Timestamp};
use kube_scheduler_framework::{
    ApiError, Commands, ObjectKey, PluginName, PreBindTask, Status, TaskContext, TaskEvent,
    TaskStep,
};
use kube_scheduler_runtime::MeteredPoint;

use super::expect::{expect_at_once, write_object};
use super::steps::plugin_result;
use super::{Binding, Bindings, Serial, Stage};
use crate::core::Core;
use crate::effect::{Effect, Token};
use crate::guard::guarded;
use crate::notice::VictimEnd;

/// Work of one PreBind plugin that is under way.
#[derive(Debug)]
pub(super) struct RunningTask {
    pub(super) plugin: PluginName,
    /// The meter's reading when it started, if it is measured.
    pub(super) start: Option<u64>,
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

impl RunningTask {
    /// Whether the work can be dropped when its binding fails: no request is out for it, and the task does not have to
    /// [finish](PreBindTask::must_finish).
    pub(super) fn can_end(&self) -> bool {
        matches!(&self.work, Work::Sleep { task, .. } if !task.must_finish())
    }
}

impl Binding {
    /// The PreBind work that is under way.
    fn running(&self) -> &[RunningTask] {
        match &self.stage {
            Stage::PreBind { running, .. } => running,
            Stage::Permit | Stage::BindOutside { .. } | Stage::Bind { .. } => &[],
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

    /// Records the result of a step of a plugin's PreBind: work that is under way, or its end. The first failure of all plugins
    /// is the binding's. Returns whether the work is under way.
    pub(super) fn pre_bind_stepped(
        &mut self,
        core: &Core,
        plugin: PluginName,
        start: Option<u64>,
        work: Result<Work, Status>,
    ) -> bool {
        let is_running = work.is_ok();
        match (work, &mut self.stage) {
            (Ok(work), Stage::PreBind { running, .. }) => {
                running.push(RunningTask { plugin, start, work });
            }
            (Err(status), stage) => {
                let point = MeteredPoint::PreBind;
                core.plans.plugin_ended(self.profile, &plugin, point, status.code(), start);
                if let Stage::PreBind { failure: failure @ None, .. } = stage {
                    *failure = plugin_result(status, "PreBind", &plugin).err();
                }
            }
            (Ok(_), _) => {}
        }
        is_running
    }
}

impl Bindings {
    /// One step of a task: what it waits for now, or how it ended. Once another plugin has failed, it goes on only
    /// if it must.
    pub(super) fn step_task(
        &mut self,
        core: &mut Core,
        binding: &mut Binding,
        plugin: &PluginName,
        mut task: Box<dyn PreBindTask>,
        event: TaskEvent,
        later: &mut Commands,
    ) -> Result<Work, Status> {
        let Binding { state, pod, node, .. } = binding;
        let known = core.pods.get(&pod.namespace, &pod.name);
        let pod_exists = known.is_some_and(|known| known.uid == pod.uid);
        let mut asked = Commands::default();
        let cx = core.context();
        let step = guarded(|| {
            let commands = &mut asked;
            task.step(&mut TaskContext { cx, state, pod, node, pod_exists, commands }, event)
        });
        let step = step.unwrap_or_else(|panic| {
            asked = Commands::default();
            TaskStep::Done(panic)
        });
        expect_at_once(core, asked, later);
        match step {
            TaskStep::Done(status) => Err(status),
            _ if binding.has_failed() && !task.must_finish() => Err(Status::SUCCESS),
            TaskStep::Write(write) => {
                let token = self.table.issue_token(&binding.pod.uid);
                write_object(core, &binding.pod, write, Some((token, plugin.clone())));
                Ok(Work::Write(token, task))
            }
            TaskStep::Wait { until, objects } => {
                // A time in the past would wake the task again and again without time passing.
                let until = until.map(|until| until.max(core.now + Duration::from_nanos(1)));
                Ok(Work::Sleep { task, until, objects })
            }
            other => Err(Status::error(format!("step not understood: {other:?}"))),
        }
    }

    /// Whether the pod can still be stopped without the API server: it waits on Permit, or for work in PreBind.
    pub(crate) fn can_stop(&self, uid: &str) -> bool {
        let binding = self.table.get(uid);
        binding
            .is_some_and(|binding| matches!(binding.stage, Stage::Permit | Stage::PreBind { .. }))
    }

    /// Stops a pod whose place a more important pod needs, on behalf of plugin `by`, and says at which stage. `None` if it
    /// cannot be stopped without the API server any more.
    pub(crate) fn stop(
        &mut self,
        core: &mut Core,
        uid: &str,
        by: &PluginName,
    ) -> Option<VictimEnd> {
        let status = Status::error("waiting on permit for pod: preempted");
        if self.fail_waiting(core, uid, status) {
            return Some(VictimEnd::RejectedOnPermit);
        }
        self.cancel_pre_bind(core, uid, by).then_some(VictimEnd::RejectedInPreBind)
    }

    /// [`stop`](Self::stop) for a pod in PreBind (`docs/spec/core.md` §11). The binding fails as soon as no request is out for
    /// it any more: what was sent to the API server may still be carried out there.
    fn cancel_pre_bind(&mut self, core: &mut Core, uid: &str, by: &PluginName) -> bool {
        let is_in_pre_bind = |binding: &Binding| matches!(binding.stage, Stage::PreBind { .. });
        if !self.table.get(uid).is_some_and(is_in_pre_bind) {
            return false;
        }
        let Some(mut binding) = self.table.take(uid, &mut core.deadlines) else { return false };
        if let Stage::PreBind { running, failure: failure @ None, .. } = &mut binding.stage {
            let plugin = running.first().map(|running| running.plugin.clone()).unwrap_or_default();
            let status = Status::error(format!("preempted by {by}"));
            *failure = plugin_result(status, "PreBind", &plugin).err();
            core.effects.extend(running.iter().filter_map(|running| match running.work {
                Work::Outside(token) => Some(Effect::CancelWork { token }),
                Work::Write(..) | Work::Sleep { .. } => None,
            }));
        }
        self.pre_bind(core, binding);
        true
    }

    /// The API server has answered a task's write.
    pub(crate) fn object_written(
        &mut self,
        core: &mut Core,
        token: Token,
        result: Result<Arc<Object>, ApiError>,
    ) {
        let Some(uid) = self.table.redeem(token) else { return };
        let awaits = |work: &Work| matches!(work, Work::Outside(other) | Work::Write(other, _) if *other == token);
        self.step_tasks(core, &uid, awaits, &TaskEvent::Written(result));
    }

    /// Wakes those tasks of a binding whose time has come.
    pub(crate) fn wake_due_tasks(&mut self, core: &mut Core, serial: Serial) {
        let Some(uid) = self.table.sleeper(serial) else { return };
        let now = core.now;
        let is_due =
            |work: &Work| matches!(work, Work::Sleep { until: Some(until), .. } if *until <= now);
        self.step_tasks(core, &uid, is_due, &TaskEvent::Woken);
    }

    /// Wakes the tasks that wait for an object.
    pub(crate) fn object_changed(&mut self, core: &mut Core, object: &Object) {
        if !self.table.has_watchers() {
            return;
        }
        let key = ObjectKey::from(object);
        let watches =
            |work: &Work| matches!(work, Work::Sleep { objects, .. } if objects.contains(&key));
        for uid in self.table.watchers(&key) {
            self.step_tasks(core, &uid, watches, &TaskEvent::Woken);
        }
    }

    /// Wakes the tasks of a pod that is gone.
    pub(crate) fn pod_gone(&mut self, core: &mut Core, uid: &Arc<str>) {
        let sleeps = |work: &Work| matches!(work, Work::Sleep { .. });
        self.step_tasks(core, uid, sleeps, &TaskEvent::Woken);
    }

    /// Asks those tasks of a pod that are meant for their next step, and goes on with the binding.
    fn step_tasks(
        &mut self,
        core: &mut Core,
        uid: &Arc<str>,
        is_meant: impl Fn(&Work) -> bool,
        event: &TaskEvent,
    ) {
        let known = self.table.get(uid).map_or(&[][..], Binding::running);
        if !known.iter().any(|running| is_meant(&running.work)) {
            return;
        }
        let Some(mut binding) = self.table.take(uid, &mut core.deadlines) else { return };
        let Stage::PreBind { running, .. } = &mut binding.stage else { return };
        let awaited = std::mem::take(running);
        let mut later = Commands::default();
        for running in awaited {
            let is_meant = is_meant(&running.work);
            let RunningTask { plugin, start, work } = running;
            let stepped = match work {
                Work::Write(_, task) | Work::Sleep { task, .. } if is_meant => {
                    self.step_task(core, &mut binding, &plugin, task, event.clone(), &mut later)
                }
                Work::Outside(_) if is_meant => continue,
                other => Ok(other),
            };
            binding.pre_bind_stepped(core, plugin, start, stepped);
        }
        if let Some(binding) = self.carry_out_beside(core, binding, later) {
            self.pre_bind(core, binding);
        }
    }
}
