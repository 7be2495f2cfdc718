//! PodGroupPodsCount: of several placements, the one in which more pods of the group are scheduled.
//!
//! Answers to `plugins/podgrouppodscount/podgroup_pods_count.go` of the reference; behaviour in
//! `docs/spec/podgroups.md` §7.3.

use std::sync::Arc;

use kube_scheduler_framework::groups::{
    PlacedGroup, PlacementScore, PodGroupState, ProposedPlacement,
};
use kube_scheduler_framework::{
    Context, Handle, MAX_NODE_SCORE, Plugin, PluginArgs, PluginError, Status,
};

pub(crate) const NAME: &str = "PodGroupPodsCount";

const NO_PODS: &str = "no pods from pod group are assigned to any of the candidate placements";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(PodGroupPodsCount))
}

struct PodGroupPodsCount;

plugin!(PodGroupPodsCount, PlacementScore);

impl PlacementScore for PodGroupPodsCount {
    fn score(
        &self,
        cx: &Context<'_>,
        group: PlacedGroup<'_>,
        placement: ProposedPlacement<'_>,
    ) -> Result<i64, Status> {
        let state = cx.cluster().pod_group(group.namespace, group.name);
        let n = state.map_or(0, PodGroupState::n_scheduled) + placement.assignments.len();
        Ok(i64::try_from(n).unwrap_or(i64::MAX))
    }

    fn normalize(&self, scores: &mut [i64]) -> Result<(), Status> {
        let max = scores.iter().copied().max().unwrap_or(0);
        if max <= 0 {
            return Err(Status::error(NO_PODS));
        }
        for score in scores {
            *score = score.saturating_mul(MAX_NODE_SCORE) / max;
        }
        Ok(())
    }

    fn goes_by_members(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_placement_gets_the_most() {
        let normalized = |mut scores: Vec<i64>| {
            PodGroupPodsCount.normalize(&mut scores).unwrap();
            scores
        };
        assert_eq!(normalized(vec![10, 50, 110]), [9, 45, 100]);
        assert_eq!(normalized(vec![11, 100, 101, 102]), [10, 98, 99, 100]);
        assert_eq!(PodGroupPodsCount.normalize(&mut [0, 0]), Err(Status::error(NO_PODS)));
    }
}
