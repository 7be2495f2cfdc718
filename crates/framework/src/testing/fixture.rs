//! A small cluster, and a plugin asked about it the way the framework asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_cache::reads::Memo;
use kube_scheduler_cache::{ClusterState, NodeIdx};
use kube_scheduler_queue::ClusterEvent;
use serde_json::Value;
use smallvec::SmallVec;

use super::grammar::{Statement, statements};
use crate::cluster_view::ClusterView;
use crate::context::{
    Command, Commands, Context, EventObject, NominatedPods, RunningPreemptions, Sources,
    WaitingPod, WaitingPods,
};
use crate::cycle_state::CycleState;
use crate::known_pods::KnownPods;
use crate::normalization::{MAX_NODE_SCORE, Normalization};
use crate::plugin::Plugin;
use crate::points::{FeasibleNodes, PermitDecision, PreFilterOutcome};
use crate::status::{PluginName, Status};
use crate::view::NodeView;

/// A cluster of a test, with pods that run, wait, are nominated or pending.
///
/// The methods that ask a plugin do it as the framework does: PreFilter before Filter, with its skips; PreScore and
/// normalisation around Score; a rejection carries the plugin's name.
#[derive(Clone, Default)]
pub struct Fixture {
    cluster: ClusterState,
    pods: BTreeMap<(Arc<str>, Arc<str>), Arc<Pod>>,
    waiting: Vec<WaitingPod>,
    nominated: BTreeMap<Arc<str>, Vec<Arc<Pod>>>,
    now: Timestamp,
}

/// The cluster that a text in the [grammar](super::grammar) describes, at the time 0.
///
/// # Panics
/// As [`Fixture::with`] does.
pub fn fixture(text: &str) -> Fixture {
    Fixture::new().with(text)
}

impl Fixture {
    /// An empty cluster at the time 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the nodes, pods and objects that a text in the [grammar](super::grammar) describes. A pending pod that is
    /// nominated to a node counts there.
    ///
    /// # Panics
    /// If the text is no fixture, or as [`Self::with_pod`] does.
    #[must_use]
    pub fn with(self, text: &str) -> Self {
        let statements = match statements(text) {
            Ok(statements) => statements,
            Err(error) => panic!("{error}"),
        };
        statements.into_iter().fold(self, |fixture, statement| match statement {
            Statement::Node(node) => fixture.with_node(node),
            Statement::Object(object) => fixture.with_object(object.to_json()),
            Statement::Pod(pod) => {
                let pod = pod.build();
                match pod.nominated_node_name().filter(|_| !pod.is_assigned()) {
                    Some(node) => fixture.with_nominated_pod(pod.clone(), node),
                    None => fixture.with_pod(pod),
                }
            }
        })
    }

    /// Adds a node.
    #[must_use]
    pub fn with_node(mut self, node: impl Into<Arc<Node>>) -> Self {
        self.cluster.add_node(node.into());
        self.cluster.refresh_order();
        self
    }

    /// With a pod: one that runs, if it has a node, else one that is pending.
    ///
    /// # Panics
    /// If there is such a pod already.
    #[must_use]
    pub fn with_pod(mut self, pod: impl Into<Arc<Pod>>) -> Self {
        let pod = pod.into();
        if pod.is_assigned()
            && let Err(error) = self.cluster.add_pod(pod.clone())
        {
            panic!("pod {}: {error}", pod.key());
        }
        self.pods.insert((pod.namespace.clone(), pod.name.clone()), pod);
        self
    }

