//! Filters for PostFilter plugins, which ask about hypothetical clusters.

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::preemption::EvictionTrials;
use kube_scheduler_framework::{Context, CycleState, HypotheticalFilter};

use super::Runner;
use super::trials::NodeTrials;
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
    fn eviction_trials<'c>(
        &'c self,
        cx: &Context<'c>,
        state: &'c CycleState,
        pod: &'c Pod,
    ) -> Box<dyn EvictionTrials + 'c> {
        let runner = Runner::new(self.profile, cx.sources());
        Box::new(NodeTrials::new(runner, state, pod, self.skip))
    }
}
