//! Random numbers for pauses and names, from a seed that the caller brings.
//!
//! Invariant: nothing that is decided here can be seen in a scheduling decision.

use std::time::Duration;

/// A small random generator (SplitMix64): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// A generator that starts from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// `length`, stretched by up to `share` of itself.
    pub fn stretch(&mut self, length: Duration, share: f64) -> Duration {
        length.mul_f64(1.0 + share * self.next_share())
    }

    /// A number from 0 up to 1.
    pub fn next_share(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A UUID (version 4) in its usual form.
    pub fn next_uuid(&mut self) -> String {
        let (high, low) = (self.next_bits(), self.next_bits());
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// 64 random bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
