//! What a preemption says to a reader who may not see the whole cluster.

use super::data::{Preemption, VictimAnswer};
use crate::explanation::{ExplainOptions, NODES_HIDDEN, PODS_HIDDEN, Visibility, is_beside};

impl Preemption {
    /// The same with shorter lists.
    #[must_use]
    pub fn limited(mut self, options: ExplainOptions) -> Self {
        self.candidates.truncate(options.max_feasible);
        self.in_vain.iter_mut().for_each(|group| group.examples.truncate(options.max_examples));
        self
    }

    /// The same without the names that its reader may not see. What is compared, codes and reasons stay.
    #[must_use]
    pub fn visible_to(mut self, reader: Visibility) -> Self {
        if !reader.nodes {
            self.node = None;
            self.candidates.iter_mut().for_each(|candidate| candidate.node.clear());
            self.in_vain.iter_mut().for_each(|group| group.examples.clear());
            if let Some(choice) = &mut self.choice {
                choice.runner_up = None;
            }
            self.warnings.push(NODES_HIDDEN.to_owned());
        }
        if !reader.all_pods {
            let pod = &self.pod;
            let candidates = self.candidates.iter_mut().map(|candidate| &mut candidate.victims);
            let mut n_hidden = 0;
            for victims in candidates.chain([&mut self.victims]) {
                let n_victims = victims.len();
                victims.retain(|victim: &VictimAnswer| is_beside(pod, &victim.pod));
                n_hidden += n_victims - victims.len();
            }
            if n_hidden > 0 {
                self.warnings.push(PODS_HIDDEN.to_owned());
            }
        }
        self
    }
}
