//! Events for users, in the form of `events.k8s.io/v1`: which are to be written, and which repeat an earlier one.
//!
//! As in the reference, an event repeats another if everything but the note is the same, the pod's resource version
//! included. The first occurrence creates an event, the second starts a series on it, later ones are counted and written
//! at intervals.
//!
//! Invariants: recording never waits; the number of events that wait is bounded, and what comes when there is no room is
//! dropped; an event that may repeat is remembered for [`FORGET_AFTER`] after its last occurrence, and the number of those
//! is bounded too.
//!
//! Parity: the reference's queue holds 1,000, but only between recording and sending, which waits in as many goroutines as
//! there are events; here everything that waits is in one queue, which holds more for that. An event that a pod was
//! assigned is not remembered, as no pod is assigned twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{ObjectRef, PodRef};
use kube_scheduler_framework::EventKind;

use crate::jitter::Jitter;
use crate::outbox::DroppedEvent;

/// Events that may wait to be written.
const MAX_WAITING: usize = 32_768;
/// What an event takes in memory at most, about, in bytes: what it is about, a note of up to 1 KiB, three names (its own, the
/// pod's and the namespace's), and a round 200 for the pod's uid and revision and the counters of references. What it shares
/// with others, such as the name of the profile, is left out.
const MOST_BYTES: usize =
    size_of::<EventWrite>() + size_of::<EventKey>() + 1024 + 3 * MAX_NAME_LEN + 200;
/// Events that may be remembered because they may repeat.
const MAX_REMEMBERED: usize = 65_536;
/// An event that has not repeated for so long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(360);
/// How often the series that go on are written.
const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);
/// Tries of one write that did not get through, and the pause between them, which is stretched at random.
const MAX_TRIES: u32 = 12;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
const RETRY_JITTER: f64 = 0.25;
/// The longest name an object may have.
const MAX_NAME_LEN: usize = 253;
/// The reason of events that cannot repeat.
const ASSIGNED: &str = "Scheduled";

/// Everything about an event but its note: events with equal keys repeat each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// The pod that the event is about.
    pub pod: PodRef,
    /// The version of the pod that was decided about.
    pub resource_version: Arc<str>,
    /// Whether the event's type is `Warning`; else `Normal`.
    pub is_warning: bool,
    /// The machine-readable reason, such as `FailedScheduling`.
    pub reason: Cow<'static, str>,
    /// The action that was taken, such as `Scheduling`.
    pub action: Cow<'static, str>,
    /// The name of the profile that reports the event.
    pub reporting: Arc<str>,
    /// Another object that the event is about.
    pub related: Option<Arc<ObjectRef>>,
}

impl EventKey {
    /// The event's `type`: `Normal` or `Warning`.
    pub const fn type_name(&self) -> &'static str {
        if self.is_warning { EventKind::Warning.as_str() } else { EventKind::Normal.as_str() }
    }
}

/// One request that creates an Event or updates its series.
#[derive(Clone, Debug)]
pub struct EventWrite {
    /// The object and the other fields that make occurrences the same event.
    pub key: Arc<EventKey>,
    /// The message of the event, for people.
    pub note: Arc<str>,
    /// The name of the Event object.
    pub name: Arc<str>,
    /// When it occurred first.
    pub time: Timestamp,
    /// How often it occurred so far; `None` the first time.
    pub series: Option<EventSeries>,
    /// How often it did not get through.
    n_tries: u32,
    /// How often the server asked for patience with it.
    n_deferrals: u32,
}

/// The occurrences of a repeated event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSeries {
    /// How many there were, the first included.
    pub count: u32,
    /// When the last one was.
    pub last: Timestamp,
}

/// How many entries one of the tables of events has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTableSize {
    /// The name of the table.
    pub table: &'static str,
    /// How many entries it has.
    pub n_entries: usize,
    /// What it takes in memory at most, about, in bytes.
    pub n_bytes: usize,
}

/// An event that may repeat.
#[derive(Debug)]
struct EventRecord {
    name: Arc<str>,
    note: Arc<str>,
    time: Timestamp,
    /// From the second time on.
    series: Option<EventSeries>,
}

impl EventRecord {
    fn write(&self, key: &Arc<EventKey>) -> EventWrite {
        EventWrite {
            key: key.clone(),
            note: self.note.clone(),
            name: self.name.clone(),
            time: self.time,
            series: self.series,
            n_tries: 0,
            n_deferrals: 0,
        }
    }
}

/// Events to be written, and those that may repeat.
#[derive(Debug)]
pub(crate) struct EventQueue {
    waiting: VecDeque<EventWrite>,
    /// By when they are due; the number keeps those of the same moment in order.
    deferred: BTreeMap<(Timestamp, u64), EventWrite>,
    n_deferred: u64,
    remembered: BTreeMap<Arc<EventKey>, EventRecord>,
    /// When those that have not repeated are forgotten next.
    forget_at: Timestamp,
    /// When the series that go on are written next.
    refresh_at: Timestamp,
    /// The time in the last name, so that no two names are the same.
    last_name: i64,
    n_dropped: u64,
    jitter: Jitter,
}

