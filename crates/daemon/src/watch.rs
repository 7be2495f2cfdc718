//! Follows one kind of objects: lists and watches it, resumes, and lists again when the server no longer has the version.
//!
//! Invariants: the core always gets a state that the server had, never older than the one before; after each complete list
//! the core knows of no object that is not in the list; no failure ends a reflector, it only slows it down; memory is bounded by
//! one item of a list or one frame of a watch, plus a few words per object.

mod decode;
mod frames;
pub(crate) mod fuzz;
mod interruption;
mod items;
mod patience;
mod position;
mod served;
mod shared;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use kube::client::Body;
use kube_scheduler_engine::{Deduplicator, Input, ObjectReaders, WatchedKey as Key};
use kube_scheduler_framework::EventObject;
use kube_scheduler_writes::Jitter;

use crate::backoff::{Backoff, random_jitter};
use crate::inbox::{CoreEnded, Inbox, Observation};
use crate::kinds::versions::as_read;
use crate::kinds::{Form, WatchedKind};
use crate::lookup::escaped;
use crate::metrics::Metrics;
use crate::transport::{Api, ApiError, Call, Encoding};
use decode::{Frame, ListEnd, MalformedObject};
use frames::{Frames, MAX_FRAME, NextFrame};
use interruption::Interruption;
use items::Items;
pub use patience::Patience;
use position::Place;
pub(crate) use position::Position;
use served::VersionSearch;
pub(crate) use shared::SharedObjects;
use state::{StepEnd, WatchState};

/// The least time between the starts of two watches.
const SHORTEST: Duration = Duration::from_millis(100);
/// A watch that ends empty within this time shows nothing of the server's health.
const TOO_SHORT: Duration = Duration::from_secs(1);
/// Objects per page of a list, as the reference asks for.
const PAGE: usize = 500;
/// How many malformed objects of a kind are remembered, so that each is logged once.
const MAX_COMPLAINTS: usize = 1_000;

/// Follows one kind.
pub(crate) struct Reflector {
    number: usize,
    kind: WatchedKind,
    /// Watches, and lists that are the start of one.
    api: Api,
    /// All other lists.
    lists: Api,
    /// What is asked for; the server may answer in JSON nevertheless.
    encoding: Encoding,
    inbox: Inbox,
    metrics: Arc<Metrics>,
    patience: Patience,
    known: SharedObjects,
    sharing: Deduplicator,
    readers: ObjectReaders,
    /// News not passed on yet.
    inputs: Vec<Input>,
    state: WatchState,
    /// Whether the server can list as the start of a watch.
    can_stream: bool,
    is_synced: bool,
    complaints: BTreeSet<Key>,
    jitter: Jitter,
    place: Place,
    version_search: VersionSearch,
    has_said_not_served: bool,
}

impl Reflector {
    pub(crate) fn new(
        number: usize,
        kind: WatchedKind,
        api: Api,
        inbox: Inbox,
        metrics: Arc<Metrics>,
        patience: Patience,
        readers: ObjectReaders,
    ) -> Self {
        let encoding = if kind.speaks_protobuf() { Encoding::Protobuf } else { Encoding::Json };
        Self {
            number,
            known: SharedObjects::default(),
            sharing: Deduplicator::default(),
            readers,
            place: Place::new(&kind),
            version_search: VersionSearch::of(&kind),
            has_said_not_served: false,
            kind,
            lists: api.clone(),
            api,
            encoding,
            inbox,
            metrics,
            patience,
            inputs: Vec::new(),
            state: WatchState::ListAtHand,
            can_stream: true,
            is_synced: false,
            complaints: BTreeSet::new(),
            jitter: random_jitter(),
        }
    }

    /// The first list shows everything that was written before it was asked for, at the price of a slower start.
    pub(crate) fn beginning_with_latest(self) -> Self {
        Self { state: WatchState::Stream, ..self }
    }

    /// Takes lists that are no watch over another connection.
    pub(crate) fn listing_over(self, lists: Api) -> Self {
        Self { lists, ..self }
    }

