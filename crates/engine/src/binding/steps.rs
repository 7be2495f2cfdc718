//! The steps after Permit: PreBind looks ahead, PreBind, Bind.
//!
//! Behaviour: `spec/core.md` §7 and §10.10 to §10.12.

use std::sync::Arc;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_framework::{
    BindOutcome, Code, Commands, Completion, Meter, MeteredPoint, PluginIdx, PluginName,
    PreBindFlight, Status, TaskEvent,
};

use super::tasks::{Running, Work};
use super::{Binding, Stage};
use crate::effect::{Effect, PodRef, StatusPatch, Token};
use crate::engine::Engine;
use crate::guard::guarded;

/// How PreBind goes on.
enum Next {
    /// With the next plugin.
    Plugin,
    /// Not before some work has ended.
    Wait,
    /// It is through.
    Bind,
    /// It failed.
    Fail(Status),
}

impl Engine {
    /// Lets PreBind plugins look ahead; says whether any has work (`spec/core.md` §10.10).
    pub(super) fn pre_flight(&self, binding: &mut Binding, now: Timestamp) -> Result<bool, Status> {
        let begun = binding.point_begun;
        let result = self.run_pre_flight(binding, now);
        let code = match &result {
            Ok(true) => Code::Success,
            Ok(false) => Code::Skip,
            Err(status) => status.code(),
        };
        self.point_ended(binding.profile, MeteredPoint::PreBindPreFlight, code, begun);
        result
    }

