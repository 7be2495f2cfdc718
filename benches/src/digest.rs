//! A hash over all decisions of a run: equal on every machine and for every build that makes the same decisions.

use std::fmt::{Display, Write};

/// FNV-1a over text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        Ok(())
    }
}

impl Digest {
    /// Takes in a line.
    pub(crate) fn add(&mut self, line: &impl Display) {
        // Writing to a number cannot fail.
        let _ = writeln!(self, "{line}");
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}
