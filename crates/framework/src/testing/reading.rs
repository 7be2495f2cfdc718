//! What a plugin reads about a pod, point by point.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::{PhaseReads, ReadSet, Reads};

use crate::context::Sources;
use crate::cycle_state::CycleState;
use crate::plugin::Plugin;
use crate::points::FeasibleNodes;

/// What a plugin has read at each point, over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointReads {
    /// In PreFilter.
    pub pre_filter: Reads,
    /// In Filter.
    pub filter: Reads,
    /// In PreScore.
    pub pre_score: Reads,
    /// In Score.
    pub score: Reads,
}

impl PointReads {
    /// The same reads by phase: once for all nodes, or for each node.
    pub fn phases(self) -> PhaseReads {
        PhaseReads {
            once: self.pre_filter.union(self.pre_score),
            per_node: self.filter.union(self.score),
        }
    }
}

/// Asks a plugin about a pod and every node, and gives what it read: from this follows how long its answers are cached.
pub fn reads_of(plugin: &dyn Plugin, sources: Sources<'_>, pod: &Pod) -> PointReads {
    let (pre_filter, filter) = (ReadSet::new(), ReadSet::new());
    let (pre_score, score) = (ReadSet::new(), ReadSet::new());
    let mut state = CycleState::new();
    let order = sources.cluster.order();
    let filters = plugin.as_pre_filter().is_none_or(|point| {
        let cx = sources.recorded_by(&pre_filter);
        point.pre_filter(&cx, &mut state, pod).status.is_success()
    });
    let scores = plugin.as_pre_score().is_none_or(|point| {
        let cx = sources.recorded_by(&pre_score);
        let nodes = FeasibleNodes::recorded_by(order, &pre_score);
        point.pre_score(&cx, &mut state, pod, &nodes).is_success()
    });
    for &idx in order {
        let view = |reads| sources.scan_recorded_by(reads).cluster().node(idx);
        if let (Some(point), Some(node)) = (plugin.as_filter().filter(|_| filters), view(&filter)) {
            point.filter(&sources.recorded_by(&filter), &state, pod, &node);
        }
        if let (Some(point), Some(node)) = (plugin.as_score().filter(|_| scores), view(&score)) {
            // What it reads on the way to an error counts as well.
            let _ = point.score(&sources.recorded_by(&score), &state, pod, &node);
        }
    }
    PointReads {
        pre_filter: pre_filter.get(),
        filter: filter.get(),
        pre_score: pre_score.get(),
        score: score.get(),
    }
}