    /// How objects of its kind are read.
    pub(crate) const fn form(&self) -> Form {
        self.kind.form
    }

    /// What this reflector has passed on to the core.
    pub(crate) fn known(&self) -> SharedObjects {
        self.known.clone()
    }

    /// Where this reflector is, for others to follow.
    pub(crate) fn position(&self) -> Position {
        self.place.position()
    }

    /// Follows the kind until the core ends.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::of_reflector();
        let wanted = self.place.wanted();
        loop {
            // A step that is dropped half-way loses nothing: the next one passes on what it took in.
            let started = tokio::time::Instant::now();
            let result = tokio::select! {
                biased;
                () = wanted.notified() => Err(Interruption::ListAgain),
                result = self.step() => result,
            };
            let kind = &self.kind.name;
            let wait = match result {
                Ok(StepEnd::Listed) => continue,
                // A watch that ends empty, again and again, must not become a busy loop.
                Ok(StepEnd::WatchedNothing) if started.elapsed() < TOO_SHORT => {
                    backoff.fail(Instant::now())
                }
                Ok(StepEnd::Watched | StepEnd::WatchedNothing) => {
                    backoff.succeed();
                    // A server that ends every watch after a bookmark must not be asked all the time.
                    SHORTEST.saturating_sub(started.elapsed())
                }
                Err(Interruption::CoreEnded(_)) => return,
                Err(Interruption::ListAgain) => {
                    self.forget_version();
                    continue;
                }
                Err(Interruption::NotStreamed(reason)) => {
                    tracing::debug!(kind, reason, "Falling back to paged lists");
                    self.can_stream = false;
                    self.state = WatchState::ListInPages;
                    continue;
                }
                Err(Interruption::NoProtobuf(reason)) => {
                    tracing::debug!(kind, reason, "Falling back to JSON");
                    continue;
                }
                Err(Interruption::Gone) => {
                    tracing::info!(
                        kind,
                        "Listing again: the server has forgotten the version we were at"
                    );
                    self.forget_version();
                    // The first time at once; a server whose versions expire again and again is asked with pauses.
                    backoff.fail(Instant::now()).saturating_sub(Duration::from_millis(1600))
                }
                Err(Interruption::NotServed) if self.kind.is_optional => {
                    if self.not_served().await.is_err() {
                        return;
                    }
                    backoff.fail(Instant::now())
                }
                Err(Interruption::Refused(reason)) => {
                    let wait = backoff.fail(Instant::now());
                    tracing::error!(
                        err = reason,
                        kind,
                        ?wait,
                        "The API server refuses to show a kind"
                    );
                    wait
                }
                Err(error) => {
                    let wait = backoff.fail(Instant::now());
                    error.log(kind, wait, self.api.is_away());
                    wait
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = wanted.notified() => self.forget_version(),
            }
        }
    }

    async fn step(&mut self) -> Result<StepEnd, Interruption> {
        if self.version_search == VersionSearch::Sought {
            self.choose_version().await?;
        }
        match &self.state {
            WatchState::ListAtHand => self.list_at_hand().await,
            WatchState::Stream => self.stream().await,
            WatchState::ListInPages => self.list_in_pages().await,
            WatchState::Watch { from } => self.watch(from.clone()).await,
        }
    }

    /// The way to list everything that this server is capable of.
    const fn list_state(&self) -> WatchState {
        if self.can_stream { WatchState::Stream } else { WatchState::ListInPages }
    }

    /// The version that watching would go on from cannot be used: list next. A list that was due anyway stays as it is.
    fn forget_version(&mut self) {
        if self.version().is_some() {
            self.state = self.list_state();
        }
    }

    /// The version that the next watch starts from; `None` while everything must be listed.
    fn version(&self) -> Option<&str> {
        match &self.state {
            WatchState::Watch { from } => Some(from),
            WatchState::ListAtHand | WatchState::Stream | WatchState::ListInPages => None,
        }
    }

