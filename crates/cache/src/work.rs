//! What an attempt costs, in units of work, and where it has to stop.
//!
//! A unit is one comparison, one table entry or one slot of a column. Loops charge their length once, before they run where
//! it is known, so that a count costs nothing per element and is the same in every run: time is not looked at.
//!
//! Invariant: as long as an attempt is within its limit, nothing here affects an answer. Beyond the limit readers may cut
//! their work short, so whoever set the limit has to discard every answer that was given.

use std::sync::atomic::{AtomicU64, Ordering};

/// What work is done for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkKind {
    /// Counting pods by topology domain, for spread constraints and pod affinity.
    Domains,
    /// Comparing `nodeSelector` and node affinity with nodes.
    NodeSelection,
    /// Comparing a pod with the affinity terms of other pods.
    AffinityTerms,
    /// Comparing requests with what nodes have free.
    Resources,
    /// Trying nodes without some of their pods, for preemption.
    Preemption,
}

impl WorkKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Domains,
        Self::NodeSelection,
        Self::AffinityTerms,
        Self::Resources,
        Self::Preemption,
    ];

    /// What of a pod causes such work.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Domains => "topology spread constraints and pod affinity terms",
            Self::NodeSelection => "nodeSelector and node affinity terms",
            Self::AffinityTerms => "pod affinity terms of running pods that mean it",
            Self::Resources => "names of requested resources",
            Self::Preemption => "search for pods to evict",
        }
    }
}

/// The work of the attempt at hand.
#[derive(Debug)]
pub(crate) struct Work {
    spent: [AtomicU64; WorkKind::ALL.len()],
    limit: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self { spent: Default::default(), limit: u64::MAX }
    }
}

/// A fork's work is nobody's attempt.
impl Clone for Work {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The work that was done for an attempt, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDone([u64; WorkKind::ALL.len()]);

impl WorkDone {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, units| sum.saturating_add(*units))
    }

    /// The part of one kind.
    fn of(&self, kind: WorkKind) -> u64 {
        self.0[kind as usize]
    }

    /// The kind with the greatest part.
    pub fn most(&self) -> WorkKind {
        let mut most = WorkKind::ALL[0];
        for kind in WorkKind::ALL {
            if self.of(kind) > self.of(most) {
                most = kind;
            }
        }
        most
    }
}

impl Work {
    /// Starts at zero.
    pub(crate) fn begin(&mut self, limit: u64) {
        *self = Self { limit, ..Self::default() };
    }

    /// What was done since the beginning; there is no limit from here on.
    pub(crate) fn end(&mut self) -> WorkDone {
        let done = self.done();
        *self = Self::default();
        done
    }

    pub(crate) fn done(&self) -> WorkDone {
        WorkDone(self.spent.each_ref().map(|units| units.load(Ordering::Relaxed)))
    }

    #[inline]
    pub(crate) fn charge(&self, kind: WorkKind, units: usize) {
        self.spent[kind as usize].fetch_add(units as u64, Ordering::Relaxed);
    }

    /// Whether more was done than allowed.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.limit != u64::MAX && self.done().total() > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_added_up_by_kind_until_it_ends() {
        let mut work = Work::default();
        work.charge(WorkKind::Domains, 7);
        assert!(!work.is_exhausted());
        work.begin(100);
        work.charge(WorkKind::Resources, 60);
        work.charge(WorkKind::Domains, 40);
        assert!(!work.is_exhausted());
        assert!(!work.clone().is_exhausted());
        work.charge(WorkKind::Domains, 1);
        assert!(work.is_exhausted());
        let done = work.end();
        assert_eq!(
            (done.total(), done.of(WorkKind::Domains), done.most()),
            (101, 41, WorkKind::Resources)
        );
        assert!(!work.is_exhausted());
        assert_eq!(work.end(), WorkDone::default());
    }
}
