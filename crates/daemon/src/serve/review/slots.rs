//! Who may ask the API server next.
//!
//! Every stranger can make the scheduler ask, with a token that nobody has or a path that nobody knows. So a question belongs to a payer:
//! the user, once that is known, else the address that the request came from.
//!
//! Invariants: a payer has at most [`Limits::of_one`] of the slots, waiting in the common line included, so a question waits for
//! at most that many of every other payer; nobody waits longer than [`Limits::patience`]; who gives up takes nothing from those behind.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use kube_scheduler_api_types::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::serve::admission::network;
use crate::serve::identity::User;

/// How much may be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Questions under way at once.
    pub(super) all: usize,
    /// Those of them that one payer has.
    pub(super) of_one: usize,
    /// How long a question waits for its slot.
    pub(super) patience: Duration,
    /// After so many questions at once, another one may be asked each time that this has passed.
    pub(super) burst: u32,
    pub(super) interval: Duration,
}

impl Default for Limits {
    /// Burst and interval are those of the reference's clients: 200 questions a second, and 400 at once.
    fn default() -> Self {
        Self {
            all: 64,
            of_one: 4,
            patience: Duration::from_secs(5),
            burst: 400,
            interval: Duration::from_millis(5),
        }
    }
}

/// On whose account a question is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Payer {
    /// A caller at this address that is not authenticated yet.
    Address(IpAddr),
    User(String),
}

impl Payer {
    /// All callers at this address. A network that one machine can have all addresses of counts as one.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }

    /// This user, who is at this address.
    pub(crate) fn of(user: &User, address: IpAddr) -> Self {
        if user.is_anonymous() { Self::at(address) } else { Self::User(user.name.clone()) }
    }
}

/// Where questions wait.
#[derive(Debug)]
pub(super) struct Slots {
    limits: Limits,
    all: Semaphore,
    /// Of payers who have questions here.
    shares: Mutex<BTreeMap<Payer, Weak<Semaphore>>>,
    /// The holder of the lock is the next to pass, so callers pass in order, and one that gives up has taken nothing.
    pace: tokio::sync::Mutex<Bucket>,
}

/// Permission for one question.
#[derive(Debug)]
pub(super) struct Slot<'s> {
    _share: OwnedSemaphorePermit,
    _slot: SemaphorePermit<'s>,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: Semaphore::new(limits.all),
            shares: Mutex::default(),
            pace: tokio::sync::Mutex::new(Bucket { n_left: limits.burst, since: Instant::now() }),
        }
    }

    /// Waits for a slot; `None` if that would take too long.
    pub(super) async fn take(&self, payer: &Payer) -> Option<Slot<'_>> {
        let waiting = async {
            let share = self.share(payer).acquire_owned().await.ok()?;
            let slot = self.all.acquire().await.ok()?;
            self.pass().await;
            Some(Slot { _share: share, _slot: slot })
        };
        tokio::time::timeout(self.limits.patience, waiting).await.ok().flatten()
    }

    /// Waits until another question may be asked.
    pub(super) async fn pass(&self) {
        let mut bucket = self.pace.lock().await;
        while let Some(pause) = bucket.take(self.limits, Instant::now()) {
            tokio::time::sleep(pause).await;
        }
    }

    fn share(&self, payer: &Payer) -> Arc<Semaphore> {
        let mut shares = lock(&self.shares);
        if let Some(share) = shares.get(payer).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.limits.of_one));
        shares.insert(payer.clone(), Arc::downgrade(&share));
        share
    }
}

/// How many questions may be asked at once.
#[derive(Debug)]
struct Bucket {
    n_left: u32,
    /// When the last of them was added.
    since: Instant,
}