    /// With a pod that is assumed on a node and waits on Permit for these plugins.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn with_waiting_pod(
        mut self,
        pod: impl Into<Arc<Pod>>,
        node: &str,
        plugins: &[&str],
    ) -> Self {
        let pod = pod.into();
        let assumed = Arc::new(pod.with_node_name(&node.into()));
        if let Err(error) = self.cluster.assume_pod(assumed.clone()) {
            panic!("pod {}: {error}", pod.key());
        }
        self.pods.insert((pod.namespace.clone(), pod.name.clone()), pod);
        let mut pending_plugins: Vec<PluginName> =
            plugins.iter().map(|name| Arc::from(*name)).collect();
        pending_plugins.sort();
        self.waiting.push(WaitingPod { pod: assumed, pending_plugins });
        self
    }

    /// With a pending pod that is nominated to a node.
    #[must_use]
    pub fn with_nominated_pod(mut self, pod: impl Into<Arc<Pod>>, node: &str) -> Self {
        let pod = pod.into();
        self.nominated.entry(node.into()).or_default().push(pod.clone());
        self.pods.insert((pod.namespace.clone(), pod.name.clone()), pod);
        self
    }

    /// With an object of any other kind, given as the JSON of the API.
    ///
    /// # Panics
    /// If it is no object.
    #[must_use]
    pub fn with_object(mut self, object: Value) -> Self {
        match Object::from_value(object) {
            Ok(object) => drop(self.cluster.upsert_object(Arc::new(object))),
            Err(error) => panic!("{error}"),
        }
        self
    }

    /// Sets the time that plugins see.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    /// The cluster.
    pub fn cluster(&self) -> &ClusterState {
        &self.cluster
    }

    /// The cluster, to change it. Call [`ClusterState::refresh_order`] after nodes have come or gone.
    pub fn cluster_mut(&mut self) -> &mut ClusterState {
        &mut self.cluster
    }

    /// What calls to plugins may look at.
    pub fn cx(&self) -> Context<'_> {
        self.sources().unrecorded()
    }

    /// What the contexts of this fixture read from.
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            cluster: &self.cluster,
            pods: self,
            waiting: self,
            nominated: self,
            preemptions: self,
            memo: &Memo::NONE,
            work: None,
            now: self.now,
        }
    }

    /// A node as plugins see it.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn view(&self, node: &str) -> NodeView<'_> {
        let idx = self.cluster.node_idx(node);
        match idx.and_then(|idx| ClusterView::unrecorded(&self.cluster).node(idx)) {
            Some(view) => view,
            None => panic!("there is no node {node:?}"),
        }
    }

    /// What PreFilter says, and what it leaves behind; success if the plugin has none.
    pub fn pre_filter(&self, plugin: &dyn Plugin, pod: &Pod) -> (PreFilterOutcome, CycleState) {
        let mut state = CycleState::new();
        let outcome = match plugin.as_pre_filter() {
            Some(point) => point.pre_filter(&self.cx(), &mut state, pod),
            None => PreFilterOutcome::success(),
        };
        (outcome, state)
    }

    /// Whether the pod can run on a node as far as the plugin is concerned.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn filter(&self, plugin: &dyn Plugin, pod: &Pod, node: &str) -> Status {
        let (outcome, state) = self.pre_filter(plugin, pod);
        if outcome.status.is_skip() {
            return Status::SUCCESS;
        }
        let name: PluginName = plugin.name().into();
        if !outcome.status.is_success() {
            return outcome.status.from_plugin(&name);
        }
        if outcome.node_names.is_some_and(|names| !names.contains(node)) {
            return Status::unresolvable(format!("node(s) didn't satisfy plugin(s) [{name}]"));
        }
        let view = self.view(node);
        let status = plugin.as_filter().map(|point| point.filter(&self.cx(), &state, pod, &view));
        status.unwrap_or_default().from_plugin(&name)
    }

    /// The nodes that the plugin lets the pod on, in the order of the scheduler's list.
    pub fn feasible(&self, plugin: &dyn Plugin, pod: &Pod) -> Vec<String> {
        let names = self.names();
        names.into_iter().filter(|node| self.filter(plugin, pod, node).is_success()).collect()
    }

    /// The scores between 0 and 100 that the plugin gives to all nodes, by node, before they are multiplied by its weight.
    /// Empty when PreScore skips.
    ///
    /// # Errors
    /// If the plugin fails, or a score is out of range after normalising.
    pub fn scores(&self, plugin: &dyn Plugin, pod: &Pod) -> Result<Vec<(String, i64)>, Status> {
        let nodes: Vec<NodeIdx> = self.cluster.order().to_vec();
        let (_, mut state) = self.pre_filter(plugin, pod);
        if let Some(point) = plugin.as_pre_score() {
            let status =
                point.pre_score(&self.cx(), &mut state, pod, &FeasibleNodes::unrecorded(&nodes));
            if status.is_skip() {
                return Ok(Vec::new());
            }
            if !status.is_success() {
                return Err(status);
            }
        }
        let Some(point) = plugin.as_score() else { return Ok(Vec::new()) };
        let mut scores = vec![0; nodes.len()];
        point.score_all(&self.cx(), &state, pod, &nodes, &mut scores)?;
        match point.normalization() {
            Normalization::Custom => {
                let status = point.normalize(&self.cx(), &state, pod, &nodes, &mut scores);
                if !status.is_success() {
                    return Err(status);
                }
            }
            normalization => normalization.apply(&mut scores),
        }
        if let Some(score) = scores.iter().find(|score| !(0..=MAX_NODE_SCORE).contains(*score)) {
            return Err(Status::error(format!("{score} is no score from 0 to {MAX_NODE_SCORE}")));
        }
        Ok(self.names().into_iter().zip(scores).collect())
    }

    /// What Permit decides about a pod for a node, and what it asks for.
    pub fn permit(
        &self,
        plugin: &dyn Plugin,
        pod: &Arc<Pod>,
        node: &str,
    ) -> (PermitDecision, Vec<Command>) {
        let mut commands = Commands::default();
        let placed = Arc::new(pod.with_node_name(&node.into()));
        let decision = plugin.as_permit().map_or_else(PermitDecision::allow, |point| {
            point.permit(&self.cx(), &mut CycleState::new(), &placed, node, &mut commands)
        });
        (decision, commands.into_vec())
    }

    /// What Reserve says about a pod for a node, and what it asks for.
    pub fn reserve(
        &self,
        plugin: &dyn Plugin,
        pod: &Arc<Pod>,
        node: &str,
    ) -> (Status, Vec<Command>) {
        let mut commands = Commands::default();
        let placed = Arc::new(pod.with_node_name(&node.into()));
        let status = plugin.as_reserve().map_or(Status::SUCCESS, |point| {
            point.reserve(&self.cx(), &mut CycleState::new(), &placed, node, &mut commands)
        });
        (status, commands.into_vec())
    }

    /// Calls Unreserve for a pod on a node; returns what the plugin asks for.
    pub fn unreserve(&self, plugin: &dyn Plugin, pod: &Arc<Pod>, node: &str) -> Vec<Command> {
        let mut commands = Commands::default();
        let placed = Arc::new(pod.with_node_name(&node.into()));
        if let Some(point) = plugin.as_reserve() {
            point.unreserve(&self.cx(), &mut CycleState::new(), &placed, node, &mut commands);
        }
        commands.into_vec()
    }

    /// Whether an event brings back a pod that the plugin rejected. It does not if the plugin is not registered for it.
    ///
    /// # Panics
    /// If the plugin's hint fails.
    pub fn hint(
        &self,
        plugin: &dyn Plugin,
        event: &ClusterEvent,
        pod: &Pod,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) -> bool {
        let Some(point) = plugin.as_enqueue_extensions() else { return true };
        let registrations = point.events_to_register();
        let registered = registrations.iter().find(|registered| registered.event.matches(event));
        match registered.map(|registered| &registered.hint) {
            None => false,
            Some(None) => true,
            Some(Some(hint)) => match hint(&self.cx(), pod, old, new) {
                Ok(helps) => helps,
                Err(error) => panic!("the hint failed: {error}"),
            },
        }
    }

    fn names(&self) -> Vec<String> {
        let order = self.cluster.order().iter();
        order.filter_map(|idx| Some(self.cluster.node_name(*idx)?.to_string())).collect()
    }
}

