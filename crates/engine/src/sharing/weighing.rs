//! Hash and size of a part, found in one pass over its content.

use std::hash::{BuildHasher, Hasher};

use kube_scheduler_api_types::KeyedState;

use super::Part;

/// What a part takes beside its content: a pointer or two with counts, and its place in the table.
const OVERHEAD: usize = 48;

/// The hash and the size of a part. Both have 32 bits only, as a table keeps them for every part, and there may be as many parts as
/// different texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartDigest {
    pub(super) hash: u32,
    n_bytes: u32,
}

impl PartDigest {
    /// What the part takes, about, in bytes.
    pub(super) const fn n_bytes(self) -> usize {
        self.n_bytes as usize
    }
}

/// Hashes and measures a part. O(its content).
pub(super) fn weigh<T: Part>(part: &T) -> PartDigest {
    let mut hasher =
        ContentHasher { hasher: KeyedState::default().build_hasher(), n_bytes: OVERHEAD };
    part.hash_content(&mut hasher);
    PartDigest {
        hash: hasher.hasher.finish() as u32,
        n_bytes: u32::try_from(hasher.n_bytes).unwrap_or(u32::MAX),
    }
}

/// The hash by which a table places a part: its highest bits and its lowest count.
pub(super) const fn place(weighed: PartDigest) -> u64 {
    (weighed.hash as u64) << 32 | weighed.hash as u64
}

/// Hashes content, and counts how much there is.
pub(super) struct ContentHasher {
    hasher: <KeyedState as BuildHasher>::Hasher,
    n_bytes: usize,
}

/// Numbers are handed on as such: the hasher is faster with them than with bytes.
macro_rules! numbers {
    ($($write:ident: $number:ty),* $(,)?) => {$(
        #[inline]
        fn $write(&mut self, number: $number) {
            self.n_bytes += size_of::<$number>();
            self.hasher.$write(number);
        }
    )*};
}

impl Hasher for ContentHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.n_bytes += bytes.len();
        self.hasher.write(bytes);
    }

    numbers!(write_u8: u8, write_u16: u16, write_u32: u32, write_u64: u64, write_u128: u128, write_usize: usize);

    fn finish(&self) -> u64 {
        self.hasher.finish()
    }
}
