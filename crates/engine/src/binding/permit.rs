//! Pods that wait on Permit: allowed, turned down, or out of time.
//!
//! Behaviour: `spec/core.md` §6.

use std::sync::Arc;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_framework::{Code, PluginName, Reason, Status};

use super::Stage;
use crate::duration::go_duration;
use crate::engine::Engine;

impl Engine {
    /// A plugin takes back its wait.
    pub(crate) fn allow(&mut self, uid: &str, plugin: &str, now: Timestamp) {
        if !self.bindings.is_waiting(uid) {
            return;
        }
        let Some(mut binding) = self.bindings.remove(uid) else { return };
        let mut is_through = false;
        if let Stage::Permit(waits) = &mut binding.stage {
            waits.retain(|wait| *wait.plugin != *plugin);
            is_through = waits.is_empty();
        }
        let uid = binding.pod.uid.clone();
        let waited = now.saturating_since(binding.started);
        self.bindings.insert(binding);
        if is_through {
            self.measures.waited(Code::Success, waited);
            self.after_permit(&uid, now);
        }
    }

    /// Turns a waiting pod down.
    pub(crate) fn reject_waiting(
        &mut self,
        uid: &str,
        plugin: &PluginName,
        message: Reason,
        now: Timestamp,
    ) -> bool {
        self.fail_waiting(uid, Status::unschedulable(message).from_plugin(plugin), now)
    }

    /// Fails a waiting pod whose place somebody more important needs.
    pub(crate) fn preempt_waiting(&mut self, uid: &str, now: Timestamp) -> bool {
        self.fail_waiting(uid, Status::error("waiting on permit for pod: preempted"), now)
    }

    /// Ends the waits whose time is up.
    pub(crate) fn expire_waits(&mut self, now: Timestamp) {
        while let Some((uid, wait)) = self.bindings.expired(now) {
            let text = format!(
                "rejected due to timeout after waiting {} at plugin {}",
                go_duration(wait.timeout),
                wait.plugin
            );
            if !self.reject_waiting(&uid, &wait.plugin, text.into(), now) {
                return;
            }
        }
    }

    fn fail_waiting(&mut self, uid: &str, status: Status, now: Timestamp) -> bool {
        let is_waiting = self.bindings.is_waiting(uid);
        if is_waiting {
            self.binding_failed(&Arc::from(uid), status, now);
        }
        is_waiting
    }
}