impl EventQueue {
    pub(crate) fn new(seed: u64, now: Timestamp) -> Self {
        Self {
            waiting: VecDeque::new(),
            deferred: BTreeMap::new(),
            n_deferred: 0,
            remembered: BTreeMap::new(),
            forget_at: now + FORGET_AFTER,
            refresh_at: now + REFRESH_EVERY,
            last_name: 0,
            n_dropped: 0,
            jitter: Jitter::new(seed),
        }
    }

    /// Takes in an event that occurred at `now`.
    pub(crate) fn record(&mut self, key: EventKey, note: &str, now: Timestamp) {
        let key = Arc::new(key);
        if let Some(record) = self.remembered.get_mut(&key) {
            match &mut record.series {
                Some(series) => {
                    series.count = series.count.saturating_add(1);
                    // Written with the next refresh: a request for each occurrence is what series save.
                    series.last = now;
                }
                None => {
                    record.series = Some(EventSeries { count: 2, last: now });
                    let write = record.write(&key);
                    self.enqueue(write);
                }
            }
            return;
        }
        let event = EventRecord {
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
    pub(crate) fn pop(&mut self) -> Option<EventWrite> {
        self.waiting.pop_front()
    }

    /// Does what is due: lets deferred events go before others, writes the series that go on, forgets what is over.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        if passed(&mut self.forget_at, FORGET_AFTER, now) {
            self.finish(now);
        }
        if passed(&mut self.refresh_at, REFRESH_EVERY, now) {
            self.refresh();
        }
        let mut due = Vec::new();
        while let Some(first) = self.deferred.first_entry().filter(|first| first.key().0 <= now) {
            let write = first.remove();
            if self.waiting.len() + due.len() < MAX_WAITING {
                due.push(write);
            } else {
                self.n_dropped += 1;
            }
        }
        // Each is put before what is there already, so the last one comes first here.
        for write in due.into_iter().rev() {
            self.waiting.push_front(write);
        }
    }

    /// When [`wake`](Self::wake) has something to do next.
    pub(crate) fn next_due(&self) -> Timestamp {
        let soonest = self.forget_at.min(self.refresh_at);
        self.deferred.first_key_value().map_or(soonest, |((due, _), _)| soonest.min(*due))
    }

    /// Whether nothing waits but what comes again later.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.deferred.len()
    }

    /// How large the tables are, for metrics.
    pub(crate) fn sizes(&self) -> [EventTableSize; 2] {
        let size = |table, n_entries: usize| {
            let n_bytes = n_entries * MOST_BYTES;
            EventTableSize { table, n_entries, n_bytes }
        };
        [
            size("events that wait to be written", self.len()),
            size("events that may repeat", self.remembered.len()),
        ]
    }

    /// A write did not get through: it goes out again later, unless it was tried often enough.
    pub(crate) fn retry(
        &mut self,
        mut write: EventWrite,
        now: Timestamp,
    ) -> Result<(), DroppedEvent> {
        write.n_tries += 1;
        if write.n_tries >= MAX_TRIES {
            self.n_dropped += 1;
            return Err(DroppedEvent::Unreachable(write.name));
        }
        let pause = self.jitter.stretch(RETRY_PAUSE, RETRY_JITTER);
        self.put_off(write, now + pause);
        Ok(())
    }

    /// The server asked for patience: the write goes out again at `due`, unless that was asked too often.
    pub(crate) fn defer(
        &mut self,
        mut write: EventWrite,
        due: Timestamp,
        max_deferrals: u32,
    ) -> Result<(), DroppedEvent> {
        write.n_deferrals += 1;
        if write.n_deferrals > max_deferrals {
            self.n_dropped += 1;
            return Err(DroppedEvent::DeferredTooOften(write.name));
        }
        self.put_off(write, due);
        Ok(())
    }

    fn put_off(&mut self, write: EventWrite, due: Timestamp) {
        if self.deferred.len() >= MAX_WAITING {
            self.n_dropped += 1;
            return;
        }
        self.n_deferred += 1;
        self.deferred.insert((due, self.n_deferred), write);
    }

    /// Writes all series as they stand.
    fn refresh(&mut self) {
        let series = self.remembered.iter().filter(|(_, event)| event.series.is_some());
        let writes: Vec<_> = series.map(|(key, event)| event.write(key)).collect();
        writes.into_iter().for_each(|write| self.enqueue(write));
    }

    /// Forgets what has stopped repeating, after writing its series a last time.
    fn finish(&mut self, now: Timestamp) {
        let mut writes = Vec::new();
        self.remembered.retain(|key, event| {
            let last = event.series.map_or(event.time, |series| series.last);
            let is_over = now.saturating_since(last) > FORGET_AFTER;
            if is_over && event.series.is_some() {
                writes.push(event.write(key));
            }
            !is_over
        });
        writes.into_iter().for_each(|write| self.enqueue(write));
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
        if name.len() <= MAX_NAME_LEN { name } else { self.jitter.next_uuid() }
    }
}

