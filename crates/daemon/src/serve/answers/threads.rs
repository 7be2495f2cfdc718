//! Threads on which answers are computed.
//!
//! Invariants: answers use at most half of the processors, and one where there are fewer than four. Where that is one thread,
//! brief answers have half of the time of another one, so that none of them waits for a long one.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::places::MAX_QUESTIONS;
use super::share::rest_after;

/// The threads.
pub(super) struct Threads {
    /// For any answer.
    pub(super) all: Arc<Semaphore>,
    /// For brief ones that find none of the others.
    brief: Arc<Semaphore>,
}

/// One of them, for one answer.
pub(super) struct Thread {
    permit: OwnedSemaphorePermit,
    /// Of the one for brief answers: where the time passes in which none has it.
    rests_in: Option<Handle>,
}

impl Threads {
    /// Those of a machine with so many processors.
    pub(super) fn on(n_processors: usize) -> Self {
        let n_threads = (n_processors / 2).clamp(1, MAX_QUESTIONS);
        let n_brief = usize::from(n_threads == 1);
        Self { all: Arc::new(Semaphore::new(n_threads)), brief: Arc::new(Semaphore::new(n_brief)) }
    }

    /// Waits for a thread, for an answer that is brief or not. To be called in a runtime, in which the time after a brief one
    /// passes.
    pub(super) async fn one(&self, is_brief: bool) -> Option<Thread> {
        let any = self.all.clone().acquire_owned();
        if !is_brief {
            return Some(Thread { permit: any.await.ok()?, rests_in: None });
        }
        tokio::select! {
            biased;
            permit = any => Some(Thread { permit: permit.ok()?, rests_in: None }),
            permit = self.brief.clone().acquire_owned() => {
                Some(Thread { permit: permit.ok()?, rests_in: Some(Handle::current()) })
            }
        }
    }
}

impl Thread {
    /// Does the work on an answer. Then the thread is another one's; that for brief answers, once as much time has passed as
    /// this took.
    pub(super) fn spend<T>(self, work: impl FnOnce() -> T) -> T {
        match &self.rests_in {
            Some(runtime) => rest_after(work, self.permit, (runtime, 1)),
            None => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn answers_have_half_of_the_processors() {
        let found = |n_processors| {
            let threads = Threads::on(n_processors);
            (threads.all.available_permits(), threads.brief.available_permits())
        };
        assert_eq!([0, 1, 2, 3].map(found), [(1, 1); 4]);
        assert_eq!([4, 5, 6, 8, 64].map(found), [(2, 0), (2, 0), (3, 0), (4, 0), (4, 0)]);
    }

    /// Brief answers that are always there, beside a long one.
    #[tokio::test]
    async fn brief_answers_have_half_of_the_time_of_their_thread() {
        let threads = Threads::on(2);
        let long = threads.one(false).await;
        let (start, mut spent) = (Instant::now(), Duration::ZERO);
        for at in 0..8_u64 {
            let work = move || {
                let (start, least) = (Instant::now(), Duration::from_millis(1 + at % 2));
                while start.elapsed() < least {
                    std::hint::spin_loop();
                }
                start.elapsed()
            };
            let thread = threads.one(true).await.unwrap();
            // Answers are computed on threads that are none of the runtime's.
            spent += std::thread::spawn(move || thread.spend(work)).join().unwrap();
        }
        drop(threads.one(true).await);
        let passed = start.elapsed();
        assert!(passed >= spent * 2, "{spent:?} of {passed:?}");
        // Where there is no long one, they have its thread, and none waits.
        drop(long);
        let thread = threads.one(true).await.unwrap();
        assert!(thread.rests_in.is_none());
    }
}
