//! Label maps: immutable, sorted by key, shared between everything that carries the same ones.
//!
//! Invariant: keys are strictly increasing, so equality and iteration order depend on content alone.

mod packed;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use self::packed::{PackedPairs, PackedTexts};

/// More pairs than these are [`PackedTexts`]. Pods have fewer as a rule, and with an allocation for each text they would take four
/// times as many bytes as in JSON.
const MANY: usize = 256;

/// An immutable map of label (or annotation) keys to values. Cloning copies a pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Pairs);

/// Which of them it is follows from the number of pairs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Pairs {
    /// Texts that other objects may have in common.
    Shared(Arc<[(Arc<str>, Arc<str>)]>),
    Packed(Arc<PackedTexts>),
}

impl Default for Labels {
    fn default() -> Self {
        Self(Pairs::Shared(Arc::default()))
    }
}

impl Labels {
    /// The value of `key`. O(log labels).
    pub fn get(&self, key: &str) -> Option<&str> {
        match &self.0 {
            Pairs::Shared(pairs) => find(pairs, key).map(|value| &**value),
            Pairs::Packed(packed) => packed.get(key),
        }
    }

    /// The value of `key` as the shared string it is stored as, or a copy of one among very many. O(log labels).
    pub fn get_shared(&self, key: &str) -> Option<Cow<'_, Arc<str>>> {
        match &self.0 {
            Pairs::Shared(pairs) => find(pairs, key).map(Cow::Borrowed),
            Pairs::Packed(packed) => packed.get(key).map(|value| Cow::Owned(value.into())),
        }
    }

    /// Whether `key` is present, whatever its value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All pairs in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        match &self.0 {
            Pairs::Shared(pairs) => Iter::Shared(pairs.iter()),
            Pairs::Packed(packed) => Iter::Packed(packed.iter()),
        }
    }

    /// All pairs in key order, as the shared strings they are stored as, or copies if there are very many.
    pub fn iter_shared(&self) -> impl Iterator<Item = (Cow<'_, Arc<str>>, Cow<'_, Arc<str>>)> {
        let (shared, packed) = match &self.0 {
            Pairs::Shared(pairs) => (Some(pairs.iter()), None),
            Pairs::Packed(packed) => (None, Some(packed.iter())),
        };
        let shared = shared.into_iter().flatten();
        let shared = shared.map(|(key, value)| (Cow::Borrowed(key), Cow::Borrowed(value)));
        let packed = packed.into_iter().flatten();
        shared.chain(packed.map(|(key, value)| (Cow::Owned(key.into()), Cow::Owned(value.into()))))
    }

    /// The strings it is stored as, which others may share; `None` if there are very many.
    pub fn shared_pairs(&self) -> Option<&[(Arc<str>, Arc<str>)]> {
        match &self.0 {
            Pairs::Shared(pairs) => Some(pairs),
            Pairs::Packed(_) => None,
        }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        match &self.0 {
            Pairs::Shared(pairs) => pairs.len(),
            Pairs::Packed(packed) => packed.len(),
        }
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both are the same allocation, and so equal. With `false` they may be equal or not.
    pub fn is_same_allocation(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Pairs::Shared(own), Pairs::Shared(other)) => Arc::ptr_eq(own, other),
            (Pairs::Packed(own), Pairs::Packed(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// Where the allocation is: another one of equal content is elsewhere, one of other content may be there once this one is gone.
    pub fn address(&self) -> usize {
        match &self.0 {
            Pairs::Shared(pairs) => Arc::as_ptr(pairs).addr(),
            Pairs::Packed(packed) => Arc::as_ptr(packed).addr(),
        }
    }

    /// How many share the allocation, this one included.
    pub fn n_holders(&self) -> usize {
        match &self.0 {
            Pairs::Shared(pairs) => Arc::strong_count(pairs),
            Pairs::Packed(packed) => Arc::strong_count(packed),
        }
    }
}

fn find<'a>(pairs: &'a [(Arc<str>, Arc<str>)], key: &str) -> Option<&'a Arc<str>> {
    let at = pairs.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
    pairs.get(at).map(|(_, value)| value)
}

enum Iter<'a> {
    Shared(std::slice::Iter<'a, (Arc<str>, Arc<str>)>),
    Packed(PackedPairs<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Shared(pairs) => pairs.next().map(|(key, value)| (&**key, &**value)),
            Self::Packed(pairs) => pairs.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Shared(pairs) => pairs.size_hint(),
            Self::Packed(pairs) => pairs.size_hint(),
        }
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
        if kept.len() > MANY {
            return Self(Pairs::Packed(Arc::new(kept.iter().map(|(k, v)| (&**k, &**v)).collect())));
        }
        Self(Pairs::Shared(kept.into()))
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

    #[test]
    fn few_and_very_many_pairs_read_alike() {
        for n in [MANY, MANY + 1, 5000] {
            let key = |at: usize| format!("example.com/{}", at * 7919 % 10_007);
            let labels: Labels = (0..n).map(|at| (key(at), format!("v{at}"))).collect();
            let model: std::collections::BTreeMap<String, String> =
                (0..n).map(|at| (key(at), format!("v{at}"))).collect();
            assert_eq!((labels.len(), labels.shared_pairs().is_some()), (n, n <= MANY));
            assert!(labels.iter().eq(model.iter().map(|(k, v)| (&**k, &**v))));
            assert!(
                labels.iter_shared().map(|(k, v)| (k.to_string(), v.to_string())).eq(model.clone())
            );
            for (key, value) in &model {
                assert_eq!(labels.get(key), Some(&**value));
                assert_eq!(labels.get_shared(key).as_deref().map(|value| &**value), Some(&**value));
                assert_eq!(labels.get(&format!("{key}x")), None);
            }
            assert_eq!((labels.get(""), labels.get("~")), (None, None));
            let again: Labels = model.iter().map(|(k, v)| (&**k, &**v)).collect();
            assert!(labels == again && !labels.is_same_allocation(&again));
            assert!(labels.address() != again.address());
            assert_eq!(labels.address(), labels.clone().address());
            let other: Labels = model.keys().map(|key| (&**key, "")).collect();
            assert!(labels != other && labels.clone().is_same_allocation(&labels));
        }
    }
}
