//! What nodes see of an inventory, remembered as long as that is the same: where devices can be used by many nodes, each node looks at
//! every pool of them.

use std::sync::Arc;

use kube_scheduler_api_types::Labels;
use rustc_hash::FxHashMap;

use super::NodeRef;
use super::pools::NodePools;

/// What is remembered takes at most so many units, each 16 bytes or fewer: devices, pools, and some for each node.
const MAX_UNITS: usize = 1 << 20;
const UNITS_OF_NODE: usize = 8;
/// Nodes mostly see the same as one of so many that were looked at before.
const MAX_COMPARED: usize = 8;

/// See the head of the module. Nodes with equal views share one.
#[derive(Debug, Default)]
pub(super) struct Views {
    by_node: FxHashMap<Arc<str>, View>,
    distinct: Vec<Arc<NodePools>>,
    n_units: usize,
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

    /// Remembers the view of a node, if there is room.
    pub(super) fn add(&mut self, node: NodeRef<'_>, pools: NodePools) -> Arc<NodePools> {
        let known = self.distinct.iter().rev().take(MAX_COMPARED).find(|known| ***known == pools);
        let is_new = known.is_none();
        let (pools, n_units) = match known {
            Some(known) => (known.clone(), 0),
            None => {
                let n_units = 2 * pools.pools.len() + pools.devices.len();
                (Arc::new(pools), n_units)
            }
        };
        let n_units = self.n_units + n_units + UNITS_OF_NODE;
        if n_units <= MAX_UNITS {
            self.n_units = n_units;
            if is_new {
                self.distinct.push(pools.clone());
            }
            let view = View { labels: node.labels.clone(), pools: pools.clone() };
            self.by_node.insert(node.name.into(), view);
        }
        pools
    }
}
