//! A vector in copy-on-write chunks.
//!
//! Invariants: every chunk holds exactly `CHUNK` values, those past `len` being `T::default()`; `CHUNK` is a power of
//! two, so that an index splits by shift and mask.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// Values per chunk of a column of numbers by node slot. A larger chunk makes forks and scans cheaper, and the first
/// write to it after a fork dearer (`bench micro columns`).
pub const COLUMN_CHUNK: usize = 1024;

/// Values per chunk of a column of wide values, such as objects or lists: fewer values for as many bytes as with [`COLUMN_CHUNK`].
pub(crate) const WIDE_CHUNK: usize = 128;

/// Values per chunk of a column that is mostly blank, or of which there are many: blank chunks share their memory, and large ones are
/// rarely blank.
pub(crate) const SPARSE_CHUNK: usize = 64;

/// A vector whose clone shares its content chunk by chunk.
///
/// Reading costs two bounds checks. Writing costs one check whether the chunk is shared, and a copy of `CHUNK` values
/// the first time it is. Cloning costs `len / CHUNK` reference counts.
pub struct Column<T, const CHUNK: usize = COLUMN_CHUNK> {
    chunks: Vec<Arc<[T; CHUNK]>>,
    len: usize,
}

impl<T, const CHUNK: usize> Column<T, CHUNK> {
    /// An empty column.
    pub(crate) const fn new() -> Self {
        const { assert!(CHUNK.is_power_of_two()) };
        Self { chunks: Vec::new(), len: 0 }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at `idx`. Like `Vec`'s index, `idx` has to be below [`len`](Self::len).
    #[inline]
    pub fn get(&self, idx: impl Into<usize>) -> T
    where
        T: Copy,
    {
        self[idx.into()]
    }

    /// The value at `idx`, `None` past the end.
    pub(crate) fn try_get(&self, idx: impl Into<usize>) -> Option<&T> {
        let idx = idx.into();
        if idx < self.len { Some(&self.chunks.get(idx / CHUNK)?[idx % CHUNK]) } else { None }
    }

    /// The chunk that holds the values from `at * CHUNK` on; those past [`len`](Self::len) are the default. `None` past
    /// the end. For loops that look up many values of one chunk.
    #[inline]
    pub fn chunk(&self, at: usize) -> Option<&[T; CHUNK]> {
        self.chunks.get(at).map(|chunk| &**chunk)
    }

    /// The content as slices of up to `CHUNK` values, in order: the form for vectorised scans.
    pub fn chunks(&self) -> impl DoubleEndedIterator<Item = &[T]> + ExactSizeIterator {
        let len = self.len;
        let n_chunks = len.div_ceil(CHUNK);
        self.chunks[..n_chunks]
            .iter()
            .enumerate()
            .map(move |(at, chunk)| &chunk[..CHUNK.min(len - at * CHUNK)])
    }

    /// All values in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks().flatten()
    }
}

impl<T: Clone + Default, const CHUNK: usize> Column<T, CHUNK> {
    /// A place to write to. Copies the chunk if a fork shares it.
    #[inline]
    pub(crate) fn get_mut(&mut self, idx: impl Into<usize>) -> &mut T {
        let idx = idx.into();
        debug_assert!(idx < self.len, "index {idx} in a column of {}", self.len);
        &mut Arc::make_mut(&mut self.chunks[idx / CHUNK])[idx % CHUNK]
    }

    /// Replaces the value at `idx`.
    #[inline]
    pub(crate) fn set(&mut self, idx: impl Into<usize>, value: T) {
        *self.get_mut(idx) = value;
    }

    /// Takes the value at `idx` and leaves the default.
    pub(crate) fn take(&mut self, idx: impl Into<usize>) -> T {
        std::mem::take(self.get_mut(idx))
    }

    /// Grows to `len` with default values, or drops all values from there on and the chunks that have no others.
    pub(crate) fn resize(&mut self, len: usize) {
        if len >= self.len {
            return self.grow(len);
        }
        let n_chunks = len.div_ceil(CHUNK);
        self.chunks.truncate(n_chunks);
        let first = len % CHUNK;
        if let Some(last) = self.chunks.last_mut().filter(|_| first > 0) {
            let end = CHUNK.min(self.len - (n_chunks - 1) * CHUNK);
            Arc::make_mut(last)[first..end].fill(T::default());
        }
        self.len = len;
    }

