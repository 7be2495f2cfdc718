//! One kind of objects followed: listed, watched, resumed, listed again when the server has forgotten where we were.
//!
//! Invariants: what the core is told is always a state the server had, never older than what was told before; after
//! each complete list the core knows of no object the list lacked; no failure ends a reflector, it only slows it down;
//! memory is bounded by one item of a list or one frame of a watch, beside a few words per object.

mod decode;
mod frames;
mod interruption;
mod items;
mod position;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use kube::client::Body;
use kube_scheduler_engine::{Followed, FollowedKey as Key, Input, Known, Sharing};
use kube_scheduler_writes::Jitter;

use crate::backoff::{Backoff, random_jitter};
use crate::inbox::{CoreEnded, Inbox, Observation};
use crate::kinds::{Form, WatchedKind};
use crate::metrics::Metrics;
use crate::transport::{Api, ApiError, Call, Encoding};
use decode::{Frame, ListEnd, Malformed};
use frames::{Frames, MAX_FRAME, Next};
use interruption::Interruption;
use items::Items;
use position::Place;
pub(crate) use position::Position;

/// The least time between the beginnings of two watches.
const SHORTEST: Duration = Duration::from_millis(100);
/// Objects per page of a list, as the reference asks for.
const PAGE: usize = 500;
/// How many broken objects of a kind are remembered, so as to complain about each once.
const MAX_COMPLAINTS: usize = 1_000;

/// How patient a scheduler is with lists and watches.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the answer to a list, and for a watch to begin. A minute by default.
    pub answer: Duration,
    /// Between two initial events of a streaming list, before a paged list is tried instead. Servers before 1.27 know no
    /// such lists and fall silent without saying so. A quarter of a minute by default.
    pub initial_events: Duration,
    /// A watch that is silent for so long is taken for dead. Servers send a bookmark about every minute. Three minutes by
    /// default.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(60),
            initial_events: Duration::from_secs(15),
            silence: Duration::from_secs(180),
        }
    }
}

/// What the core was told of one kind, for others to look at. Held for moments only.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedKnown(Arc<Mutex<Known>>);

impl SharedKnown {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows one kind.
pub(crate) struct Reflector {
    number: usize,
    kind: WatchedKind,
    /// Watches, and lists that are the beginning of one.
    api: Api,
    /// All other lists.
    lists: Api,
    /// What is asked for; the server may answer in JSON all the same.
    encoding: Encoding,
    inbox: Inbox,
    metrics: Arc<Metrics>,
    patience: Patience,
    known: SharedKnown,
    sharing: Sharing,
    /// News not passed on yet.
    inputs: Vec<Input>,
    /// Where the next watch begins; `None` when everything must be listed.
    version: Option<String>,
    how_to_list: HowToList,
    is_synced: bool,
    complaints: BTreeSet<Key>,
    jitter: Jitter,
    place: Place,
}

/// The two ways to learn everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HowToList {
    /// Whole, from what the server has at hand, which may be a little old: the quickest way, good for the first list only.
    AtHand,
    /// As the beginning of a watch: little memory on both sides.
    Streamed,
    /// In pages, because a stream broke off. The next time it is streamed again.
    PagedOnce,
    /// In pages, because the server knows no streams.
    Paged,
}

/// What a step ended with, when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// A list is complete.
    Listed,
    /// The server ended a watch that brought something, if only a bookmark.
    Watched,
    /// The server ended a watch that brought nothing.
    Empty,
}

impl Reflector {
    pub(crate) fn new(
        number: usize,
        kind: WatchedKind,
        api: Api,
        inbox: Inbox,
        metrics: Arc<Metrics>,
        patience: Patience,
    ) -> Self {
        let encoding = if kind.speaks_protobuf() { Encoding::Protobuf } else { Encoding::Json };
        Self {
            number,
            known: SharedKnown::default(),
            sharing: Sharing::default(),
            place: Place::new(&kind),
            kind,
            lists: api.clone(),
            api,
            encoding,
            inbox,
            metrics,
            patience,
            inputs: Vec::new(),
            version: None,
            how_to_list: HowToList::AtHand,
            is_synced: false,
            complaints: BTreeSet::new(),
            jitter: random_jitter(),
        }
    }

    /// The first list shows everything that was written before it was asked for, at the price of a slower start.
    pub(crate) fn beginning_with_latest(self) -> Self {
        Self { how_to_list: HowToList::Streamed, ..self }
    }

