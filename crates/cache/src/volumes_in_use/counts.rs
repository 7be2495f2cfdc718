//! The numbers of volumes on nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::Equivalent;

use super::{FoundClaim, Standing, UsedVolume, User};
use crate::fork::CowMap;
use crate::node_table::NodeIdx;

/// A volume on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Use {
    node: NodeIdx,
    volume: UsedVolume,
}

/// A borrowed [`Use`], which hashes like it.
#[derive(Hash)]
struct BorrowedUse<'a> {
    node: NodeIdx,
    volume: &'a UsedVolume,
}

impl Equivalent<Use> for BorrowedUse<'_> {
    fn equivalent(&self, key: &Use) -> bool {
        self.node == key.node && *self.volume == key.volume
    }
}

/// By what volumes of a node are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    node: NodeIdx,
    /// By the name of a class, or else of a driver.
    is_class: bool,
    name: Arc<str>,
}

/// A borrowed [`Group`]: order and types of the fields are such that it hashes like it.
#[derive(Hash)]
struct BorrowedGroup<'a> {
    node: NodeIdx,
    is_class: bool,
    name: &'a str,
}

impl Equivalent<Group> for BorrowedGroup<'_> {
    fn equivalent(&self, key: &Group) -> bool {
        (self.node, self.is_class) == (key.node, key.is_class) && *self.name == *key.name
    }
}

/// Whether a volume is counted by its class, and the name of that or of its driver.
pub(super) fn group_of(volume: &UsedVolume) -> (bool, &Arc<str>) {
    match volume {
        UsedVolume::Existing { driver, .. } => (false, driver),
        UsedVolume::Future { class, .. } => (true, class),
    }
}

/// How often volumes are used on nodes, and how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// How many volumes of pods are each volume.
    uses: CowMap<Use, u32>,
    /// How many there are of a driver or class.
    groups: CowMap<Group, u32>,
    /// The pods by UID that have volumes that cannot be counted, with the number of these.
    broken: CowMap<NodeIdx, BTreeMap<Arc<str>, u32>>,
}

impl Counts {
    /// Counts `n` more volumes of pods on a node that are `volume` if `comes` is true; otherwise `n` fewer.
    pub(super) fn change(&mut self, node: NodeIdx, volume: &UsedVolume, n: u32, comes: bool) {
        let (is_class, name) = group_of(volume);
        if comes {
            let uses = Use { node, volume: volume.clone() };
            let uses = self.uses.get_or_insert_with(&uses, || 0);
            *uses += n;
            if *uses == n {
                let group = Group { node, is_class, name: name.clone() };
                *self.groups.get_or_insert_with(&group, || 0) += 1;
            }
        } else {
            let key = BorrowedUse { node, volume };
            let group = BorrowedGroup { node, is_class, name };
            if subtract(&mut self.uses, &key, n) {
                subtract(&mut self.groups, &group, 1);
            }
        }
    }

    /// Notes `n` more volumes of a pod that cannot be counted if `comes` is true; otherwise `n` fewer.
    pub(super) fn change_broken(&mut self, node: NodeIdx, uid: &Arc<str>, n: u32, comes: bool) {
        if comes {
            let pods = self.broken.get_or_insert_with(&node, BTreeMap::new);
            *pods.entry(uid.clone()).or_default() += n;
        } else if let Some(pods) = self.broken.get_mut(&node)
            && let Some(left) = pods.get_mut(uid)
        {
            *left -= n;
            if *left == 0 {
                pods.remove(uid);
            }
            if pods.is_empty() {
                self.broken.remove(&node);
            }
        }
    }

    /// Counts `n` more volumes of a user of a claim as what the claim stands for if `comes` is true; otherwise `n` fewer.
    pub(super) fn change_user(&mut self, user: &User, n: u32, found: &FoundClaim, comes: bool) {
        match (found.standing(user.made_for.as_deref()), &user.made_for) {
            (Standing::Used(volume), _) => self.change(user.node, volume, n, comes),
            (Standing::Broken, Some(uid)) => self.change_broken(user.node, uid, n, comes),
            _ => {}
        }
    }

    /// How many volumes of pods on a node are this volume.
    pub(super) fn n_uses(&self, node: NodeIdx, volume: &UsedVolume) -> u32 {
        self.uses.get(&BorrowedUse { node, volume }).copied().unwrap_or(0)
    }

    /// How many volumes on a node are of a driver or class.
    pub(super) fn n_of(&self, node: NodeIdx, is_class: bool, name: &str) -> u32 {
        self.groups.get(&BorrowedGroup { node, is_class, name }).copied().unwrap_or(0)
    }

    /// The pods on a node that have volumes that cannot be counted.
    pub(super) fn broken_on(&self, node: NodeIdx) -> Option<&BTreeMap<Arc<str>, u32>> {
        self.broken.get(&node)
    }

    pub(super) fn len(&self) -> usize {
        self.uses.len() + self.groups.len() + self.broken.len()
    }
}

/// Takes `n` off a count. True if nothing is left of it.
fn subtract<K, Q>(counts: &mut CowMap<K, u32>, key: &Q, n: u32) -> bool
where
    K: std::hash::Hash + Eq + Clone,
    Q: std::hash::Hash + Equivalent<K>,
{
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= n;
    *count == 0 && counts.remove(key).is_some()
}