    /// Lists as the start of a watch, and goes on watching.
    async fn stream(&mut self) -> Result<StepEnd, Interruption> {
        let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let opened = self.open(query).await;
        // If this breaks off before the list is complete, the next try lists in pages.
        self.state = WatchState::ListInPages;
        let body = match opened {
            Ok(body) => body,
            Err(error @ ApiError::Status { code: 406 | 415, .. })
                if self.encoding == Encoding::Protobuf =>
            {
                self.state = WatchState::Stream;
                return Err(self.without_protobuf(error));
            }
            Err(error @ ApiError::Status { code: 400 | 405 | 406 | 415 | 422, .. }) => {
                return Err(Interruption::NotStreamed(error.to_string()));
            }
            Err(error) => {
                if error.code() == Some(429) || error.is_not_sent() {
                    self.state = WatchState::Stream;
                }
                return Err(Interruption::of_watch(error));
            }
        };
        self.consume(body, Some(BTreeSet::new())).await
    }

    /// Watches from a version on.
    async fn watch(&mut self, from: String) -> Result<StepEnd, Interruption> {
        let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        match self.open(&query).await {
            Ok(body) => self.consume(body, None).await,
            Err(error) if error.code() == Some(429) => Err(Interruption::of_watch(error)),
            Err(error) => Err(self.without_protobuf(error)),
        }
    }

    /// Lists everything in one answer, taken in while it arrives.
    ///
    /// As in the reference, the first list may be a little old: the server answers it from its cache. Whatever is listed
    /// later is the latest, so that nothing goes back in time.
    async fn list_at_hand(&mut self) -> Result<StepEnd, Interruption> {
        self.state = WatchState::Stream;
        // Nothing is known that could be gone, unless an earlier try broke off.
        let mut seen = (!self.known.lock().is_empty()).then(BTreeSet::new);
        let end = self.take_list("resourceVersion=0", &mut seen).await.inspect_err(|error| {
            if matches!(error, Interruption::NoProtobuf(_)) {
                self.state = WatchState::ListAtHand;
            }
        })?;
        self.finish_list(seen.as_ref()).await?;
        Ok(self.listed(end.resource_version))
    }

    /// Lists in pages.
    async fn list_in_pages(&mut self) -> Result<StepEnd, Interruption> {
        let mut seen = Some(BTreeSet::new());
        let mut query = format!("limit={PAGE}");
        loop {
            let end = self.take_list(&query, &mut seen).await?;
            if end.next.is_empty() {
                self.finish_list(seen.as_ref()).await?;
                return Ok(self.listed(end.resource_version));
            }
            query = format!("limit={PAGE}&continue={}", escaped(&end.next));
        }
    }

