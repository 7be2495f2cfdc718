//! Whose turn it is at the core, and how much of its time questions get.
//!
//! Invariant: there is one turn at a time, and after one the core has no other for so long that turns take at most one part in
//! [`SHARE`] of its time.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Copies for questions take at most one part in this many of the core's time.
pub(super) const SHARE: u32 = 20;

/// The part of the core's time that questions have.
pub(super) struct Share(Arc<Semaphore>);

/// The turn of one question.
pub(super) struct ShareTurn {
    permit: OwnedSemaphorePermit,
    /// Turns end on the core's thread, which is none of the runtime's.
    runtime: Handle,
}

impl Default for Share {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Share {
    /// Waits for a turn. To be called in a runtime, in which the time after the turn passes.
    pub(super) async fn turn(&self) -> Option<ShareTurn> {
        let permit = self.0.clone().acquire_owned().await.ok()?;
        Some(ShareTurn { permit, runtime: Handle::current() })
    }
}

impl ShareTurn {
    /// Does a question's part of the work on the core, and ends the turn: the next one begins when the other parts of the time
    /// that this took have passed.
    pub(super) fn spend<T>(self, work: impl FnOnce() -> T) -> T {
        rest_after(work, self.permit, (&self.runtime, SHARE - 1))
    }
}

/// Does some work, and gives its permit back once `times` as long has passed in the runtime as that took.
pub(super) fn rest_after<T>(
    work: impl FnOnce() -> T,
    permit: OwnedSemaphorePermit,
    (runtime, times): (&Handle, u32),
) -> T {
    let start = Instant::now();
    let done = work();
    let pause = start.elapsed().saturating_mul(times);
    runtime.spawn(async move {
        tokio::time::sleep(pause).await;
        drop(permit);
    });
    done
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Questions that are always there get one part in twenty, whatever each takes, and also from another thread.
    #[tokio::test]
    async fn questions_take_one_part_in_twenty() {
        let share = Share::default();
        let (start, mut spent) = (Instant::now(), Duration::ZERO);
        for at in 0..8_u64 {
            let turn = share.turn().await.unwrap();
            let work = move || {
                let (start, least) = (Instant::now(), Duration::from_millis(1 + at % 2));
                while start.elapsed() < least {
                    std::hint::spin_loop();
                }
                start.elapsed()
            };
            spent += std::thread::spawn(move || turn.spend(work)).join().unwrap();
        }
        drop(share.turn().await);
        let passed = start.elapsed();
        assert!(passed >= spent * SHARE, "{spent:?} of {passed:?}");
    }
}
