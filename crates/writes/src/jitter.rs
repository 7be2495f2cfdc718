//! Random numbers for pauses and names, from a seed that the caller brings.
//!
//! Invariant: nothing that is decided here can be seen in a scheduling decision.

use std::time::Duration;

use kube_scheduler_api_types::numbers::Numbers;

/// A small random generator: the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Jitter(Numbers);

impl Jitter {
    /// A generator that starts from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(Numbers::new(seed))
    }

    /// `length`, stretched by up to `share` of itself.
    pub fn stretch(&mut self, length: Duration, share: f64) -> Duration {
        length.mul_f64(1.0 + share * self.next_share())
    }

    /// A random number from 0 (included) up to 1 (excluded).
    pub fn next_share(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A UUID (version 4) in its usual form.
    pub(crate) fn next_uuid(&mut self) -> String {
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

    /// The next 64 bits of the sequence. Not for secrets.
    pub fn next_bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}
