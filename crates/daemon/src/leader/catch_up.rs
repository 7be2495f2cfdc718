//! The way from the lease to the first decision: everything the last leader wrote must have been seen.
//!
//! After the lease was acquired, each kind that schedulers write, and nodes, is read once in a way that only the latest
//! state satisfies; the answer's resource version lies behind everything written before. A kind is caught up when its
//! reflector has passed that version. In a busy cluster that is a matter of milliseconds. Where nothing happens a watch
//! says nothing, so what does not arrive soon is listed again; what is unchanged costs the core nothing.
//!
//! Invariant: when [`catch_up`] returns, every change that the server had accepted before it was called has been handed
//! to the core, but for kinds that are no longer served where they were, and are found in no other version within some ten seconds.

use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;

use crate::backoff::Backoff;
use crate::transport::{Api, ApiError, Call};
use crate::watch::Position;

/// How long to wait for the watch to catch up before listing again.
const HOPE: Duration = Duration::from_millis(250);
/// For the answer to one read.
const ANSWER: Duration = Duration::from_secs(10);
/// How often to look again for a kind that is no longer where it was found: the server may be upgraded. It takes 6 to 13 seconds.
const MOST_MISSES: u32 = 6;

/// Waits until all that the server has now was seen.
pub(crate) async fn catch_up(api: &Api, positions: Vec<Position>) {
    join_all(positions.into_iter().map(|position| catch_up_one(api, position))).await;
}

async fn catch_up_one(api: &Api, mut position: Position) {
    let Some(latest) = latest_version(api, &mut position).await else { return };
    if tokio::time::timeout(HOPE, position.reached(&latest)).await.is_err() {
        position.list_again();
        position.reached(&latest).await;
    }
    tracing::debug!(kind = position.kind(), version = latest, "Caught up");
}

/// A version of a kind that is later than everything written so far; `None` when the server does not know the kind.
async fn latest_version(api: &Api, position: &mut Position) -> Option<String> {
    let mut backoff =
        Backoff::new(Duration::from_millis(100), Duration::from_secs(5), Duration::from_secs(60));
    let mut n_misses = 0;
    loop {
        // Without a resource version only the latest state is returned.
        let call = Call::get(format!("{}?limit=1", position.path())).timeout(ANSWER);
        let error = match api.call(&call).await.map(|answer| version_of(&answer)) {
            Ok(Some(version)) => return Some(version),
            Ok(None) => ApiError::unclear("the answer is no list"),
            Err(error) if error.code() == Some(404) => {
                let was_found = api.served_versions().have(position.kind());
                if !was_found || n_misses == MOST_MISSES {
                    return None;
                }
                n_misses += 1;
                // Has the version looked up at once.
                position.list_again();
                error
            }
            Err(error) => error,
        };
        let kind = position.kind();
        tracing::warn!(kind, err = %error, "Waiting for the API server before the first decision");
        tokio::time::sleep(backoff.fail(std::time::Instant::now())).await;
    }
}

fn version_of(list: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let list: List = serde_json::from_slice(list).ok()?;
    Some(list.metadata.resource_version).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_lists_only() {
        let list = br#"{"kind":"PodList","metadata":{"resourceVersion":"17"},"items":[]}"#;
        assert_eq!(version_of(list).as_deref(), Some("17"));
        for bad in [&b"<html>"[..], b"{}", br#"{"metadata":{"resourceVersion":""}}"#] {
            assert_eq!(version_of(bad), None);
        }
    }
}
