//! Bounds of sizes and costs. What would overflow stays at the largest number.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) const fn exactly(value: u64) -> Self {
        Self { min: value, max: value }
    }

    /// The start of a union: the empty range, or zero if there is nothing to unite.
    pub(super) const fn none_if(has_members: bool) -> Self {
        Self { min: if has_members { u64::MAX } else { 0 }, max: 0 }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Each bound multiplied and rounded up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

fn scaled(value: u64, factor: f64) -> u64 {
    // Casts of what is too large give the largest number.
    (value as f64 * factor).ceil() as u64
}