    /// Takes in one answer to a list.
    async fn take_list(
        &mut self,
        query: &str,
        seen: &mut Option<BTreeSet<Key>>,
    ) -> Result<ListEnd, Interruption> {
        let call = Call::get(self.url(query)).wanting(self.encoding).timeout(self.patience.answer);
        let answer = self.lists.stream_patiently(&call).await;
        let (mut body, encoding) = answer.map_err(|error| self.without_protobuf(error))?;
        let mut items = Items::new(encoding, self.kind.kind);
        let mut n_bytes = 0;
        let unreadable = |bad: MalformedObject| Interruption::Failed(bad.text);
        loop {
            let chunk = match tokio::time::timeout(self.patience.answer, body.frame()).await {
                Err(_) => return Err(Interruption::Failed("the list broke off".to_owned())),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) => {
                    return Err(Interruption::Away(format!("the list broke off: {error}")));
                }
                Ok(None) => break,
            };
            self.lists.heard();
            n_bytes += chunk.len();
            items.push(&chunk);
            while let items::NextItem::Item(bytes) = items.next().map_err(unreadable)? {
                // At once: should the list break off, each object that came is as good as from a watch. What is gone is known
                // only at the end.
                let object = decode::item(encoding, &self.kind, bytes);
                self.apply(object, seen.as_mut());
            }
            self.inbox.pass_on(&mut self.inputs).await?;
        }
        self.lists.observe_answer(&call, n_bytes);
        items.finish().map_err(unreadable)
    }

    /// A list is complete, and watching goes on behind it.
    fn listed(&mut self, version: String) -> StepEnd {
        self.place.report(Some(&version), true);
        self.state = WatchState::Watch { from: version };
        StepEnd::Listed
    }

    /// Asks for JSON from now on, if it was protobuf that the server did not want.
    fn without_protobuf(&mut self, error: ApiError) -> Interruption {
        if matches!(error.code(), Some(406 | 415)) && self.encoding == Encoding::Protobuf {
            self.encoding = Encoding::Json;
            return Interruption::NoProtobuf(error.to_string());
        }
        error.into()
    }

    async fn open(&mut self, query: &str) -> Result<(Body, Encoding), ApiError> {
        // As the reference does: some minutes, spread so that not all watches end together.
        let limit = self.jitter.stretch(Duration::from_secs(300), 1.0).as_secs();
        let url = self.url(&format!("{query}&timeoutSeconds={limit}"));
        let call = Call::get(url).wanting(self.encoding).timeout(self.patience.answer);
        self.api.stream_patiently(&call).await
    }

    fn url(&self, query: &str) -> String {
        match self.kind.field_selector {
            Some(selector) => {
                format!("{}?{query}&fieldSelector={}", self.kind.path, escaped(selector))
            }
            None => format!("{}?{query}", self.kind.path),
        }
    }

    /// Takes in a watch until it ends. While `initial` collects keys, what comes is what there is.
    async fn consume(
        &mut self,
        (mut body, encoding): (Body, Encoding),
        mut initial: Option<BTreeSet<Key>>,
    ) -> Result<StepEnd, Interruption> {
        let mut was_listing = initial.is_some();
        let mut end = StepEnd::WatchedNothing;
        let mut frames = Frames::new(encoding, MAX_FRAME);
        loop {
            let patience = if initial.is_some() {
                self.patience.initial_events
            } else {
                self.patience.silence
            };
            let chunk = match tokio::time::timeout(patience, body.frame()).await {
                Err(_) => {
                    return Err(Interruption::Failed(format!(
                        "the watch was silent for {patience:?}"
                    )));
                }
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) if initial.is_some() => {
                    return Err(Interruption::Away(format!("the watch broke off: {error}")));
                }
                Ok(None) if initial.is_some() => {
                    return Err(Interruption::Failed(
                        "the watch ended before its list was complete".to_owned(),
                    ));
                }
                // Nothing is lost with the connection: the next watch goes on from the last version.
                Ok(Some(Err(error))) => {
                    let kind = &self.kind.name;
                    tracing::debug!(target: "V2", kind, %error, "A watch broke off");
                    return Ok(end);
                }
                Ok(None) => return Ok(end),
            };
            self.api.heard();
            frames.push(&chunk);
            loop {
                let frame = match frames.next() {
                    NextFrame::Incomplete => break,
                    NextFrame::Frame(bytes) => decode::frame(encoding, &self.kind, bytes),
                    NextFrame::TooLarge => {
                        let text = format!("it is larger than {MAX_FRAME} bytes");
                        Ok(Some(Frame::Applied(Err(MalformedObject { key: None, text }))))
                    }
                };
                let frame = match frame {
                    Ok(Some(frame)) => frame,
                    Ok(None) => continue,
                    Err(bad) => {
                        self.inbox.pass_on(&mut self.inputs).await?;
                        return Err(Interruption::Failed(bad.text));
                    }
                };
                end = StepEnd::Watched;
                if let Err(interruption) = self.take(frame, &mut initial).await {
                    // What arrived before the failure is valid.
                    self.inbox.pass_on(&mut self.inputs).await?;
                    return Err(interruption);
                }
            }
            self.inbox.pass_on(&mut self.inputs).await?;
            if initial.is_none() {
                self.place.report(self.version(), std::mem::take(&mut was_listing));
            }
        }
    }

    async fn take(
        &mut self,
        frame: Frame,
        initial: &mut Option<BTreeSet<Key>>,
    ) -> Result<(), Interruption> {
        match frame {
            Frame::Applied(object) => {
                let version = self.apply(object, initial.as_mut());
                // Initial events carry the versions of their objects, not that of the list.
                if initial.is_none() {
                    self.advance(version);
                }
            }
            Frame::Deleted(object) => {
                let (key, version) = match object {
                    Ok(object) => (Some(object.key()), Some(object.resource_version().to_string())),
                    Err(bad) => (bad.key, None),
                };
                if let Some(key) = key {
                    self.known.lock().delete(&key, &mut self.inputs);
                    if let Some(seen) = initial {
                        seen.remove(&key);
                    }
                }
                if initial.is_none() {
                    self.advance(version);
                }
            }
            Frame::Bookmark { resource_version, ends_initial_events } => {
                if ends_initial_events && let Some(seen) = initial.take() {
                    self.finish_list(Some(&seen)).await?;
                }
                if initial.is_none() {
                    self.advance(Some(resource_version));
                    // About once a minute, so that nothing stays of objects that are gone.
                    self.sharing.sweep();
                    self.publish_parts();
                }
            }
            Frame::Error { code: 410, .. } => return Err(Interruption::Gone),
            Frame::Error { code: 429, message } => {
                if initial.is_some() {
                    self.state = WatchState::Stream;
                }
                return Err(Interruption::Busy(message));
            }
            // A server whose storage cannot report its progress says so here, after it accepted the watch.
            Frame::Error { message, .. } if initial.is_some() => {
                return Err(Interruption::NotStreamed(message));
            }
            Frame::Error { message, .. } => return Err(Interruption::Failed(message)),
        }
        Ok(())
    }

    fn advance(&mut self, version: Option<String>) {
        if let Some(from) = version.filter(|version| !version.is_empty()) {
            self.state = WatchState::Watch { from };
        }
    }

    /// Takes in one object and returns its version.
    fn apply(
        &mut self,
        object: Result<EventObject, MalformedObject>,
        seen: Option<&mut BTreeSet<Key>>,
    ) -> Option<String> {
        match object {
            Ok(mut object) => {
                if let EventObject::Other(other) = object {
                    object = EventObject::Other(as_read(&self.kind.name, other));
                }
                self.sharing.share(&mut object);
                if let Some(seen) = seen {
                    seen.insert(object.key());
                }
                let version = object.resource_version().to_string();
                self.known.lock().apply(object, &mut self.inputs);
                if let Some(Input::ObjectApplied(object)) = self.inputs.last() {
                    self.readers.read(object);
                }
                Some(version)
            }
            Err(bad) => {
                self.metrics.count_malformed(&self.kind.name);
                // The last readable state stays: the object still exists, although its new state cannot be read.
                if let (Some(key), Some(seen)) = (&bad.key, seen) {
                    seen.insert(key.clone());
                }
                self.complain(bad);
                None
            }
        }
    }

    fn publish_parts(&self) {
        if matches!(self.kind.form, Form::Pod | Form::Node) {
            let size = self.sharing.size();
            self.known.set_parts(size);
            self.metrics.publish_parts(&self.kind.name, size);
        }
    }

    fn complain(&mut self, bad: MalformedObject) {
        let key = bad.key.unwrap_or_default();
        if self.complaints.len() < MAX_COMPLAINTS && self.complaints.insert(key.clone()) {
            let (namespace, name) = key;
            let kind = &self.kind.name;
            tracing::error!(kind, %namespace, %name, error = bad.text, "Skipping an object that cannot be read");
        }
    }

    /// Everything there is has been seen: `seen`, or all that is known.
    async fn finish_list(&mut self, seen: Option<&BTreeSet<Key>>) -> Result<(), CoreEnded> {
        if let Some(seen) = seen {
            self.known.lock().keep_only(seen, &mut self.inputs);
        }
        self.inbox.pass_on(&mut self.inputs).await?;
        self.publish_parts();
        // Pages were only for this list, unless the server can do nothing else.
        if self.state == WatchState::ListInPages {
            self.state = self.list_state();
        }
        if !self.is_synced {
            self.is_synced = true;
            tracing::debug!(kind = self.kind.name, objects = self.known.lock().len(), "Synced");
            self.inbox.observe(Observation::Synced(self.number))?;
        }
        Ok(())
    }
}
