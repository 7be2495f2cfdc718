//! What a capacity says to a reader who may not see the whole cluster.

use super::data::{Capacity, LimitAnswer};
use crate::explanation::{ERROR_HIDDEN, ExplainOptions, NODES_HIDDEN, Visibility, merged};

impl Capacity {
    /// The answer with shorter lists; nodes with more pods are all listed.
    #[must_use]
    pub(crate) fn limited(mut self, options: ExplainOptions) -> Self {
        self.limited_by = self.limited_by.map(|answer| answer.limited(options));
        self
    }

    /// The answer without the names that its reader may not see. Counts and reasons stay.
    #[must_use]
    pub(crate) fn visible_to(mut self, reader: Visibility) -> Self {
        if !reader.nodes {
            self.by_node.clear();
            self.largest.iter_mut().for_each(|largest| largest.node = None);
            for step in &mut self.steps {
                step.limits = without_errors(std::mem::take(&mut step.limits));
            }
            self.warnings.push(NODES_HIDDEN.to_owned());
        }
        self.limited_by = self.limited_by.map(|answer| answer.visible_to(reader));
        self
    }
}

/// The limits without the texts of errors; those of one plugin become one.
fn without_errors(limits: Vec<LimitAnswer>) -> Vec<LimitAnswer> {
    let nameless = limits.into_iter().map(|mut limit| {
        if limit.is_error {
            limit.reasons = vec![ERROR_HIDDEN.to_owned()];
        }
        limit
    });
    let is_same =
        |a: &LimitAnswer, b: &LimitAnswer| (&a.plugin, &a.reasons) == (&b.plugin, &b.reasons);
    merged(nameless, is_same, |known, limit| known.nodes += limit.nodes)
}
