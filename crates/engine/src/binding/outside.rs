//! Bindings that extenders write.
//!
//! An extender that binds and is interested in the pod takes the place of all Bind plugins. The work leaves as an effect, as
//! any other, so that the core goes on meanwhile.
//!
//! Behaviour: `docs/spec/config.md` §7.6, `docs/spec/core.md` §7.

use std::sync::Arc;

use kube_scheduler_framework::Status;
use kube_scheduler_runtime::{Extender, ExtenderReport};

use super::{Binding, Bindings, Stage};
use crate::core::Core;
use crate::effect::Effect;
use crate::guard::guarded;

impl Bindings {
    /// Lets the next extender from position `from` on bind, if there is one for this pod; otherwise the Bind plugins.
    pub(super) fn bind_outside(&mut self, core: &mut Core, mut binding: Box<Binding>, from: usize) {
        if core.extenders.is_empty() {
            return self.run_bind(core, binding, 0);
        }
        let plans = core.plans.clone();
        let found = guarded(|| plans.extenders.binder(&binding.pod, from));
        let (at, extender) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return self.run_bind(core, binding, 0),
            Err(panic) => return self.fail(core, binding, panic),
        };
        let work = match guarded(|| extender.bind(&binding.pod, &binding.node)) {
            Ok(work) => work,
            Err(panic) => return self.bound_outside(core, binding, at, panic),
        };
        let token = self.table.issue_token(&binding.pod.uid);
        core.effects.push(Effect::Await { token, plugin: extender.name().into(), work });
        binding.stage = Stage::BindOutside { at, awaited: token };
        self.table.put(binding, &mut core.deadlines);
    }

    /// The extender at position `at` has bound the pod, or not.
    pub(super) fn bound_outside(
        &mut self,
        core: &mut Core,
        binding: Box<Binding>,
        at: usize,
        status: Status,
    ) {
        if status.is_success() {
            return self.bound(core, binding);
        }
        let error = status.error_text().unwrap_or_else(|| status.message());
        let is_ignored = guarded(|| {
            let extender: Option<&Arc<dyn Extender>> = core.plans.extenders.iter().nth(at);
            extender.is_some_and(|extender| {
                if extender.is_ignorable() {
                    extender.report(ExtenderReport::BindIgnored { error: &error });
                }
                extender.is_ignorable()
            })
        });
        match is_ignored {
            Ok(true) => self.bind_outside(core, binding, at + 1),
            Ok(false) | Err(_) => self.fail(core, binding, Status::error(error)),
        }
    }
}
