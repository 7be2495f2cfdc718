//! NodePorts: a host port is held by one pod of a node at a time.
//!
//! What conflicts with what is decided where used ports are kept: a port on the wildcard address conflicts with the same
//! port on any address. Answers to `plugins/nodeports/node_ports.go` of the reference; behaviour in
//! `docs/spec/plugins-node.md` §2.9 and §4.7.

use std::sync::Arc;

use kube_scheduler_framework::api::{HostPort, Pod};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, CycleState, EnqueueExtensions, EventRegistration,
    EventResource, Filter, FilterSink, Handle, NodeIdx, NodeView, Plugin, PluginArgs, PluginError,
    PreFilter, PreFilterOutcome, Sign, SignatureWriter, Status,
};

use crate::signature::write;

pub(crate) const NAME: &str = "NodePorts";

const REASON: &str = "node(s) didn't have free ports for the requested pod ports";
const NO_STATE: &str = "reading \"PreFilterNodePorts\" from cycleState: not found";
const ANY_ADDRESS: &str = "0.0.0.0";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(NodePorts { rejection: Status::unschedulable(REASON).from_plugin(&NAME.into()) }))
}

struct NodePorts {
    rejection: Status,
}

/// PreFilter ran and found ports.
#[derive(Clone)]
struct PortsMarker;

plugin!(NodePorts, PreFilter, Filter, EnqueueExtensions, Sign);

impl PreFilter for NodePorts {
    fn pre_filter(&self, _: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        if pod.spec.host_ports.is_empty() {
            return PreFilterOutcome::skip();
        }
        state.insert(PortsMarker);
        PreFilterOutcome::success()
    }
}

impl Filter for NodePorts {
    fn filter(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        if state.get::<PortsMarker>().is_none() {
            return Status::error(NO_STATE);
        }
        if pod.spec.host_ports.iter().any(|port| node.is_port_in_use(port)) {
            self.rejection.clone()
        } else {
            Status::SUCCESS
        }
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let with_ports = cx.cluster().nodes_with_ports();
        let is_prepared = state.get::<PortsMarker>().is_some();
        let in_doubt = nodes.iter().filter(|idx| !is_prepared || with_ports.contains(**idx));
        sink.reject_each(cx, in_doubt, |cx, node| self.filter(cx, state, pod, node))
    }
}

impl Sign for NodePorts {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write(&pod.spec.host_ports, signature);
        true
    }
}

/// Whether a pod that holds `held` keeps out one that wants `wanted`.
fn is_in_conflict(held: &HostPort, wanted: &HostPort) -> bool {
    held.port == wanted.port
        && held.protocol == wanted.protocol
        && (held.ip == wanted.ip || *held.ip == *ANY_ADDRESS || *wanted.ip == *ANY_ADDRESS)
}

impl EnqueueExtensions for NodePorts {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        vec![
            EventRegistration::on_pod(ActionType::DELETE, |_, pod, deleted, _| {
                let Some(deleted) = deleted else { return true };
                let held_a_place = deleted.is_assigned_or_nominated();
                let frees_a_port = deleted.spec.host_ports.iter().any(|held| {
                    pod.spec.host_ports.iter().any(|wanted| is_in_conflict(held, wanted))
                });
                held_a_place && frees_a_port
            }),
            EventRegistration::always(ClusterEvent::new(EventResource::Node, ActionType::ADD)),
        ]
    }
}
