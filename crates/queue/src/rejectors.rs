//! Plugins that may reject pods: their names as small numbers, and sets of those.
//!
//! Invariant: a [`RejectorSet`] is sorted and has no duplicates, so equal sets are equal values and every walk over one has
//! the same order.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A plugin that may reject pods, or [all extenders](crate::EXTENDER_PLUGIN): its name's number within one queue, the same for
/// every profile. Numbers are given in the order in which names are first mentioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RejectorId(u16);

impl RejectorId {
    /// The number as an index into tables by rejector.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A small sorted set of rejectors.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RejectorSet(SmallVec<[RejectorId; 8]>);

impl Clone for RejectorSet {
    #[inline]
    fn clone(&self) -> Self {
        // At once, and not number by number. Most sets are empty.
        if self.is_empty() { Self::new() } else { Self(SmallVec::from_slice(&self.0)) }
    }
}

impl RejectorSet {
    /// The empty set.
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Adds `plugin`; false if it was there already.
    pub fn insert(&mut self, plugin: RejectorId) -> bool {
        match self.0.binary_search(&plugin) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, plugin);
                true
            }
        }
    }

    /// Whether `plugin` is in the set.
    pub fn contains(&self, plugin: RejectorId) -> bool {
        self.0.binary_search(&plugin).is_ok()
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = RejectorId> + '_ {
        self.0.iter().copied()
    }

    /// Removes every member.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The members of either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.extend(other.iter());
        all
    }
}

impl Extend<RejectorId> for RejectorSet {
    fn extend<I: IntoIterator<Item = RejectorId>>(&mut self, plugins: I) {
        for plugin in plugins {
            self.insert(plugin);
        }
    }
}

impl FromIterator<RejectorId> for RejectorSet {
    fn from_iter<I: IntoIterator<Item = RejectorId>>(plugins: I) -> Self {
        let mut set = Self::new();
        set.extend(plugins);
        set
    }
}

/// Names and numbers of plugins, both ways.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginNames {
    names: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, RejectorId>,
}

impl PluginNames {
    /// The number of `name`, a new one if it has none yet.
    ///
    /// There are at most as many plugins as the program has, far from 65,535; should a caller intern made-up names
    /// without end, all beyond the limit share the last number.
    pub(crate) fn intern(&mut self, name: &str) -> RejectorId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let Some(id) =
            u16::try_from(self.names.len()).ok().filter(|&id| id < u16::MAX).map(RejectorId)
        else {
            return RejectorId(u16::MAX - 1);
        };
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    /// The name of `plugin`, empty for a number of another queue.
    pub(crate) fn name(&self, plugin: RejectorId) -> &str {
        self.names.get(plugin.index()).map_or("", |name| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sorted_whatever_the_order_of_insertion() {
        let set: RejectorSet = [3, 1, 2, 1].into_iter().map(RejectorId).collect();
        assert_eq!(set.iter().map(RejectorId::index).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(set, [1, 2, 3].into_iter().map(RejectorId).collect());
        assert_eq!(set.union(&[9].into_iter().map(RejectorId).collect()).len(), 4);
    }

    #[test]
    fn names_keep_their_number() {
        let mut names = PluginNames::default();
        let fit = names.intern("Fit");
        let nameless = names.intern("");
        assert_eq!(names.intern("Fit"), fit);
        assert_eq!((names.name(fit), names.name(nameless)), ("Fit", ""));
    }
}
