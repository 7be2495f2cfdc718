//! Copies of an engine, for questions.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::PluginName;

use crate::engine::Engine;
use crate::group::foreign::ForeignGroups;
use crate::input::Input;

impl Engine {
    /// For copies: pods that come from now on belong to no groups that plugins know of, whatever their labels. Whether the pod
    /// would belong to one.
    pub fn leave_groups_of_plugins_aside(&mut self, pod: &Pod) -> bool {
        let is_member = self.core.foreign.group_of(pod).is_some();
        self.core.foreign = ForeignGroups::default();
        is_member
    }

    /// For copies: names a flag that ends their work early. Once it is set, each search fails with an error before it begins, also
    /// those of the members of a group that is being tried. What a copy decides from then on means nothing; without a flag that is
    /// set, nothing is different. An engine that is no copy ignores it, for its decisions depend on its inputs alone.
    pub fn give_up_when(&mut self, is_given_up: Arc<AtomicBool>) {
        if let Some(state) = &mut self.core.fork_state {
            state.is_given_up = is_given_up;
        }
    }

    /// A copy of this engine. The two are independent: neither sees the other's inputs and decisions.
    ///
    /// Given the same inputs, it decides as this one would. Operations that are under way have succeeded in the copy: bindings
    /// are written, and pods that preemptions evict are gone. Pods that wait on Permit keep waiting. The copy asks nothing
    /// outside: extenders are not called, and work of plugins outside ([`Completion::Pending`], [`BindOutcome::Pending`]) counts
    /// as successful without being started ([`trusted_plugins`](Self::trusted_plugins)). The copy has no effects that were not
    /// fetched, and counts and measures nothing, except in the meters of plugins. Plugins are shared with the original: one that
    /// keeps state of its own must also expect calls about groups of pods that are tried on a copy ([`ObjectStore::is_copy`]).
    ///
    /// One pointer copy for 1,024 nodes in each of the cluster's columns and for 64 pods in each table of pods, and O(pods that wait)
    /// for the queue.
    ///
    /// [`Completion::Pending`]: kube_scheduler_framework::Completion::Pending
    /// [`BindOutcome::Pending`]: kube_scheduler_framework::BindOutcome::Pending
    /// [`ObjectStore::is_copy`]: kube_scheduler_framework::ObjectStore::is_copy
    #[must_use]
    pub fn fork(&self, now: Timestamp) -> Self {
        let mut fork = Self {
            core: self.core.fork(),
            cycle: self.cycle.fork(),
            bindings: self.bindings.fork(),
            preemptions: self.preemptions.fork(),
        };
        for pod in self.bindings.past_permit() {
            let uid = pod.uid.clone();
            fork.handle(Input::PodApplied(pod), now);
            fork.core.done(&uid);
        }
        let (victims, held) = self.preemptions.under_way();
        for victim in victims {
            let (namespace, name) = (victim.namespace.clone(), victim.name.clone());
            // It may be gone already, and another one have its name.
            let known = fork.known_pod(&namespace, &name);
            if known.is_some_and(|known| known.uid == victim.uid) {
                fork.handle(Input::PodDeleted { namespace, name }, now);
            }
        }
        for queued in held {
            fork.core.requeue(queued);
        }
        fork.drain_effects().for_each(drop);
        fork
    }

    /// The plugins whose work outside counted as done well so far, because this engine is a copy; by name.
    pub fn trusted_plugins(&self) -> impl Iterator<Item = &PluginName> {
        self.core.fork_state.iter().flat_map(|state| &state.trusted)
    }

    /// Whether extenders take part in attempts. A copy does not ask those that its original has.
    pub fn has_extenders(&self) -> bool {
        !self.core.plans.extenders.is_empty()
    }
}
