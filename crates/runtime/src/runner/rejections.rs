//! Every rejection of a pod. An attempt stops at the first rejection; explanations list them all.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::{Code, CycleState, NodeView, PluginName, Shortage, Status};

use super::Runner;
use crate::skip_set::SkipSet;

/// All that is in a pod's way on one node.
#[derive(Clone, Debug, Default)]
pub struct NodeRejections {
    /// The filters' rejections, in plugin order; errors included.
    pub statuses: Vec<Status>,
    /// What the node lacks, by the plugins that can say so.
    pub shortages: Vec<(PluginName, Shortage)>,
}

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
            // A plugin whose PreFilter failed left nothing that its Filter could read.
            skip.insert(idx);
        }
        Self { runner, pod, state, skip, of_pod }
    }

    /// Rejections of the pod as a whole, by PreFilter, in plugin order; errors included.
    pub fn of_pod(&self) -> &[Status] {
        &self.of_pod
    }

    /// The filters' rejections of one node. Nominated pods that must be left room for are taken into account.
    pub fn of_node(&self, node: NodeIdx) -> NodeRejections {
        let Self { runner, pod, state, skip, .. } = self;
        let mut found: Vec<Status> = Vec::new();
        let mut shortages: Vec<(PluginName, Shortage)> = Vec::new();
        let overlay = NodeOverlay::new(node);
        let ended =
            runner.with_and_without_nominated_pods(state, pod, &overlay, skip, |state, view| {
                for status in runner.refusals(state, pod, view, skip) {
                    if !found.iter().any(|known| known.plugin() == status.plugin()) {
                        shortages.extend(runner.shortages(state, pod, view, &status));
                        found.push(status);
                    }
                }
                Ok(())
            });
        if let Err(error) = ended {
            found.push(error);
        }
        NodeRejections { statuses: found, shortages }
    }
}

impl Runner<'_> {
    /// What a node lacks according to the plugin that rejected it with `status`.
    fn shortages(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
        status: &Status,
    ) -> Vec<(PluginName, Shortage)> {
        let mut filters = self.profile.filter();
        let rejecting = filters.find(|(_, name, _)| Some(*name) == status.plugin());
        let Some((_, name, plugin)) = rejecting.filter(|_| status.is_rejected()) else {
            return Vec::new();
        };
        let shortages = plugin.shortages(&self.cx.unrecorded(), state, pod, node);
        shortages.into_iter().map(|shortage| (name.clone(), shortage)).collect()
    }
}
