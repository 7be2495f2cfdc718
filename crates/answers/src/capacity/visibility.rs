//! What a capacity says to a reader who may not see the whole cluster.

use super::data::{Capacity, LimitAnswer};
use crate::explanation::{ERROR_HIDDEN, ExplainOptions, NODES_HIDDEN, Visibility};

impl Capacity {
    /// The same with shorter lists; nodes with more pods are all listed.
    #[must_use]
    pub(crate) fn limited(mut self, options: ExplainOptions) -> Self {
        self.limited_by = self.limited_by.map(|answer| answer.limited(options));
        self
    }

    /// The same without the names that its reader may not see. Counts and reasons stay.
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

/// The same limits without the texts of errors; those of one plugin become one.
fn without_errors(limits: Vec<LimitAnswer>) -> Vec<LimitAnswer> {
    let mut merged: Vec<LimitAnswer> = Vec::new();
    for mut limit in limits {
        if limit.is_error {
            limit.reasons = vec![ERROR_HIDDEN.to_owned()];
        }
        let is_same = |known: &&mut LimitAnswer| {
            (&known.plugin, &known.reasons) == (&limit.plugin, &limit.reasons)
        };
        match merged.iter_mut().find(is_same) {
            Some(known) => known.nodes += limit.nodes,
            None => merged.push(limit),
        }
    }
    merged
}
