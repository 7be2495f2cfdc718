//! DynamicResources, as far as it exists: pods that need no dynamic resource allocation pass, all others are refused.
//!
//! What is here is what every pod of the default profile meets: a score of 0 for every node and PostFilter's
//! `no new claims to deallocate`, which is part of every FailedScheduling message. **Not here yet**: allocation. A pod
//! with resource claims is rejected by PreFilter, and a node is rejected when the pod requests an extended resource that
//! only a DeviceClass provides there; both say so in their reason. No pod is ever placed without the devices it
//! requested.
//!
//! Answers to `plugins/dynamicresources` of the reference; behaviour in `docs/spec/plugins-dra.md` §4, §7.4 and §11.

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, ResourceName};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, CycleState, EnqueueExtensions, EventRegistration,
    EventResource, Filter, Handle, NodeIdx, NodeView, Plugin, PluginArgs, PluginError, PostFilter,
    PostFilterContext, PostFilterOutcome, PreFilter, PreFilterOutcome, Score, Sign,
    SignatureWriter, Status, extension_points,
};

use crate::resources::device_classes;
use crate::signature::write_resources;

pub(crate) const NAME: &str = "DynamicResources";

const NO_CLAIMS: &str = "no new claims to deallocate";
const NO_STATE: &str = "not found";
const REFUSED: &str =
    "pod has resource claims, which this version of the scheduler cannot allocate yet";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    // There is nothing yet that the time limits could limit, but wrong ones are refused all the same.
    let _: kube_scheduler_config::DynamicResourcesArgs = crate::plugin_args::read(args)?;
    let name = NAME.into();
    Ok(Arc::new(DynamicResources {
        serves_extended: handle.is_enabled("DRAExtendedResource"),
        refusal: Status::unresolvable(REFUSED).from_plugin(&name),
        no_claims: Status::unschedulable(NO_CLAIMS).from_plugin(&name),
    }))
}

struct DynamicResources {
    /// Whether device classes may serve extended resources.
    serves_extended: bool,
    refusal: Status,
    no_claims: Status,
}

/// PreFilter ran.
#[derive(Clone)]
struct Checked;

impl DynamicResources {
    /// The extended resources of the pod that device classes serve where nodes have none themselves.
    fn served<'a>(&self, cx: &Context<'a>, pod: &'a Pod) -> impl Iterator<Item = &'a ResourceName> {
        let scalars = if self.serves_extended { &pod.requests.fit.scalars[..] } else { &[] };
        let cluster = cx.cluster();
        let wanted = scalars
            .iter()
            .filter(move |(name, amount)| *amount != 0 && device_classes::serves(cluster, name));
        wanted.map(|(name, _)| name)
    }
}

impl Plugin for DynamicResources {
    fn name(&self) -> &str {
        NAME
    }

    extension_points!(PreFilter, Filter, PostFilter, Score, EnqueueExtensions, Sign);
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, _: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        state.insert(Checked);
        if !pod.spec.resource_claims.is_empty() {
            self.refusal.clone().into()
        } else if self.serves_extended && device_classes::may_serve(pod) {
            PreFilterOutcome::success()
        } else {
            PreFilterOutcome::skip()
        }
    }
}

impl Filter for DynamicResources {
    fn filter(&self, cx: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        let missing =
            self.served(cx, pod).find(|name| node.allocatable().scalar(name).unwrap_or(0) <= 0);
        match missing {
            None => Status::SUCCESS,
            Some(name) => Status::unresolvable(format!(
                "{name} is provided by a device class, which this version of the scheduler cannot allocate yet"
            )),
        }
    }
}

impl PostFilter for DynamicResources {
    fn post_filter(
        &self,
        _: &mut PostFilterContext<'_>,
        state: &CycleState,
        _: &Arc<Pod>,
    ) -> PostFilterOutcome {
        // Parity: when another plugin's PreFilter ended the attempt, this one's never ran, and the reference's search
        // for its own state fails.
        let status = match state.get::<Checked>() {
            Some(Checked) => self.no_claims.clone(),
            None => Status::error(NO_STATE),
        };
        PostFilterOutcome::without_nomination(status)
    }
}

impl Score for DynamicResources {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        _: &Pod,
        _: &NodeView<'_>,
    ) -> Result<i64, Status> {
        Ok(0)
    }

    fn score_all(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        _: &Pod,
        _: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        scores.fill(0);
        Ok(())
    }
}

impl Sign for DynamicResources {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        if !pod.spec.resource_claims.is_empty() {
            return false;
        }
        write_resources(&pod.requests.fit, signature);
        true
    }
}

impl EnqueueExtensions for DynamicResources {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        // Events of claims are left out: no claim makes a pod schedulable yet.
        let node_actions =
            ActionType::ADD | ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_ALLOCATABLE;
        let object_actions = ActionType::ADD | ActionType::UPDATE;
        vec![
            EventRegistration::always(ClusterEvent::new(EventResource::Node, node_actions)),
            EventRegistration::always(ClusterEvent::new(
                EventResource::DeviceClass,
                object_actions,
            )),
            EventRegistration::always(ClusterEvent::new(
                EventResource::ResourceSlice,
                object_actions,
            )),
        ]
    }
}
