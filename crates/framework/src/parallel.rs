//! Work split over threads that the caller supplies.

use std::fmt;
use std::sync::Mutex;

/// Threads for scans. What is computed must not depend on how it is split.
pub trait Parallel: Send + Sync {
    /// How many calls may run at once.
    fn width(&self) -> usize;
    /// Calls `work` with every number below `n`, in any order, and returns when all calls have returned. A panic in one of
    /// them is passed on to the caller.
    fn for_each(&self, n: usize, work: &(dyn Fn(usize) + Sync));
}

impl dyn Parallel + '_ {
    /// The results of `work` for every number below `n`, in order.
    pub fn map<T: Send>(&self, n: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let places: Vec<Mutex<Option<T>>> = (0..n).map(|_| Mutex::new(None)).collect();
        self.for_each(n, &|at| {
            let result = work(at);
            if let Ok(mut place) = places[at].lock() {
                *place = Some(result);
            }
        });
        // Every call has returned, so every place is filled.
        places.into_iter().filter_map(|place| place.into_inner().ok().flatten()).collect()
    }
}

impl fmt::Debug for dyn Parallel + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parallel({})", self.width())
    }
}

/// The calling thread does everything.
pub(crate) struct OneThread;

impl Parallel for OneThread {
    fn width(&self) -> usize {
        1
    }

    fn for_each(&self, n: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..n).for_each(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let parallel: &dyn Parallel = &OneThread;
        assert_eq!(parallel.map(4, |at| at * at), [0, 1, 4, 9]);
    }
}
