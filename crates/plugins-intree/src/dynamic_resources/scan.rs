//! Filter, node by node and for all nodes at once. For all, what is known of a question is read from one table, and only nodes without an
//! answer are searched, one of those that see the same devices. Answers as [`Trials::run`] does for each node.

use kube_scheduler_devices::{NodeRef, View};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    Context, CycleState, Filter, FilterSink, NodeIdx, NodeView, Shortage, Status,
};
use rustc_hash::FxHashMap;

use super::answers::Answer;
use super::node::Trials;
use super::state::PodDevices;
use super::{DynamicResources, no_state, shortages};

impl Filter for DynamicResources {
    fn filter(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        let Some(devices) = state.get::<PodDevices>() else { return no_state() };
        if devices.claims.is_empty() {
            return Status::SUCCESS;
        }
        let trials = Trials { shared: &self.shared, cx, devices, pod };
        trials.run(node).err().unwrap_or_default()
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let Some(devices) = state.get::<PodDevices>() else {
            return sink.reject_each(cx, nodes, |_, _| no_state());
        };
        if devices.claims.is_empty() {
            return Ok(());
        }
        let trials = Trials { shared: &self.shared, cx, devices, pod };
        let cluster = cx.cluster();
        let searched = trials.devices.same_everywhere(&self.shared.settings, cx);
        let Some((allocator, special)) = searched else {
            return sink
                .reject_each(cx, nodes, |_, node| trials.run(node).err().unwrap_or_default());
        };
        let state = allocator.state();
        let column = trials.devices.column(&self.shared.devices, special.as_ref());
        let mut open = Vec::new();
        {
            let mut table = column.table();
            let is_current = table.follow(state, cluster);
            for &idx in nodes {
                if !sink.is_open(idx) {
                    continue;
                }
                let Some(node) = cluster.node(idx) else { continue };
                match table.get(&node).filter(|_| is_current) {
                    Some(answer) => reject(sink, idx, answer),
                    None => open.push(idx),
                }
            }
        }
        // Nodes that see the same devices are searched once, for the steps of one search.
        let mut by_view: FxHashMap<View, Answer> = FxHashMap::default();
        for idx in open {
            let Some(node) = cluster.node(idx) else { continue };
            let view = allocator.view(NodeRef { name: node.name(), labels: node.labels() });
            let known = view.as_ref().and_then(|view| by_view.get(view).copied());
            let answer = match known {
                Some(answer) => answer,
                None => {
                    let (answer, _) = trials.search(&node, allocator, special.as_ref())?;
                    if let Some(view) = view {
                        by_view.insert(view, answer);
                    }
                    answer
                }
            };
            column.set(state, &node, answer);
            reject(sink, idx, answer);
        }
        Ok(())
    }

    fn shortages(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Vec<Shortage> {
        match state.get::<PodDevices>() {
            Some(devices) => {
                shortages::of_node(&Trials { shared: &self.shared, cx, devices, pod }, node)
            }
            None => Vec::new(),
        }
    }
}

fn reject(sink: &mut FilterSink<'_>, node: NodeIdx, answer: Answer) {
    if !matches!(answer, Answer::Yes { .. }) {
        sink.reject(node, answer.rejection());
    }
}
