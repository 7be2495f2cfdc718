//! NodeUnschedulable: cordoned nodes take only pods that tolerate being cordoned.
//!
//! A cordon counts as the taint `node.kubernetes.io/unschedulable:NoSchedule`; the node's real taints are not looked at
//! here. Answers to `plugins/nodeunschedulable/node_unschedulable.go` of the reference; behaviour in
//! `docs/spec/plugins-node.md` §4.3.

use std::sync::Arc;

use kube_scheduler_framework::api::well_known::UNSCHEDULABLE_TAINT;
use kube_scheduler_framework::api::{Pod, Taint, TaintEffect};
use kube_scheduler_framework::{
    ActionType, Context, CycleState, EnqueueExtensions, EventRegistration, Filter, FilterSink,
    Handle, NodeIdx, NodeView, Plugin, PluginArgs, PluginError, Sign, SignatureWriter, Status,
};

pub(crate) const NAME: &str = "NodeUnschedulable";

const REASON: &str = "node(s) were unschedulable";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let cordon = Taint {
        key: UNSCHEDULABLE_TAINT.into(),
        value: "".into(),
        effect: TaintEffect::NoSchedule,
    };
    Ok(Arc::new(NodeUnschedulable {
        rejection: Status::unresolvable(REASON).from_plugin(&NAME.into()),
        cordon: Arc::new(cordon),
    }))
}

struct NodeUnschedulable {
    rejection: Status,
    /// The taint that a cordon stands for.
    cordon: Arc<Taint>,
}

/// Comparison operators need a number as the taint's value, so whether they are enabled cannot matter.
fn tolerates(pod: &Pod, cordon: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(cordon, false))
}

plugin!(NodeUnschedulable, Filter, EnqueueExtensions, Sign);

impl Filter for NodeUnschedulable {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        if node.is_unschedulable() && !tolerates(pod, &self.cordon) {
            self.rejection.clone()
        } else {
            Status::SUCCESS
        }
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        if tolerates(pod, &self.cordon) {
            return Ok(());
        }
        // Only nodes that are asked about are open.
        let cordoned = cx.cluster().unschedulable().iter().filter(|_| !nodes.is_empty());
        sink.reject_each(cx, cordoned, |_, _| self.rejection.clone())
    }
}

impl Sign for NodeUnschedulable {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        signature.present(tolerates(pod, &self.cordon));
        true
    }
}

impl EnqueueExtensions for NodeUnschedulable {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let of_nodes = ActionType::ADD | ActionType::UPDATE_NODE_TAINT;
        let cordon = self.cordon.clone();
        vec![
            EventRegistration::on_node(of_nodes, |_, _, old, new| {
                let Some(new) = new else { return true };
                old.is_none_or(|old| old.unschedulable) && !new.unschedulable
            }),
            EventRegistration::on_pod(
                ActionType::UPDATE_POD_TOLERATION,
                move |_, pod, _, updated| {
                    updated.is_some_and(|updated| {
                        updated.uid == pod.uid && tolerates(updated, &cordon)
                    })
                },
            ),
        ]
    }
}
