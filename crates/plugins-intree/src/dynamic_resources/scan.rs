//! Filter for all nodes at once: what is known of a question is read from one table, and only nodes without an answer are
//! searched, one of those that see the same devices. Answers as [`Trials::run`] does for each node.

use kube_scheduler_devices::{NodeRef, View};
use kube_scheduler_framework::{FilterSink, NodeIdx, Status};
use rustc_hash::FxHashMap;

use super::answers::Answer;
use super::node::Trials;

/// Rejects those of `nodes` that do not have what the pod's claims ask for.
///
/// # Errors
/// What is wrong with the objects.
pub(super) fn filter_all(
    trials: &Trials<'_>,
    nodes: &[NodeIdx],
    sink: &mut FilterSink<'_>,
) -> Result<(), Status> {
    let cluster = trials.cx.cluster();
    let searched = trials.devices.same_everywhere(trials.settings, trials.cx);
    let Some((allocator, special)) = searched else {
        return sink
            .reject_each(trials.cx, nodes, |_, node| trials.run(node).err().unwrap_or_default());
    };
    let state = allocator.state();
    let column = trials.devices.column(trials.answers, special.as_ref());
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

fn reject(sink: &mut FilterSink<'_>, node: NodeIdx, answer: Answer) {
    if !matches!(answer, Answer::Yes { .. }) {
        sink.reject(node, answer.rejection());
    }
}
