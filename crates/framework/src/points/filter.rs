//! PreFilter and Filter.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeIdx;
use kube_scheduler_cache::columns::{Column, NodeSet};

use crate::context::Context;
use crate::cycle_state::CycleState;
use crate::following::PreFilterFollower;
use crate::status::{PluginName, Status};
use crate::verdicts::{VerdictId, Verdicts};
use crate::view::NodeView;

/// The result of PreFilter: whether the attempt goes on, and with which nodes.
#[derive(Clone, Debug, Default)]
pub struct PreFilterOutcome {
    /// Success, `Skip` (the plugin's Filter is not run for this pod), or a rejection.
    pub status: Status,
    /// Only these nodes can fit; `None` means no restriction. They need not exist.
    pub node_names: Option<BTreeSet<Arc<str>>>,
}

impl PreFilterOutcome {
    /// The attempt goes on with all nodes.
    pub fn success() -> Self {
        Self::default()
    }

    /// This plugin's Filter has nothing to do for this pod.
    pub fn skip() -> Self {
        Self { status: Status::skip(), node_names: None }
    }

    /// The attempt goes on with these nodes only.
    pub fn narrowed_to(node_names: BTreeSet<Arc<str>>) -> Self {
        Self { status: Status::SUCCESS, node_names: Some(node_names) }
    }
}

impl From<Status> for PreFilterOutcome {
    fn from(status: Status) -> Self {
        Self { status, node_names: None }
    }
}

/// Computes once per attempt what Filter needs for every node, and may reject the pod or restrict it to some nodes.
pub trait PreFilter: Send + Sync {
    /// Called once per attempt, before any node is looked at.
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome;

    /// How to update the stored state for hypothetical pods; `None` when the state does not depend on other pods.
    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        None
    }

    /// How answers about nodes are shared by pods although PreFilter reads what changes with each of them; `None` if they are
    /// shared only while everything that PreFilter read is the same.
    fn follower(&self) -> Option<&dyn PreFilterFollower> {
        None
    }
}

/// Updates the state that PreFilter stored while pods are added and removed hypothetically. What is stored then must not change
/// another plugin's answer: that plugin may not be asked again.
pub trait PreFilterExtensions: Send + Sync {
    /// Whether [`add_pod`](Self::add_pod) or [`remove_pod`](Self::remove_pod) may return anything but success, given what
    /// PreFilter stored. With `false`, preemption can skip the trial of nodes that sums alone already rule out.
    fn may_fail(&self, state: &CycleState) -> bool {
        let _ = state;
        true
    }

    /// Whether [`add_pod`](Self::add_pod) of `added` may do anything on some node, given what PreFilter stored: change the state, or
    /// return anything but success. Where many pods are nominated, nodes whose pods do not concern the pod in question need no state
    /// of their own.
    fn concerns(&self, cx: &Context<'_>, state: &CycleState, pod: &Pod, added: &Pod) -> bool {
        let _ = (cx, state, pod, added);
        true
    }

    /// `added` now runs on `node`, which already shows it.
    fn add_pod(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        added: &Pod,
        node: &NodeView<'_>,
    ) -> Status;
    /// `removed` no longer runs on `node`, which already lacks it.
    fn remove_pod(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        removed: &Pod,
        node: &NodeView<'_>,
    ) -> Status;
}

/// Decides whether the pod can run on a node.
pub trait Filter: Send + Sync {
    /// Called per node. Rejections say why; `Error` fails the attempt.
    fn filter(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Status;

    /// The whole-cluster form: rejects those of `nodes` that do not fit, leaving out the ones that an earlier plugin has
    /// rejected already. Must give the same answers as [`filter`](Self::filter). Returns the first error.
    ///
    /// The default asks node by node.
    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        sink.reject_each(cx, nodes, |cx, node| self.filter(cx, state, pod, node))
    }

