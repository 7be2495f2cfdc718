//! What a fragmentation says to a reader who may not see the whole cluster.

use super::data::Fragmentation;
use crate::explanation::{NODES_HIDDEN, OTHERS_HIDDEN, Visibility, is_of};

impl Fragmentation {
    /// The same without the names that its reader may not see: which pods have a shape, and the values of nodes' labels.
    /// Amounts and counts stay.
    #[must_use]
    pub(crate) fn visible_to(mut self, reader: Visibility, namespace: &str) -> Self {
        if !reader.nodes {
            self.pools.clear();
            self.warnings.push(NODES_HIDDEN.to_owned());
        }
        if !reader.all_pods {
            let examples = self.shapes.iter_mut().map(|shape| &mut shape.example);
            examples.filter(|example| !is_of(example, namespace)).for_each(String::clear);
            self.warnings.push(OTHERS_HIDDEN.to_owned());
        }
        self
    }
}
