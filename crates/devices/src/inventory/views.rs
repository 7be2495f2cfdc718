//! What nodes see of an inventory, remembered as long as that is the same: where devices can be used by many nodes, each node looks at
//! every pool of them.

use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, KeyedSet, Labels};

use super::NodeRef;
use super::pools::NodePools;

/// What is remembered takes at most this many units of at most 16 bytes: one for a device of a view, two for a pool, and
/// [`UNITS_OF_NODE`] for each node.
const MAX_UNITS: usize = 1 << 20;
const UNITS_OF_NODE: usize = 8;

/// See the head of the module. Nodes with equal views share one.
#[derive(Debug, Default)]
pub(super) struct Views {
    by_node: KeyedMap<Arc<str>, View>,
    distinct: KeyedSet<Arc<NodePools>>,
    n_units: usize,
    /// Whether something was not remembered for lack of room.
    is_full: bool,
}

#[derive(Debug)]
struct View {
    labels: Labels,
    pools: Arc<NodePools>,
}

impl Views {
    /// The view of a node, if it was seen with the same labels.
    pub(super) fn find(&self, node: NodeRef<'_>) -> Option<Arc<NodePools>> {
        let view = self.by_node.get(node.name)?;
        let is_same = view.labels.is_same_allocation(node.labels) || view.labels == *node.labels;
        is_same.then(|| view.pools.clone())
    }

    /// Whether there is no room for the views of more nodes.
    pub(super) fn are_full(&self) -> bool {
        self.is_full
    }

    /// Remembers the view of a node, if there is room, and says whether there was.
    pub(super) fn add(&mut self, node: NodeRef<'_>, pools: NodePools) -> (Arc<NodePools>, bool) {
        let known = self.distinct.get(&pools);
        let is_new = known.is_none();
        let (pools, n_units) = match known {
            Some(known) => (known.clone(), 0),
            None => {
                let n_units = 2 * pools.pools.len() + pools.devices.len();
                (Arc::new(pools), n_units)
            }
        };
        let n_units = self.n_units + n_units + UNITS_OF_NODE;
        let has_room = n_units <= MAX_UNITS;
        self.is_full |= !has_room;
        if has_room {
            self.n_units = n_units;
            if is_new {
                self.distinct.insert(pools.clone());
            }
            let view = View { labels: node.labels.clone(), pools: pools.clone() };
            self.by_node.insert(node.name.into(), view);
        }
        (pools, has_room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::DeviceIdx;

    #[test]
    fn nodes_that_see_the_same_share_it_however_many_views_there_are() {
        let labels = Labels::default();
        let view = |at| NodePools { devices: vec![DeviceIdx::new(at, 0)], ..NodePools::default() };
        let mut views = Views::default();
        for node in 0..100_u32 {
            let name = node.to_string();
            views.add(NodeRef { name: &name, labels: &labels }, view(node % 20));
        }
        assert_eq!((views.distinct.len(), views.n_units), (20, 20 + 100 * UNITS_OF_NODE));
    }

    #[test]
    fn what_finds_no_room_is_not_kept() {
        let labels = Labels::default();
        let node = |name| NodeRef { name, labels: &labels };
        let large = |at: u32| NodePools {
            devices: vec![DeviceIdx::new(at, 0); MAX_UNITS / 2],
            ..NodePools::default()
        };
        let mut views = Views::default();
        assert!(views.add(node("a"), large(0)).1);
        assert!(views.add(node("b"), large(0)).1, "the same again takes next to nothing");
        assert!(!views.are_full());
        let (pools, is_kept) = views.add(node("c"), large(1));
        assert!(!is_kept && views.are_full());
        assert_eq!((Arc::strong_count(&pools), views.find(node("c"))), (1, None));
        assert!(views.n_units <= MAX_UNITS);
    }
}
