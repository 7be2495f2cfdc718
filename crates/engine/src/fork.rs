//! Engines for questions: copies that go their own way.

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_framework::PluginName;

use crate::engine::Engine;
use crate::input::Input;

impl Engine {
    /// A copy of this engine. What one of the two is fed and decides, the other never sees.
    ///
    /// It decides as this one would if it were fed the same. What is under way has ended well in it: bindings are written,
    /// and pods that preemptions evict are gone. Pods that wait on Permit keep waiting. Nothing outside of it is asked: extenders
    /// have no say, and what plugins would do outside ([`Completion::Pending`], [`BindOutcome::Pending`]) counts as done well
    /// without being done ([`trusted_plugins`](Self::trusted_plugins)). Effects that have not been fetched are not part of it, and nothing that it does is counted or measured, but by the meters of plugins. Plugins are shared:
    /// one that keeps state of its own must cope with groups of pods, which are tried on copies, too.
    ///
    /// O(nodes + pods) pointer copies for the cluster's columns, and O(pods) for the queue and the table of pods.
    ///
    /// [`Completion::Pending`]: kube_scheduler_framework::Completion::Pending
    /// [`BindOutcome::Pending`]: kube_scheduler_framework::BindOutcome::Pending
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
        self.core.trusted()
    }

    /// Whether extenders take part in attempts. A copy does not ask those that its original has.
    pub fn has_extenders(&self) -> bool {
        !self.core.plans.extenders.is_empty()
    }
}
