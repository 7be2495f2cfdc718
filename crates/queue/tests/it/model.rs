//! The queue as a plain list: every question is answered by walking all pods and recomputing from the definitions. No heap,
//! no index, no counter that could go wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_scheduler_primitives::Timestamp;
use kube_scheduler_queue::{
    ClusterEvent, HintId, HintObject, Nomination, Place, ProfileSpec, QueueName, QueueSettings,
    QueueingHint,
};

use crate::toy::{Object, Pod, Policy};

/// What is to become of a pod after an event or a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Requeue {
    Skip,
    AfterBackoff,
    Immediately,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) pod: Pod,
    pub(crate) place: Option<Place>,
    pub(crate) rank: u64,
    pub(crate) timestamp: Timestamp,
    pub(crate) initial_attempt: Option<Timestamp>,
    pub(crate) attempts: u32,
    pub(crate) unschedulable_count: u32,
    pub(crate) consecutive_errors: u32,
    pub(crate) was_flushed: bool,
    pub(crate) gated_by: Option<String>,
    pub(crate) unschedulable: BTreeSet<String>,
    pub(crate) pending: BTreeSet<String>,
    pub(crate) not_before: Option<Timestamp>,
}

impl Record {
    pub(crate) fn rejectors(&self) -> BTreeSet<String> {
        &self.unschedulable | &self.pending
    }

