//! What an explanation says to a reader who may not see the whole cluster.

use super::ExplainOptions;
use super::data::Explanation;

/// What is said of an answer without the names of nodes, and without those of victims in other namespaces.
pub(crate) const NODES_HIDDEN: &str = "nodes are not named: the reader may not list them";
pub(crate) const OTHERS_HIDDEN: &str =
    "pods of other namespaces are not named: the reader may not list them";
pub(crate) const PODS_HIDDEN: &str =
    "pods of other namespaces would be evicted, which the reader may not list";

/// What the reader of an answer may see of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    /// Nodes by name.
    pub nodes: bool,
    /// Pods of all namespaces by name, and not only those of the namespace that is asked about.
    pub all_pods: bool,
}

impl Explanation {
    /// The same with shorter lists.
    #[must_use]
    pub fn limited(mut self, options: ExplainOptions) -> Self {
        self.feasible.truncate(options.max_feasible);
        self.rejected.iter_mut().for_each(|group| group.examples.truncate(options.max_examples));
        self
    }

    /// The same without the names that its reader may not see. Counts, reasons and verdicts stay.
    ///
    /// Reasons are in the words of plugins, as in the pod's events.
    #[must_use]
    pub fn visible_to(mut self, reader: Visibility) -> Self {
        if !reader.nodes {
            self.hide_nodes();
        }
        if !reader.all_pods {
            self.hide_other_pods();
        }
        self
    }

    fn hide_nodes(&mut self) {
        if let Some(place) = &mut self.place {
            (place.node, place.nominated_node) = (None, None);
        }
        if let Some(decision) = &mut self.decision {
            decision.node.clear();
        }
        if let Some(preemption) = &mut self.preemption {
            preemption.node = None;
        }
        self.feasible.clear();
        self.rejected.iter_mut().for_each(|group| group.examples.clear());
        for suggestion in &mut self.suggestions {
            for (code, text) in suggestion.codes.iter().zip(&mut suggestion.changes) {
                match *code {
                    "Uncordon" => "uncordon a node".clone_into(text),
                    "AddNodeLike" => "one more node like one that is there".clone_into(text),
                    _ => {}
                }
            }
        }
        self.warnings.push(NODES_HIDDEN.to_owned());
    }

    fn hide_other_pods(&mut self) {
        let mut n_hidden = 0;
        let preempted = self.preemption.iter_mut().map(|preemption| &mut preemption.victims);
        let suggested = self.suggestions.iter_mut().map(|suggestion| &mut suggestion.victims);
        for victims in preempted.chain(suggested) {
            let n_victims = victims.len();
            victims.retain(|victim| is_beside(&self.pod, victim));
            n_hidden += n_victims - victims.len();
        }
        if n_hidden > 0 {
            self.warnings.push(PODS_HIDDEN.to_owned());
        }
    }
}

/// Whether two pods, `namespace/name`, are of one namespace.
pub(crate) fn is_beside(pod: &str, other: &str) -> bool {
    other.split_once('/').is_some_and(|(namespace, _)| is_of(pod, namespace))
}

/// Whether a pod, `namespace/name`, is of this namespace.
pub(crate) fn is_of(pod: &str, namespace: &str) -> bool {
    pod.split_once('/').is_some_and(|(of, _)| of == namespace)
}
