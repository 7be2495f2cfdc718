//! The WATCH verb as a stream of JSON lines, or of messages in protobuf.
//!
//! Invariants: all events that are ready go out as one chunk, so a busy watch costs one write per wake-up; a bookmark's
//! version is never ahead of the events sent before it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use kube_scheduler_api_types::validation::{FieldError, FieldPath};
use tokio::time::{Instant, sleep_until};

use super::encode::Encoding;
use super::request::ApiRequest;
use crate::body::{Body, ConnectionDrop};
use crate::history::ChangeType;
use crate::object::StoredObject;
use crate::server::Server;
use crate::status::StatusError;
use crate::watch::{WatchEvent, Watcher};

/// Opens the watch of `request`; `close_after` is a fault: the watch ends after that many events.
pub(crate) fn open(
    server: &Arc<Server>,
    request: &ApiRequest,
    encoding: Encoding,
    close_after: Option<u64>,
) -> Result<Body, StatusError> {
    let selection = request.selection()?;
    let kind = request.kind;
    let query = &request.query;
    let initial_events = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
    let version_match = query.text("resourceVersionMatch");
    if initial_events.is_some() && version_match != Some("NotOlderThan") {
        return Err(bad_options(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if initial_events.is_none() && version_match.is_some() {
        return Err(bad_options(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    let version = query.number("resourceVersion")?;
    // Version 0 and no version mean any version, so such a watch may start with the current state.
    let starts_fresh = version.unwrap_or(0) == 0;
    let current = server.store.resource_version();
    if let Some(asked) = version
        && asked > current
    {
        return Err(StatusError::too_large(asked, current));
    }
    let send_list = initial_events.unwrap_or(starts_fresh);
    let (initial, watcher) = if send_list {
        Watcher::list_and_watch(server.store.clone(), kind, selection)?
    } else {
        let from = if starts_fresh { current } else { version.unwrap_or(current) };
        (Vec::new(), Watcher::resume(server.store.clone(), kind, selection, from))
    };
    let bookmarks = query.flag("allowWatchBookmarks");
    let now = Instant::now();
    let timeout = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let watch = OpenWatch {
        encoding,
        watcher,
        initial,
        mark_initial_end: initial_events == Some(true) && bookmarks,
        next_bookmark: bookmarks.then(|| now + server.options.bookmark_interval),
        bookmark_interval: server.options.bookmark_interval,
        deadline: now + timeout.map_or(server.options.watch_timeout, Duration::from_secs),
        drops: server.faults.watch_drops(kind),
        events_left: close_after,
        finished: false,
    };
    Ok(Body::Stream(Box::pin(stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next_chunk().await?;
        Some((chunk, watch))
    }))))
}

fn bad_options(field: &str, why: &str) -> StatusError {
    StatusError::list_options(&FieldError::forbidden(FieldPath::new(field), why))
}

struct OpenWatch {
    encoding: Encoding,
    watcher: Watcher,
    initial: Vec<Arc<StoredObject>>,
    mark_initial_end: bool,
    next_bookmark: Option<Instant>,
    bookmark_interval: Duration,
    deadline: Instant,
    drops: tokio::sync::watch::Receiver<bool>,
    events_left: Option<u64>,
    finished: bool,
}

enum Wake {
    Events(Result<Vec<WatchEvent>, StatusError>),
    Bookmark,
    Timeout,
    Drop { abrupt: bool },
}

impl OpenWatch {
    async fn next_chunk(&mut self) -> Option<Result<Bytes, ConnectionDrop>> {
        if self.finished {
            return None;
        }
        let mut buffer = BytesMut::new();
        if !self.initial.is_empty() || self.mark_initial_end {
            for object in std::mem::take(&mut self.initial) {
                self.encoding.event(&mut buffer, "ADDED", &object);
            }
            if std::mem::take(&mut self.mark_initial_end) {
                self.encoding.bookmark(&mut buffer, self.watcher.position(), true);
            }
            return Some(Ok(buffer.freeze()));
        }
        if self.events_left == Some(0) {
            return None;
        }
        match self.wake().await {
            Wake::Events(Ok(events)) => {
                for event in self.within_limit(events) {
                    self.encoding.event(&mut buffer, event_type(event.change_type), &event.object);
                }
                Some(Ok(buffer.freeze()))
            }
            Wake::Events(Err(error)) => {
                self.finished = true;
                self.encoding.error(&mut buffer, &error);
                Some(Ok(buffer.freeze()))
            }
            Wake::Bookmark => {
                self.next_bookmark = Some(Instant::now() + self.bookmark_interval);
                self.encoding.bookmark(&mut buffer, self.watcher.position(), false);
                Some(Ok(buffer.freeze()))
            }
            Wake::Timeout => {
                self.finished = true;
                // Without bookmarks there is nothing left to send.
                self.next_bookmark?;
                self.encoding.bookmark(&mut buffer, self.watcher.position(), false);
                Some(Ok(buffer.freeze()))
            }
            Wake::Drop { abrupt } => {
                self.finished = true;
                if abrupt { Some(Err(ConnectionDrop)) } else { None }
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        let bookmark = self.next_bookmark.unwrap_or(self.deadline + Duration::from_secs(1));
        tokio::select! {
            biased;
            Ok(()) = self.drops.changed() => Wake::Drop { abrupt: *self.drops.borrow_and_update() },
            events = self.watcher.next() => Wake::Events(events),
            () = sleep_until(self.deadline) => Wake::Timeout,
            () = sleep_until(bookmark) => Wake::Bookmark,
        }
    }

    fn within_limit(&mut self, mut events: Vec<WatchEvent>) -> Vec<WatchEvent> {
        if let Some(left) = self.events_left.as_mut() {
            events.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left = left.saturating_sub(events.len() as u64);
        }
        events
    }
}

fn event_type(change_type: ChangeType) -> &'static str {
    match change_type {
        ChangeType::Added => "ADDED",
        ChangeType::Modified => "MODIFIED",
        ChangeType::Deleted => "DELETED",
    }
}
