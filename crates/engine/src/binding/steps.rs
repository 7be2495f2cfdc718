//! The steps after Permit: PreBind looks ahead, PreBind, Bind.
//!
//! Behaviour: `docs/spec/core.md` §7 and §10.10 to §10.12.

use kube_scheduler_framework::{
    BindOutcome, Code, Commands, Completion, PluginName, PreBindFlight, Status, TaskEvent,
};
use kube_scheduler_runtime::MeteredPoint;

use super::tasks::{RunningTask, Work};
use super::{Binding, Bindings, Stage};
use crate::core::Core;
use crate::effect::{Effect, PodRef, StatusPatch, Token};
use crate::guard::guarded;
use crate::notice::RejectionStage;

/// How PreBind goes on.
enum PreBindStep {
    /// With the next plugin.
    Plugin,
    /// Not before some work has ended.
    Wait,
    /// It is through.
    Bind,
    /// It failed.
    Fail(Status),
}

impl Binding {
    /// Lets PreBind plugins look ahead; says whether any has work (`docs/spec/core.md` §10.10).
    pub(super) fn pre_flight(&mut self, core: &Core) -> Result<bool, Status> {
        let start = self.point_start;
        let result = self.run_pre_flight(core);
        let code = match &result {
            Ok(true) => Code::Success,
            Ok(false) => Code::Skip,
            Err(status) => status.code(),
        };
        let point = MeteredPoint::PreBindPreFlight;
        core.plans.profiles[self.profile].point_ended(point, code, start);
        result
    }

    fn run_pre_flight(&mut self, core: &Core) -> Result<bool, Status> {
        let cx = core.context();
        let mut has_work = false;
        for (idx, name, plugin) in core.plans.profiles[self.profile].pre_bind() {
            let flight =
                guarded(|| plugin.pre_bind_pre_flight(&cx, &self.state, &self.pod, &self.node));
            let PreBindFlight { status, may_run_in_parallel } = flight
                .unwrap_or_else(|status| PreBindFlight { status, may_run_in_parallel: false });
            if may_run_in_parallel {
                self.parallel_pre_bind.push(idx);
            }
            match status.code() {
                Code::Success => has_work = true,
                Code::Skip => self.idle_pre_bind.push(idx),
                Code::Error => {
                    return Err(status.wrapped(format!("running PreBindPreFlight \"{name}\"")));
                }
                code => {
                    return Err(Status::error(format!(
                        "PreBindPreFlight {name} returned \"{code}\", which is unsupported. \
                         It is supposed to return Success, Skip, or Error status"
                    )));
                }
            }
        }
        Ok(has_work)
    }

    /// Nominates the pod to its node while the binding is still under way, for others to see.
    pub(super) fn announce(&self, core: &mut Core) {
        if self.pod.nominated_node_name() == Some(&*self.node) {
            return;
        }
        let patch = StatusPatch {
            condition: None,
            nominated_node_name: Some(Some(self.node.clone())),
            has_conditions: !self.pod.status.conditions.is_empty(),
        };
        let pod = PodRef::from(&*self.pod);
        core.effects.push(Effect::PatchStatus { pod, patch, is_announcement: true });
    }

    /// The answer to `token`, if PreBind work of this pod waited for it.
    fn end_running(&mut self, core: &Core, token: Token, status: Status) -> bool {
        let Stage::PreBind { running, .. } = &mut self.stage else { return false };
        let is_it =
            |running: &RunningTask| matches!(running.work, Work::Outside(other) if other == token);
        let Some(at) = running.iter().position(is_it) else { return false };
        let RunningTask { plugin, start, .. } = running.remove(at);
        self.pre_bind_stepped(core, plugin, start, Err(status));
        true
    }
}

impl Bindings {
    /// No plugin objects any more: events cannot help or hurt the attempt from here on.
    pub(super) fn after_permit(&mut self, core: &mut Core, mut binding: Box<Binding>) {
        core.done(&binding.pod.uid);
        binding.stage = Stage::before_pre_bind();
        binding.point_start = core.plans.profiles[binding.profile].point_start();
        self.pre_bind(core, binding);
    }

