//! What users are told: events of `events.k8s.io/v1`, repeated ones counted in a series.
//!
//! Invariants: recording never waits; what waits is bounded, the oldest goes first when there is no room; one that may
//! repeat is remembered for [`FORGET_AFTER`] after its last time, and how many are remembered is bounded too.
//!
//! Parity: upstream tells series apart by the resource version of the pod, which changes with the text of its condition;
//! here the text itself takes its place. `regarding.resourceVersion` is left out.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::PodRef;
use kube_scheduler_framework::EventKind;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::to_micro_time;
use crate::transport::{Api, ApiError, Call};

/// Events that may wait to be written.
const MAX_WAITING: usize = 16_384;
/// Events that may be remembered because they may repeat.
const MAX_REMEMBERED: usize = 16_384;
/// How long an event must not repeat to be forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(360);
/// Tries of one write that did not get through, and the pause between them.
const MAX_TRIES: u32 = 12;
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) pod: PodRef,
    pub(crate) is_warning: bool,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) action: Cow<'static, str>,
    pub(crate) note: String,
    pub(crate) reporting: Arc<str>,
}

/// One request to the API.
#[derive(Clone, Debug)]
pub(crate) struct EventWrite {
    record: Arc<Record>,
    name: String,
    time: Timestamp,
    /// How often, and when last; `None` for the first time.
    series: Option<(u32, Timestamp)>,
    tries: u32,
}

#[derive(Debug)]
struct Series {
    name: String,
    time: Timestamp,
    count: u32,
    last: Timestamp,
    /// The count last written.
    written: u32,
}

/// Events to be written, and those that may repeat.
#[derive(Debug)]
pub(crate) struct EventQueue {
    hostname: Arc<str>,
    waiting: VecDeque<EventWrite>,
    delayed: VecDeque<(Instant, EventWrite)>,
    series: BTreeMap<Arc<Record>, Series>,
    last_name: i64,
    n_dropped: u64,
}

impl EventQueue {
    pub(crate) fn new(hostname: Arc<str>) -> Self {
        Self {
            hostname,
            waiting: VecDeque::new(),
            delayed: VecDeque::new(),
            series: BTreeMap::new(),
            last_name: 0,
            n_dropped: 0,
        }
    }

    /// Takes in an event.
    pub(crate) fn record(&mut self, record: Record, now: Timestamp) {
        if let Some(series) = self.series.get_mut(&record) {
            series.count += 1;
            series.last = now;
            // The second time is written at once, so that people see that it repeats; later ones at intervals.
            if series.count == 2 {
                series.written = 2;
                let write = EventWrite {
                    name: series.name.clone(),
                    time: series.time,
                    series: Some((2, now)),
                    tries: 0,
                    record: Arc::new(record),
                };
                self.enqueue(write);
            }
            return;
        }
        let record = Arc::new(record);
        let name = self.fresh_name(&record.pod.name, now);
        // Good news about a pod comes once.
        if record.is_warning && self.series.len() < MAX_REMEMBERED {
            let series = Series { name: name.clone(), time: now, count: 1, last: now, written: 1 };
            self.series.insert(record.clone(), series);
        }
        self.enqueue(EventWrite { record, name, time: now, series: None, tries: 0 });
    }

    /// The next event to write.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<EventWrite> {
        if let Some((due, _)) = self.delayed.front()
            && *due <= now
        {
            return self.delayed.pop_front().map(|(_, write)| write);
        }
        self.waiting.pop_front()
    }

    /// When a delayed event is due again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delayed.front().map(|(due, _)| *due)
    }

    /// A write did not get through; it is tried again later, some times.
    pub(crate) fn retry(&mut self, mut write: EventWrite, now: Instant) {
        write.tries += 1;
        if write.tries < MAX_TRIES && self.delayed.len() < MAX_WAITING {
            self.delayed.push_back((now + RETRY_PAUSE, write));
        } else {
            self.n_dropped += 1;
        }
    }

    /// Writes the counts of series and forgets what has stopped repeating.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        let mut news = Vec::new();
        self.series.retain(|record, series| {
            if series.count > series.written {
                series.written = series.count;
                news.push(EventWrite {
                    record: record.clone(),
                    name: series.name.clone(),
                    time: series.time,
                    series: Some((series.count, series.last)),
                    tries: 0,
                });
            }
            now.saturating_since(series.last) <= FORGET_AFTER
        });
        news.into_iter().for_each(|write| self.enqueue(write));
    }

    /// Whether an event waits that could be written now.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many events were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.n_dropped)
    }

    /// Who reports.
    pub(crate) fn hostname(&self) -> Arc<str> {
        self.hostname.clone()
    }

    fn enqueue(&mut self, write: EventWrite) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
            self.n_dropped += 1;
        }
        self.waiting.push_back(write);
    }

    /// `<pod>.<time in hex>`, unique within this process.
    fn fresh_name(&mut self, pod: &str, now: Timestamp) -> String {
        self.last_name = now.as_nanos().max(self.last_name + 1);
        format!("{pod}.{:x}", self.last_name)
    }
}

