//! What an explanation says to a reader who may not see the whole cluster.

use std::cmp::Reverse;

use kube_scheduler_engine::without_domains;
use kube_scheduler_framework::Code;

use super::ExplainOptions;
use super::data::{Explanation, RejectedNodes, Rejection, Verdict};
use super::group::GroupAnswer;

/// Warnings of an answer without the names of nodes, and without those of victims in other namespaces.
pub(crate) const NODES_HIDDEN: &str = "nodes are not named: the reader may not list them";
pub(crate) const OTHERS_HIDDEN: &str =
    "pods of other namespaces are not named: the reader may not list them";
pub(crate) const PODS_HIDDEN: &str =
    "pods of other namespaces would be evicted, which the reader may not list";
/// What stands for the text of an error, in which plugins may name nodes.
pub(crate) const ERROR_HIDDEN: &str = "an error; its text is shown to those who may list nodes";

/// What the reader of an answer may see of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    /// Whether the reader may see names of nodes.
    pub nodes: bool,
    /// Whether the reader may see names of pods of all namespaces, not only of the one that is asked about.
    pub all_pods: bool,
}

impl Explanation {
    /// The answer with its lists of nodes cut to what `options` allow.
    #[must_use]
    pub fn limited(mut self, options: ExplainOptions) -> Self {
        self.feasible.truncate(options.max_feasible);
        self.rejected.iter_mut().for_each(|group| group.examples.truncate(options.max_examples));
        if let Some(group) = &mut self.group {
            group.limit(options.max_examples);
        }
        self
    }

    /// The answer without the names that its reader may not see. Counts, reasons and verdicts stay.
    ///
    /// Reasons are in the words of plugins, as in the pod's events; those of errors, which may name nodes, are left out with them.
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
        let has_failed = self.judged() == Verdict::Error || self.error.is_some();
        if has_failed {
            self.message = None;
        }
        if let Some(preemption) = &mut self.preemption {
            preemption.node = None;
            if preemption.is_error {
                preemption.message = Some(ERROR_HIDDEN.to_owned());
                // It ends with what preemption says.
                self.message = None;
            }
        }
        if let Some(group) = &mut self.group {
            group.hide_nodes();
        }
        self.message = self.message.take().map(|message| without_domains(&message));
        self.feasible.clear();
        let of_pod = self.gated.iter_mut().chain(&mut self.pod_rejections).chain(&mut self.error);
        of_pod.for_each(Rejection::hide_error);
        let rejected = std::mem::take(&mut self.rejected);
        self.rejected = without_names(rejected);
        for suggestion in &mut self.suggestions {
            for (code, text) in suggestion.codes.iter().zip(&mut suggestion.changes) {
                match *code {
                    "Uncordon" => "uncordon a node".clone_into(text),
                    "Tolerate" => "tolerate a taint".clone_into(text),
                    "MoveVolume" => "a volume at another place".clone_into(text),
                    "AllowTopology" => {
                        "let a storage class make volumes at another place".clone_into(text);
                    }
                    "AddNodeLike" => {
                        let how_many = text.split(" like ").next().unwrap_or_default();
                        *text = format!("{how_many} like one that is there");
                    }
                    _ => {}
                }
            }
        }
        self.warnings.push(NODES_HIDDEN.to_owned());
    }

    fn hide_other_pods(&mut self) {
        let mut hides = false;
        let preempted = self.preemption.iter_mut().map(|preemption| &mut preemption.victims);
        let suggested = self.suggestions.iter_mut().map(|suggestion| &mut suggestion.victims);
        let of_group = self.group.iter_mut().flat_map(GroupAnswer::victims_mut);
        for victim in preempted.chain(suggested).flatten().chain(of_group) {
            if !is_beside(&self.pod, victim) {
                // How many there are stays.
                victim.clear();
                hides = true;
            }
        }
        if hides {
            self.warnings.push(PODS_HIDDEN.to_owned());
        }
    }
}

impl Rejection {
    /// Leaves out the text of an error.
    pub(crate) fn hide_error(&mut self) {
        if self.code == Code::Error.as_str() {
            self.reasons = vec![ERROR_HIDDEN.to_owned()];
        }
    }
}

/// Groups of nodes without names, the most frequent first; those that differ in the texts of errors alone become one.
fn without_names(groups: Vec<RejectedNodes>) -> Vec<RejectedNodes> {
    let nameless = groups.into_iter().map(|mut group| {
        group.examples.clear();
        group.rejections.iter_mut().for_each(Rejection::hide_error);
        group
    });
    let is_same = |a: &RejectedNodes, b: &RejectedNodes| a.rejections == b.rejections;
    let mut merged = merged(nameless, is_same, |known, group| {
        known.count += group.count;
        known.shortages.extend(group.shortages);
    });
    merged.sort_by_key(|group| Reverse(group.count));
    merged
}

/// Groups that are the same, such as after names were taken out, as one: `add` adds a group to an earlier one. O(groups times
/// different ones).
pub(crate) fn merged<T>(
    groups: impl IntoIterator<Item = T>,
    is_same: impl Fn(&T, &T) -> bool,
    add: impl Fn(&mut T, T),
) -> Vec<T> {
    let mut merged: Vec<T> = Vec::new();
    for group in groups {
        match merged.iter_mut().find(|known| is_same(known, &group)) {
            Some(known) => add(known, group),
            None => merged.push(group),
        }
    }
    merged
}

/// Whether two pods, `namespace/name`, are of one namespace.
pub(crate) fn is_beside(pod: &str, other: &str) -> bool {
    other.split_once('/').is_some_and(|(namespace, _)| is_of(pod, namespace))
}

/// Whether a pod, `namespace/name`, is of this namespace.
pub(crate) fn is_of(pod: &str, namespace: &str) -> bool {
    pod.split_once('/').is_some_and(|(of, _)| of == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(count: usize, plugin: &str, code: Code, reason: &str) -> RejectedNodes {
        let rejection = Rejection {
            plugin: plugin.to_owned(),
            code: code.as_str(),
            reasons: vec![reason.to_owned()],
        };
        let (examples, shortages) = (vec![reason.to_owned()], Vec::new());
        RejectedNodes { count, examples, rejections: vec![rejection], shortages }
    }

    #[test]
    fn errors_name_no_node_and_are_one_group() {
        let groups = vec![
            group(3, "Fit", Code::Unschedulable, "Insufficient cpu"),
            group(2, "Devices", Code::Error, "node n1: timed out"),
            group(2, "Devices", Code::Error, "node n2: timed out"),
            group(1, "Volumes", Code::Error, "node n1: no answer"),
        ];
        let found = without_names(groups);
        let seen: Vec<_> = found
            .iter()
            .map(|group| {
                (group.count, &*group.rejections[0].plugin, &*group.rejections[0].reasons[0])
            })
            .collect();
        let expected = [
            (4, "Devices", ERROR_HIDDEN),
            (3, "Fit", "Insufficient cpu"),
            (1, "Volumes", ERROR_HIDDEN),
        ];
        assert_eq!(seen, expected);
        assert!(found.iter().all(|group| group.examples.is_empty()));
    }
}
