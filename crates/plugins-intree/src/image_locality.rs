//! ImageLocality: prefers nodes that have the pod's images already, the more so the more widely they are spread.
//!
//! Answers to `plugins/imagelocality/image_locality.go` of the reference; behaviour in `docs/spec/plugins-node.md` §4.10.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, Handle, MAX_NODE_SCORE, NodeIdx, NodeView, Plugin,
    PluginArgs, PluginError, Score, Sign, SignatureWriter, Status,
};

use crate::signature::write;

pub(crate) const NAME: &str = "ImageLocality";

const MB: i64 = 1024 * 1024;
/// Below this, an image on the node makes no difference.
const MIN_THRESHOLD: i64 = 23 * MB;
/// Above this, times containers, more makes no difference.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MB;

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(ImageLocality))
}

struct ImageLocality;

plugin!(ImageLocality, Score, Sign);

/// What a node with the image gains: the size, scaled by the share of nodes that have it.
fn gain(cluster: ClusterView<'_>, image: &str) -> Option<i64> {
    let state = cluster.image(image)?;
    let spread = state.n_nodes as f64 / cluster.n_nodes() as f64;
    Some((state.size_bytes as f64 * spread) as i64)
}

fn score_of(sum: i64, n_containers: usize) -> i64 {
    let max = MAX_CONTAINER_THRESHOLD.wrapping_mul(i64::try_from(n_containers).unwrap_or(i64::MAX));
    let sum = if sum < MIN_THRESHOLD { MIN_THRESHOLD } else { sum.min(max) };
    MAX_NODE_SCORE.wrapping_mul(sum - MIN_THRESHOLD).checked_div(max - MIN_THRESHOLD).unwrap_or(0)
}

impl Score for ImageLocality {
    fn score(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let images = &pod.spec.images;
        let is_there = |name: &&Arc<str>| {
            node.cluster().nodes_with_image(name).is_some_and(|nodes| nodes.contains(node.idx()))
        };
        let there = images.names.iter().filter(is_there);
        let gains = there.filter_map(|name| gain(cx.cluster(), name));
        let sum = gains.fold(0, i64::wrapping_add);
        Ok(score_of(sum, images.n_containers))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let images = &pod.spec.images;
        let (cluster, mut known) = (cx.cluster(), Vec::new());
        for name in images.names.iter() {
            // What an image that no node has would gain is not looked at.
            let Some(holders) = cluster.nodes_with_image(name) else { continue };
            known.extend(gain(cluster, name).map(|gain| (holders, gain)));
        }
        let without_images = score_of(0, images.n_containers);
        // With one known image there are only two distinct scores, computed once.
        if let [(holders, gain)] = &*known {
            let with_image = score_of(*gain, images.n_containers);
            for (&idx, score) in nodes.iter().zip(scores) {
                *score = if holders.contains(idx) { with_image } else { without_images };
            }
            return Ok(());
        }
        scores.fill(without_images);
        if known.is_empty() {
            return Ok(());
        }
        for (&idx, score) in nodes.iter().zip(scores) {
            let mut gains = known.iter().filter(|(holders, _)| holders.contains(idx)).peekable();
            if gains.peek().is_some() {
                let sum = gains.fold(0_i64, |sum, (_, gain)| sum.wrapping_add(*gain));
                *score = score_of(sum, images.n_containers);
            }
        }
        Ok(())
    }

    fn promises_bounds(&self) -> bool {
        true
    }
}

impl Sign for ImageLocality {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write(&pod.spec.images, signature);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn scores_are_within_the_bounds_that_are_promised(
            sum in prop_oneof![any::<i64>(), 0..2_000 * MB, -2 * MB..25 * MB],
            n_containers in 0_usize..50_000,
        ) {
            prop_assert!((0..=MAX_NODE_SCORE).contains(&score_of(sum, n_containers)));
        }
    }
}