impl Record {
    pub(crate) const fn type_name(&self) -> &'static str {
        if self.is_warning { EventKind::Warning.as_str() } else { EventKind::Normal.as_str() }
    }
}

/// Writes one event. `Err` only if trying again makes sense.
pub(crate) async fn write(
    api: &Api,
    write: &EventWrite,
    hostname: &str,
    timeout: Duration,
) -> Result<(), ApiError> {
    let record = &write.record;
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", record.pod.namespace);
    let mut answer = match write.series {
        Some((count, last)) => {
            let body = json!({"series": series(count, last)});
            let call = Call::patch(format!("{path}/{}", write.name), body.to_string().into_bytes())
                .timeout(timeout);
            api.call_patiently(&call).await.0
        }
        None => api.call_patiently(&create(write, &path, hostname, timeout)).await.0,
    };
    if write.series.is_some() && answer.as_ref().err().and_then(ApiError::code) == Some(404) {
        answer = api.call_patiently(&create(write, &path, hostname, timeout)).await.0;
    }
    match answer {
        // Without an answer nothing was decided; a refusal would be the same the next time.
        Err(error) if error.code().is_none() => Err(error),
        Err(error) => {
            tracing::debug!(event = write.name, %error, "Server rejected event (will not retry!)");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

fn series(count: u32, last: Timestamp) -> Value {
    json!({"count": count, "lastObservedTime": to_micro_time(last)})
}

fn create(write: &EventWrite, path: &str, hostname: &str, timeout: Duration) -> Call {
    let record = &write.record;
    let mut body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": write.name, "namespace": &*record.pod.namespace},
        "eventTime": to_micro_time(write.time),
        "reportingController": &*record.reporting,
        "reportingInstance": format!("{}-{hostname}", record.reporting),
        "type": record.type_name(),
        "reason": record.reason,
        "action": record.action,
        "note": record.note,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": &*record.pod.namespace,
            "name": &*record.pod.name,
            "uid": &*record.pod.uid,
        },
    });
    if let Some((count, last)) = write.series {
        body["series"] = series(count, last);
    }
    Call::post(path, body.to_string().into_bytes()).timeout(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(note: &str) -> Record {
        Record {
            pod: PodRef { namespace: "x".into(), name: "p".into(), uid: "1".into() },
            is_warning: true,
            reason: "FailedScheduling".into(),
            action: "Scheduling".into(),
            note: note.to_owned(),
            reporting: "default-scheduler".into(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn repetition_becomes_a_series() {
        let mut queue = EventQueue::new("host".into());
        let now = Instant::now();
        for second in 1..=5 {
            queue.record(record("no room"), at(second));
        }
        let first = queue.pop(now).unwrap();
        assert_eq!((first.name.as_str(), first.series), ("p.3b9aca00", None));
        let second = queue.pop(now).unwrap();
        assert_eq!((&second.name, second.series), (&first.name, Some((2, at(2)))));
        assert!(queue.pop(now).is_none(), "later repetitions are counted only");
        queue.sweep(at(6));
        assert_eq!(queue.pop(now).unwrap().series, Some((5, at(5))));
        queue.sweep(at(7));
        assert!(queue.pop(now).is_none());
        queue.sweep(at(400));
        queue.record(record("no room"), at(401));
        assert_eq!(queue.pop(now).unwrap().series, None, "it was forgotten");
    }

    #[test]
    fn another_text_is_another_event() {
        let mut queue = EventQueue::new("host".into());
        queue.record(record("a"), at(1));
        queue.record(record("b"), at(1));
        let now = Instant::now();
        let (first, second) = (queue.pop(now).unwrap(), queue.pop(now).unwrap());
        assert_ne!(first.name, second.name);
        assert_eq!((first.series, second.series), (None, None));
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let mut queue = EventQueue::new("host".into());
        for i in 0..MAX_WAITING + 3 {
            queue.record(record(&i.to_string()), at(1));
        }
        assert_eq!(queue.take_dropped(), 3);
        assert_eq!(queue.pop(Instant::now()).unwrap().record.note, "3");
    }

    #[test]
    fn what_did_not_get_through_comes_again() {
        let mut queue = EventQueue::new("host".into());
        let now = Instant::now();
        queue.record(record("a"), at(1));
        let write = queue.pop(now).unwrap();
        queue.retry(write, now);
        assert!(queue.pop(now).is_none());
        assert_eq!(queue.next_due(), Some(now + RETRY_PAUSE));
        let mut write = queue.pop(now + RETRY_PAUSE).unwrap();
        write.tries = MAX_TRIES;
        queue.retry(write, now);
        assert_eq!((queue.next_due(), queue.take_dropped()), (None, 1));
    }
}
