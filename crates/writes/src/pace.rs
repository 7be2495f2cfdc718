//! How fast requests go out and how many at once: at a fixed rate where one is configured, else as the server takes them.
//!
//! What the server takes is learned from its answers. Each push-back (429, `Retry-After`, a timeout) halves the number of
//! requests under way, at most once a second; a round of answers that took much longer than the best rounds reduces it by an
//! eighth; every other round adds one. When every answer is a push-back, nothing is sent until the time that the server names.
//!
//! Invariant: at least [`FEWEST`] requests may be under way, whatever the server says, so that nothing stops for good.

use std::time::Duration;

use kube_scheduler_api_types::Timestamp;

const FEWEST: usize = 4;

/// A limit on requests per second, as `clientConnection.qps` and `burst` give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// The number of requests per second in the long run.
    pub qps: f64,
    /// Requests that may go out at once after a pause.
    pub burst: u32,
}

/// A bucket of permissions that fills at a fixed rate; without a limit it never runs dry.
#[derive(Debug)]
pub(crate) struct Bucket {
    limit: Option<RateLimit>,
    level: f64,
    filled: Timestamp,
}

impl Bucket {
    pub(crate) fn new(limit: Option<RateLimit>, now: Timestamp) -> Self {
        let limit = limit.filter(|limit| limit.qps > 0.0);
        Self { limit, level: limit.map_or(0.0, |limit| f64::from(limit.burst.max(1))), filled: now }
    }

    /// Takes permissions for `n` requests, or says when there will be as many, or as many as there can be.
    pub(crate) fn take(&mut self, n: u32, now: Timestamp) -> Result<(), Timestamp> {
        let Some(limit) = self.limit else { return Ok(()) };
        let needed = f64::from(n.min(limit.burst.max(1)));
        let since = now.saturating_since(self.filled).as_secs_f64();
        self.level = (self.level + since * limit.qps).min(f64::from(limit.burst.max(1)));
        self.filled = now;
        if self.level >= needed {
            self.level -= f64::from(n);
            return Ok(());
        }
        // Always later than now, so that a caller which comes back at that time makes progress.
        let pause = Duration::from_secs_f64((needed - self.level) / limit.qps);
        Err(now + pause.max(Duration::from_nanos(1)))
    }
}

/// How many requests may be under way: fewer when the server pushes back, more again while it does not.
#[derive(Debug)]
pub(crate) struct Width {
    most: usize,
    now: f64,
    narrowed: Option<Timestamp>,
    /// Push-backs since the last request that went through.
    n_pushed_back: usize,
    held_until: Option<Timestamp>,
    round: Round,
    /// What a request takes at best, in seconds: the average of the best round, slowly forgotten.
    best: Option<f64>,
}

/// As many answers as requests may be under way.
#[derive(Debug, Default)]
struct Round {
    n: usize,
    seconds: f64,
}

/// A round is slow that takes this many times as long as the best one, and at least [`SLOW_SECONDS`] longer.
const SLOW_FACTOR: f64 = 3.0;
const SLOW_SECONDS: f64 = 0.1;
/// How much of the best round is forgotten with each round, so that a server that became slower for good is not
/// taken for an overloaded one for ever.
const FORGET_BEST: f64 = 1.1;
/// Slowness alone never takes more than this share away: it may have other reasons than us.
const SLOWEST_SHARE: f64 = 0.25;
/// Rounds shorter than this say too little.
const SHORTEST_ROUND: usize = 16;
/// The longest that nothing at all is sent for the server's sake, and that one request waits for it.
pub const LONGEST_HOLD: Duration = Duration::from_secs(30);

