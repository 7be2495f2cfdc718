//! Requirements that are so many that labels are looked up among them, instead of each of them among the labels: a pod has few
//! labels, and a selector may list thousands of keys that it must not have.
//!
//! Invariant: the answer is that of one requirement after the other.

#[cfg(test)]
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::requirement::Requirement;
use crate::labels::Labels;

/// Labels are looked up among more requirements than these. Fewer are only kept in a list, which takes less memory: by the steps that
/// [`matches`](ManyRequirements::matches) counts, comparing all of them is no dearer from four labels on.
pub(super) const FEW: usize = 16;

/// More than [`FEW`] requirements.
#[derive(Debug)]
pub(super) struct ManyRequirements {
    requirements: Arc<[Requirement]>,
    by_key: OnceLock<ByKey>,
    /// How many single requirements were compared.
    #[cfg(test)]
    pub(super) n_compared: AtomicU32,
}

/// The requirements by the key that they are about.
#[derive(Debug)]
struct ByKey {
    /// Their positions, sorted by key.
    sorted: Box<[u32]>,
    /// How many need a label to be there.
    n_needing: usize,
    /// How many are about the same key, at most.
    most_about_one: usize,
}

impl ManyRequirements {
    pub(super) fn new(requirements: Arc<[Requirement]>) -> Self {
        Self {
            requirements,
            by_key: OnceLock::new(),
            #[cfg(test)]
            n_compared: AtomicU32::new(0),
        }
    }

    pub(super) const fn requirements(&self) -> &Arc<[Requirement]> {
        &self.requirements
    }

    /// How many are about the same key, at most.
    pub(super) fn most_about_one(&self) -> usize {
        self.by_key().most_about_one
    }

    /// Whether `labels` fulfil every requirement. O(labels × log requirements), and the requirements about one of the labels;
    /// O(requirements × log labels) if the requirements are fewer than those steps. The first look-up sorts the requirements.
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        let n = self.requirements.len();
        let n_steps = labels.len().saturating_mul((usize::BITS - n.leading_zeros()) as usize);
        if n_steps >= n { self.match_one_by_one(labels) } else { self.match_looked_up(labels) }
    }

    fn match_one_by_one(&self, labels: &Labels) -> bool {
        self.requirements
            .iter()
            .all(|requirement| self.compare(requirement, labels.get(&requirement.key)))
    }

    /// Requirements about labels that are not there hold, unless they need them.
    fn match_looked_up(&self, labels: &Labels) -> bool {
        let by_key = self.by_key();
        let mut n_needed = 0;
        for (key, value) in labels.iter() {
            for requirement in self.about(by_key, key) {
                if !self.compare(requirement, Some(value)) {
                    return false;
                }
                n_needed += usize::from(needs_label(requirement));
            }
        }
        n_needed == by_key.n_needing
    }

    /// The requirements about a key.
    fn about<'a>(
        &'a self,
        by_key: &'a ByKey,
        key: &'a str,
    ) -> impl Iterator<Item = &'a Requirement> {
        let start = by_key.sorted.partition_point(|at| &*self.at(*at).key < key);
        let from_there = by_key.sorted.iter().skip(start).map(|at| self.at(*at));
        from_there.take_while(move |requirement| *requirement.key == *key)
    }

    fn at(&self, at: u32) -> &Requirement {
        &self.requirements[at as usize]
    }

    fn compare(&self, requirement: &Requirement, value: Option<&str>) -> bool {
        #[cfg(test)]
        self.n_compared.fetch_add(1, Ordering::Relaxed);
        requirement.matches_value(value)
    }

    fn by_key(&self) -> &ByKey {
        self.by_key.get_or_init(|| {
            let mut sorted: Box<[u32]> = (0..self.requirements.len() as u32).collect();
            sorted.sort_by(|one, other| self.at(*one).key.cmp(&self.at(*other).key));
            let about_one = sorted.chunk_by(|one, other| self.at(*one).key == self.at(*other).key);
            let most_about_one = about_one.map(<[u32]>::len).max().unwrap_or(0);
            let n_needing = self.requirements.iter().filter(|it| needs_label(it)).count();
            ByKey { sorted, n_needing, most_about_one }
        })
    }
}

/// Whether a requirement does not hold where its label is not there.
fn needs_label(requirement: &Requirement) -> bool {
    !requirement.matches_value(None)
}
