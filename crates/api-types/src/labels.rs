//! Label maps: immutable, sorted by key, shared between everything that carries the same ones.
//!
//! Invariant: keys are strictly increasing, so equality and iteration order depend on content alone.

use std::fmt;
use std::sync::Arc;

/// An immutable map of label (or annotation) keys to values. Cloning copies a pointer.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// The value of `key`. O(log labels).
    pub fn get(&self, key: &str) -> Option<&str> {
        self.get_shared(key).map(|value| &**value)
    }

    /// The value of `key` as the shared string it is stored as. O(log labels).
    pub fn get_shared(&self, key: &str) -> Option<&Arc<str>> {
        let at = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Whether `key` is present, whatever its value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All pairs in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (&**k, &**v))
    }

    /// All pairs in key order, as the shared strings they are stored as.
    pub fn iter_shared(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are the same allocation, and so equal. With `false` they may be equal or not.
    pub fn is_same_allocation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many share the allocation, this one included.
    pub fn n_holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Later pairs win over earlier ones with the same key.
impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Arc<str>, Arc<str>)> =
            pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        // A stable sort keeps the order of equal keys, so the last of each run is the winner.
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let mut kept: Vec<(Arc<str>, Arc<str>)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match kept.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => kept.push(pair),
            }
        }
        Self(kept.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_value_of_a_key_wins() {
        let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!(labels.get("b"), Some("3"));
        assert_eq!(labels.get("c"), None);
    }
}
