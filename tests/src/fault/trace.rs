//! What happened in a simulation, as lines and as one number.
//!
//! Invariant: the number depends on every line and on nothing else, on any machine.

use std::hash::Hasher;

use kube_scheduler_api_types::numbers::mixed;

/// FNV-1a over bytes; integers as little-endian, so that it is the same on every machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        // The last bytes must reach all bits: remainders are taken of it.
        mixed(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

/// The lines of one simulation.
#[derive(Debug, Default)]
pub(super) struct Trace {
    digest: Digest,
    /// Kept only on request.
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(super) fn new(keeps_lines: bool) -> Self {
        Self { digest: Digest::default(), lines: keeps_lines.then(Vec::new) }
    }

    pub(super) fn add(&mut self, line: String) {
        self.digest.write(line.as_bytes());
        self.digest.write(b"\n");
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.digest.finish()
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
