//! Bearer tokens, which the API server reviews.
//!
//! Invariants: a token is never kept, only a keyed digest of it; a token under review is reviewed once, however many
//! requests carry it; failures to ask are not remembered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use kube_scheduler_api_types::lock;
use ring::hmac;
use ring::rand::SystemRandom;
use serde::Deserialize;
use serde_json::json;

use crate::metrics::Metrics;
use crate::serve::identity::User;
use crate::serve::review::{Payer, ReviewError, Reviewer, TtlCache};

/// How many verdicts are remembered.
const CAPACITY: usize = 8_192;
/// How long a caller waits for a verdict.
const PATIENCE: Duration = Duration::from_secs(10);
const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

type Digest = Vec<u8>;

/// Asks who tokens belong to.
pub(crate) struct Tokens {
    reviewer: Reviewer,
    metrics: Arc<Metrics>,
    /// `None` when the system gives no random numbers; then nothing is remembered.
    key: Option<hmac::Key>,
    ttl: Duration,
    known: TtlCache<Digest, Option<User>>,
    under_review: Mutex<BTreeMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

impl Tokens {
    pub(crate) fn new(reviewer: Reviewer, ttl: Duration, metrics: Arc<Metrics>) -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        let known = TtlCache::new(CAPACITY);
        Self { reviewer, metrics, key, ttl, known, under_review: Mutex::default() }
    }

    /// Whose token it is; `None` if it is invalid. If that has to be asked, then on the account of `payer`.
    pub(crate) async fn user(
        &self,
        token: &str,
        payer: &Payer,
    ) -> Result<Option<User>, ReviewError> {
        let Some(key) = &self.key else { return self.ask_in_time(token, payer).await };
        let (start, metrics) = (Instant::now(), self.metrics.serving());
        let digest = hmac::sign(key, token.as_bytes()).as_ref().to_vec();
        if let Some(known) = self.known.get(&digest) {
            metrics.token_looked_up(true, start.elapsed());
            return Ok(known);
        }
        let blocked = metrics.token_blocked();
        let verdict = self.reviewed(token, digest, payer).await;
        drop(blocked);
        metrics.token_looked_up(false, start.elapsed());
        verdict
    }

    /// The verdict of a review, this caller's or another's that was under way.
    async fn reviewed(
        &self,
        token: &str,
        digest: Digest,
        payer: &Payer,
    ) -> Result<Option<User>, ReviewError> {
        let turn = self.turn(&digest);
        let mine = tokio::time::timeout(PATIENCE, turn.lock()).await;
        let _mine = mine.map_err(|_| late())?;
        if let Some(known) = self.known.get(&digest) {
            return Ok(known);
        }
        let metrics = self.metrics.serving();
        let under_way = metrics.token_in_review();
        let answer = self.ask_in_time(token, payer).await;
        drop(under_way);
        metrics.token_reviewed(answer.is_ok());
        let user = answer?;
        self.known.put(digest, user.clone(), self.ttl);
        Ok(user)
    }

    /// What requests with the same token wait for.
    fn turn(&self, digest: &Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = lock(&self.under_review);
        if let Some(turn) = all.get(digest).and_then(Weak::upgrade) {
            return turn;
        }
        all.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        all.insert(digest.clone(), Arc::downgrade(&turn));
        turn
    }

    async fn ask_in_time(&self, token: &str, payer: &Payer) -> Result<Option<User>, ReviewError> {
        let asked = tokio::time::timeout(PATIENCE, self.ask(token, payer)).await;
        asked.unwrap_or_else(|_| Err(late()))
    }

    async fn ask(&self, token: &str, payer: &Payer) -> Result<Option<User>, ReviewError> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token},
        });
        let answer: Answer = self.reviewer.review(payer, PATH, &review).await.map_err(|error| {
            tracing::error!(err = %error, "Failed to make webhook authenticator request");
            error
        })?;
        let status = answer.status;
        match (status.authenticated, status.error.is_empty()) {
            (false, true) => Ok(None),
            (false, false) => Err(ReviewError::Failed(status.error)),
            (true, _) => Ok(Some(User {
                name: status.user.username,
                uid: status.user.uid,
                groups: status.user.groups.unwrap_or_default(),
                extra: status.user.extra.unwrap_or_default(),
            })),
        }
    }
}

fn late() -> ReviewError {
    ReviewError::Failed(format!("no verdict about a token within {PATIENCE:?}"))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    error: String,
    user: UserInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

/// The token of a request, if it carries one.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = header.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_bearer_headers_carry_a_token() {
        let token_of = |header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().unwrap());
            bearer_token(&headers).map(str::to_owned)
        };
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("  bEARER abc  ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("abc", None),
        ] {
            assert_eq!(token_of(header).as_deref(), token, "{header:?}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}
