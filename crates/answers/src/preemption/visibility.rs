//! What a preemption says to a reader who may not see the whole cluster.

use std::cmp::Reverse;

use super::data::{NodesInVain, Preemption};
use crate::explanation::{
    ERROR_HIDDEN, ExplainOptions, GroupAnswer, NODES_HIDDEN, PODS_HIDDEN, Visibility, is_beside,
    merged,
};

impl Preemption {
    /// The answer with its lists of nodes cut to what `options` allow.
    #[must_use]
    pub fn limited(mut self, options: ExplainOptions) -> Self {
        self.candidates.truncate(options.max_feasible);
        self.in_vain.iter_mut().for_each(|group| group.examples.truncate(options.max_examples));
        self.group.iter_mut().for_each(|group| group.limit(options.max_examples));
        self
    }

    /// The answer without the names that its reader may not see. What is compared, codes and reasons stay.
    #[must_use]
    pub fn visible_to(mut self, reader: Visibility) -> Self {
        if !reader.nodes {
            self.node = None;
            self.candidates.iter_mut().for_each(|candidate| candidate.node.clear());
            self.in_vain = without_names(std::mem::take(&mut self.in_vain));
            self.gated.iter_mut().for_each(|gate| gate.hide_error());
            self.group.iter_mut().for_each(GroupAnswer::hide_nodes);
            if self.is_error {
                self.message = Some(ERROR_HIDDEN.to_owned());
            }
            if let Some(choice) = &mut self.choice {
                choice.runner_up = None;
            }
            self.warnings.push(NODES_HIDDEN.to_owned());
        }
        if !reader.all_pods {
            let pod = &self.pod;
            let candidates = self.candidates.iter_mut().map(|candidate| &mut candidate.victims);
            let mut hides = false;
            for victim in candidates.chain([&mut self.victims]).flatten() {
                if !is_beside(pod, &victim.pod) {
                    // How many there are stays. The names of budgets are of its namespace.
                    victim.pod.clear();
                    victim.violates.clear();
                    victim.budgets.clear();
                    hides = true;
                }
            }
            let of_group = self.group.iter_mut().flat_map(GroupAnswer::victims_mut);
            for victim in of_group.filter(|victim| !is_beside(pod, victim)) {
                victim.clear();
                hides = true;
            }
            if hides {
                self.warnings.push(PODS_HIDDEN.to_owned());
            }
        }
        self
    }
}

/// Groups of nodes without names, the most frequent first; those that differ in the texts of errors alone become one.
fn without_names(groups: Vec<NodesInVain>) -> Vec<NodesInVain> {
    let nameless = groups.into_iter().map(|mut group| {
        group.examples.clear();
        group.rejection.hide_error();
        group
    });
    let is_same =
        |a: &NodesInVain, b: &NodesInVain| (a.code, &a.rejection) == (b.code, &b.rejection);
    let mut merged = merged(nameless, is_same, |known, group| known.count += group.count);
    merged.sort_by_key(|group| Reverse(group.count));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::Rejection;

    #[test]
    fn errors_name_no_node_and_are_one_group() {
        let group = |reason: &str| NodesInVain {
            count: 1,
            examples: vec!["n1".to_owned()],
            code: "Error",
            rejection: Rejection {
                plugin: "Devices".to_owned(),
                code: "Error",
                reasons: vec![reason.to_owned()],
            },
        };
        let found = without_names(vec![group("node n1: timed out"), group("node n2: timed out")]);
        assert_eq!((found.len(), found[0].count), (1, 2));
        assert_eq!(found[0].rejection.reasons, [ERROR_HIDDEN]);
        assert!(found[0].examples.is_empty());
    }
}