    /// What a node that [`filter`](Self::filter) rejects lacks, counted. Called for explanations alone; no decision depends on
    /// it.
    ///
    /// The default returns nothing: the rejection's reasons are all there is to show.
    fn shortages(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Vec<Shortage> {
        let _ = (cx, state, pod, node);
        Vec::new()
    }
}

/// Things of which a node has too few for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What they are for: the same text on every node.
    pub subject: String,
    /// How many are needed.
    pub needed: usize,
    /// How many there are on the node.
    pub present: usize,
    /// How many of these cannot be had, by reason. The others are left.
    pub lost: Vec<(&'static str, usize)>,
}

impl Shortage {
    /// How many of those on the node are left, all lost ones taken off.
    pub fn left(&self) -> usize {
        let n_lost = self.lost.iter().fold(0_usize, |sum, (_, n)| sum.saturating_add(*n));
        self.present.saturating_sub(n_lost)
    }
}

/// Collects the rejections of [`Filter::filter_all`].
#[derive(Debug)]
pub struct FilterSink<'a> {
    verdicts: &'a mut Verdicts,
    plugin: &'a PluginName,
    /// The rejection given last, and its code: mostly it is that of the next node, too.
    last: Option<(Status, VerdictId)>,
}

impl<'a> FilterSink<'a> {
    /// A sink that attributes everything to `plugin`.
    pub fn new(verdicts: &'a mut Verdicts, plugin: &'a PluginName) -> Self {
        Self { verdicts, plugin, last: None }
    }

    /// Whether no plugin has rejected the node yet.
    pub fn is_open(&self, node: NodeIdx) -> bool {
        self.verdicts.passes(node)
    }

    /// Asks `answer` about those of `nodes` that exist and that no plugin has rejected yet, and rejects those for which it is a
    /// rejection. The context that `answer` gets is for a call about one node.
    ///
    /// # Errors
    /// The first answer that is neither success nor a rejection; the nodes after it are not asked about.
    pub fn reject_each<'c>(
        &mut self,
        cx: &Context<'c>,
        nodes: impl IntoIterator<Item: Borrow<NodeIdx>>,
        mut answer: impl FnMut(&Context<'c>, &NodeView<'c>) -> Status,
    ) -> Result<(), Status> {
        let (cluster, one) = (cx.cluster(), cx.about_one_node());
        for idx in nodes {
            let idx = *idx.borrow();
            if !self.is_open(idx) {
                continue;
            }
            let Some(node) = cluster.node(idx) else { continue };
            let status = answer(&one, &node);
            if status.is_rejected() {
                self.reject(idx, status);
            } else if !status.is_success() {
                return Err(status);
            }
        }
        Ok(())
    }

    /// A code for `status`, to be used for many nodes.
    pub fn code_for(&mut self, status: Status) -> VerdictId {
        self.verdicts.intern(&status.from_plugin(self.plugin))
    }

    /// Rejects a node with a code from [`code_for`](Self::code_for).
    pub fn reject_with(&mut self, node: NodeIdx, id: VerdictId) {
        self.verdicts.set(node, id);
    }

    /// Rejects those of `nodes` that are in `rejected` and that no plugin has rejected yet.
    pub fn reject_members(&mut self, nodes: &[NodeIdx], id: VerdictId, rejected: &NodeSet) {
        self.verdicts.set_members(nodes, id, rejected);
    }

    /// Rejects those of `nodes` that no plugin has rejected yet and for which `is_meant` is true, given the value of the node's slot
    /// in `column`. `is_meant` is called for all `nodes`: it should be no more than a look into a table.
    pub fn reject_by_value<T: Copy>(
        &mut self,
        nodes: &[NodeIdx],
        id: VerdictId,
        column: &Column<T>,
        is_meant: impl FnMut(NodeIdx, T) -> bool,
    ) {
        self.verdicts.set_by_value(nodes, id, column, is_meant);
    }

    /// Rejects a node with `status`.
    pub fn reject(&mut self, node: NodeIdx, status: Status) {
        let id = match &self.last {
            Some((last, id)) if *last == status => *id,
            _ => {
                let id = self.code_for(status.clone());
                self.last = Some((status, id));
                id
            }
        };
        self.reject_with(node, id);
    }
}
