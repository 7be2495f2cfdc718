//! A pool of vectors over all nodes. Reusing them avoids allocating memory of this size thousands of times a second, which the
//! system would have to zero each time.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// A pool of vectors that are not in use. See the head of the module.
pub struct VecPool<T>(Mutex<Vec<Vec<T>>>);

impl<T> VecPool<T> {
    /// How many vectors are kept: those of two scans with all plugins.
    const MANY: usize = 32;

    /// An empty pool, to be shared by all users of it.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A vector with room for `len` values and unspecified content. It returns to the pool when it is dropped.
    pub fn lend(self: &Arc<Self>, len: usize) -> PooledVec<T> {
        let spare = self.0.lock().ok().and_then(|mut spare| spare.pop());
        // Scans differ in length: with room for more than this one asks for, it serves the others too.
        let vector = spare
            .filter(|vector| vector.capacity() >= len)
            .unwrap_or_else(|| Vec::with_capacity(len.next_power_of_two()));
        PooledVec { vector, home: Some(self.clone()) }
    }

    /// A vector with `len` values, all of them `value`.
    pub fn lend_filled(self: &Arc<Self>, value: T, len: usize) -> PooledVec<T>
    where
        T: Clone,
    {
        let mut lent = self.lend(len);
        lent.clear();
        lent.resize(len, value);
        lent
    }

    fn take_back(&self, vector: Vec<T>) {
        if vector.capacity() > 0
            && let Ok(mut spare) = self.0.lock()
            && spare.len() < Self::MANY
        {
            spare.push(vector);
        }
    }
}

impl<T> Default for VecPool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for VecPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VecPool").finish_non_exhaustive()
    }
}

/// A vector that returns to its pool when it is dropped; a plain vector if it has no pool.
pub struct PooledVec<T> {
    vector: Vec<T>,
    home: Option<Arc<VecPool<T>>>,
}

impl<T> From<Vec<T>> for PooledVec<T> {
    fn from(vector: Vec<T>) -> Self {
        Self { vector, home: None }
    }
}

impl<T> Default for PooledVec<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> Drop for PooledVec<T> {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.take_back(std::mem::take(&mut self.vector));
        }
    }
}

impl<T> Deref for PooledVec<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.vector
    }
}

impl<T> DerefMut for PooledVec<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.vector
    }
}

impl<T: Clone> Clone for PooledVec<T> {
    /// A plain vector with the same content.
    fn clone(&self) -> Self {
        self.vector.clone().into()
    }
}

impl<T: fmt::Debug> fmt::Debug for PooledVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.vector.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_lent_again() {
        let spare: Arc<VecPool<u32>> = VecPool::new();
        let lent = spare.lend_filled(7, 100);
        let (at, room) = (lent.as_ptr(), lent.capacity());
        let copy = lent.clone();
        drop(lent);
        let again = spare.lend(90);
        assert_eq!((again.as_ptr(), again.capacity()), (at, room));
        assert_eq!(*copy, [7; 100]);
        // A vector that is too small is not returned to the pool.
        drop(again);
        let larger = spare.lend(10_000);
        assert!(larger.capacity() >= 10_000);
    }

    #[test]
    fn no_more_are_kept_than_are_of_use() {
        let spare: Arc<VecPool<u8>> = VecPool::new();
        let many: Vec<PooledVec<u8>> = (0..100).map(|_| spare.lend(8)).collect();
        drop(many);
        assert_eq!(spare.0.lock().unwrap().len(), VecPool::<u8>::MANY);
    }
}
