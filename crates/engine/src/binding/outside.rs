//! Bindings that extenders write.
//!
//! An extender that binds and is interested in the pod takes the place of all Bind plugins. The work leaves as an effect, as
//! any other, so that the core goes on meanwhile.
//!
//! Behaviour: `spec/config.md` §7.6, `spec/core.md` §7.

use std::sync::Arc;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_framework::{Extender, ExtenderReport, Status};

use super::Stage;
use crate::effect::Effect;
use crate::engine::Engine;
use crate::guard::guarded;

impl Engine {
    /// Lets the next extender from position `from` on bind, if there is one for this pod; otherwise the Bind plugins.
    pub(super) fn bind_outside(&mut self, uid: &Arc<str>, from: usize, now: Timestamp) {
        if self.plans.extenders.is_empty() {
            return self.run_bind(uid, 0, now);
        }
        let Some(binding) = self.bindings.by_uid.get(uid) else { return };
        let extenders = self.plans.extenders.clone();
        let found = guarded(|| {
            extenders.binder(&binding.pod, from).map(|(at, extender)| (at, extender.clone()))
        });
        let (at, extender) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return self.run_bind(uid, 0, now),
            Err(panic) => return self.binding_failed(uid, panic, now),
        };
        let work = match guarded(|| extender.bind(&binding.pod, &binding.node)) {
            Ok(work) => work,
            Err(panic) => return self.bound_outside(uid, at, panic, now),
        };
        let Some(mut binding) = self.bindings.remove(uid) else { return };
        let token = self.bindings.token(uid);
        self.effects.push(Effect::Await { token, plugin: extender.name().into(), work });
        binding.stage = Stage::BindOutside { at, awaited: token };
        self.bindings.insert(binding);
    }

    /// The extender at position `at` has bound the pod, or not.
    pub(super) fn bound_outside(
        &mut self,
        uid: &Arc<str>,
        at: usize,
        status: Status,
        now: Timestamp,
    ) {
        if status.is_success() {
            return self.bound(uid, now);
        }
        let error = status.error_text().unwrap_or_else(|| status.message());
        let is_ignored = guarded(|| {
            let extender: Option<&Arc<dyn Extender>> = self.plans.extenders.iter().nth(at);
            extender.is_some_and(|extender| {
                if extender.is_ignorable() {
                    extender.report(ExtenderReport::BindIgnored { error: &error });
                }
                extender.is_ignorable()
            })
        });
        match is_ignored {
            Ok(true) => self.bind_outside(uid, at + 1, now),
            Ok(false) | Err(_) => self.binding_failed(uid, Status::error(error), now),
        }
    }
}
