//! Nodes by zone, and the order in which they are listed (`docs/spec/core.md` §14.1).
//!
//! Invariants: zones are in order of first insertion, an emptied zone is gone; nodes of a zone are in insertion order;
//! a node whose zone changed is the last one of its new zone. Answers to the reference's node tree.

use std::sync::Arc;

use kube_scheduler_api_types::KeyedMap;

use crate::node_table::NodeIdx;

/// A place in a zone's list from which a node was removed.
const GONE: u32 = u32::MAX;

/// The node tree. Insertion and removal are O(1), listing is O(nodes + zones).
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTree {
    zones: Vec<Zone>,
    free: Vec<u32>,
    by_key: KeyedMap<Arc<str>, u32>,
    /// Zone numbers in order of first insertion; emptied ones are gone.
    zone_order: Vec<u32>,
    places: Vec<Place>,
    n_nodes: usize,
}

#[derive(Clone, Debug, Default)]
struct Zone {
    key: Arc<str>,
    nodes: Vec<u32>,
    n_live: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    zone: u32,
    at: u32,
}

impl Place {
    const NONE: Self = Self { zone: GONE, at: GONE };
}

impl NodeTree {
    pub(crate) fn n_nodes(&self) -> usize {
        self.n_nodes
    }

    /// The zone key of a node that is in the tree.
    pub(crate) fn zone_key(&self, node: NodeIdx) -> Option<&str> {
        let place = self.places.get(node.index()).filter(|place| place.zone != GONE)?;
        self.zones.get(place.zone as usize).map(|zone| &*zone.key)
    }

    /// Puts a node into a zone, out of the one it was in. Nothing happens when it is there already.
    pub(crate) fn insert(&mut self, node: NodeIdx, zone_key: &str) {
        match self.zone_key(node) {
            Some(current) if current == zone_key => return,
            Some(_) => self.remove(node),
            None => {}
        }
        let number = match self.by_key.get(zone_key) {
            Some(number) => *number,
            None => self.add_zone(zone_key),
        };
        let zone = &mut self.zones[number as usize];
        if self.places.len() <= node.index() {
            self.places.resize(node.index() + 1, Place::NONE);
        }
        self.places[node.index()] = Place { zone: number, at: zone.nodes.len() as u32 };
        zone.nodes.push(node.index() as u32);
        zone.n_live += 1;
        self.n_nodes += 1;
    }

    pub(crate) fn remove(&mut self, node: NodeIdx) {
        let Some(place) = self.places.get_mut(node.index()) else { return };
        let Place { zone: number, at } = std::mem::replace(place, Place::NONE);
        let Some(zone) = self.zones.get_mut(number as usize) else { return };
        zone.nodes[at as usize] = GONE;
        zone.n_live -= 1;
        self.n_nodes -= 1;
        if zone.n_live == 0 {
            self.drop_zone(number);
        } else if zone.nodes.len() > 2 * zone.n_live {
            // Once they outnumber the living, so that removal is O(1) on average.
            sweep(zone, &mut self.places);
        }
    }

    /// The round-robin order: the first node of every zone, then the second of every zone, and so on.
    pub(crate) fn list(&self) -> Vec<NodeIdx> {
        let mut order = Vec::with_capacity(self.n_nodes);
        let mut zones: Vec<_> = self
            .zone_order
            .iter()
            .map(|number| {
                self.zones[*number as usize].nodes.iter().copied().filter(|idx| *idx != GONE)
            })
            .collect();
        while order.len() < self.n_nodes {
            zones.retain_mut(|nodes| match nodes.next() {
                Some(idx) => {
                    order.push(NodeIdx::from_index(idx as usize));
                    true
                }
                None => false,
            });
        }
        order
    }

    fn add_zone(&mut self, zone_key: &str) -> u32 {
        let key: Arc<str> = zone_key.into();
        let zone = Zone { key: key.clone(), ..Zone::default() };
        let number = match self.free.pop() {
            Some(number) => {
                self.zones[number as usize] = zone;
                number
            }
            None => {
                self.zones.push(zone);
                (self.zones.len() - 1) as u32
            }
        };
        self.by_key.insert(key, number);
        self.zone_order.push(number);
        number
    }

    fn drop_zone(&mut self, number: u32) {
        let zone = std::mem::take(&mut self.zones[number as usize]);
        self.by_key.remove(&zone.key);
        self.zone_order.retain(|other| *other != number);
        self.free.push(number);
    }
}

fn sweep(zone: &mut Zone, places: &mut [Place]) {
    zone.nodes.retain(|idx| *idx != GONE);
    for (at, idx) in zone.nodes.iter().enumerate() {
        places[*idx as usize].at = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(zones: &[(&str, &[usize])]) -> NodeTree {
        let mut tree = NodeTree::default();
        for (zone, nodes) in zones {
            for idx in *nodes {
                tree.insert(NodeIdx::from_index(*idx), zone);
            }
        }
        tree
    }

    fn listed(tree: &NodeTree) -> Vec<usize> {
        tree.list().into_iter().map(NodeIdx::index).collect()
    }

    const EXAMPLE: &[(&str, &[usize])] =
        &[("A", &[0]), ("B", &[1]), ("C", &[2]), ("D", &[3, 4]), ("E", &[5]), ("F", &[6, 7, 8])];

    #[test]
    fn lists_zones_in_turns() {
        assert_eq!(listed(&tree(EXAMPLE)), [0, 1, 2, 3, 5, 6, 4, 7, 8]);
    }

    #[test]
    fn an_emptied_zone_comes_back_last() {
        let mut tree = tree(EXAMPLE);
        tree.remove(NodeIdx::from_index(1));
        assert_eq!(listed(&tree), [0, 2, 3, 5, 6, 4, 7, 8]);
        tree.insert(NodeIdx::from_index(1), "B");
        assert_eq!(listed(&tree), [0, 2, 3, 5, 6, 1, 4, 7, 8]);
    }

    #[test]
    fn a_node_that_moves_is_last_in_its_new_zone() {
        let mut tree = tree(EXAMPLE);
        tree.insert(NodeIdx::from_index(3), "F");
        assert_eq!(tree.zone_key(NodeIdx::from_index(3)), Some("F"));
        assert_eq!(listed(&tree), [0, 1, 2, 4, 5, 6, 7, 8, 3]);
        tree.insert(NodeIdx::from_index(3), "F");
        assert_eq!(tree.n_nodes(), 9);
    }

    #[test]
    fn sweeping_keeps_the_order() {
        let mut tree = NodeTree::default();
        for idx in 0..1000 {
            tree.insert(NodeIdx::from_index(idx), "z");
        }
        for idx in (0..1000).filter(|idx| idx % 7 != 0) {
            tree.remove(NodeIdx::from_index(idx));
        }
        tree.insert(NodeIdx::from_index(1), "z");
        tree.remove(NodeIdx::from_index(7));
        let expected: Vec<usize> =
            (0..1000).filter(|idx| idx % 7 == 0 && *idx != 7).chain([1]).collect();
        assert_eq!(listed(&tree), expected);
        assert!(tree.zones[0].nodes.len() < 500);
    }
}
