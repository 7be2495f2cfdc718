//! What a fragmentation says to a reader who may not see the whole cluster.

use super::data::Fragmentation;
use crate::explanation::{NODES_HIDDEN, OTHERS_HIDDEN, Visibility, is_of};

impl Fragmentation {
    /// What is left of the answer for this reader, who may always see the pods of `namespace`. The names of other pods and the
    /// values of nodes' labels are left out if the reader may not see them; amounts and counts stay.
    #[must_use]
    pub(crate) fn visible_to(mut self, reader: Visibility, namespace: &str) -> Self {
        if !reader.nodes {
            self.pools.clear();
            self.warnings.push(NODES_HIDDEN.to_owned());
        }
        if !reader.all_pods {
            let examples = self.shapes.iter_mut().map(|shape| &mut shape.example);
            let mut hides = false;
            for example in examples.filter(|example| !is_of(example, namespace)) {
                example.clear();
                hides = true;
            }
            if hides {
                self.warnings.push(OTHERS_HIDDEN.to_owned());
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::data::ShapeAnswer;
    use super::*;

    #[test]
    fn a_warning_says_that_pods_are_not_named_if_some_are_not() {
        let shape = |example: &&str| ShapeAnswer {
            example: (*example).to_owned(),
            pods: 1,
            requests: BTreeMap::new(),
            feasible: 1,
        };
        let seen = |examples: &[&str]| {
            let answer = Fragmentation {
                api_version: "",
                kind: "",
                as_of: None,
                by: None,
                pods: examples.len(),
                other_pods: 0,
                n_shapes: examples.len(),
                shapes: examples.iter().map(shape).collect(),
                resources: Vec::new(),
                pools: Vec::new(),
                warnings: Vec::new(),
            };
            let seen = answer.visible_to(Visibility { nodes: true, all_pods: false }, "a");
            let examples: Vec<_> = seen.shapes.into_iter().map(|shape| shape.example).collect();
            (examples.join(" "), seen.warnings)
        };
        assert_eq!(seen(&["a/x", "a/y"]), ("a/x a/y".to_owned(), Vec::new()));
        assert_eq!(seen(&["a/x", "b/y"]), ("a/x ".to_owned(), vec![OTHERS_HIDDEN.to_owned()]));
    }
}
