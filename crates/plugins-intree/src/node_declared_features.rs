//! NodeDeclaredFeatures: a pod that needs a feature of the kubelet fits nodes that declare it.
//!
//! Which features a pod needs and a node declares is worked out when the objects are compiled: one bit per registered
//! feature. Answers to `plugins/nodedeclaredfeatures/nodedeclaredfeatures.go` of the reference; behaviour in
//! `docs/spec/plugins-node.md` §4.11.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ActionType, Context, CycleState, EnqueueExtensions, EventRegistration, Filter, Handle,
    NodeView, Plugin, PluginArgs, PluginError, PreFilter, PreFilterOutcome, Sign, SignatureWriter,
    Status,
};

pub(crate) const NAME: &str = "NodeDeclaredFeatures";

const REASON: &str = "node(s) didn't match Pod's required features";
const NO_STATE: &str =
    "error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found";

pub(crate) fn new(_: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(NodeDeclaredFeatures {
        is_enabled: handle.is_enabled("NodeDeclaredFeatures"),
        rejection: Status::unresolvable(REASON).from_plugin(&NAME.into()),
    }))
}

struct NodeDeclaredFeatures {
    is_enabled: bool,
    rejection: Status,
}

/// PreFilter ran and found requirements.
#[derive(Clone)]
struct RequirementsMarker;

plugin!(NodeDeclaredFeatures, PreFilter, Filter, EnqueueExtensions, Sign);

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(&self, _: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        if !self.is_enabled || pod.spec.required_features == 0 {
            return PreFilterOutcome::skip();
        }
        state.insert(RequirementsMarker);
        PreFilterOutcome::success()
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        if !self.is_enabled {
            return Status::SUCCESS;
        }
        if state.get::<RequirementsMarker>().is_none() {
            return Status::error(NO_STATE);
        }
        if pod.spec.required_features & !node.feature_bits() == 0 {
            Status::SUCCESS
        } else {
            self.rejection.clone()
        }
    }
}

impl Sign for NodeDeclaredFeatures {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        signature.int(pod.spec.required_features.cast_signed());
        true
    }
}

impl EnqueueExtensions for NodeDeclaredFeatures {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        if !self.is_enabled {
            return Vec::new();
        }
        let of_nodes = ActionType::ADD | ActionType::UPDATE_NODE_DECLARED_FEATURE;
        vec![
            EventRegistration::on_node(of_nodes, |_, _, old, new| {
                old.zip(new).is_none_or(|(old, new)| old.declared_features != new.declared_features)
            }),
            EventRegistration::on_pod(ActionType::UPDATE, |_, pod, old, new| {
                let Some(new) = new else { return true };
                let before = old.map_or(0, |old| old.spec.required_features);
                new.uid == pod.uid && before != new.spec.required_features
            }),
        ]
    }
}
