//! PreScore and Score.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeIdx;
use kube_scheduler_cache::reads::{DISCARDED, ReadSet, Reads};

use crate::cluster_view::ClusterView;
use crate::context::Context;
use crate::cycle_state::CycleState;
use crate::normalization::Normalization;
use crate::status::Status;
use crate::view::NodeView;

/// The nodes that fit, as PreScore gets them: nodes that the plugin has been shown nothing different about may be one entry.
#[derive(Clone, Copy, Debug)]
pub struct FeasibleNodes<'a> {
    nodes: &'a [NodeIdx],
    /// How many nodes each of them stands for; empty when each is itself alone.
    numbers: &'a [usize],
    reads: &'a ReadSet,
}

impl<'a> FeasibleNodes<'a> {
    /// For calls whose answers are not cached.
    pub fn unrecorded(nodes: &'a [NodeIdx]) -> Self {
        Self::recorded_by(nodes, &DISCARDED)
    }

    /// These nodes, with the fact that they are read noted in `reads`.
    pub fn recorded_by(nodes: &'a [NodeIdx], reads: &'a ReadSet) -> Self {
        Self { nodes, numbers: &[], reads }
    }

    /// Groups of nodes: each of `nodes` stands for as many nodes as `numbers` says at the same place. That they are read is noted in
    /// `reads`.
    pub fn grouped(nodes: &'a [NodeIdx], numbers: &'a [usize], reads: &'a ReadSet) -> Self {
        Self { nodes, numbers, reads }
    }

    /// All of them, by slot.
    pub fn slots(&self) -> &'a [NodeIdx] {
        self.reads.note(Reads::OTHER_NODES);
        self.nodes
    }

    /// A node for each group of nodes with the number of nodes in the group, in no particular order. Read about them through
    /// [`cluster`](Self::cluster).
    pub fn groups(&self) -> impl Iterator<Item = (NodeIdx, usize)> + Clone + 'a {
        self.reads.note(Reads::FEASIBLE_NODES);
        let numbers = self.numbers;
        let number = move |at: usize| numbers.get(at).copied().unwrap_or(1);
        self.nodes.iter().enumerate().map(move |(at, node)| (*node, number(at)))
    }

    /// The cluster for reading about these nodes, each by its slot.
    pub fn cluster(&self, cx: &Context<'a>) -> ClusterView<'a> {
        cx.cluster_noted_in(self.reads)
    }
}

/// Computes once per attempt what Score needs for every node.
pub trait PreScore: Send + Sync {
    /// Called once per attempt with the nodes that fit, if there are at least two. `Skip` keeps the plugin's Score from
    /// running for this pod.
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &FeasibleNodes<'_>,
    ) -> Status;
}

/// Scores the nodes that fit.
pub trait Score: Send + Sync {
    /// Called per node. Higher is better.
    fn score(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status>;

    /// The whole-cluster form: fills `scores[i]` for `nodes[i]`, whatever was there. Must give the same answers as
    /// [`score`](Self::score).
    ///
    /// The default asks node by node.
    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let one = cx.about_one_node();
        for (&idx, score) in nodes.iter().zip(scores) {
            *score = 0;
            let Some(node) = cx.cluster().node(idx) else { continue };
            *score = self.score(&one, state, pod, &node)?;
        }
        Ok(())
    }

    /// How raw scores become scores between 0 and 100.
    fn normalization(&self) -> Normalization {
        Normalization::None
    }

    /// Whether every node gets the raw score 0 for this pod and scoring never fails, going by what PreFilter and PreScore
    /// stored. With `true`, nodes are chosen without asking. Has no effect for [`Normalization::Custom`].
    fn is_indifferent(&self, state: &CycleState, pod: &Pod) -> bool {
        let _ = (state, pod);
        false
    }

    /// Whether every raw score is between 0 and 100 and scoring never fails. With `true`, the engine skips nodes that are
    /// too far behind to be chosen whatever this plugin's score is. Has no effect for plugins whose scores are normalised.
    fn promises_bounds(&self) -> bool {
        false
    }

    /// Normalises in place. Only called for [`Normalization::Custom`]. As in [`FeasibleNodes`] a node may stand for several, so
    /// nothing may depend on how often a score occurs.
    fn normalize(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Status {
        let _ = (cx, state, pod, nodes, scores);
        Status::SUCCESS
    }
}