impl Width {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(FEWEST);
        Self {
            most,
            now: most as f64,
            narrowed: None,
            n_pushed_back: 0,
            held_until: None,
            round: Round::default(),
            best: None,
        }
    }

    pub(crate) fn get(&self) -> usize {
        self.now as usize
    }

    /// The time before which nothing is to be sent at all.
    pub(crate) fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.held_until.filter(|until| *until > now)
    }

    /// A request went through and took so long.
    pub(crate) fn answered(&mut self, length: Duration) {
        self.n_pushed_back = 0;
        self.held_until = None;
        self.round.n += 1;
        self.round.seconds += length.as_secs_f64();
        if self.round.n < self.get().max(SHORTEST_ROUND) {
            return;
        }
        let Round { n, seconds } = std::mem::take(&mut self.round);
        let average = seconds / n as f64;
        let best = self.best.map_or(average, |best| (best * FORGET_BEST).min(average));
        self.best = Some(best);
        if average > best * SLOW_FACTOR && average > best + SLOW_SECONDS {
            let least = (self.most as f64 * SLOWEST_SHARE).max(FEWEST as f64);
            self.now = (self.now * 0.875).max(least.min(self.now));
        } else {
            // A round of few requests is longer than the width.
            self.now = (self.now + n as f64 / self.now).min(self.most as f64);
        }
    }

    /// The server pushed back, and may want to be left alone for a while.
    pub(crate) fn pushed_back(&mut self, pause: Option<Duration>, now: Timestamp) {
        self.n_pushed_back += 1;
        if let Some(pause) = pause
            && self.n_pushed_back >= self.get()
        {
            self.held_until = Some(now + pause.min(LONGEST_HOLD));
        }
        self.narrow(now);
    }

    /// Half as many. Answers to requests of the same moment count once.
    fn narrow(&mut self, now: Timestamp) {
        if self.narrowed.is_some_and(|last| now.saturating_since(last) < Duration::from_secs(1)) {
            return;
        }
        self.narrowed = Some(now);
        self.now = (self.now / 2.0).max(FEWEST as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(2);

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Timestamp::EPOCH;
        let mut bucket = Bucket::new(Some(RateLimit { qps: 10.0, burst: 3 }), start);
        for _ in 0..3 {
            assert_eq!(bucket.take(1, start), Ok(()));
        }
        let next = bucket.take(1, start).unwrap_err();
        assert!(next.saturating_since(start).as_millis().abs_diff(100) <= 1);
        assert_eq!(bucket.take(1, start + Duration::from_millis(101)), Ok(()));
        assert!(bucket.take(1, start + Duration::from_millis(102)).is_err());
        let mut unlimited = Bucket::new(None, start);
        assert!((0..1000).all(|_| unlimited.take(2, start).is_ok()));
    }

    #[test]
    fn two_requests_take_two_permissions_even_from_a_small_bucket() {
        let start = Timestamp::EPOCH;
        let mut bucket = Bucket::new(Some(RateLimit { qps: 10.0, burst: 1 }), start);
        assert_eq!(bucket.take(2, start), Ok(()), "there can be no more than one");
        let next = bucket.take(1, start).unwrap_err();
        assert!(next.saturating_since(start).as_millis().abs_diff(200) <= 1, "the second is owed");
    }

    #[test]
    fn width_halves_on_push_back_and_recovers() {
        let start = Timestamp::EPOCH;
        let mut width = Width::new(64);
        width.pushed_back(None, start);
        width.pushed_back(None, start);
        assert_eq!(width.get(), 32);
        for second in 1..20 {
            width.pushed_back(None, start + Duration::from_secs(second));
        }
        assert_eq!(width.get(), FEWEST);
        for _ in 0..10_000 {
            width.answered(QUICK);
        }
        assert_eq!(width.get(), 64);
    }

    #[test]
    fn nothing_is_sent_while_all_is_refused() {
        let start = Timestamp::EPOCH;
        let mut width = Width::new(FEWEST);
        let second = Duration::from_secs(1);
        for _ in 1..FEWEST {
            width.pushed_back(Some(second), start);
            assert_eq!(width.held_until(start), None);
        }
        width.pushed_back(Some(second), start);
        assert_eq!(width.held_until(start), Some(start + second));
        assert_eq!(width.held_until(start + second), None);
        width.pushed_back(Some(Duration::from_secs(3_600)), start);
        assert_eq!(
            width.held_until(start),
            Some(start + LONGEST_HOLD),
            "no answer stops writing for good"
        );
        width.answered(QUICK);
        assert_eq!(width.held_until(start), None);
    }

    #[test]
    fn a_server_that_slows_down_gets_fewer_requests() {
        let mut width = Width::new(64);
        for _ in 0..640 {
            width.answered(QUICK);
        }
        for _ in 0..64 * 4 {
            width.answered(Duration::from_millis(500));
        }
        let narrowed = width.get();
        assert!(narrowed < 50, "{narrowed}");
        // That is how long it takes here: in the end it is not taken for a sign of distress.
        for _ in 0..64 * 200 {
            width.answered(Duration::from_millis(500));
        }
        assert_eq!(width.get(), 64);
    }

    #[test]
    fn a_server_that_was_never_quick_is_not_slow() {
        let mut width = Width::new(64);
        for _ in 0..6_400 {
            width.answered(Duration::from_secs(2));
        }
        assert_eq!(width.get(), 64);
    }
}