    /// Takes lists that are no watch over another connection.
    pub(crate) fn listing_over(self, lists: Api) -> Self {
        Self { lists, ..self }
    }

    /// How objects of its kind are read.
    pub(crate) const fn form(&self) -> Form {
        self.kind.form
    }

    /// What this reflector has told the core.
    pub(crate) fn known(&self) -> SharedKnown {
        self.known.clone()
    }

    /// Tells others where this reflector is.
    pub(crate) fn position(&self) -> Position {
        self.place.position()
    }

    /// Follows the kind until the core ends.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::of_reflector();
        let wanted = self.place.wanted();
        loop {
            // A step that is given up half-way leaves nothing undone: what it took in is passed on by the next one.
            let began = Instant::now();
            let result = tokio::select! {
                biased;
                () = wanted.notified() => Err(Interruption::ListAgain),
                result = self.step() => result,
            };
            let kind = &self.kind.name;
            let wait = match result {
                Ok(Ended::Listed) => continue,
                Ok(Ended::Watched) => {
                    backoff.succeed();
                    // A server that ends every watch after a bookmark must not be asked all the time.
                    SHORTEST.saturating_sub(began.elapsed())
                }
                // A watch that ends empty, again and again, must not become a busy loop.
                Ok(Ended::Empty) => backoff.fail(Instant::now()),
                Err(Interruption::CoreEnded(_)) => return,
                Err(Interruption::ListAgain) => {
                    self.version = None;
                    continue;
                }
                Err(Interruption::NotStreamed(reason)) => {
                    tracing::debug!(kind, reason, "Falling back to paged lists");
                    self.how_to_list = HowToList::Paged;
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
                    self.version = None;
                    // The first time at once; a server that forgets all the time gets a rest.
                    backoff.fail(Instant::now()).saturating_sub(Duration::from_millis(1600))
                }
                Err(Interruption::NotServed) if self.kind.is_optional => {
                    tracing::debug!(kind, "The server does not serve this kind");
                    if self.finish_list(Some(&BTreeSet::new())).await.is_err() {
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
                    tracing::warn!(kind, %error, ?wait, "Following a kind was interrupted");
                    wait
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = wanted.notified() => self.version = None,
            }
        }
    }

    async fn step(&mut self) -> Result<Ended, Interruption> {
        match (&self.version, self.how_to_list) {
            (Some(from), _) => self.watch(from.clone()).await,
            (None, HowToList::AtHand) => self.list_at_hand().await,
            (None, HowToList::Streamed) => self.stream().await,
            (None, _) => self.list_in_pages().await,
        }
    }

    /// Lists as the beginning of a watch, and goes on watching.
    async fn stream(&mut self) -> Result<Ended, Interruption> {
        // Whatever breaks off before the list is complete, pages get their chance next.
        self.how_to_list = HowToList::PagedOnce;
        let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let body = match self.open(query).await {
            Ok(body) => body,
            Err(error @ ApiError::Status { code: 406 | 415, .. })
                if self.encoding == Encoding::Protobuf =>
            {
                self.how_to_list = HowToList::Streamed;
                return Err(self.without_protobuf(error));
            }
            Err(error @ ApiError::Status { code: 400 | 405 | 406 | 415 | 422, .. }) => {
                return Err(Interruption::NotStreamed(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        self.consume(body, Some(BTreeSet::new())).await
    }

    /// Watches from a version on.
    async fn watch(&mut self, from: String) -> Result<Ended, Interruption> {
        let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        let body = self.open(&query).await.map_err(|error| self.without_protobuf(error))?;
        self.consume(body, None).await
    }

    /// Lists everything in one answer, taken in while it arrives.
    ///
    /// As in the reference, the first list may be a little old: the server answers it from its cache. Whatever is listed
    /// later is the latest, so that nothing goes back in time.
    async fn list_at_hand(&mut self) -> Result<Ended, Interruption> {
        self.how_to_list = HowToList::Streamed;
        // Nothing is known that could be gone, unless an earlier try broke off.
        let mut seen = (!self.known.lock().is_empty()).then(BTreeSet::new);
        let end = self.take_list("resourceVersion=0", &mut seen).await.inspect_err(|error| {
            if matches!(error, Interruption::NoProtobuf(_)) {
                self.how_to_list = HowToList::AtHand;
            }
        })?;
        self.finish_list(seen.as_ref()).await?;
        Ok(self.listed(end.resource_version))
    }

    /// Lists in pages.
    async fn list_in_pages(&mut self) -> Result<Ended, Interruption> {
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
        let unreadable = |bad: Malformed| Interruption::Failed(bad.text);
        loop {
            let chunk = match tokio::time::timeout(self.patience.answer, body.frame()).await {
                Err(_) => return Err(Interruption::Failed("the list broke off".to_owned())),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) => {
                    return Err(Interruption::Failed(format!("the list broke off: {error}")));
                }
                Ok(None) => break,
            };
            n_bytes += chunk.len();
            items.push(&chunk);
            while let items::Next::Item(bytes) = items.next().map_err(unreadable)? {
                let object = decode::item(encoding, &self.kind, bytes);
                self.apply(object, seen.as_mut());
            }
            self.inbox.pass_on(&mut self.inputs).await?;
        }
        self.lists.observe_answer(&call, n_bytes);
        items.finish().map_err(unreadable)
    }

    /// A list is complete, and watching goes on behind it.
    fn listed(&mut self, version: String) -> Ended {
        self.version = Some(version);
        self.place.tell(self.version.as_deref(), true);
        Ended::Listed
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
        self.api.stream(&call).await
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
    ) -> Result<Ended, Interruption> {
        let is_stream = initial.is_some();
        let mut was_listing = is_stream;
        let mut ended = Ended::Empty;
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
                Ok(Some(Err(error))) => {
                    return Err(Interruption::Failed(format!("the watch broke off: {error}")));
                }
                Ok(None) if initial.is_some() => {
                    return Err(Interruption::Failed(
                        "the watch ended before its list was complete".to_owned(),
                    ));
                }
                Ok(None) => return Ok(if is_stream { Ended::Watched } else { ended }),
            };
            frames.push(&chunk);
            loop {
                let frame = match frames.next() {
                    Next::Incomplete => break,
                    Next::Frame(bytes) => decode::frame(encoding, &self.kind, bytes),
                    Next::TooLarge => {
                        let text = format!("it is larger than {MAX_FRAME} bytes");
                        Ok(Some(Frame::Applied(Err(Malformed { key: None, text }))))
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
                ended = Ended::Watched;
                if let Err(interruption) = self.take(frame, &mut initial).await {
                    // What came before the failure is true all the same.
                    self.inbox.pass_on(&mut self.inputs).await?;
                    return Err(interruption);
                }
            }
            self.inbox.pass_on(&mut self.inputs).await?;
            if initial.is_none() {
                self.place.tell(self.version.as_deref(), std::mem::take(&mut was_listing));
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
                }
            }
            Frame::Error { code: 410, .. } => return Err(Interruption::Gone),
            // A server whose storage cannot tell its progress says so here, after it accepted the watch.
            Frame::Error { message, .. } if initial.is_some() => {
                return Err(Interruption::NotStreamed(message));
            }
            Frame::Error { message, .. } => return Err(Interruption::Failed(message)),
        }
        Ok(())
    }

    fn advance(&mut self, version: Option<String>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.version = Some(version);
        }
    }

    /// Takes in one object and returns its version.
    fn apply(
        &mut self,
        object: Result<Followed, Malformed>,
        seen: Option<&mut BTreeSet<Key>>,
    ) -> Option<String> {
        match object {
            Ok(mut object) => {
                self.sharing.share(&mut object);
                if let Some(seen) = seen {
                    seen.insert(object.key());
                }
                let version = object.resource_version().to_string();
                self.known.lock().apply(object, &mut self.inputs);
                Some(version)
            }
            Err(bad) => {
                self.metrics.count_malformed(&self.kind.name);
                // The last readable state stays: the object exists, whatever it says now.
                if let (Some(key), Some(seen)) = (&bad.key, seen) {
                    seen.insert(key.clone());
                }
                self.complain(bad);
                None
            }
        }
    }

    fn complain(&mut self, bad: Malformed) {
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
        if self.how_to_list == HowToList::PagedOnce {
            self.how_to_list = HowToList::Streamed;
        }
        if !self.is_synced {
            self.is_synced = true;
            tracing::debug!(kind = self.kind.name, objects = self.known.lock().len(), "Synced");
            self.inbox.observe(Observation::Synced(self.number))?;
        }
        Ok(())
    }
}

/// Percent-encoded for a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte))
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
