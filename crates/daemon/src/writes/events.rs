//! What users are told: events of `events.k8s.io/v1`, repeated ones counted in a series.
//!
//! Series are told apart as in the reference: by everything but the note, the pod's resource version included. The first
//! time is created, the second starts a series, later ones are counted and written at intervals.
//!
//! Invariants: recording never waits; what waits is bounded, and what comes when there is no room is dropped; one that may
//! repeat is remembered for [`FORGET_AFTER`] after its last time, and how many are remembered is bounded too.
//!
//! Parity: the reference's queue holds 1,000, but only between recording and sending, which waits in as many goroutines as
//! there are events; here everything that waits is in one queue, which holds more for that. An event that a pod was
//! assigned is not remembered, as no pod is assigned twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::PodRef;
use kube_scheduler_framework::EventKind;
use tokio::time::Instant;

use crate::backoff::Jitter;

/// Events that may wait to be written.
const MAX_WAITING: usize = 32_768;
/// Events that may be remembered because they may repeat.
const MAX_REMEMBERED: usize = 65_536;
/// How long an event must not repeat to be forgotten.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(360);
/// How often the series that go on are written.
pub(crate) const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);
/// Tries of one write that did not get through, and the pause between them, which is stretched at random.
pub(crate) const MAX_TRIES: u32 = 12;
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(10);
const RETRY_JITTER: f64 = 0.25;
/// The longest name an object may have.
const MAX_NAME_LEN: usize = 253;
/// The reason of events that cannot repeat.
const ASSIGNED: &str = "Scheduled";

/// Which events are the same again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) pod: PodRef,
    /// The version of the pod that the event is about.
    pub(crate) resource_version: Arc<str>,
    pub(crate) is_warning: bool,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) action: Cow<'static, str>,
    pub(crate) reporting: Arc<str>,
}

impl Key {
    pub(crate) const fn type_name(&self) -> &'static str {
        if self.is_warning { EventKind::Warning.as_str() } else { EventKind::Normal.as_str() }
    }
}

/// One request to the API.
#[derive(Clone, Debug)]
pub(crate) struct EventWrite {
    pub(crate) key: Arc<Key>,
    pub(crate) note: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) time: Timestamp,
    /// How often, and when last; `None` for the first time.
    pub(crate) series: Option<(u32, Timestamp)>,
    /// How often it did not get through.
    tries: u32,
    /// How often the server asked for patience.
    n_asked: u32,
}

#[derive(Debug)]
struct Remembered {
    name: Arc<str>,
    note: Arc<str>,
    time: Timestamp,
    /// From the second time on.
    series: Option<(u32, Timestamp)>,
}

impl Remembered {
    fn write(&self, key: &Arc<Key>) -> EventWrite {
        EventWrite {
            key: key.clone(),
            note: self.note.clone(),
            name: self.name.clone(),
            time: self.time,
            series: self.series,
            tries: 0,
            n_asked: 0,
        }
    }
}

