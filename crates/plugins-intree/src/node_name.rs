//! NodeName: a pod that names its node fits that node alone.
//!
//! Answers to `plugins/nodename/node_name.go` of the reference; behaviour in `docs/spec/plugins-node.md` §4.4.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, CycleState, EnqueueExtensions, EventRegistration,
    EventResource, Filter, FilterSink, Handle, NodeIdx, NodeView, Plugin, PluginArgs, PluginError,
    Sign, SignatureWriter, Status,
};

pub(crate) const NAME: &str = "NodeName";

const REASON: &str = "node(s) didn't match the requested node name";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(NodeName { rejection: Status::unresolvable(REASON).from_plugin(&NAME.into()) }))
}

struct NodeName {
    rejection: Status,
}

/// The node the pod names, if it names one.
fn requested(pod: &Pod) -> Option<&str> {
    pod.node_name.as_deref().filter(|name| !name.is_empty())
}

plugin!(NodeName, Filter, EnqueueExtensions, Sign);

impl Filter for NodeName {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        match requested(pod) {
            Some(name) if *name != **node.name() => self.rejection.clone(),
            _ => Status::SUCCESS,
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
        if requested(pod).is_none() {
            return Ok(());
        }
        sink.reject_each(cx, nodes, |cx, node| self.filter(cx, state, pod, node))
    }
}

impl Sign for NodeName {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        signature.text(requested(pod).unwrap_or_default());
        true
    }
}

impl EnqueueExtensions for NodeName {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        vec![EventRegistration::always(ClusterEvent::new(EventResource::Node, ActionType::ADD))]
    }
}
