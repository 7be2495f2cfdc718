//! Locking where a panic of another holder is no reason to panic as well.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after another thread has panicked while it held it. For data that is valid after each single change, such as
/// counts, and entries of a table.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_another_holder_changes_nothing() {
        let mutex = Mutex::new(3);
        let panicked = std::panic::catch_unwind(|| {
            let _held = mutex.lock().unwrap();
            panic!("while it is held");
        });
        assert!(panicked.is_err() && mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 3);
    }
}
