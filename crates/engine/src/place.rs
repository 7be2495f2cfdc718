//! Where a pod is between its creation and its node, and what it waits for.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::{PluginName, RunningPreemptions, WaitingPods};
use kube_scheduler_queue::{Place, QueuedPod};

use crate::diagnosis::events_for;
use crate::engine::Engine;
use crate::policy::Entry;

/// The stop that a pod is at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PodStage {
    /// No profile is responsible for it.
    #[default]
    NotOurs,
    /// It is being deleted and has no node: it is not tried.
    BeingDeleted,
    /// It is ready to be tried.
    Active,
    /// It waits until its backoff is over.
    Backoff {
        /// When that is.
        until: Option<Timestamp>,
    },
    /// It fits nowhere and waits for an event.
    Unschedulable {
        /// When it is tried again without any event.
        until: Timestamp,
    },
    /// A PreEnqueue plugin does not let it be tried.
    Gated {
        /// The plugin.
        by: PluginName,
    },
    /// It is being tried: the attempt waits for its victims to be evicted.
    InFlight,
    /// It has a node, and plugins have it wait on Permit.
    WaitingOnPermit {
        /// The plugins that still have to allow it, sorted by name.
        plugins: Vec<PluginName>,
    },
    /// It has a node, and the binding is being prepared or written.
    Binding,
    /// It has a node on the API server.
    Bound,
}

/// Where a pod is, and what it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPlace {
    /// The stop that it is at.
    pub stage: PodStage,
    /// Its node, also before it is bound.
    pub node: Option<Arc<str>>,
    /// The node that it is nominated to.
    pub nominated_node: Option<Arc<str>>,
    /// Attempts so far, as far as the scheduler remembers: those of bound pods are forgotten.
    pub attempts: u32,
    /// The plugins that rejected it in its last attempt.
    pub rejected_by: Vec<PluginName>,
    /// The events that these plugins registered for, one of which may bring it back; sorted. `*` is any event.
    pub waits_for: Vec<String>,
    /// Whether pods are being evicted for it, so that it is not tried yet.
    pub is_preempting: bool,
}

impl PodPlace {
    fn at(stage: PodStage) -> Self {
        Self { stage, ..Self::default() }
    }
}

impl Engine {
    /// Where a pod is; `None` if the engine does not know it.
    pub fn place_of(&self, namespace: &str, name: &str) -> Option<PodPlace> {
        let pod = self.known_pod(namespace, name)?;
        let uid = &*pod.uid;
        let core = &self.core;
        if let Some((node, attempts)) =
            self.bindings.destination(uid).filter(|_| !pod.is_assigned())
        {
            let stage = match core.permits.waiting_pod(uid) {
                Some(waiting) => PodStage::WaitingOnPermit { plugins: waiting.pending_plugins },
                None => PodStage::Binding,
            };
            return Some(PodPlace { node: Some(node), attempts, ..PodPlace::at(stage) });
        }
        if pod.is_assigned() {
            return Some(PodPlace { node: pod.node_name.clone(), ..PodPlace::at(PodStage::Bound) });
        }
        let nomination = core.queue().nomination(uid).filter(|node| !node.is_empty());
        let nominated_node = nomination.or_else(|| pod.nominated_node_name()).map(Arc::from);
        let is_preempting = core.held_back.is_preempting(uid);
        let queued = core.queue().get(namespace, name);
        let place = match queued.filter(|queued| *queued.entry().0.uid == *uid) {
            Some(queued) => self.queued(pod, queued),
            None if core.queue().is_in_flight(uid) => PodPlace::at(PodStage::InFlight),
            None => PodPlace::at(PodStage::NotOurs),
        };
        // It may be queued still, and is passed over when it comes to its turn.
        let place = match place {
            PodPlace { stage, attempts, .. }
                if pod.deletion_requested.is_some() && stage != PodStage::InFlight =>
            {
                PodPlace { attempts, ..PodPlace::at(PodStage::BeingDeleted) }
            }
            place => place,
        };
        Some(PodPlace { nominated_node, is_preempting, ..place })
    }

    fn queued(&self, pod: &Pod, queued: &QueuedPod<Entry>) -> PodPlace {
        let queue = self.core.queue();
        let plugin_name = |id| PluginName::from(queue.plugin_name(id));
        let place = queue.place(&pod.namespace, &pod.name);
        let stage = match (queued.gated_by(), place) {
            (Some(by), _) => PodStage::Gated { by: plugin_name(by) },
            (None, Some(Place::Backoff | Place::ErrorBackoff)) => {
                PodStage::Backoff { until: queue.backoff_end(queued) }
            }
            (None, Some(Place::Unschedulable)) => PodStage::Unschedulable {
                until: queued.timestamp() + queue.settings().max_in_unschedulable,
            },
            (None, Some(Place::Active) | None) => PodStage::Active,
        };
        let rejected_by: Vec<PluginName> = queued.rejectors().iter().map(plugin_name).collect();
        let profile = self.core.plans.profiles.of(pod).map(|idx| &self.core.plans.profiles[idx]);
        let waits_for = profile.map(|profile| events_for(profile, &rejected_by));
        PodPlace {
            attempts: queued.attempts(),
            waits_for: waits_for.unwrap_or_default(),
            rejected_by,
            ..PodPlace::at(stage)
        }
    }
}