/// The nodes and pods, which are what the reader of a failed test needs; not the cluster state's indexes.
impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = self.cluster.order().iter();
        let nodes: Vec<&Arc<Node>> = order.filter_map(|idx| self.cluster.node(*idx)).collect();
        let Self { pods, waiting, nominated, now, .. } = self;
        f.debug_struct("Fixture")
            .field("nodes", &nodes)
            .field("pods", pods)
            .field("waiting", waiting)
            .field("nominated", nominated)
            .field("now", now)
            .finish_non_exhaustive()
    }
}

impl KnownPods for Fixture {
    fn all_pods(&self) -> Vec<Arc<Pod>> {
        self.pods.values().cloned().collect()
    }
}

impl WaitingPods for Fixture {
    fn waiting_pods(&self) -> Vec<WaitingPod> {
        self.waiting.clone()
    }
}

impl NominatedPods for Fixture {
    fn nominated_pods(&self, node: &str) -> Vec<Arc<Pod>> {
        self.nominated.get(node).cloned().unwrap_or_default()
    }

    fn nominations(&self) -> Vec<(Arc<str>, SmallVec<[Arc<Pod>; 1]>)> {
        let with_pods = |(node, pods): (&Arc<str>, &Vec<_>)| (node.clone(), pods.clone().into());
        self.nominated.iter().map(with_pods).collect()
    }
}

impl RunningPreemptions for Fixture {
    fn is_preempting(&self, _: &str) -> bool {
        false
    }
}
