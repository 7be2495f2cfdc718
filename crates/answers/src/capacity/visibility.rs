//! What a capacity says to a reader who may not see the whole cluster.

use super::data::Capacity;
use crate::explanation::{ExplainOptions, NODES_HIDDEN, Visibility};

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
            self.warnings.push(NODES_HIDDEN.to_owned());
        }
        self.limited_by = self.limited_by.map(|answer| answer.visible_to(reader));
        self
    }
}