    fn sort_key(&self) -> (i64, Timestamp) {
        (-i64::from(self.pod.0.priority), self.timestamp)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogItem {
    Popped(String),
    Happened(ClusterEvent, Option<Object>, Option<Object>),
}

pub(crate) struct ProfileModel {
    pub(crate) name: String,
    pub(crate) gates: Vec<String>,
    pub(crate) registrations: Vec<(String, ClusterEvent, Option<HintId>)>,
}

impl ProfileModel {
    pub(crate) fn new(spec: &ProfileSpec, gates: &[&str]) -> Self {
        Self {
            name: spec.scheduler_name().to_owned(),
            gates: gates.iter().map(|&gate| gate.to_owned()).collect(),
            registrations: spec
                .registrations()
                .map(|(plugin, event, hint)| (plugin.to_owned(), event.clone(), hint))
                .collect(),
        }
    }
}

pub(crate) struct Model {
    pub(crate) settings: QueueSettings,
    pub(crate) profiles: Vec<ProfileModel>,
    pub(crate) records: Vec<Record>,
    pub(crate) log: Vec<LogItem>,
    /// Node, UID, name.
    pub(crate) nominations: Vec<(String, String, String)>,
    pub(crate) incoming: Vec<(QueueName, String)>,
    pub(crate) rank: u64,
}

impl Model {
    pub(crate) fn new(settings: QueueSettings, profiles: Vec<ProfileModel>) -> Self {
        Self {
            settings,
            profiles,
            records: vec![],
            log: vec![],
            nominations: vec![],
            incoming: vec![],
            rank: 0,
        }
    }

    fn find(&self, pod: &Pod) -> Option<usize> {
        self.records.iter().position(|record| record.pod.0.name == pod.0.name)
    }

    pub(crate) fn is_in_flight(&self, uid: &str) -> bool {
        self.log.iter().any(|item| *item == LogItem::Popped(uid.to_owned()))
    }

    fn align(&self, at: Timestamp) -> Timestamp {
        if !self.settings.pop_from_backoff {
            return at;
        }
        Timestamp::from_nanos(at.as_nanos() - at.as_nanos().rem_euclid(1_000_000_000))
    }

    pub(crate) fn backoff_end(&self, record: &Record) -> Option<Timestamp> {
        let count = if record.consecutive_errors > 0 {
            record.consecutive_errors
        } else {
            record.unschedulable_count
        };
        let not_before = record.not_before.map(|at| self.align(at));
        if count == 0 || self.settings.max_backoff.is_zero() {
            return not_before;
        }
        let mut length = self.settings.initial_backoff;
        for _ in 1..count {
            length = (length * 2).min(self.settings.max_backoff);
        }
        let counted = self.align(record.timestamp + length.min(self.settings.max_backoff));
        Some(not_before.map_or(counted, |at| at.max(counted)))
    }

    fn is_backing_off(&self, record: &Record, now: Timestamp) -> bool {
        self.backoff_end(record).is_some_and(|end| end >= self.align(now))
    }

    fn ask_gates(&self, mut record: Record, policy: &Policy) -> Record {
        let gates = self
            .profiles
            .iter()
            .find(|profile| profile.name == record.pod.0.scheduler)
            .map(|p| p.gates.clone());
        let mut gates = gates.unwrap_or_default();
        gates.sort_by_key(|gate| record.gated_by.as_ref() != Some(gate));
        record.gated_by = gates.into_iter().find(|gate| policy.holds(&record.pod, gate));
        record.unschedulable.extend(record.gated_by.clone());
        record
    }

    /// Whether any plugin of any profile has registered for the event.
    fn registered(&self, event: &ClusterEvent, plugin: Option<&str>) -> bool {
        let mut all = self.profiles.iter().flat_map(|profile| &profile.registrations);
        all.any(|(name, registered, _)| {
            plugin.is_none_or(|plugin| plugin == name) && registered.matches(event)
        })
    }

    fn worth(
        &self,
        record: &Record,
        event: &ClusterEvent,
        old: Option<&Object>,
        new: Option<&Object>,
        policy: &Policy,
    ) -> Requeue {
        if record.rejectors().is_empty() {
            return Requeue::AfterBackoff;
        }
        if event.is_wildcard() {
            return match new {
                Some(new) if !new.is_pod(&record.pod.0.uid) => Requeue::Skip,
                _ => Requeue::AfterBackoff,
            };
        }
        let Some(profile) =
            self.profiles.iter().find(|profile| profile.name == record.pod.0.scheduler)
        else {
            return Requeue::AfterBackoff;
        };
        let yes = |plugins: &BTreeSet<String>| {
            profile.registrations.iter().any(|(plugin, registered, hint)| {
                plugins.contains(plugin)
                    && registered.matches(event)
                    && hint.is_none_or(|hint| {
                        policy.hints[hint.0 as usize](&record.pod, old, new) == QueueingHint::Queue
                    })
            })
        };
        if yes(&record.pending) {
            Requeue::Immediately
        } else if yes(&record.unschedulable) {
            Requeue::AfterBackoff
        } else {
            Requeue::Skip
        }
    }

    /// Puts a record that is in no list somewhere. `was_parked` says that it was there right before.
    fn put(
        &mut self,
        mut record: Record,
        place: Place,
        label: &str,
        was_parked: bool,
        now: Timestamp,
        policy: &Policy,
    ) {
        self.rank += 1;
        let stays = was_parked && place == Place::Unschedulable;
        if !stays {
            record.rank = self.rank;
            self.incoming.push((place.queue(), label.to_owned()));
        }
        record.place = Some(place);
        let pod = record.pod.clone();
        if place == Place::Active {
            record.initial_attempt = record.initial_attempt.or(Some(now));
        }
        self.records.push(record);
        if place == Place::Active
            && ["UnschedulablePodAdd", "UnschedulablePodUpdate"].contains(&label)
        {
            self.nominate(&pod, Nomination::Noop, policy);
        }
    }

    fn send_to_active(
        &mut self,
        record: Record,
        label: &str,
        from_backoff: bool,
        now: Timestamp,
        policy: &Policy,
    ) -> QueueName {
        let was_parked = record.place == Some(Place::Unschedulable);
        let ask = !(from_backoff && self.settings.pop_from_backoff);
        let record = if ask { self.ask_gates(record, policy) } else { record };
        let place = if record.gated_by.is_some() { Place::Unschedulable } else { Place::Active };
        self.put(record, place, label, was_parked, now, policy);
        place.queue()
    }

    fn requeue(
        &mut self,
        record: Record,
        requeue: Requeue,
        label: &str,
        now: Timestamp,
        policy: &Policy,
    ) -> QueueName {
        let was_parked = record.place == Some(Place::Unschedulable);
        match requeue {
            Requeue::Skip => {
                self.put(record, Place::Unschedulable, label, was_parked, now, policy);
                QueueName::Unschedulable
            }
            Requeue::AfterBackoff if self.is_backing_off(&record, now) => {
                let ask = self.settings.pop_from_backoff;
                let record = if ask { self.ask_gates(record, policy) } else { record };
                let place = if ask && record.gated_by.is_some() {
                    Place::Unschedulable
                } else if record.rejectors().is_empty()
                    || record.not_before.is_some()
                    || record.pod.0.is_group_member && !self.settings.hurries_groups
                {
                    Place::ErrorBackoff
                } else {
                    Place::Backoff
                };
                self.put(record, place, label, was_parked, now, policy);
                place.queue()
            }
            _ => self.send_to_active(record, label, false, now, policy),
        }
    }

    fn enter(&mut self, pod: &Pod, label: &str, now: Timestamp, policy: &Policy) {
        let record = Record {
            pod: pod.clone(),
            place: None,
            rank: 0,
            timestamp: now,
            initial_attempt: None,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            was_flushed: false,
            gated_by: None,
            unschedulable: BTreeSet::new(),
            pending: BTreeSet::new(),
            not_before: None,
        };
        let is_gated = self.ask_gates(record.clone(), policy).gated_by.is_some();
        let Some(at) = self.find(pod) else {
            self.send_to_active(record, label, false, now, policy);
            return;
        };
        let is_parked = self.records[at].place == Some(Place::Unschedulable);
        if is_gated && !is_parked {
            return;
        }
        let existing = self.records.remove(at);
        // A gated record takes over the rank of the parked one that it replaces.
        let place = if is_gated { existing.place } else { None };
        self.send_to_active(
            Record { place, rank: existing.rank, ..record },
            label,
            false,
            now,
            policy,
        );
    }

    pub(crate) fn add(&mut self, pod: &Pod, now: Timestamp, policy: &Policy) {
        self.enter(pod, "UnschedulablePodAdd", now, policy);
    }

    pub(crate) fn update(
        &mut self,
        old: &Pod,
        new: &Pod,
        events: &[ClusterEvent],
        now: Timestamp,
        policy: &Policy,
    ) {
        let objects = (Object::Pod(old.clone()), Object::Pod(new.clone()));
        if self.is_in_flight(&new.0.uid) {
            for event in events {
                self.log.push(LogItem::Happened(
                    event.clone(),
                    Some(objects.0.clone()),
                    Some(objects.1.clone()),
                ));
            }
            return;
        }
        let Some(at) = self.find(new) else {
            self.enter(new, "UnschedulablePodUpdate", now, policy);
            return;
        };
        self.records[at].pod = new.clone();
        let remembered = self
            .nominations
            .iter()
            .find(|(_, uid, _)| *uid == old.0.uid)
            .map(|(node, _, _)| node.clone());
        self.nominations.retain(|(_, uid, _)| *uid != old.0.uid);
        match remembered {
            Some(node) if old.0.nominated.is_empty() && new.0.nominated.is_empty() => {
                self.nominate(new, Nomination::Override(&node), policy);
            }
            _ => self.nominate(new, Nomination::Noop, policy),
        }
        for event in events {
            let Some(at) = self.find(new) else { return };
            if self.records[at].place != Some(Place::Unschedulable) {
                return;
            }
            let worth =
                self.worth(&self.records[at], event, Some(&objects.0), Some(&objects.1), policy);
            let record = self.records.remove(at);
            self.requeue(record, worth, &event.label().to_string(), now, policy);
        }
    }

    pub(crate) fn delete(&mut self, pod: &Pod) {
        self.nominations.retain(|(_, uid, _)| *uid != pod.0.uid);
        self.records.retain(|record| record.pod.0.name != pod.0.name);
    }

    pub(crate) fn pop(&mut self) -> Option<Record> {
        loop {
            let active = |record: &&Record| record.place == Some(Place::Active);
            let backoff = |record: &&Record| record.place == Some(Place::Backoff);
            let first = self
                .records
                .iter()
                .filter(active)
                .min_by_key(|record| (record.sort_key(), record.rank));
            let record = if let Some(record) = first {
                record.clone()
            } else if self.settings.pop_from_backoff {
                let first = (self.records.iter().filter(backoff)).min_by_key(|record| {
                    (self.backoff_end(record), record.sort_key(), record.rank)
                });
                let record = first?.clone();
                self.incoming.push((QueueName::Active, "PopFromBackoffQ".to_owned()));
                record
            } else {
                return None;
            };
            if let Some(record) = self.take_off(record) {
                return Some(record);
            }
        }
    }

    pub(crate) fn pop_specific(
        &mut self,
        pod: &Pod,
        now: Timestamp,
        policy: &Policy,
    ) -> Option<Record> {
        self.try_activate(pod, now, policy);
        let record = self.records[self.find(pod)?].clone();
        (record.place == Some(Place::Active)).then(|| self.take_off(record))?
    }

    fn take_off(&mut self, mut record: Record) -> Option<Record> {
        self.records.retain(|other| other.pod.0.name != record.pod.0.name);
        record.attempts += 1;
        record.place = None;
        if self.is_in_flight(&record.pod.0.uid) {
            return None;
        }
        self.log.push(LogItem::Popped(record.pod.0.uid.clone()));
        Some(record)
    }

    pub(crate) fn done(&mut self, uid: &str) {
        self.log.retain(|item| *item != LogItem::Popped(uid.to_owned()));
        let first = self.log.iter().position(|item| matches!(item, LogItem::Popped(_)));
        self.log.drain(..first.unwrap_or(self.log.len()));
    }

    pub(crate) fn fail(&mut self, mut record: Record, now: Timestamp, policy: &Policy) -> bool {
        let uid = record.pod.0.uid.clone();
        if self.find(&record.pod).is_some() {
            self.done(&uid);
            return false;
        }
        if record.rejectors().is_empty() {
            record.consecutive_errors += 1;
        } else {
            record.unschedulable_count += 1;
            record.consecutive_errors = 0;
        }
        record.timestamp = now;
        record.was_flushed = false;
        let marker = self.log.iter().position(|item| *item == LogItem::Popped(uid.clone()));
        let worth = match marker {
            _ if record.rejectors().is_empty() || record.pod.0.is_group_member => {
                Requeue::AfterBackoff
            }
            None => Requeue::AfterBackoff,
            Some(marker) => (self.log[marker..].iter())
                .filter_map(|item| match item {
                    LogItem::Popped(_) => None,
                    LogItem::Happened(event, old, new) => {
                        Some(self.worth(&record, event, old.as_ref(), new.as_ref(), policy))
                    }
                })
                .max()
                .unwrap_or(Requeue::Skip),
        };
        self.requeue(record, worth, "ScheduleAttemptFailure", now, policy);
        self.done(&uid);
        true
    }

    pub(crate) fn event(
        &mut self,
        event: &ClusterEvent,
        old: Option<&Object>,
        new: Option<&Object>,
        mut pre_check: impl FnMut(&Pod) -> bool,
        now: Timestamp,
        policy: &Policy,
    ) {
        if !event.is_wildcard() && !self.registered(event, None) {
            return;
        }
        let candidates = self.parked(|record| pre_check(&record.pod));
        self.move_candidates(candidates, event, old, new, now, policy);
    }

    /// The parked pods that pass, in order of parking.
    fn parked(&self, mut passes: impl FnMut(&Record) -> bool) -> Vec<Pod> {
        let mut parked: Vec<&Record> = self
            .records
            .iter()
            .filter(|record| record.place == Some(Place::Unschedulable) && passes(record))
            .collect();
        parked.sort_by_key(|record| record.rank);
        parked.into_iter().map(|record| record.pod.clone()).collect()
    }

    fn move_candidates(
        &mut self,
        candidates: Vec<Pod>,
        event: &ClusterEvent,
        old: Option<&Object>,
        new: Option<&Object>,
        now: Timestamp,
        policy: &Policy,
    ) {
        for pod in candidates {
            let Some(at) = self.find(&pod) else { continue };
            let record = &self.records[at];
            if record.gated_by.as_ref().is_some_and(|gate| !self.registered(event, Some(gate))) {
                continue;
            }
            let worth = self.worth(record, event, old, new, policy);
            if worth != Requeue::Skip {
                let mut record = self.records.remove(at);
                record.place = None;
                self.requeue(record, worth, &event.label().to_string(), now, policy);
            }
        }
        if self.log.iter().any(|item| matches!(item, LogItem::Popped(_))) {
            self.log.push(LogItem::Happened(event.clone(), old.cloned(), new.cloned()));
        }
    }

    fn try_activate(&mut self, pod: &Pod, now: Timestamp, policy: &Policy) -> bool {
        let Some(at) = self.find(pod) else { return false };
        let from_backoff = match self.records[at].place {
            Some(Place::Unschedulable) => false,
            Some(Place::Backoff | Place::ErrorBackoff) => true,
            _ => return false,
        };
        if self.records[at].not_before.is_some_and(|until| now < until) {
            return false;
        }
        let record = self.records.remove(at);
        self.send_to_active(record, "ForceActivate", from_backoff, now, policy) == QueueName::Active
    }

    pub(crate) fn activate(&mut self, pods: &[Pod], now: Timestamp, policy: &Policy) {
        for pod in pods {
            if !self.try_activate(pod, now, policy) && self.is_in_flight(&pod.0.uid) {
                self.log.push(LogItem::Happened(
                    ClusterEvent::FORCE_ACTIVATE,
                    None,
                    Some(Object::Pod(pod.clone())),
                ));
            }
        }
    }

    pub(crate) fn back_off(&mut self, pod: &Pod, n_errors: u32, now: Timestamp, policy: &Policy) {
        let Some(at) = self.find(pod) else { return };
        let is_same = self.records[at].pod.0.uid == pod.0.uid;
        if self.records[at].place != Some(Place::Unschedulable) || !is_same {
            return;
        }
        let record = self.records.remove(at);
        let mut record = self.ask_gates(record, policy);
        if record.gated_by.is_some() {
            return self.put(
                record,
                Place::Unschedulable,
                "ScheduleAttemptFailure",
                true,
                now,
                policy,
            );
        }
        record.place = None;
        record.unschedulable.clear();
        record.pending.clear();
        record.gated_by = None;
        record.not_before = None;
        record.consecutive_errors = n_errors;
        record.timestamp = now;
        self.requeue(record, Requeue::AfterBackoff, "ScheduleAttemptFailure", now, policy);
    }

    pub(crate) fn flush_backoff(&mut self, now: Timestamp, policy: &Policy) {
        for place in [Place::Backoff, Place::ErrorBackoff] {
            let over =
                |record: &&Record| record.place == Some(place) && !self.is_backing_off(record, now);
            let mut over: Vec<Record> = self.records.iter().filter(over).cloned().collect();
            let by_sort = self.settings.pop_from_backoff && place == Place::Backoff;
            over.sort_by_key(|record| {
                (self.backoff_end(record), by_sort.then(|| record.sort_key()), record.rank)
            });
            for record in over {
                self.records.retain(|other| other.pod.0.name != record.pod.0.name);
                self.send_to_active(record, "BackoffComplete", true, now, policy);
            }
        }
    }

    pub(crate) fn flush_leftover(&mut self, now: Timestamp, policy: &Policy) {
        let limit = self.settings.max_in_unschedulable;
        let old = self.parked(|record| now.saturating_since(record.timestamp) > limit);
        if old.is_empty() {
            return;
        }
        for record in &mut self.records {
            record.was_flushed |= old.contains(&record.pod);
        }
        self.move_candidates(old, &ClusterEvent::UNSCHEDULABLE_TIMEOUT, None, None, now, policy);
    }

    /// By definition: the first nanosecond at which a flush would change anything.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let step = Duration::from_nanos(1);
        let of = |record: &Record| match record.place {
            Some(Place::Backoff | Place::ErrorBackoff) => {
                let second = Duration::from_secs(1);
                self.backoff_end(record)
                    .map(|end| end + if self.settings.pop_from_backoff { second } else { step })
            }
            Some(Place::Unschedulable) if !(record.gated_by.is_some() && record.was_flushed) => {
                Some(record.timestamp + self.settings.max_in_unschedulable + step)
            }
            _ => None,
        };
        self.records.iter().filter_map(of).min()
    }

    pub(crate) fn nominate(&mut self, pod: &Pod, nomination: Nomination<'_>, policy: &Policy) {
        self.nominations.retain(|(_, uid, _)| *uid != pod.0.uid);
        let node = match nomination {
            Nomination::Override(node) => node,
            Nomination::Noop if pod.0.nominated.is_empty() => return,
            Nomination::Noop => &pod.0.nominated,
        };
        if policy.may_be_nominated(&pod.0.name) {
            self.nominations.push((node.to_owned(), pod.0.uid.clone(), pod.0.name.clone()));
        }
    }
}
