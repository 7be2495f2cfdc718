//! Unsigned integers of any size, with just the operations quantities need.
//!
//! Invariant: no trailing zero limbs, so zero has no limbs and equal numbers have equal limbs. Sizes are bounded by
//! the caller (`MAX_DIGITS` in the parent module), which keeps the schoolbook algorithms cheap.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// The largest power of ten in a limb, and its exponent.
const LIMB_POWER: (u64, u32) = (10_000_000_000_000_000_000, 19);

/// A non-negative integer, least significant limb first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WideInteger(SmallVec<[u64; 2]>);

impl WideInteger {
    pub(super) fn from_u64(value: u64) -> Self {
        let mut wide = Self(SmallVec::from_slice(&[value]));
        wide.trim();
        wide
    }

    /// The number written in `digits`; bytes other than ASCII digits are skipped.
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Self {
        let mut wide = Self::default();
        let (mut chunk, mut scale) = (0_u64, 1_u64);
        for digit in digits.filter(u8::is_ascii_digit) {
            chunk = chunk * 10 + u64::from(digit - b'0');
            scale *= 10;
            if scale == LIMB_POWER.0 {
                wide.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        if scale > 1 {
            wide.multiply_add(scale, chunk);
        }
        wide
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The value modulo 2^64.
    pub(super) fn low_bits(&self) -> u64 {
        self.0.first().copied().unwrap_or(0)
    }

    /// The value, if 64 bits hold it.
    pub(super) fn to_u64(&self) -> Option<u64> {
        (self.0.len() <= 1).then(|| self.low_bits())
    }

    /// `self = self * factor + term`.
    fn multiply_add(&mut self, factor: u64, term: u64) {
        let mut carry = u128::from(term);
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            (*limb, carry) = (product as u64, product >> 64);
        }
        if carry > 0 {
            self.0.push(carry as u64);
        }
        self.trim();
    }

    /// `self = self * 10^exponent`.
    pub(super) fn scale_up(&mut self, exponent: u32) {
        let mut left = exponent;
        while left > 0 && !self.is_zero() {
            let step = left.min(LIMB_POWER.1);
            self.multiply_add(10_u64.pow(step), 0);
            left -= step;
        }
    }

    /// `self = self << bits`, for less than 64 bits.
    pub(super) fn shift_left(&mut self, bits: u32) {
        self.multiply_add(1_u64.checked_shl(bits).unwrap_or(0), 0);
    }

    /// Divides by `divisor`, which must not be zero, and returns the remainder.
    pub(super) fn divide(&mut self, divisor: u64) -> u64 {
        let mut remainder = 0_u128;
        for limb in self.0.iter_mut().rev() {
            let dividend = (remainder << 64) | u128::from(*limb);
            *limb = (dividend / u128::from(divisor)) as u64;
            remainder = dividend % u128::from(divisor);
        }
        self.trim();
        remainder as u64
    }

    /// `self = self / 10^exponent` rounded down; whether anything but zeros was cut off.
    pub(super) fn scale_down(&mut self, exponent: u32) -> bool {
        let (mut left, mut is_inexact) = (exponent, false);
        while left > 0 && !self.is_zero() {
            let step = left.min(LIMB_POWER.1);
            is_inexact |= self.divide(10_u64.pow(step)) != 0;
            left -= step;
        }
        is_inexact
    }

    pub(super) fn increment(&mut self) {
        self.add(&Self::from_u64(1));
    }

    pub(super) fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut carry = false;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let (sum, over_a) = limb.overflowing_add(other.0.get(at).copied().unwrap_or(0));
            let (sum, over_b) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = over_a || over_b;
        }
        if carry {
            self.0.push(1);
        }
    }

    /// `|self - other|`.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let (large, small) =
            if self.cmp(other) == Ordering::Less { (other, self) } else { (self, other) };
        let mut out = large.clone();
        let mut borrow = false;
        for (at, limb) in out.0.iter_mut().enumerate() {
            let (diff, under_a) = limb.overflowing_sub(small.0.get(at).copied().unwrap_or(0));
            let (diff, under_b) = diff.overflowing_sub(u64::from(borrow));
            *limb = diff;
            borrow = under_a || under_b;
        }
        out.trim();
        out
    }

    /// The digits in base ten; `0` for zero.
    pub(super) fn to_decimal(&self) -> String {
        let mut chunks = Vec::new();
        let mut rest = self.clone();
        while !rest.is_zero() {
            chunks.push(rest.divide(LIMB_POWER.0));
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:019}"));
        }
        text
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

impl PartialOrd for WideInteger {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WideInteger {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}
