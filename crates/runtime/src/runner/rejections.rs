//! Every rejection of a pod, where an attempt stops at the first: for those who want to know all that is in the way.

use std::ops::ControlFlow;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::{Code, CycleState, Status};

use super::Runner;
use crate::skip_set::SkipSet;

/// All plugins' answers about one pod, each asked as if the others had accepted it.
///
/// Of the answers of one plugin about one node, [`of_node`](Self::of_node) has the first.
#[derive(Debug)]
pub struct Rejections<'a> {
    runner: Runner<'a>,
    pod: &'a Pod,
    state: CycleState,
    skip: SkipSet,
    of_pod: Vec<Status>,
}

impl<'a> Rejections<'a> {
    /// Runs PreFilter of every plugin. What it says about which nodes are left does not count: the filters say so again,
    /// node by node.
    pub fn new(runner: Runner<'a>, pod: &'a Pod) -> Self {
        let (mut state, mut skip) = (CycleState::new(), SkipSet::default());
        let mut of_pod = Vec::new();
        for (idx, name, plugin) in runner.profile.pre_filter() {
            let status = plugin.pre_filter(&runner.cx.unrecorded(), &mut state, pod).status;
            match status.code() {
                Code::Success => continue,
                Code::Skip => {}
                _ if status.is_rejected() => of_pod.push(status.from_plugin(name)),
                _ => {
                    let context = format!("running PreFilter plugin \"{name}\"");
                    of_pod.push(status.wrapped(context).from_plugin(name));
                }
            }
            // Its filter has nothing to go by.
            skip.insert(idx);
        }
        Self { runner, pod, state, skip, of_pod }
    }

    /// Rejections of the pod as a whole, by PreFilter, in plugin order; errors included.
    pub fn of_pod(&self) -> &[Status] {
        &self.of_pod
    }

    /// The filters' rejections of one node, in plugin order; errors included. Nominated pods that must be left room for are
    /// taken into account.
    pub fn of_node(&self, node: NodeIdx) -> Vec<Status> {
        let Self { runner, pod, state, skip, .. } = self;
        let mut found: Vec<Status> = Vec::new();
        let overlay = NodeOverlay::new(node);
        let ended =
            runner.with_and_without_nominated_pods(state, pod, &overlay, skip, |state, view| {
                for status in runner.refusals(state, pod, view, skip) {
                    if !found.iter().any(|known| known.plugin() == status.plugin()) {
                        found.push(status);
                    }
                }
                ControlFlow::Continue(())
            });
        if let ControlFlow::Break(error) = ended {
            found.push(error);
        }
        found
    }
}
