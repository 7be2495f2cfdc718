//! Where a runner notes what plugins read.

use kube_scheduler_cache::NodeIdx;
use kube_scheduler_cache::reads::{DISCARDED, PluginReads, ReadSet};
use kube_scheduler_framework::{ClusterView, Context, NodeView, Sources};

use super::Runner;
use crate::profile::{PluginIdx, Profile};
use crate::reads::EvaluationReads;

impl<'a> Runner<'a> {
    /// A runner that does not record what plugins read.
    pub fn new(profile: &'a Profile, cx: Sources<'a>) -> Self {
        Self { profile, cx, reads: None }
    }

    /// This runner, with what plugins read noted in `reads`.
    pub fn recording<'b>(&self, reads: &'b EvaluationReads) -> Runner<'b>
    where
        'a: 'b,
    {
        Runner { profile: self.profile, cx: self.cx, reads: Some(reads) }
    }

    /// A node, for calls of the filters.
    pub fn node(&self, idx: NodeIdx) -> Option<NodeView<'a>> {
        ClusterView::unrecorded(self.cx.cluster).node(idx)
    }

    fn reads_of(&self, plugin: PluginIdx) -> Option<&'a PluginReads> {
        self.reads.and_then(|reads| reads.of_plugin(plugin))
    }

    pub(super) fn cx_of_pre_filter(&self, plugin: PluginIdx) -> Context<'_> {
        let reads = self.reads_of(plugin).map_or(&DISCARDED, |reads| &reads.pre_filter);
        self.cx.recorded_by(reads)
    }

    /// Where a plugin's reads are noted in PreScore.
    pub(super) fn in_pre_score(&self, plugin: PluginIdx) -> &'a ReadSet {
        self.reads_of(plugin).map_or(&DISCARDED, |reads| &reads.pre_score)
    }

    /// Where a plugin's reads are noted in Filter and Score.
    #[inline]
    pub(super) fn per_node(&self, plugin: PluginIdx) -> &'a ReadSet {
        self.reads_of(plugin).map_or(&DISCARDED, |reads| &reads.per_node)
    }

    pub(super) fn cx_of_scan(&self, plugin: PluginIdx) -> Context<'_> {
        self.cx.scan_recorded_by(self.per_node(plugin))
    }
}
