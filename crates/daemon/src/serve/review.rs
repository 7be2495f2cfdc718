//! Questions to the API server about callers, and answers that are remembered for a while.
//!
//! Invariants: a limited number of questions is under way at once, and fewer of one payer; none waits for long before it is
//! asked; only what certainly had no effect or may be repeated is asked again, a few times; memory is bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube_scheduler_api_types::lock;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::backoff::random_jitter;
use crate::metrics::{DelegatedReview, Metrics};
use crate::transport::{Api, ApiError, Call};

mod slots;

pub(crate) use slots::Payer;
use slots::{Limits, Slots};

/// The status of an answer that is a review.
const CREATED: u16 = 201;
/// For one try.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Tries, and the pause after the first, which grows and is stretched at random.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const GROWTH: f64 = 1.5;
const STRETCH: f64 = 0.2;

/// Why there is no review.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReviewError {
    /// It was not asked for.
    #[error("too many reviews are under way or wait, of this caller or of all")]
    Busy,
    #[error("{0}")]
    Failed(String),
}

/// Asks the API server.
pub(crate) struct Reviewer {
    api: Api,
    slots: Slots,
    asked: DelegatedReview,
    metrics: Arc<Metrics>,
}

impl Reviewer {
    pub(crate) fn new(api: Api, asked: DelegatedReview, metrics: Arc<Metrics>) -> Self {
        Self { api, slots: Slots::new(Limits::default()), asked, metrics }
    }

    /// Posts a review, on the account of `payer`, and reads the answer.
    pub(crate) async fn review<T: DeserializeOwned>(
        &self,
        payer: &Payer,
        path: &'static str,
        review: &Value,
    ) -> Result<T, ReviewError> {
        let _slot = self.slots.take(payer).await.ok_or(ReviewError::Busy)?;
        let call = Call::post(path, review.to_string().into_bytes()).timeout(TIMEOUT);
        let mut jitter = random_jitter();
        let mut pause = FIRST_PAUSE;
        for number in 1.. {
            let start = Instant::now();
            let answer = self.api.call(&call).await;
            let code = answer.as_ref().map_or_else(ApiError::code, |_| Some(CREATED));
            self.metrics.serving().delegated(self.asked, code, start.elapsed());
            match answer {
                Ok(body) => {
                    return serde_json::from_slice(&body).map_err(|error| {
                        ReviewError::Failed(format!(
                            "the API server answered {path} with something else than a review: {error}"
                        ))
                    });
                }
                Err(error) if number == TRIES || !is_worth_retrying(&error) => {
                    return Err(ReviewError::Failed(error.to_string()));
                }
                Err(_) => {
                    tokio::time::sleep(jitter.stretch(pause, STRETCH)).await;
                    // Each try counts as a question. Otherwise the server would be asked most when it answers least.
                    self.slots.pass().await;
                }
            }
            pause = pause.mul_f64(GROWTH);
        }
        Err(ReviewError::Failed("no tries left".to_owned()))
    }
}

fn is_worth_retrying(error: &ApiError) -> bool {
    match error {
        ApiError::Status { code, .. } => {
            matches!(code, 429 | 500 | 504) || error.retry_after().is_some()
        }
        ApiError::Transport { .. } => error.is_cut_off(),
        ApiError::Timeout(_) => false,
    }
}

/// Answers by question, each for its time.
pub(crate) struct TtlCache<K, V> {
    capacity: usize,
    entries: Mutex<BTreeMap<K, (Instant, V)>>,
}

impl<K: Ord + Clone, V: Clone> TtlCache<K, V> {
    /// Remembers at most `capacity` answers.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, entries: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.get_at(key, Instant::now())
    }

    pub(crate) fn put(&self, key: K, value: V, ttl: Duration) {
        self.put_at(key, value, ttl, Instant::now());
    }

    fn get_at(&self, key: &K, now: Instant) -> Option<V> {
        let entries = lock(&self.entries);
        entries.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    /// Makes room, if needed, by forgetting what has expired, else what would expire first.
    fn put_at(&self, key: K, value: V, ttl: Duration, now: Instant) {
        if ttl.is_zero() {
            return;
        }
        let mut entries = lock(&self.entries);
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            entries.retain(|_, (until, _)| now < *until);
            if entries.len() >= self.capacity {
                let soonest = entries.iter().min_by_key(|(_, (until, _))| *until);
                if let Some(soonest) = soonest.map(|(key, _)| key.clone()) {
                    entries.remove(&soonest);
                }
            }
        }
        entries.insert(key, (now + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Fate;

    #[test]
    fn a_review_is_worth_another_try_where_the_kind_of_the_error_says_so() {
        let status = |code, retry_after| ApiError::Status {
            code,
            reason: String::new(),
            message: String::new(),
            retry_after,
        };
        let cut_off = ApiError::Transport { text: String::new(), fate: Fate::CutOff };
        let second = Some(Duration::from_secs(1));
        for (error, is_worth) in [
            (cut_off, true),
            (status(429, None), true),
            (status(500, None), true),
            (status(504, None), true),
            (status(503, second), true),
            (status(503, None), false),
            (status(403, None), false),
            // Words of a server that is there.
            (ApiError::unclear("connection closed, reset by peer"), false),
            (ApiError::not_sent("connection refused"), false),
            (ApiError::Timeout(TIMEOUT), false),
        ] {
            assert_eq!(is_worth_retrying(&error), is_worth, "{error:?}");
        }
    }

    #[test]
    fn answers_are_forgotten_in_time_and_when_there_are_too_many() {
        let cache = TtlCache::new(2);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let ttl = Duration::from_secs(10);
        cache.put_at("a", 1, ttl, start);
        cache.put_at("b", 2, ttl, after(1));
        assert_eq!((cache.get_at(&"a", after(9)), cache.get_at(&"a", after(10))), (Some(1), None));
        cache.put_at("c", 3, ttl, after(2));
        assert_eq!(cache.get_at(&"a", after(2)), None, "the soonest to expire made room");
        assert_eq!(cache.get_at(&"b", after(2)), Some(2));
        cache.put_at("d", 4, ttl, after(11));
        assert_eq!(cache.get_at(&"c", after(11)), Some(3), "what had expired made room");
        cache.put_at("e", 5, Duration::ZERO, after(11));
        assert_eq!(cache.get_at(&"e", after(11)), None, "no time, no memory");
    }
}