    /// Grows to `len` with default values. Never shrinks. New chunks share one allocation until they are written to.
    pub(crate) fn grow(&mut self, len: usize) {
        let n_missing = len.div_ceil(CHUNK).saturating_sub(self.chunks.len());
        if n_missing > 0 {
            let blank = Arc::new(std::array::from_fn(|_| T::default()));
            self.chunks.extend(std::iter::repeat_n(blank, n_missing));
        }
        self.len = self.len.max(len);
    }

    /// Appends a value.
    pub(crate) fn push(&mut self, value: T) {
        let idx = self.len;
        self.grow(idx + 1);
        self.set(idx, value);
    }

    /// Removes the last value. One chunk without values may stay allocated.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let value = self.take(last);
        self.len = last;
        self.chunks.truncate(last.div_ceil(CHUNK) + 1);
        Some(value)
    }
}

impl<T, const CHUNK: usize> Index<usize> for Column<T, CHUNK> {
    type Output = T;

    #[inline]
    fn index(&self, idx: usize) -> &T {
        debug_assert!(idx < self.len, "index {idx} in a column of {}", self.len);
        &self.chunks[idx / CHUNK][idx % CHUNK]
    }
}

impl<T, const CHUNK: usize> Clone for Column<T, CHUNK> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T, const CHUNK: usize> Default for Column<T, CHUNK> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: PartialEq, const CHUNK: usize> PartialEq for Column<T, CHUNK> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.chunks().eq(other.chunks())
    }
}

impl<T: fmt::Debug, const CHUNK: usize> fmt::Debug for Column<T, CHUNK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Clone + Default, const CHUNK: usize> FromIterator<T> for Column<T, CHUNK> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter().fuse();
        let mut column = Self::new();
        loop {
            let len = column.len;
            let chunk = std::array::from_fn(|_| match values.next() {
                Some(value) => {
                    column.len += 1;
                    value
                }
                None => T::default(),
            });
            if column.len > len {
                column.chunks.push(Arc::new(chunk));
            }
            if column.len < len + CHUNK {
                return column;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Push(u16),
        Pop,
        Set(usize, u16),
        Grow(usize),
        Resize(usize),
        Fork,
        SwapFork,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => any::<u16>().prop_map(Op::Push),
            1 => Just(Op::Pop),
            4 => (any::<usize>(), any::<u16>()).prop_map(|(at, value)| Op::Set(at, value)),
            1 => (0_usize..40).prop_map(Op::Grow),
            2 => (0_usize..40).prop_map(Op::Resize),
            1 => Just(Op::Fork),
            1 => Just(Op::SwapFork),
        ]
    }

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        /// Two columns that were forked from each other behave like two vectors.
        #[test]
        fn behaves_like_a_vector_that_is_copied(ops in prop::collection::vec(op(), 0..120)) {
            let mut column: Column<u16, 4> = Column::new();
            let mut model: Vec<u16> = Vec::new();
            let (mut other, mut other_model) = (column.clone(), model.clone());
            for op in ops {
                match op {
                    Op::Push(value) => {
                        column.push(value);
                        model.push(value);
                    }
                    Op::Pop => prop_assert_eq!(column.pop(), model.pop()),
                    Op::Set(at, value) => {
                        if let Some(at) = at.checked_rem(model.len()) {
                            column.set(at, value);
                            model[at] = value;
                        }
                    }
                    Op::Grow(len) => {
                        column.grow(len);
                        model.resize(len.max(model.len()), 0);
                    }
                    Op::Resize(len) => {
                        column.resize(len);
                        model.resize(len, 0);
                        prop_assert_eq!(column.chunks.len(), len.div_ceil(4));
                    }
                    Op::Fork => (other, other_model) = (column.clone(), model.clone()),
                    Op::SwapFork => {
                        std::mem::swap(&mut column, &mut other);
                        std::mem::swap(&mut model, &mut other_model);
                    }
                }
                prop_assert!(column.iter().eq(&model));
                prop_assert!(other.iter().eq(&other_model));
                prop_assert_eq!(column.chunks().map(<[u16]>::len).sum::<usize>(), model.len());
                for (at, value) in model.iter().enumerate() {
                    prop_assert_eq!(column.get(at), *value);
                }
                prop_assert_eq!(column.try_get(model.len()), None);
            }
        }
    }

    #[test]
    fn a_write_after_a_fork_copies_one_chunk() {
        let column: Column<u32, 4> = (0..12).collect();
        let mut fork = column.clone();
        fork.set(5_usize, 99);
        let shared: Vec<bool> =
            column.chunks().zip(fork.chunks()).map(|(a, b)| std::ptr::eq(a, b)).collect();
        assert_eq!(shared, [true, false, true]);
        assert_eq!((column.get(5_usize), fork.get(5_usize)), (5, 99));
    }
}