/// Events to be written, and those that may repeat.
#[derive(Debug)]
pub(crate) struct EventQueue {
    waiting: VecDeque<EventWrite>,
    /// By when they are due; the number keeps those of the same moment apart.
    delayed: BTreeMap<(Instant, u64), EventWrite>,
    n_delayed: u64,
    remembered: BTreeMap<Arc<Key>, Remembered>,
    last_name: i64,
    n_dropped: u64,
    jitter: Jitter,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            delayed: BTreeMap::new(),
            n_delayed: 0,
            remembered: BTreeMap::new(),
            last_name: 0,
            n_dropped: 0,
            jitter: Jitter::seeded_at_random(),
        }
    }

    /// Takes in an event.
    pub(crate) fn record(&mut self, key: Key, note: &str, now: Timestamp) {
        if let Some((key, known)) =
            self.remembered.get_key_value(&key).map(|(key, _)| key.clone()).and_then(|key| {
                let known = self.remembered.get_mut(&key)?;
                Some((key, known))
            })
        {
            match &mut known.series {
                Some((count, last)) => {
                    *count = count.saturating_add(1);
                    *last = now;
                }
                None => {
                    known.series = Some((2, now));
                    let write = known.write(&key);
                    self.enqueue(write);
                }
            }
            return;
        }
        let key = Arc::new(key);
        let event = Remembered {
            name: self.fresh_name(&key.pod.name, now).into(),
            note: note.into(),
            time: now,
            series: None,
        };
        let write = event.write(&key);
        if key.reason != ASSIGNED && self.remembered.len() < MAX_REMEMBERED {
            self.remembered.insert(key, event);
        }
        self.enqueue(write);
    }

    /// The next event to write.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<EventWrite> {
        self.wake(now);
        self.waiting.pop_front()
    }

    /// Lets the events go on whose time has come, before others.
    pub(crate) fn wake(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let write = first.remove();
            self.waiting.push_front(write);
        }
    }

    /// When a delayed event is due again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }

    /// Whether nothing waits, but for what comes again later.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.delayed.len()
    }

    /// A write did not get through; it is tried again later, some times.
    pub(crate) fn retry(&mut self, mut write: EventWrite, now: Instant) {
        write.tries += 1;
        if write.tries < MAX_TRIES {
            let pause = self.jitter.stretch(RETRY_PAUSE, RETRY_JITTER);
            self.delay(write, now + pause);
        } else {
            tracing::error!(event = %write.name, "Unable to write event (retry limit exceeded!)");
            self.n_dropped += 1;
        }
    }

    /// The server asked for patience: the write comes again at `due`, unless it was asked too often.
    pub(crate) fn put_back(&mut self, mut write: EventWrite, due: Instant, max_asked: u32) {
        write.n_asked += 1;
        if write.n_asked <= max_asked {
            self.delay(write, due);
        } else {
            tracing::error!(event = %write.name, "Server rejected event (will not retry!)");
            self.n_dropped += 1;
        }
    }

    fn delay(&mut self, write: EventWrite, due: Instant) {
        if self.delayed.len() >= MAX_WAITING {
            self.n_dropped += 1;
            return;
        }
        self.n_delayed += 1;
        self.delayed.insert((due, self.n_delayed), write);
    }

    /// Writes all series as they stand; to be called every [`REFRESH_EVERY`].
    pub(crate) fn refresh(&mut self) {
        let series = self.remembered.iter().filter(|(_, event)| event.series.is_some());
        let writes: Vec<_> = series.map(|(key, event)| event.write(key)).collect();
        self.waiting.extend(writes);
    }

    /// Writes a last time and forgets the series that have stopped repeating, and forgets what never repeated; to be
    /// called every [`FORGET_AFTER`].
    pub(crate) fn finish(&mut self, now: Timestamp) {
        let waiting = &mut self.waiting;
        self.remembered.retain(|key, event| {
            let last = event.series.map_or(event.time, |(_, last)| last);
            let is_over = now.saturating_since(last) > FORGET_AFTER;
            if is_over && event.series.is_some() {
                waiting.push_back(event.write(key));
            }
            !is_over
        });
    }

    /// How many events were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.n_dropped)
    }

    fn enqueue(&mut self, write: EventWrite) {
        if self.waiting.len() >= MAX_WAITING {
            self.n_dropped += 1;
            return;
        }
        self.waiting.push_back(write);
    }

    /// `<pod>.<time in hex>`, unique within this process; at random where that would be too long.
    fn fresh_name(&mut self, pod: &str, now: Timestamp) -> String {
        self.last_name = now.as_nanos().max(self.last_name + 1);
        let name = format!("{pod}.{:x}", self.last_name);
        if name.len() <= MAX_NAME_LEN { name } else { self.jitter.uuid() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(version: &str) -> Key {
        Key {
            pod: PodRef { namespace: "x".into(), name: "p".into(), uid: "1".into() },
            resource_version: version.into(),
            is_warning: true,
            reason: "FailedScheduling".into(),
            action: "Scheduling".into(),
            reporting: "default-scheduler".into(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn repetition_becomes_a_series() {
        let mut queue = EventQueue::new();
        let now = Instant::now();
        for second in 1..=5 {
            queue.record(key("7"), &format!("no room {second}"), at(second));
        }
        let first = queue.pop(now).unwrap();
        assert_eq!((&*first.name, &*first.note, first.series), ("p.3b9aca00", "no room 1", None));
        let second = queue.pop(now).unwrap();
        assert_eq!((&second.name, second.series), (&first.name, Some((2, at(2)))));
        assert_eq!(&*second.note, "no room 1", "the note is not part of what makes it the same");
        assert!(queue.pop(now).is_none(), "later repetitions are counted only");
        // All series are written every half an hour.
        queue.refresh();
        assert_eq!(queue.pop(now).unwrap().series, Some((5, at(5))));
        // One that goes on is not over.
        queue.finish(at(100));
        assert!(queue.pop(now).is_none());
        // One that stopped is written a last time, and forgotten.
        queue.finish(at(366));
        assert_eq!(queue.pop(now).unwrap().series, Some((5, at(5))));
        queue.refresh();
        assert!(queue.pop(now).is_none());
        queue.record(key("7"), "no room", at(367));
        assert_eq!(queue.pop(now).unwrap().series, None, "it was forgotten");
    }

    #[test]
    fn single_events_are_forgotten_without_a_word() {
        let mut queue = EventQueue::new();
        let now = Instant::now();
        queue.record(key("7"), "no room", at(1));
        assert!(queue.pop(now).is_some());
        queue.finish(at(361));
        queue.record(key("7"), "no room", at(361));
        assert!(queue.pop(now).unwrap().series.is_some(), "six minutes are not over");
        let mut queue = EventQueue::new();
        queue.record(key("7"), "no room", at(1));
        assert!(queue.pop(now).is_some());
        queue.finish(at(362));
        assert!(queue.pop(now).is_none());
        queue.record(key("7"), "no room", at(362));
        assert_eq!(queue.pop(now).unwrap().series, None);
    }

    #[test]
    fn another_version_of_the_pod_is_another_event() {
        let mut queue = EventQueue::new();
        queue.record(key("7"), "a", at(1));
        queue.record(key("8"), "a", at(1));
        let now = Instant::now();
        let (first, second) = (queue.pop(now).unwrap(), queue.pop(now).unwrap());
        assert_ne!(first.name, second.name);
        assert_eq!((first.series, second.series), (None, None));
    }

    #[test]
    fn assignments_are_not_remembered() {
        let mut queue = EventQueue::new();
        queue.record(
            Key { is_warning: false, reason: ASSIGNED.into(), ..key("7") },
            "to n1",
            at(1),
        );
        assert!(queue.remembered.is_empty());
    }

    #[test]
    fn names_that_would_be_too_long_are_made_at_random() {
        let mut queue = EventQueue::new();
        let mut long = key("7");
        long.pod.name = "p".repeat(250).as_str().into();
        queue.record(long, "a", at(1));
        let name = queue.pop(Instant::now()).unwrap().name;
        assert_eq!(name.len(), 36);
        assert_eq!(name.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }

    #[test]
    fn there_is_an_end_to_what_waits() {
        let mut queue = EventQueue::new();
        for i in 0..MAX_WAITING + 3 {
            queue.record(key(&i.to_string()), "a", at(1));
        }
        assert_eq!(queue.take_dropped(), 3);
        assert_eq!(queue.len(), MAX_WAITING);
        assert_eq!(&*queue.pop(Instant::now()).unwrap().key.resource_version, "0");
    }

    #[test]
    fn what_did_not_get_through_comes_again_twelve_times() {
        let mut queue = EventQueue::new();
        let mut now = Instant::now();
        queue.record(key("7"), "a", at(1));
        let mut n_tries = 0;
        while let Some(write) = queue.pop(now) {
            n_tries += 1;
            queue.retry(write, now);
            let Some(due) = queue.next_due() else { break };
            assert!(due - now >= RETRY_PAUSE && due - now <= RETRY_PAUSE.mul_f64(1.25));
            assert!(queue.is_empty());
            assert!(queue.pop(now).is_none());
            now = due;
        }
        assert_eq!((n_tries, queue.take_dropped(), queue.len()), (MAX_TRIES, 1, 0));
    }

    #[test]
    fn patience_is_counted_apart() {
        let mut queue = EventQueue::new();
        let now = Instant::now();
        queue.record(key("7"), "a", at(1));
        for _ in 0..2 {
            let write = queue.pop(now).unwrap();
            queue.put_back(write, now, 2);
        }
        let write = queue.pop(now).unwrap();
        queue.put_back(write, now, 2);
        assert_eq!((queue.len(), queue.take_dropped()), (0, 1));
    }
}
