//! Log lines about the engine's work beyond the search for a node: changes that come in, what is about to be written,
//! and the engine's notices.
//!
//! Behaviour: `docs/spec/observability.md` §5.2.

use kube_scheduler_api_types::Pod;
use kube_scheduler_engine::{Effect, Engine, Input, Notice, RejectionStage, VictimEnd};
use tracing::Level;

/// The name under which the reference logs errors that no caller handles.
pub(crate) const UNHANDLED_ERROR: &str = "UnhandledError";

/// From this verbosity on, changes of pods and nodes are logged.
pub(crate) const CHANGES_FROM: u8 = 3;

/// The highest verbosity of the lines of this module that the log shows at the moment.
pub(crate) fn verbosity() -> u8 {
    // The log's verbosity is set by target.
    if tracing::enabled!(target: "V5", Level::TRACE) {
        5
    } else if tracing::enabled!(target: "V4", Level::DEBUG) {
        4
    } else if tracing::enabled!(target: "V3", Level::DEBUG) {
        CHANGES_FROM
    } else if tracing::enabled!(target: "V2", Level::DEBUG) {
        2
    } else {
        0
    }
}

/// Logs a change of a pod or node; to be called before the engine takes it in.
pub(crate) fn change(engine: &Engine, input: &Input) {
    match input {
        Input::PodApplied(pod) => {
            let old = engine.known_pod(&pod.namespace, &pod.name);
            pod_applied(engine, old.map(|old| &**old), pod);
        }
        Input::PodDeleted { namespace, name } => {
            if let Some(pod) = engine.known_pod(namespace, name) {
                pod_deleted(engine, pod);
            }
        }
        Input::NodeApplied(node) if engine.cluster().node_idx(&node.name).is_none() => {
            tracing::debug!(target: "V3", node = &*node.name, "Add event for node");
        }
        Input::NodeApplied(node) => {
            tracing::debug!(target: "V4", node = &*node.name, "Update event for node");
        }
        Input::NodeDeleted { name } => {
            tracing::debug!(target: "V3", node = &**name, "Delete event for node");
        }
        _ => {}
    }
}

fn is_ours(engine: &Engine, pod: &Pod) -> bool {
    engine.profiles().iter().any(|profile| profile.scheduler_name == pod.spec.scheduler_name)
}

fn pod_applied(engine: &Engine, old: Option<&Pod>, pod: &Pod) {
    let key = pod.key();
    // Another pod of the same name: the one before is gone.
    let old = match old {
        Some(old) if old.uid != pod.uid => {
            pod_deleted(engine, old);
            None
        }
        old => old,
    };
    match (old.map(Pod::is_assigned), pod.is_assigned()) {
        (Some(true), true) => {
            tracing::debug!(target: "V4", pod = %key, "Update event for scheduled pod");
        }
        (_, true) => {
            tracing::debug!(target: "V3", pod = %key, "Add event for scheduled pod");
            if let Some(old) = old {
                pod_deleted(engine, old);
            }
        }
        (Some(_), false) if is_ours(engine, pod) => {
            tracing::debug!(target: "V4", pod = %key, "Update event for unscheduled pod");
        }
        (None, false) if is_ours(engine, pod) => {
            tracing::debug!(target: "V3", pod = %key, "Add event for unscheduled pod");
        }
        _ => {}
    }
}

fn pod_deleted(engine: &Engine, pod: &Pod) {
    let key = pod.key();
    if pod.is_assigned() {
        tracing::debug!(target: "V3", pod = %key, "Delete event for scheduled pod");
    } else if is_ours(engine, pod) {
        tracing::debug!(target: "V3", pod = %key, "Delete event for unscheduled pod");
    }
}

/// Logs what is about to be written.
pub(crate) fn effect(effect: &Effect) {
    match effect {
        Effect::WriteBinding { pod, node, .. } => {
            tracing::debug!(target: "V3", %pod, node = &**node, "Attempting to bind pod to node");
        }
        Effect::PatchStatus { pod, patch, .. } => {
            let Some(condition) = &patch.condition else { return };
            let nominated = patch.nominated_node_name.as_ref();
            let nominated = nominated.map(|node| node.as_deref().unwrap_or_default());
            tracing::debug!(
                target: "V3",
                %pod,
                conditionType = &*condition.kind,
                conditionStatus = &*condition.status,
                conditionReason = &*condition.reason,
                nominatedNodeName = nominated.unwrap_or_default(),
                nominatingMode = u8::from(nominated.is_some()),
                "Updating pod condition and nominated node name"
            );
        }
        _ => {}
    }
}

