//! Filters for PostFilter plugins, which ask about hypothetical clusters.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::preemption::SumsTrial;
use kube_scheduler_framework::{Context, CycleState, HypotheticalFilter, Status};

use super::{Runner, SumsFilters};
use crate::profile::Profile;
use crate::skip_set::SkipSet;

/// A runner that knows which plugins to leave out, as PostFilter plugins need it.
#[derive(Debug)]
pub struct HypotheticalRunner<'a> {
    /// Profile; the context comes with every call.
    pub profile: &'a Profile,
    /// Plugins left out of filtering.
    pub skip: &'a SkipSet,
}

impl HypotheticalFilter for HypotheticalRunner<'_> {
    fn filter_with_nominated_pods(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
    ) -> Status {
        Runner::new(self.profile, cx.sources())
            .filter_with_nominated_pods(state, pod, overlay, self.skip)
    }

    fn rejection_without_pods_below(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: NodeIdx,
        priority: i32,
    ) -> Option<Status> {
        Runner::new(self.profile, cx.sources())
            .rejection_without_pods_below(state, pod, node, priority, self.skip)
    }

    fn by_sums<'c>(
        &'c self,
        cx: &Context<'c>,
        state: &'c CycleState,
        pod: &'c Pod,
    ) -> Option<Box<dyn SumsTrial + 'c>> {
        let runner = Runner::new(self.profile, cx.sources());
        Some(Box::new(SumsFilters::new(runner, state, pod, self.skip)?))
    }

    fn add_pod(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        added: &Pod,
        overlay: &NodeOverlay,
    ) -> Status {
        Runner::new(self.profile, cx.sources()).add_pod(state, pod, added, overlay, self.skip)
    }

    fn remove_pod(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        removed: &Pod,
        overlay: &NodeOverlay,
    ) -> Status {
        Runner::new(self.profile, cx.sources()).remove_pod(state, pod, removed, overlay, self.skip)
    }
}