    /// Goes on with PreBind: starts plugins until one has to be awaited, or all are through.
    pub(super) fn pre_bind(&mut self, core: &mut Core, mut binding: Box<Binding>) {
        loop {
            let mut later = Commands::default();
            let next = self.pre_bind_step(core, &mut binding, &mut later);
            let code = match &next {
                PreBindStep::Plugin | PreBindStep::Wait => None,
                PreBindStep::Bind => Some(Code::Success),
                PreBindStep::Fail(status) => Some(status.code()),
            };
            if let Some(code) = code {
                let (profile, start) = (&core.plans.profiles[binding.profile], binding.point_start);
                binding.point_start = profile.point_ended(MeteredPoint::PreBind, code, start);
            }
            let Some(kept) = self.carry_out_beside(core, binding, later) else { return };
            binding = kept;
            match next {
                PreBindStep::Plugin => {}
                PreBindStep::Wait => return self.table.put(binding, &mut core.deadlines),
                PreBindStep::Bind => return self.bind_outside(core, binding, 0),
                PreBindStep::Fail(status) => {
                    return self.fail_at(core, binding, RejectionStage::PreBind, status);
                }
            }
        }
    }

    /// Runs the next PreBind plugin, if its turn has come.
    fn pre_bind_step(
        &mut self,
        core: &mut Core,
        binding: &mut Binding,
        later: &mut Commands,
    ) -> PreBindStep {
        let Stage::PreBind { next, running, failure } = &mut binding.stage else {
            return PreBindStep::Wait;
        };
        if failure.is_some() {
            // No request is out for those, so no answer would ever end them; but some have to see how a write went.
            running.retain(|running| !running.can_end());
        }
        let plans = core.plans.clone();
        let profile = &plans.profiles[binding.profile];
        let mut steps = profile.pre_bind().skip(*next);
        let (name, plugin, is_parallel) = loop {
            let step = steps.next();
            let is_parallel =
                step.as_ref().is_some_and(|(idx, ..)| binding.parallel_pre_bind.contains(idx));
            // A plugin on its own waits for those before it, and a failure stops everything that has not started.
            if !running.is_empty() && (!is_parallel || failure.is_some()) {
                return PreBindStep::Wait;
            }
            if let Some(status) = failure.take() {
                return PreBindStep::Fail(status);
            }
            let Some((idx, name, plugin)) = step else { return PreBindStep::Bind };
            *next += 1;
            if !binding.idle_pre_bind.contains(&idx) {
                break (name, plugin, is_parallel);
            }
        };
        let start = profile.plugin_start();
        let cx = core.context();
        let completion =
            guarded(|| plugin.pre_bind(&cx, &mut binding.state, &binding.pod, &binding.node));
        let plugin = name.clone();
        let work = match completion.unwrap_or_else(Completion::Ready) {
            Completion::Ready(status) => Err(status),
            Completion::Pending(_) if core.trusts(&plugin) => Err(Status::SUCCESS),
            Completion::Pending(work) => {
                let token = self.table.issue_token(&binding.pod.uid);
                core.effects.push(Effect::Await { token, plugin: plugin.clone(), work });
                Ok(Work::Outside(token))
            }
            Completion::Task(task) => {
                self.step_task(core, binding, &plugin, task, TaskEvent::Started, later)
            }
        };
        let is_running = binding.pre_bind_stepped(core, plugin, start, work);
        if is_running && !is_parallel { PreBindStep::Wait } else { PreBindStep::Plugin }
    }

