//! Events of the old form, `v1`: repeated ones counted, floods of them held back and summed up.
//!
//! Answers to `EventCorrelator` of the reference, with its settings: 25 events at once about an object and one more every
//! five minutes; from the tenth different text within ten minutes on, they are summed up in one event.
//!
//! Invariant: what is remembered is bounded; when there is no room, everything is forgotten, which at worst writes
//! something twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::PodRef;

use crate::events::{EventKey, EventWrite};

const MAX_REMEMBERED: usize = 4_096;
const BURST: f64 = 25.0;
const REFILL_EVERY: Duration = Duration::from_secs(300);
const MAX_SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
const SUMMED_UP: &str = "(combined from similar events): ";

/// An event of the old form, `v1`, as it is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreEvent {
    /// The object and the other fields that make occurrences the same event.
    pub key: Arc<EventKey>,
    /// The message of the event, for people.
    pub message: Arc<str>,
    /// The name of the Event object.
    pub name: Arc<str>,
    /// When it occurred first.
    pub first: Timestamp,
    /// When it occurred last.
    pub last: Timestamp,
    /// How often it occurred so far. The first time it is created, later it is patched.
    pub count: u32,
}

/// What makes events similar; with the text, the same.
type SimilarityKey = (PodRef, bool, Cow<'static, str>, Arc<str>);

#[derive(Debug)]
struct Texts {
    seen: BTreeSet<Arc<str>>,
    last: Timestamp,
}

#[derive(Debug)]
struct Tokens {
    level: f64,
    filled: Timestamp,
}

/// Decides whether each event is created, counted, summed up or dropped.
#[derive(Debug, Default)]
pub(crate) struct Correlator {
    known: BTreeMap<(SimilarityKey, Arc<str>), CoreEvent>,
    texts: BTreeMap<SimilarityKey, Texts>,
    tokens: BTreeMap<(PodRef, Arc<str>, bool), Tokens>,
}

impl Correlator {
    /// The event to write for one that is due. A write that is repeated because it failed is counted again, as in the reference
    /// when a patch is repeated.
    pub(crate) fn take_up(&mut self, write: &EventWrite) -> Option<CoreEvent> {
        let time = write.series.map_or(write.time, |series| series.last);
        self.correlate(&write.key, &write.note, &write.name, time)
    }

    /// The event to write for one that happened; `None` when there are too many about its object.
    pub(crate) fn correlate(
        &mut self,
        key: &Arc<EventKey>,
        note: &Arc<str>,
        name: &Arc<str>,
        time: Timestamp,
    ) -> Option<CoreEvent> {
        self.make_room();
        let similar: SimilarityKey =
            (key.pod.clone(), key.is_warning, key.reason.clone(), key.reporting.clone());
        let texts = self
            .texts
            .entry(similar.clone())
            .or_insert_with(|| Texts { seen: BTreeSet::new(), last: time });
        if time.saturating_since(texts.last) > SIMILAR_WITHIN {
            texts.seen.clear();
        }
        texts.last = time;
        texts.seen.insert(note.clone());
        let (message, place): (Arc<str>, Arc<str>) = if texts.seen.len() < MAX_SIMILAR {
            (note.clone(), note.clone())
        } else {
            // The text does not count any more; the oldest one known makes room.
            texts.seen.pop_first();
            (format!("{SUMMED_UP}{note}").into(), "".into())
        };
        let known = self.known.entry((similar, place)).or_insert_with(|| CoreEvent {
            key: key.clone(),
            message: message.clone(),
            name: name.clone(),
            first: time,
            last: time,
            count: 0,
        });
        known.count += 1;
        known.last = time;
        known.message = message;
        let event = known.clone();
        self.may_pass(key, time).then_some(event)
    }

    fn may_pass(&mut self, key: &EventKey, time: Timestamp) -> bool {
        let about = (key.pod.clone(), key.reporting.clone(), key.is_warning);
        let tokens =
            self.tokens.entry(about).or_insert_with(|| Tokens { level: BURST, filled: time });
        let since = time.saturating_since(tokens.filled).as_secs_f64();
        tokens.level = (tokens.level + since / REFILL_EVERY.as_secs_f64()).min(BURST);
        tokens.filled = time;
        if tokens.level < 1.0 {
            return false;
        }
        tokens.level -= 1.0;
        true
    }

    fn make_room(&mut self) {
        if self.known.len() >= MAX_REMEMBERED {
            self.known.clear();
        }
        if self.texts.len() >= MAX_REMEMBERED {
            self.texts.clear();
        }
        if self.tokens.len() >= MAX_REMEMBERED {
            self.tokens.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pod: &str) -> Arc<EventKey> {
        Arc::new(EventKey {
            pod: PodRef { namespace: "x".into(), name: pod.into(), uid: pod.into() },
            resource_version: "7".into(),
            is_warning: true,
            reason: "FailedScheduling".into(),
            action: "Scheduling".into(),
            reporting: "default-scheduler".into(),
            related: None,
        })
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn the_same_text_again_is_counted() {
        let mut correlator = Correlator::default();
        let first = correlator.correlate(&key("p"), &"a".into(), &"p.1".into(), at(1)).unwrap();
        let second = correlator.correlate(&key("p"), &"a".into(), &"p.2".into(), at(2)).unwrap();
        let other = correlator.correlate(&key("p"), &"b".into(), &"p.3".into(), at(3)).unwrap();
        assert_eq!((first.count, &*first.name), (1, "p.1"));
        assert_eq!(
            (second.count, &*second.name, second.first, second.last),
            (2, "p.1", at(1), at(2))
        );
        assert_eq!((other.count, &*other.name), (1, "p.3"));
    }

    #[test]
    fn ten_texts_within_ten_minutes_are_summed_up() {
        let mut correlator = Correlator::default();
        let written: Vec<_> = (1..=12)
            .filter_map(|i| {
                let (note, name) = (format!("text {i:02}"), format!("p.{i}"));
                correlator.correlate(&key("p"), &note.into(), &name.into(), at(i))
            })
            .collect();
        assert_eq!(&*written[8].message, "text 09");
        assert_eq!(
            (&*written[9].message, written[9].count),
            ("(combined from similar events): text 10", 1)
        );
        assert_eq!(
            (&*written[11].message, written[11].count, &*written[11].name),
            ("(combined from similar events): text 12", 3, "p.10")
        );
        let later =
            correlator.correlate(&key("p"), &"late".into(), &"p.13".into(), at(1_000)).unwrap();
        assert_eq!(&*later.message, "late");
    }

    #[test]
    fn a_flood_about_one_object_is_held_back() {
        let mut correlator = Correlator::default();
        let passes = |correlator: &mut Correlator, pod: &str, second| {
            correlator.correlate(&key(pod), &"a".into(), &"n".into(), at(second)).is_some()
        };
        assert_eq!((0..40).filter(|_| passes(&mut correlator, "p", 1)).count(), 25);
        assert!(passes(&mut correlator, "q", 1), "others are not concerned");
        assert!(!passes(&mut correlator, "p", 300));
        assert!(passes(&mut correlator, "p", 302), "one more every five minutes");
        assert!(!passes(&mut correlator, "p", 303));
    }
}
