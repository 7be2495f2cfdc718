//! Which nodes have which image, and how big it is (`docs/spec/core.md` §14.3).
//!
//! Invariants: a record lives as long as a node has the image; its size is the one that the first node to report the
//! name gave, until the record is gone.
//!
//! Parity: the reference shows a node the number of holders as of that node's last change. Here it is always exact.

use std::sync::Arc;

use kube_scheduler_api_types::NodeImage;

use crate::fork::CowMap;
use crate::node_group::NodeGroup;
use crate::node_table::NodeIdx;

/// Size and spread of an image, as ImageLocality scores by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageState {
    /// Size in bytes, as reported by the first node.
    pub size_bytes: i64,
    /// The number of nodes that have the image.
    pub n_nodes: usize,
}

#[derive(Clone, Debug)]
struct ImageRecord {
    size_bytes: i64,
    nodes: NodeGroup,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ImageTable(CowMap<Arc<str>, ImageRecord>);

impl ImageTable {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn state(&self, name: &str) -> Option<ImageState> {
        let record = self.0.get(name)?;
        Some(ImageState { size_bytes: record.size_bytes, n_nodes: record.nodes.len() })
    }

    pub(crate) fn nodes(&self, name: &str) -> Option<&NodeGroup> {
        self.0.get(name).map(|record| &record.nodes)
    }

    /// Replaces what a node has; whether any image state changed. O(names).
    pub(crate) fn update(&mut self, node: NodeIdx, old: &[NodeImage], new: &[NodeImage]) -> bool {
        if old == new {
            return self.renew_sole_records(node, new);
        }
        for name in old.iter().flat_map(|image| image.names.iter()) {
            let Some(record) = self.0.get_mut(&**name) else { continue };
            record.nodes.remove(node);
            if record.nodes.is_empty() {
                self.0.remove(&**name);
            }
        }
        for image in new {
            for name in image.names.iter() {
                let first =
                    || ImageRecord { size_bytes: image.size_bytes, nodes: NodeGroup::new() };
                self.0.get_or_insert_with(name, first).nodes.insert(node);
            }
        }
        true
    }

    /// A refresh takes the node out and puts it back, which starts a new record where the node was the only holder: the
    /// size becomes its own, also when the first reporter was another node that has gone since.
    fn renew_sole_records(&mut self, node: NodeIdx, images: &[NodeImage]) -> bool {
        let mut is_changed = false;
        for (at, image) in images.iter().enumerate() {
            for name in image.names.iter() {
                let Some(record) = self.0.get(&**name) else { continue };
                if record.size_bytes == image.size_bytes
                    || record.nodes.len() != 1
                    || !record.nodes.contains(node)
                {
                    continue;
                }
                // A name listed twice has the size of its first mention.
                let is_first = !images[..at].iter().any(|earlier| earlier.names.contains(name));
                if is_first && let Some(record) = self.0.get_mut(&**name) {
                    record.size_bytes = image.size_bytes;
                    is_changed = true;
                }
            }
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(list: &[(&str, i64)]) -> Vec<NodeImage> {
        let image = |(name, size_bytes): &(&str, i64)| NodeImage {
            names: [(*name).into()].into(),
            size_bytes: *size_bytes,
        };
        list.iter().map(image).collect()
    }

    fn state(table: &ImageTable, name: &str) -> Option<(i64, usize)> {
        table.state(name).map(|state| (state.size_bytes, state.n_nodes))
    }

    #[test]
    fn the_first_reporter_decides_the_size_while_the_record_lives() {
        let (a, b) = (NodeIdx::from_index(0), NodeIdx::from_index(1));
        let mut table = ImageTable::default();
        table.update(a, &[], &images(&[("x", 10)]));
        table.update(b, &[], &images(&[("x", 20)]));
        assert_eq!(state(&table, "x"), Some((10, 2)));
        // The first reporter goes; its size stays.
        table.update(a, &images(&[("x", 10)]), &[]);
        assert_eq!(state(&table, "x"), Some((10, 1)));
        // A refresh of the sole holder starts a new record.
        assert!(table.update(b, &images(&[("x", 20)]), &images(&[("x", 20)])));
        assert_eq!(state(&table, "x"), Some((20, 1)));
        assert!(!table.update(b, &images(&[("x", 20)]), &images(&[("x", 20)])));
        table.update(b, &images(&[("x", 20)]), &[]);
        assert_eq!((state(&table, "x"), table.len()), (None, 0));
    }

    #[test]
    fn a_name_listed_twice_has_the_size_of_its_first_mention() {
        let node = NodeIdx::from_index(0);
        let mut table = ImageTable::default();
        let list = images(&[("x", 10), ("x", 20)]);
        table.update(node, &[], &list);
        assert_eq!(state(&table, "x"), Some((10, 1)));
        assert!(!table.update(node, &list, &list));
        assert_eq!(state(&table, "x"), Some((10, 1)));
    }
}
