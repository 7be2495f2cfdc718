//! Pods that wait on Permit: allowed, rejected, or out of time.
//!
//! Behaviour: `docs/spec/core.md` §6.
//!
//! Invariant: [`PermitWaits`] holds exactly the bindings in the Permit stage, each with at least one wait, and the table
//! of deadlines has the first deadline of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{KeyedMap, Pod, Timestamp};
use kube_scheduler_framework::{Code, PluginName, Reason, Status, WaitingPod, WaitingPods};
use smallvec::SmallVec;

use super::{Bindings, Serial};
use crate::core::Core;
use crate::deadlines::{Deadlines, WakeUp};

/// One plugin's wait for one pod.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) plugin: PluginName,
    pub(super) deadline: Timestamp,
    /// The length of the whole wait.
    pub(super) timeout: Duration,
    /// What the plugin said.
    pub(super) status: Status,
}

/// Waits on Permit, in plugin order.
pub(super) type Waits = SmallVec<[Wait; 2]>;

#[derive(Clone, Debug)]
pub(super) struct Waiter {
    serial: Serial,
    /// With its node filled in.
    pod: Arc<Pod>,
    waits: Waits,
}

impl Waiter {
    /// The wait that ends first; of several that end together, the first in plugin order.
    fn first(&self) -> Option<&Wait> {
        self.waits.iter().min_by_key(|wait| wait.deadline)
    }
}

/// The pods that wait on Permit, as plugins may see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PermitWaits {
    by_uid: KeyedMap<Arc<str>, Waiter>,
    by_serial: BTreeMap<Serial, Arc<str>>,
}

impl PermitWaits {
    /// How many pods wait.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Whether the pod waits.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    /// Adds a pod that waits from now on.
    pub(super) fn add(
        &mut self,
        serial: Serial,
        pod: &Arc<Pod>,
        waits: Waits,
        deadlines: &mut Deadlines,
    ) {
        self.insert(Waiter { serial, pod: pod.clone(), waits }, deadlines);
    }

    fn insert(&mut self, waiter: Waiter, deadlines: &mut Deadlines) {
        let Some(first) = waiter.first() else { return };
        deadlines.set(WakeUp::PermitEnds(waiter.serial), first.deadline);
        self.by_serial.insert(waiter.serial, waiter.pod.uid.clone());
        self.by_uid.insert(waiter.pod.uid.clone(), waiter);
    }

    /// The pod does not wait any more.
    pub(super) fn take(&mut self, uid: &str, deadlines: &mut Deadlines) -> Option<Waiter> {
        let waiter = self.by_uid.remove(uid)?;
        self.by_serial.remove(&waiter.serial);
        if let Some(first) = waiter.first() {
            deadlines.clear(WakeUp::PermitEnds(waiter.serial), first.deadline);
        }
        Some(waiter)
    }

    /// A plugin takes back its wait; says whether it was the pod's last.
    fn allow(&mut self, uid: &str, plugin: &str, deadlines: &mut Deadlines) -> bool {
        let Some(mut waiter) = self.take(uid, deadlines) else { return false };
        waiter.waits.retain(|wait| *wait.plugin != *plugin);
        let is_through = waiter.waits.is_empty();
        self.insert(waiter, deadlines);
        is_through
    }

    /// The wait of a binding that ends first, and whose it is.
    fn first_of(&self, serial: Serial) -> Option<(Arc<str>, Wait)> {
        let uid = self.by_serial.get(&serial)?;
        Some((uid.clone(), self.by_uid.get(uid)?.first()?.clone()))
    }
}

impl WaitingPods for PermitWaits {
    fn waiting_pod(&self, uid: &str) -> Option<WaitingPod> {
        let waiter = self.by_uid.get(uid)?;
        let mut pending_plugins: Vec<PluginName> =
            waiter.waits.iter().map(|wait| wait.plugin.clone()).collect();
        pending_plugins.sort();
        Some(WaitingPod { pod: waiter.pod.clone(), pending_plugins })
    }

    fn waiting_pods(&self) -> Vec<WaitingPod> {
        self.by_serial.values().filter_map(|uid| self.waiting_pod(uid)).collect()
    }

    fn has_waiting_pods(&self) -> bool {
        !self.by_uid.is_empty()
    }
}

impl Bindings {
    /// A plugin takes back its wait.
    pub(super) fn allow(&mut self, core: &mut Core, uid: &Arc<str>, plugin: &str) {
        if !core.permits.allow(uid, plugin, &mut core.deadlines) {
            return;
        }
        if let Some(binding) = self.table.take(uid, &mut core.deadlines) {
            core.measures.waited(Code::Success, core.now.saturating_since(binding.started));
            self.after_permit(core, binding);
        }
    }

    /// Rejects a pod that waits on Permit, on behalf of a plugin; says whether it waited.
    pub(crate) fn reject(
        &mut self,
        core: &mut Core,
        uid: &str,
        plugin: &PluginName,
        message: Reason,
    ) -> bool {
        self.fail_waiting(core, uid, Status::unschedulable(message).from_plugin(plugin))
    }

    /// The first wait of a binding has lasted too long.
    pub(crate) fn permit_ended(&mut self, core: &mut Core, serial: Serial) {
        let Some((uid, wait)) = core.permits.first_of(serial) else { return };
        let waited = i64::try_from(wait.timeout.as_nanos()).unwrap_or(i64::MAX);
        let waited = kube_scheduler_config::Duration::from_nanos(waited);
        let plugin = &wait.plugin;
        let text = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
        self.reject(core, &uid, &wait.plugin, text.into());
    }

    /// Fails a pod that waits on Permit; says whether it waited.
    pub(super) fn fail_waiting(&mut self, core: &mut Core, uid: &str, status: Status) -> bool {
        if !core.permits.contains(uid) {
            return false;
        }
        if let Some(binding) = self.table.take(uid, &mut core.deadlines) {
            self.fail(core, binding, status);
        }
        true
    }
}