impl Bucket {
    /// Takes one, or says how long it is until there is one.
    fn take(&mut self, limits: Limits, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.since);
        let n_more = passed.as_nanos().checked_div(limits.interval.as_nanos());
        let n_more = n_more.and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
        if n_more >= limits.burst - self.n_left {
            (self.n_left, self.since) = (limits.burst, now);
        } else {
            self.n_left += n_more;
            self.since += limits.interval * n_more;
        }
        match self.n_left.checked_sub(1) {
            Some(left) => {
                self.n_left = left;
                None
            }
            None => Some((self.since + limits.interval).saturating_duration_since(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Nobody waits, so that what has no slot at once has none. The tests poll less than Tokio lets one task poll at a time: beyond that
    /// even what is free is not there at once.
    fn slots(all: usize, of_one: usize, burst: u32) -> Slots {
        let (patience, interval) = (Duration::ZERO, Duration::from_secs(3600));
        Slots::new(Limits { all, of_one, patience, burst, interval })
    }

    fn at(last: u8) -> Payer {
        Payer::at([10, 0, 0, last].into())
    }

    #[tokio::test]
    async fn one_payer_has_a_share_of_the_slots() {
        let slots = slots(6, 2, 100);
        let mut greedy = Vec::new();
        for _ in 0..20 {
            greedy.extend(slots.take(&at(1)).await);
        }
        assert_eq!(greedy.len(), 2);
        let user = |name: &str| User { name: name.to_owned(), ..User::default() };
        // At the same address, but known.
        let jane = Payer::of(&user("jane"), [10, 0, 0, 1].into());
        let others = [slots.take(&jane).await, slots.take(&at(2)).await];
        assert!(others.iter().all(Option::is_some));
        let stranger = Payer::of(&User::anonymous(), [10, 0, 0, 1].into());
        assert_eq!(stranger, at(1));
        assert!(slots.take(&stranger).await.is_none());
        greedy.pop();
        assert!(slots.take(&stranger).await.is_some(), "what is given back is there again");
        drop((greedy, others));
        let _last = slots.take(&at(3)).await.unwrap();
        assert_eq!(slots.shares.lock().unwrap().keys().collect::<Vec<_>>(), [&at(3)]);
    }

    #[tokio::test]
    async fn nobody_waits_longer_than_patience() {
        let slots = slots(1, 1, 100);
        let held = slots.take(&at(1)).await;
        assert!(held.is_some());
        // The one waits for its share, the other for a slot.
        assert!(slots.take(&at(1)).await.is_none() && slots.take(&at(2)).await.is_none());
        drop(held);
        assert!(slots.take(&at(2)).await.is_some());
    }

    /// However many a payer sends, another waits for its share only.
    #[tokio::test]
    async fn a_share_counts_while_it_waits() {
        let patience = Duration::from_secs(3600);
        let slots = Slots::new(Limits { all: 1, of_one: 2, patience, ..Limits::default() });
        let (flood, other) = (at(1), at(2));
        let first = slots.take(&flood).await.unwrap();
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(slots.take(&flood))).collect();
        assert!(waiting.iter_mut().all(|take| take.now_or_never().is_none()));
        let mut other = Box::pin(slots.take(&other));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        let second = waiting[0].as_mut().now_or_never().flatten().expect("it was the next");
        // Its place in the line is behind the other payer's.
        assert!(waiting[1].as_mut().now_or_never().is_none());
        assert!(other.as_mut().now_or_never().is_none());
        drop(second);
        assert!(other.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn who_gives_up_has_taken_nothing() {
        let slots = slots(8, 8, 3);
        for _ in 0..2 {
            assert!(slots.take(&at(1)).await.is_some());
        }
        assert!(slots.take(&at(1)).await.is_some(), "one was left");
        for _ in 0..10 {
            assert!(slots.take(&at(1)).await.is_none(), "for an hour there is none");
        }
        assert_eq!(slots.all.available_permits(), 8);
        slots.pace.lock().await.n_left = 1;
        assert!(slots.take(&at(1)).await.is_some(), "nobody else has taken it");
    }

    #[test]
    fn questions_come_at_the_pace_of_the_reference() {
        let (start, limits) = (Instant::now(), Limits::default());
        let mut bucket = Bucket { n_left: limits.burst, since: start };
        let mut taken = |millis: u64| {
            let now = start + Duration::from_millis(millis);
            (0..1_000).take_while(|_| bucket.take(limits, now).is_none()).count()
        };
        assert_eq!([taken(0), taken(4), taken(5), taken(6), taken(12)], [400, 0, 1, 0, 1]);
        assert_eq!((taken(1_012), taken(1_014), taken(1_015)), (200, 0, 1));
        assert_eq!(taken(1_000_000), 400, "what is not used is not saved up");
        let soon = bucket.take(limits, start + Duration::from_millis(1_000_002));
        assert_eq!(soon, Some(Duration::from_millis(3)));
    }
}