/// Whether something is due that is done every `period`; if so, moves it to the next time after `now`. Times that were
/// missed, because a machine slept, are not made up for.
fn passed(due: &mut Timestamp, period: Duration, now: Timestamp) -> bool {
    let is_due = *due <= now;
    while *due <= now {
        *due = *due + period;
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(version: &str) -> EventKey {
        EventKey {
            pod: PodRef { namespace: "x".into(), name: "p".into(), uid: "1".into() },
            resource_version: version.into(),
            is_warning: true,
            reason: "FailedScheduling".into(),
            action: "Scheduling".into(),
            reporting: "default-scheduler".into(),
            related: None,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn events_about_other_objects_besides_are_others() {
        let group = |version: &str| {
            let related = ObjectRef {
                api_version: "scheduling.k8s.io/v1alpha2".into(),
                kind: "PodGroup".into(),
                namespace: "x".into(),
                name: "g".into(),
                uid: "2".into(),
                resource_version: version.into(),
            };
            EventKey { related: Some(Arc::new(related)), ..key("7") }
        };
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        for key in [key("7"), group("1"), group("2"), group("1")] {
            queue.record(key, "gone", at(1));
        }
        let counts =
            std::iter::from_fn(|| queue.pop()).map(|write| write.series.map(|it| it.count));
        assert_eq!(counts.collect::<Vec<_>>(), [None, None, None, Some(2)]);
    }

    #[test]
    fn tables_have_what_waits_and_what_may_repeat() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        let n_entries = |queue: &EventQueue| queue.sizes().map(|size| size.n_entries);
        queue.record(key("7"), "a", at(1));
        assert_eq!(n_entries(&queue), [1, 1]);
        assert!(queue.pop().is_some());
        assert_eq!(n_entries(&queue), [0, 1]);
        queue.finish(at(362));
        assert_eq!(queue.sizes().map(|size| size.n_bytes), [0, 0]);
    }

    #[test]
    fn repetition_becomes_a_series() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        for second in 1..=5 {
            queue.record(key("7"), &format!("no room {second}"), at(second));
        }
        let first = queue.pop().unwrap();
        assert_eq!((&*first.name, &*first.note, first.series), ("p.3b9aca00", "no room 1", None));
        let second = queue.pop().unwrap();
        assert_eq!(
            (&second.name, second.series),
            (&first.name, Some(EventSeries { count: 2, last: at(2) }))
        );
        assert_eq!(&*second.note, "no room 1", "the note is not part of what makes it the same");
        assert!(queue.pop().is_none(), "later repetitions are counted only");
        // All series are written every half an hour.
        queue.refresh();
        assert_eq!(queue.pop().unwrap().series, Some(EventSeries { count: 5, last: at(5) }));
        // One that goes on is not over.
        queue.finish(at(100));
        assert!(queue.pop().is_none());
        // One that stopped is written a last time, and forgotten.
        queue.finish(at(366));
        assert_eq!(queue.pop().unwrap().series, Some(EventSeries { count: 5, last: at(5) }));
        queue.refresh();
        assert!(queue.pop().is_none());
        queue.record(key("7"), "no room", at(367));
        assert_eq!(queue.pop().unwrap().series, None, "it was forgotten");
    }

    #[test]
    fn what_is_due_at_intervals_is_done_once_after_a_long_sleep() {
        let mut queue = EventQueue::new(1, at(0));
        queue.record(key("7"), "a", at(1));
        queue.record(key("7"), "a", at(2));
        assert!(queue.pop().is_some() && queue.pop().is_some());
        assert_eq!(queue.next_due(), at(360));
        // The series goes on, so that it is not forgotten, but written with the others.
        queue.record(key("7"), "a", at(86_399));
        queue.wake(at(86_400));
        assert_eq!(queue.pop().unwrap().series, Some(EventSeries { count: 3, last: at(86_399) }));
        assert!(queue.pop().is_none());
        assert!(queue.next_due() > at(86_400));
    }

    #[test]
    fn single_events_are_forgotten_without_another_write() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        queue.record(key("7"), "no room", at(1));
        assert!(queue.pop().is_some());
        queue.finish(at(361));
        queue.record(key("7"), "no room", at(361));
        assert!(queue.pop().unwrap().series.is_some(), "six minutes are not over");
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        queue.record(key("7"), "no room", at(1));
        assert!(queue.pop().is_some());
        queue.finish(at(362));
        assert!(queue.pop().is_none());
        queue.record(key("7"), "no room", at(362));
        assert_eq!(queue.pop().unwrap().series, None);
    }

    #[test]
    fn another_version_of_the_pod_is_another_event() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        queue.record(key("7"), "a", at(1));
        queue.record(key("8"), "a", at(1));
        let (first, second) = (queue.pop().unwrap(), queue.pop().unwrap());
        assert_ne!(first.name, second.name);
        assert_eq!((first.series, second.series), (None, None));
    }

    #[test]
    fn assignments_are_not_remembered() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        queue.record(
            EventKey { is_warning: false, reason: ASSIGNED.into(), ..key("7") },
            "to n1",
            at(1),
        );
        assert!(queue.remembered.is_empty());
    }

    #[test]
    fn names_that_would_be_too_long_are_made_at_random() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        let mut long = key("7");
        long.pod.name = "p".repeat(250).as_str().into();
        queue.record(long, "a", at(1));
        let name = queue.pop().unwrap().name;
        assert_eq!(name.len(), 36);
        assert_eq!(name.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }

    #[test]
    fn there_is_an_end_to_what_waits() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        for i in 0..MAX_WAITING + 3 {
            queue.record(key(&i.to_string()), "a", at(1));
        }
        assert_eq!(queue.take_dropped(), 3);
        assert_eq!(queue.len(), MAX_WAITING);
        assert_eq!(&*queue.pop().unwrap().key.resource_version, "0");
    }

    #[test]
    fn what_comes_again_when_there_is_no_room_is_dropped_too() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        queue.record(key("series"), "a", at(1));
        queue.record(key("series"), "a", at(1));
        assert!(queue.pop().is_some() && queue.pop().is_some());
        queue.record(key("deferred"), "a", at(1));
        let deferred = queue.pop().unwrap();
        assert_eq!(queue.defer(deferred, at(2), 1), Ok(()));
        for i in 0..MAX_WAITING {
            queue.record(key(&i.to_string()), "a", at(1));
        }
        assert_eq!((queue.take_dropped(), queue.len()), (0, MAX_WAITING + 1));
        queue.wake(at(2));
        assert_eq!((queue.take_dropped(), queue.len()), (1, MAX_WAITING), "it is due");
        queue.refresh();
        assert_eq!((queue.take_dropped(), queue.len()), (1, MAX_WAITING), "the series goes on");
        queue.finish(at(1000));
        assert_eq!((queue.take_dropped(), queue.len()), (1, MAX_WAITING), "the series is over");
        assert_eq!(&*queue.pop().unwrap().key.resource_version, "0");
    }

    #[test]
    fn what_is_due_goes_before_others_in_the_order_in_which_it_was_put_off() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        for version in ["1", "2", "3", "4"] {
            queue.record(key(version), "a", at(1));
        }
        for due in [at(2), at(2), at(1)] {
            let write = queue.pop().unwrap();
            assert_eq!(queue.defer(write, due, 1), Ok(()));
        }
        queue.wake(at(2));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|write| write.key.resource_version.to_string())
            .collect();
        assert_eq!(order, ["3", "1", "2", "4"]);
    }

    #[test]
    fn what_did_not_get_through_comes_again_twelve_times() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        let mut now = at(1);
        queue.record(key("7"), "a", now);
        for _ in 1..MAX_TRIES {
            let write = queue.pop().unwrap();
            assert_eq!(queue.retry(write, now), Ok(()));
            let pause = queue.next_due().saturating_since(now);
            assert!(pause >= RETRY_PAUSE && pause <= RETRY_PAUSE.mul_f64(1.25), "{pause:?}");
            queue.wake(now);
            assert!(queue.pop().is_none());
            now = queue.next_due();
            queue.wake(now);
        }
        let write = queue.pop().unwrap();
        let name = write.name.clone();
        assert_eq!(queue.retry(write, now), Err(DroppedEvent::Unreachable(name)));
        assert_eq!((queue.take_dropped(), queue.len()), (1, 0));
    }

    #[test]
    fn deferrals_are_counted_apart() {
        let mut queue = EventQueue::new(1, Timestamp::EPOCH);
        let now = at(1);
        queue.record(key("7"), "a", now);
        for _ in 0..2 {
            let write = queue.pop().unwrap();
            assert_eq!(queue.defer(write, now, 2), Ok(()));
            queue.wake(now);
        }
        let write = queue.pop().unwrap();
        let name = write.name.clone();
        assert_eq!(queue.defer(write, now, 2), Err(DroppedEvent::DeferredTooOften(name)));
        assert_eq!((queue.len(), queue.take_dropped()), (0, 1));
    }
}