    fn run_pre_flight(&self, binding: &mut Binding, now: Timestamp) -> Result<bool, Status> {
        let cx = self.context(now);
        let mut has_work = false;
        for (idx, name, plugin) in self.plans.profiles[binding.profile].pre_bind() {
            let flight = guarded(|| {
                plugin.pre_bind_pre_flight(&cx, &binding.state, &binding.pod, &binding.node)
            });
            let PreBindFlight { status, may_run_in_parallel } = flight
                .unwrap_or_else(|status| PreBindFlight { status, may_run_in_parallel: false });
            if may_run_in_parallel {
                binding.parallel_pre_bind.push(idx);
            }
            match status.code() {
                Code::Success => has_work = true,
                Code::Skip => binding.idle_pre_bind.push(idx),
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

    /// Tells the API server early where the pod is expected to go.
    pub(super) fn announce(&mut self, binding: &Binding) {
        if binding.pod.nominated_node_name() == Some(&*binding.node) {
            return;
        }
        let patch = StatusPatch {
            condition: None,
            nominated_node_name: Some(Some(binding.node.clone())),
            has_conditions: !binding.pod.status.conditions.is_empty(),
        };
        self.effects.push(Effect::PatchStatus { pod: PodRef::from(&*binding.pod), patch });
    }

    /// Nobody objects any more: events cannot help or hurt the attempt from here on.
    pub(super) fn after_permit(&mut self, uid: &Arc<str>, now: Timestamp) {
        self.queue.done(uid);
        if let Some(mut binding) = self.bindings.remove(uid) {
            binding.stage = Stage::before_pre_bind();
            binding.point_begun = self.plans.profiles[binding.profile].meter().map(Meter::nanos);
            self.bindings.insert(binding);
        }
        self.run_pre_bind(uid, now);
    }

    /// Starts PreBind plugins until one has to be awaited, or all are through.
    pub(super) fn run_pre_bind(&mut self, uid: &Arc<str>, now: Timestamp) {
        while let Some(mut binding) = self.bindings.remove(uid) {
            let mut later = Commands::default();
            let next = self.pre_bind_step(&mut binding, &mut later, now);
            let code = match &next {
                Next::Plugin | Next::Wait => None,
                Next::Bind => Some(Code::Success),
                Next::Fail(status) => Some(status.code()),
            };
            if let Some(code) = code {
                let begun = binding.point_begun;
                binding.point_begun =
                    self.point_ended(binding.profile, MeteredPoint::PreBind, code, begun);
            }
            self.bindings.insert(binding);
            self.carry_out(later, now);
            match next {
                Next::Plugin => {}
                Next::Wait => return,
                Next::Bind => return self.bind_outside(uid, 0, now),
                Next::Fail(status) => return self.binding_failed(uid, status, now),
            }
        }
    }

    /// Runs the next PreBind plugin, if its turn has come.
    fn pre_bind_step(
        &mut self,
        binding: &mut Binding,
        later: &mut Commands,
        now: Timestamp,
    ) -> Next {
        let Stage::PreBind { next, running, failure } = &mut binding.stage else {
            return Next::Wait;
        };
        if failure.is_some() {
            // Nobody outside is at work on those, so there is nobody to wait for.
            running.retain(|running| !running.sleeps());
        }
        let profile = &self.plans.profiles[binding.profile];
        let step = profile.pre_bind().nth(*next);
        let is_parallel =
            step.as_ref().is_some_and(|(idx, ..)| binding.parallel_pre_bind.contains(idx));
        // A plugin on its own waits for those before it, and a failure stops everything that has not started.
        if !running.is_empty() && (!is_parallel || failure.is_some()) {
            return Next::Wait;
        }
        if let Some(status) = failure.take() {
            return Next::Fail(status);
        }
        let Some((idx, name, plugin)) = step else { return Next::Bind };
        *next += 1;
        if binding.idle_pre_bind.contains(&idx) {
            return Next::Plugin;
        }
        let cx = self.context(now);
        let begun = profile.meter().and_then(Meter::plugin_start);
        let completion =
            guarded(|| plugin.pre_bind(&cx, &mut binding.state, &binding.pod, &binding.node));
        let name = name.clone();
        match completion.unwrap_or_else(Completion::Ready) {
            Completion::Ready(status) => {
                if let Some(meter) = profile.meter() {
                    meter.plugin_ended(idx, MeteredPoint::PreBind, status.code(), begun);
                }
                *failure = pre_bind_failure(status, &name);
                return Next::Plugin;
            }
            Completion::Pending(work) => {
                let token = self.bindings.token(&binding.pod.uid);
                running.push(Running { plugin: name.clone(), begun, work: Work::Outside(token) });
                self.effects.push(Effect::Await { token, plugin: name, work });
            }
            Completion::Task(task) => {
                match self.step_task(binding, &name, task, TaskEvent::Started, later, now) {
                    Ok(work) => {
                        if let Stage::PreBind { running, .. } = &mut binding.stage {
                            running.push(Running { plugin: name, begun, work });
                        }
                    }
                    Err(status) => {
                        self.pre_bind_measured(binding.profile, &name, status.code(), begun);
                        binding.pre_bind_ended(status, &name);
                        return Next::Plugin;
                    }
                }
            }
        }
        if is_parallel { Next::Plugin } else { Next::Wait }
    }

    /// A PreBind plugin has ended that was waited for.
    pub(super) fn pre_bind_measured(
        &self,
        profile: usize,
        plugin: &PluginName,
        code: Code,
        begun: Option<u64>,
    ) {
        let profile = &self.plans.profiles[profile];
        if let (Some(meter), Some(idx)) = (profile.meter(), profile.position(plugin)) {
            meter.plugin_ended(idx, MeteredPoint::PreBind, code, begun);
        }
    }

    /// Asks Bind plugins from `next` on, until one takes the pod.
    pub(super) fn run_bind(&mut self, uid: &Arc<str>, next: usize, now: Timestamp) {
        let Some(mut binding) = self.bindings.remove(uid) else { return };
        let result = self.bind_steps(&mut binding, next, now);
        self.bindings.insert(binding);
        match result {
            Some(Ok(())) => self.bound(uid, now),
            Some(Err(status)) => self.binding_failed(uid, status, now),
            None => {}
        }
    }

    /// What the first plugin answers that takes the pod; `None` when it has to be awaited.
    fn bind_steps(
        &mut self,
        binding: &mut Binding,
        next: usize,
        now: Timestamp,
    ) -> Option<Result<(), Status>> {
        let plugins: Vec<(usize, PluginIdx, PluginName)> = self.plans.profiles[binding.profile]
            .bind()
            .enumerate()
            .skip(next)
            .map(|(at, (idx, name, _))| (at, idx, name.clone()))
            .collect();
        for (at, idx, name) in plugins {
            let entry = self.plans.profiles[binding.profile].plugins().get(idx);
            let Some(plugin) = entry.and_then(|entry| entry.plugin.as_bind()) else { continue };
            let cx = self.context(now);
            let meter = self.plans.profiles[binding.profile].meter();
            binding.plugin_begun = meter.and_then(Meter::plugin_start);
            let outcome =
                guarded(|| plugin.bind(&cx, &mut binding.state, &binding.pod, &binding.node));
            let outcome = outcome.unwrap_or_else(BindOutcome::Ready);
            if let (BindOutcome::Ready(status), Some(meter)) = (&outcome, meter) {
                meter.plugin_ended(idx, MeteredPoint::Bind, status.code(), binding.plugin_begun);
            }
            let token = match outcome {
                BindOutcome::Ready(status) if status.is_skip() => continue,
                BindOutcome::Ready(status) => return Some(bind_result(status, &name)),
                BindOutcome::WriteBinding => {
                    let token = self.bindings.token(&binding.pod.uid);
                    let (pod, node) = (PodRef::from(&*binding.pod), binding.node.clone());
                    self.effects.push(Effect::WriteBinding { token, pod, node });
                    token
                }
                BindOutcome::Pending(work) => {
                    let token = self.bindings.token(&binding.pod.uid);
                    self.effects.push(Effect::Await { token, plugin: name.clone(), work });
                    token
                }
            };
            binding.stage = Stage::Bind { next: at + 1, awaited: token, plugin: name };
            return None;
        }
        // Parity: the reference ends here with an empty error, so the pod backs off without any event or condition.
        Some(Err(Status::error("every bind plugin skipped the pod")))
    }

    /// Something that a binding waited for has ended.
    pub(crate) fn work_finished(&mut self, token: Token, status: Status, now: Timestamp) {
        let Some(uid) = self.bindings.redeem(token) else { return };
        let Some(mut binding) = self.bindings.remove(&uid) else { return };
        if let Stage::PreBind { running, .. } = &mut binding.stage {
            let is_it =
                |running: &Running| matches!(running.work, Work::Outside(other) if other == token);
            let ended = running.iter().position(is_it).map(|at| running.remove(at));
            if let Some(ended) = &ended {
                self.pre_bind_measured(binding.profile, &ended.plugin, status.code(), ended.begun);
                binding.pre_bind_ended(status, &ended.plugin);
            }
            self.bindings.insert(binding);
            if ended.is_some() {
                self.run_pre_bind(&uid, now);
            }
            return;
        }
        if let Stage::BindOutside { at, awaited } = binding.stage {
            self.bindings.insert(binding);
            if awaited == token {
                self.bound_outside(&uid, at, status, now);
            }
            return;
        }
        let waits_for = match &binding.stage {
            Stage::Bind { next, awaited, plugin } if *awaited == token => {
                let profile = &self.plans.profiles[binding.profile];
                if let (Some(meter), Some(idx)) = (profile.meter(), profile.position(plugin)) {
                    let begun = binding.plugin_begun;
                    meter.plugin_ended(idx, MeteredPoint::Bind, status.code(), begun);
                }
                Some((*next, plugin.clone()))
            }
            _ => None,
        };
        self.bindings.insert(binding);
        let Some((next, plugin)) = waits_for else { return };
        if status.is_skip() {
            return self.run_bind(&uid, next, now);
        }
        match bind_result(status, &plugin) {
            Ok(()) => self.bound(&uid, now),
            Err(status) => self.binding_failed(&uid, status, now),
        }
    }
}

pub(super) fn pre_bind_failure(status: Status, name: &PluginName) -> Option<Status> {
    if status.is_success() {
        None
    } else if status.is_rejected() {
        Some(status.from_plugin(name))
    } else {
        Some(status.wrapped(format!("running PreBind plugin \"{name}\"")).from_plugin(name))
    }
}

fn bind_result(status: Status, name: &PluginName) -> Result<(), Status> {
    if status.is_success() {
        Ok(())
    } else if status.is_rejected() {
        Err(status.from_plugin(name))
    } else {
        Err(status.wrapped(format!("running Bind plugin \"{name}\"")).from_plugin(name))
    }
}
