//! The score of a placement: how full its nodes would be, all together.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.7.

use kube_scheduler_framework::groups::{PlacedGroup, PlacementScore, ProposedPlacement};
use kube_scheduler_framework::{Context, Status};

use super::fit::Fit;
use super::resource::Resource;
use super::scored::{Plan, ScoreAmounts, UsedBasis};
use super::strategy::Strategy;

impl PlacementScore for Fit {
    /// Most allocated, whatever the strategy for single nodes is.
    fn score(
        &self,
        cx: &Context<'_>,
        _: PlacedGroup<'_>,
        ProposedPlacement { placement, assignments }: ProposedPlacement<'_>,
    ) -> Result<i64, Status> {
        // Not the sum of all that they ask for: pods may name very many resources, each others.
        let requested = |resource: &Resource| {
            let each = assignments.iter().map(|(pod, _)| resource.of(&pod.requests.fit_score));
            each.fold(0, i64::wrapping_add)
        };
        let plan = Plan::new(&self.args.resources, requested, UsedBasis::NonZero);
        let scan = plan.over(cx.cluster());
        Ok(Strategy::MostAllocated.score(scan.of_all(&placement.nodes)))
    }

    fn goes_by_members(&self) -> bool {
        true
    }
}