/// Logs a notice. `cycle` is the number of the latest attempt.
pub(crate) fn notice(notice: &Notice, cycle: u64) {
    match notice {
        Notice::PodMoved { .. } => moved(notice, cycle),
        Notice::EventDoesNotHelp { pod, event } => {
            tracing::trace!(target: "V5", %pod, %event, "Event is not making pod schedulable");
        }
        Notice::EventSeenInFlight(event) => {
            tracing::trace!(target: "V5", %event, "Event received while pods are in flight");
        }
        Notice::Gated { pod, plugin, status } => {
            let plugin = &**plugin;
            tracing::debug!(target: "V4", %pod, plugin, status, "Status after running PreEnqueue plugin");
        }
        Notice::RejectedByPlugin { pod, node, plugin, at, status } => {
            let (node, plugin) = (&**node, &**plugin);
            match at {
                RejectionStage::BeforeBinding => {
                    tracing::debug!(target: "V4", %pod, plugin, status, "Pod rejected by plugin");
                }
                RejectionStage::PreBind => {
                    let text = "Pod rejected by PreBind plugin";
                    tracing::debug!(target: "V4", %pod, node, plugin, status, "{text}");
                }
                RejectionStage::Bind => {
                    let text = "Pod rejected by Bind plugin";
                    tracing::debug!(target: "V4", %pod, node, plugin, status, "{text}");
                }
            }
        }
        Notice::PreFilterEnded { pod, status } => {
            tracing::trace!(target: "V5", %pod, status, "Status after running PreFilter plugins for pod");
        }
        Notice::PostFilterEnded { pod, status } => {
            tracing::trace!(target: "V5", %pod, status, "Status after running PostFilter plugins for pod");
        }
        Notice::WaitsOnPermit(pod) => {
            tracing::debug!(target: "V4", %pod, "One or more plugins asked to wait and no plugin rejected pod");
            tracing::debug!(target: "V4", %pod, "Pod waiting on permit");
        }
        Notice::RejectedOnPermit { pod, status } => {
            tracing::debug!(target: "V4", %pod, status, "Pod rejected while waiting on permit");
        }
        Notice::Bound { pod, node, n_evaluated, n_feasible } => {
            tracing::debug!(
                target: "V2",
                %pod,
                node = &**node,
                evaluatedNodes = n_evaluated,
                feasibleNodes = n_feasible,
                "Successfully bound pod to node"
            );
        }
        other => preemption(other),
    }
}

fn moved(notice: &Notice, cycle: u64) {
    let Notice::PodMoved { pod, event, queue, hint, is_gated, is_update, rejectors } = notice
    else {
        return;
    };
    if *is_gated && hint.is_none() {
        let text = "Pod moved to an internal scheduling queue, because the pod is gated";
        tracing::trace!(target: "V5", %pod, %event, %queue, "{text}");
    } else {
        let text = "Pod moved to an internal scheduling queue";
        tracing::trace!(target: "V5", %pod, %event, %queue, "{text}");
    }
    if *is_update {
        let text = "Pod moved to an internal scheduling queue because the Pod is updated";
        tracing::trace!(target: "V5", %pod, %event, %queue, "{text}");
    }
    if let Some(hint) = hint {
        let rejectors: Vec<&str> = rejectors.iter().map(|name| &**name).collect();
        tracing::debug!(
            target: "V3",
            %pod,
            %event,
            %queue,
            schedulingCycle = cycle,
            hint,
            "unschedulable plugins" = ?rejectors,
            "Pod moved to an internal scheduling queue"
        );
    }
}

fn preemption(notice: &Notice) {
    match notice {
        Notice::PreemptionStarted { preemptor, node, n_victims, n_to_delete } => {
            tracing::debug!(
                target: "V2",
                %preemptor,
                node = &**node,
                numVictims = n_victims,
                numVictimsToDelete = n_to_delete,
                "Start the preemption asynchronously"
            );
        }
        Notice::VictimGone { preemptor_type, preemptor, victim, node, end } => {
            let node = &**node;
            match end {
                VictimEnd::Evicted => {
                    tracing::debug!(target: "V2", %preemptor, %victim, node, "Preemptor Pod preempted victim Pod");
                }
                VictimEnd::AlreadyGone => {
                    tracing::debug!(target: "V2", %preemptor, %victim, node, "Victim Pod is already deleted");
                }
                VictimEnd::RejectedOnPermit => {
                    tracing::debug!(
                        target: "V2",
                        preemptorType = preemptor_type,
                        %preemptor,
                        waitingPod = %victim,
                        node,
                        "Preemptor preempted a waiting pod"
                    );
                }
                VictimEnd::RejectedInPreBind => {
                    tracing::debug!(
                        target: "V2",
                        preemptorType = preemptor_type,
                        %preemptor,
                        podInPreBind = %victim,
                        node,
                        "Preemptor rejected a pod in preBind"
                    );
                }
                VictimEnd::Terminating => {
                    let text = "Victim Pod is already being deleted, skipping the API call for it";
                    tracing::debug!(target: "V2", %preemptor, node, %victim, "{text}");
                }
            }
        }
        Notice::PreemptionEnded { preemptor, node, is_error } => {
            let result = if *is_error { "error" } else { "success" };
            tracing::debug!(target: "V2", %preemptor, node = &**node, result, "Async Preemption finished completely");
        }
        _ => {}
    }
}
