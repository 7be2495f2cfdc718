//! A plugin whose answers about a node are read from all over the cluster, each pod's in another way.

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    Context, CycleState, FeasibleNodes, NodeView, Plugin, PreScore, Score, Sign, SignatureWriter,
    Status, extension_points,
};

/// Draws pods to a herd: to one of the nodes that fit, to where most pods are, to a node that holds an image, or by the
/// number of pods in the cluster, as the pod's label `color` says. Others are left alone.
pub(super) struct Herd;

impl Herd {
    pub(super) const NAME: &'static str = "Herd";
}

/// The lowest slot of a node that fits.
#[derive(Clone)]
struct First(usize);

impl Plugin for Herd {
    fn name(&self) -> &str {
        Self::NAME
    }

    extension_points!(PreScore, Score, Sign);
}

impl PreScore for Herd {
    fn pre_score(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &FeasibleNodes<'_>,
    ) -> Status {
        if pod.labels.get("color") == Some("red")
            && let Some(first) = nodes.slots().iter().min()
        {
            state.insert(First(first.index()));
        }
        Status::SUCCESS
    }
}

impl Score for Herd {
    fn score(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let cluster = cx.cluster();
        let is_drawn = match pod.labels.get("color") {
            Some("red") => state.get::<First>().is_some_and(|first| first.0 == node.idx().index()),
            Some("green") if pod.labels.get("rev") == Some("0") => {
                let most = cluster.order().iter().map(|idx| cluster.pod_count().get(*idx)).max();
                most == Some(node.n_pods())
            }
            Some("green") => {
                cluster.image("registry.example/app:v1").is_some()
                    && node.labels().contains_key("disk")
            }
            Some("blue") => cluster.all_pods().count() % 2 == node.idx().index() % 2,
            _ => false,
        };
        Ok(if is_drawn { 100 } else { 0 })
    }
}

impl Sign for Herd {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        signature.text(pod.labels.get("color").unwrap_or_default());
        signature.text(pod.labels.get("rev").unwrap_or_default());
        true
    }
}
