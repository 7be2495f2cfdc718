//! Numbers that look random and are a function of a seed alone (splitmix64): the same on every machine, for ever.
//!
//! For tie-breaks, simulations, fault injection and tests; not for secrets. All crates of the workspace use this one
//! generator. It is no part of what this crate promises to others.

/// What splitmix64 adds to its state from one number to the next.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of 64-bit numbers that follows from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of `seed`, at its beginning.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The `n`-th number of the sequence of `seed`, from 1 on, in constant time.
    pub const fn nth(seed: u64, n: u64) -> u64 {
        mixed(seed.wrapping_add(n.wrapping_mul(STEP)))
    }

    /// The next number of the sequence.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// Goes on with another sequence, chosen by `stream`.
    pub const fn skip_to(&mut self, stream: u64) {
        self.0 = Self::nth(self.0 ^ stream, 1);
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n.max(1)
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True in `percent` of a hundred cases on average.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Spreads a number over all 64 bits (splitmix64's finaliser); different numbers stay different.
pub const fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // Published first outputs for the seed 1234567.
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        let mut numbers = Numbers::new(1_234_567);
        for (n, expected) in (1..).zip(expected) {
            assert_eq!(numbers.next_u64(), expected);
            assert_eq!(Numbers::nth(1_234_567, n), expected);
        }
    }

    #[test]
    fn a_stream_is_a_sequence_of_its_own() {
        let (mut one, mut other) = (Numbers::new(7), Numbers::new(7));
        one.skip_to(1);
        other.skip_to(2);
        assert_ne!(one.next_u64(), other.next_u64());
    }
}