    /// Asks Bind plugins from `next` on, until one takes the pod.
    pub(super) fn run_bind(&mut self, core: &mut Core, mut binding: Box<Binding>, next: usize) {
        let plans = core.plans.clone();
        let profile = &plans.profiles[binding.profile];
        for (at, (idx, name, plugin)) in profile.bind().enumerate().skip(next) {
            let cx = core.context();
            binding.plugin_start = profile.plugin_start();
            let outcome =
                guarded(|| plugin.bind(&cx, &mut binding.state, &binding.pod, &binding.node));
            let outcome = outcome.unwrap_or_else(BindOutcome::Ready);
            if let BindOutcome::Ready(status) = &outcome {
                profile.plugin_ended(idx, MeteredPoint::Bind, status.code(), binding.plugin_start);
            }
            let mut token = || self.table.issue_token(&binding.pod.uid);
            let (token, effect) = match outcome {
                BindOutcome::Ready(status) if status.is_skip() => continue,
                BindOutcome::Ready(status) => {
                    return self.bind_ended(core, binding, plugin_result(status, "Bind", name));
                }
                BindOutcome::Pending(work) if !core.trusts(name) => {
                    let token = token();
                    (token, Effect::Await { token, plugin: name.clone(), work })
                }
                // What a plugin would have bound is written as any other binding in a copy.
                BindOutcome::WriteBinding | BindOutcome::Pending(_) => {
                    let (token, pod) = (token(), PodRef::from(&*binding.pod));
                    (token, Effect::WriteBinding { token, pod, node: binding.node.clone() })
                }
            };
            core.effects.push(effect);
            binding.stage = Stage::Bind { next: at + 1, awaited: token, plugin: name.clone() };
            return self.table.put(binding, &mut core.deadlines);
        }
        // Parity: the reference ends here with an empty error, so the pod backs off without any event or condition.
        let skipped = Status::error("every bind plugin skipped the pod");
        self.bind_ended(core, binding, Err(skipped));
    }

    fn bind_ended(&mut self, core: &mut Core, binding: Box<Binding>, result: Result<(), Status>) {
        match result {
            Ok(()) => self.bound(core, binding),
            Err(status) => self.fail_at(core, binding, RejectionStage::Bind, status),
        }
    }

    /// Fails a binding because of what a plugin said.
    fn fail_at(
        &mut self,
        core: &mut Core,
        binding: Box<Binding>,
        at: RejectionStage,
        status: Status,
    ) {
        binding.notice_rejection(core, at, &status);
        self.fail(core, binding, status);
    }

    /// Something that a binding waited for has ended: a plugin's work in PreBind, a Bind plugin, an extender.
    pub(crate) fn work_finished(&mut self, core: &mut Core, token: Token, status: Status) {
        let Some(uid) = self.table.redeem(token) else { return };
        let Some(mut binding) = self.table.take(&uid, &mut core.deadlines) else { return };
        match &binding.stage {
            Stage::PreBind { .. } => {
                if binding.end_running(core, token, status) {
                    self.pre_bind(core, binding);
                } else {
                    self.table.put(binding, &mut core.deadlines);
                }
            }
            Stage::BindOutside { at, awaited } if *awaited == token => {
                let at = *at;
                self.bound_outside(core, binding, at, status);
            }
            Stage::Bind { next, awaited, plugin } if *awaited == token => {
                let (next, plugin) = (*next, plugin.clone());
                let point = MeteredPoint::Bind;
                let (profile, start) = (binding.profile, binding.plugin_start);
                core.plans.plugin_ended(profile, &plugin, point, status.code(), start);
                if status.is_skip() {
                    return self.run_bind(core, binding, next);
                }
                self.bind_ended(core, binding, plugin_result(status, "Bind", &plugin));
            }
            Stage::Permit | Stage::BindOutside { .. } | Stage::Bind { .. } => {
                self.table.put(binding, &mut core.deadlines);
            }
        }
    }
}

/// What a plugin answered at the extension point of this name: if it was not success, with the plugin's name.
pub(super) fn plugin_result(status: Status, point: &str, name: &PluginName) -> Result<(), Status> {
    if status.is_success() {
        Ok(())
    } else if status.is_rejected() {
        Err(status.from_plugin(name))
    } else {
        Err(status.wrapped(format!("running {point} plugin \"{name}\"")).from_plugin(name))
    }
}
