//! Names, identities and chances from a seed.
//!
//! Invariant: uids, name suffixes and fault decisions depend on the seed and the order of requests only.

use kube_scheduler_api_types::numbers::Numbers;

/// A sequence of numbers with what an API server makes of them; not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix(Numbers);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Numbers::new(seed))
    }

    /// Goes on with another sequence, chosen by `stream`.
    pub(crate) fn skip_to(&mut self, stream: u64) {
        self.0.skip_to(stream);
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0.0..1.0`.
    pub(crate) fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version 4 uuid in its usual text form.
    pub(crate) fn uuid(&mut self) -> String {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&self.next_u64().to_le_bytes());
        bytes[8..].copy_from_slice(&self.next_u64().to_le_bytes());
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five characters of the alphabet that `generateName` uses (no vowels, no look-alikes).
    pub(crate) fn name_suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next_u64();
        (0..5)
            .map(|_| {
                let letter = ALPHABET[(bits % ALPHABET.len() as u64) as usize];
                bits /= ALPHABET.len() as u64;
                char::from(letter)
            })
            .collect()
    }
}
