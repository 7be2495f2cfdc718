//! Watches, a line at a time, as any client has them.

use anyhow::{Context, Result};
use futures::{AsyncBufRead, AsyncBufReadExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Api;

/// What a watch reports about an object; `P` are the parts of it that are read.
#[derive(Debug, PartialEq)]
pub enum Change<P> {
    /// It is there, in this state.
    Applied(P),
    /// It is gone.
    Deleted(P),
}

/// Why a watch ended before the server ended it.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The server ended it with an error, as it does when its reader falls behind.
    #[error("watch: {0}")]
    Refused(String),
    /// It broke off.
    #[error("watch: {0}")]
    Broken(std::io::Error),
    /// Another watch would bring the same again.
    #[error("watch: {0}")]
    Malformed(serde_json::Error),
}

/// A watch that stands.
pub struct Watch<R> {
    lines: R,
    line: Vec<u8>,
}

/// Begins a watch on the objects at this path, which names the version to begin with.
///
/// # Errors
/// If the server does not answer or refuses.
pub async fn open_watch(api: &Api, path: &str) -> Result<Watch<impl AsyncBufRead + Unpin + use<>>> {
    let lines = api.stream(path).await.with_context(|| format!("watch {path}"))?;
    Ok(Watch { lines, line: Vec::new() })
}

impl<R: AsyncBufRead + Unpin> Watch<R> {
    /// The next change; `None` when the server has ended the watch.
    ///
    /// # Errors
    /// If the watch broke off, or a line cannot be read.
    pub async fn next<P: DeserializeOwned>(&mut self) -> Result<Option<Change<P>>, WatchError> {
        loop {
            self.line.clear();
            self.lines.read_until(b'\n', &mut self.line).await.map_err(WatchError::Broken)?;
            // What breaks off within a line was cut off by the server's end.
            if !self.line.ends_with(b"\n") {
                return Ok(None);
            }
            if let Some(change) = read(&self.line)? {
                return Ok(Some(change));
            }
        }
    }
}

#[derive(Deserialize)]
struct Event<'a, O> {
    #[serde(borrow, rename = "type")]
    kind: &'a str,
    object: O,
}

/// What the server sends in place of an object.
#[derive(Deserialize)]
struct Complaint {
    message: String,
}

/// What a line of the watch reports, if it is about an object.
fn read<P: DeserializeOwned>(line: &[u8]) -> Result<Option<Change<P>>, WatchError> {
    let event = serde_json::from_slice::<Event<'_, P>>(line);
    match event {
        Ok(Event { kind: "ADDED" | "MODIFIED", object }) => Ok(Some(Change::Applied(object))),
        Ok(Event { kind: "DELETED", object }) => Ok(Some(Change::Deleted(object))),
        // An error has another kind of object, which may be unreadable as one of these.
        Ok(Event { kind: "ERROR", .. }) | Err(_) => {
            match serde_json::from_slice::<Event<'_, Complaint>>(line) {
                Ok(Event { kind: "ERROR", object }) => Err(WatchError::Refused(object.message)),
                Ok(_) | Err(_) => match event {
                    Err(error) => Err(WatchError::Malformed(error)),
                    Ok(_) => Err(WatchError::Refused("an error without a message".to_owned())),
                },
            }
        }
        Ok(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Pod {
        metadata: Metadata,
        #[serde(default)]
        status: Status,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Metadata {
        #[serde(default)]
        name: String,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Status {}

    fn pod(name: &str) -> Pod {
        Pod { metadata: Metadata { name: name.to_owned() }, status: Status {} }
    }

    async fn reported(text: &str) -> Vec<Result<Change<Pod>, String>> {
        let mut watch = Watch { lines: text.as_bytes(), line: Vec::new() };
        let mut reported = Vec::new();
        loop {
            match watch.next::<Pod>().await {
                Ok(None) => return reported,
                Ok(Some(change)) => reported.push(Ok(change)),
                Err(error) => {
                    reported.push(Err(error.to_string()));
                    return reported;
                }
            }
        }
    }

    #[tokio::test]
    async fn changes_are_reported_and_bookmarks_are_not() {
        let text = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}
{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}
{"type":"MODIFIED","object":{"metadata":{"name":"a"},"status":{}}}
{"type":"DELETED","object":{"metadata":{"name":"a"}}}
"#;
        let changes =
            [Change::Applied(pod("a")), Change::Applied(pod("a")), Change::Deleted(pod("a"))];
        assert_eq!(reported(text).await, changes.map(Ok));
    }

    #[tokio::test]
    async fn what_the_server_complains_about_is_reported() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","message":"too old resource version","code":410}}
"#;
        let complaint = "watch: too old resource version".to_owned();
        assert_eq!(reported(line).await, [Err(complaint)]);
    }

    #[tokio::test]
    async fn a_line_that_is_cut_off_ends_the_watch_and_nonsense_is_an_error() {
        assert_eq!(reported(r#"{"type":"ADDED","object":{"meta"#).await, []);
        let reported = reported("{\"type\":\"ADDED\",\"object\":{}}\n").await;
        let [Err(error)] = &reported[..] else { panic!("{reported:?}") };
        assert!(error.starts_with("watch: missing field `metadata`"), "{error}");
    }
}
