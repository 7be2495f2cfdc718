//! What would happen, for a reader who may not see the whole cluster.

use kube_scheduler_engine::without_domains;

use super::SCHEDULER_ERROR;
use super::changes::NO_SUCH_NODE;
use super::data::WhatIf;
use crate::explanation::{ERROR_HIDDEN, NODES_HIDDEN, OTHERS_HIDDEN, Visibility, is_of};

impl WhatIf {
    /// The answer without the names that its reader may not see. Entries and codes stay, so that they can be counted.
    ///
    /// `namespace` is the one whose pods the reader may see in any case; empty if there is none.
    #[must_use]
    pub(crate) fn visible_to(mut self, reader: Visibility, namespace: &str) -> Self {
        if !reader.nodes {
            self.hide_nodes();
        }
        if !reader.all_pods {
            self.hide_other_pods(namespace);
        }
        self
    }

    /// The answer with at most `max` entries in each list, and as many pods in those of nodes together.
    #[must_use]
    pub(crate) fn limited(mut self, max: usize) -> Self {
        let lengths = [
            ("placements", self.placements.len()),
            ("evictions", self.evictions.len()),
            ("pending", self.pending.len()),
            ("blocked", self.blocked.len()),
        ];
        let cut = lengths.into_iter().filter(|(_, n)| *n > max);
        let mut warnings: Vec<String> =
            cut.map(|(list, n)| format!("{list}: {max} of {n} are listed")).collect();
        self.placements.truncate(max);
        self.evictions.truncate(max);
        self.pending.truncate(max);
        self.blocked.truncate(max);
        let mut left = max;
        let n_moves: usize =
            self.nodes.iter().map(|node| node.added.len() + node.removed.len()).sum();
        if n_moves > max {
            for list in self.nodes.iter_mut().flat_map(|node| [&mut node.added, &mut node.removed])
            {
                list.truncate(left);
                left -= list.len();
            }
            self.nodes.retain(|node| !node.added.is_empty() || !node.removed.is_empty());
            warnings.push(format!("nodes: {max} of {n_moves} pods are listed"));
        }
        self.warnings.extend(warnings);
        self
    }

    fn hide_nodes(&mut self) {
        for placement in &mut self.placements {
            placement.node.clear();
            placement.instead_of = None;
        }
        self.evictions.iter_mut().for_each(|eviction| eviction.node.clear());
        self.blocked.iter_mut().for_each(|blocked| blocked.node.clear());
        self.nodes.clear();
        for pending in &mut self.pending {
            pending.without_gates.iter_mut().for_each(|otherwise| otherwise.node.clear());
            pending.message = match pending.code == SCHEDULER_ERROR {
                true => ERROR_HIDDEN.to_owned(),
                false => without_domains(&pending.message),
            };
        }
        // It tells which nodes there are.
        self.warnings.retain(|warning| !warning.ends_with(NO_SUCH_NODE));
        self.warnings.push(NODES_HIDDEN.to_owned());
    }

    fn hide_other_pods(&mut self, namespace: &str) {
        let mut n_hidden = 0;
        let mut hide = |pod: &mut String| {
            let is_hidden = !is_of(pod, namespace);
            if is_hidden {
                pod.clear();
                n_hidden += 1;
            }
            is_hidden
        };
        for placement in &mut self.placements {
            hide(&mut placement.pod);
        }
        for eviction in &mut self.evictions {
            hide(&mut eviction.pod);
            eviction.by = eviction.by.take().filter(|by| is_of(by, namespace));
        }
        for pending in &mut self.pending {
            if hide(&mut pending.pod) {
                pending.message.clear();
                pending.without_gates = None;
            }
        }
        for blocked in &mut self.blocked {
            if hide(&mut blocked.pod) {
                blocked.message.clear();
                blocked.budgets.clear();
            }
        }
        for node in &mut self.nodes {
            for pod in node.added.iter_mut().chain(&mut node.removed) {
                hide(pod);
            }
        }
        // It names budgets.
        self.warnings.retain(|warning| !warning.starts_with(super::WITHOUT_STATUS));
        if n_hidden > 0 {
            self.warnings.push(OTHERS_HIDDEN.to_owned());
        }
    }
}
