//! All pods on their way to their node, and who of them waits until when or for what.
//!
//! Invariants: `waiting` holds exactly the pods in the Permit stage, by serial; `deadlines` holds the first deadline of
//! each of them; `sleeping`, `alarms` and `watchers` do the same for pods with PreBind tasks that sleep. Finding what is
//! due costs no more than that, however many pods are on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_framework::{ObjectKey, PluginName, WaitingPod, WaitingPods};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Binding, Stage};
use crate::effect::Token;

/// One plugin's wait for one pod.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) plugin: PluginName,
    pub(super) deadline: Timestamp,
    /// For how long in all.
    pub(super) timeout: Duration,
}

/// Waits on Permit, in plugin order.
pub(super) type Waits = SmallVec<[Wait; 2]>;

/// All pods on their way, by UID.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    pub(super) by_uid: FxHashMap<Arc<str>, Binding>,
    by_token: FxHashMap<Token, Arc<str>>,
    waiting: BTreeMap<u64, Arc<str>>,
    deadlines: BTreeSet<(Timestamp, u64)>,
    sleeping: BTreeMap<u64, Arc<str>>,
    alarms: BTreeSet<(Timestamp, u64)>,
    watchers: BTreeMap<ObjectKey, BTreeSet<u64>>,
    next_token: u64,
    next_serial: u64,
}

impl Bindings {
    /// How many pods are on their way.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// What is in which table, and how much of it.
    pub(crate) fn table_sizes(&self) -> [(&'static str, usize); 7] {
        [
            ("pods on their way", self.by_uid.len()),
            ("answers that bindings wait for", self.by_token.len()),
            ("pods that wait on Permit", self.waiting.len()),
            ("ends of waits on Permit", self.deadlines.len()),
            ("pods with sleeping tasks", self.sleeping.len()),
            ("times at which tasks wake up", self.alarms.len()),
            ("objects that tasks wait for", self.watchers.len()),
        ]
    }

    /// A new number for the order in which pods set off.
    pub(super) fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// A new token for work that the pod waits for.
    pub(super) fn token(&mut self, uid: &Arc<str>) -> Token {
        self.next_token += 1;
        let token = Token(self.next_token);
        self.by_token.insert(token, uid.clone());
        token
    }

    /// Whose work has ended; a token is good for one answer.
    pub(super) fn redeem(&mut self, token: Token) -> Option<Arc<str>> {
        self.by_token.remove(&token)
    }

    /// Puts a pod into the table.
    pub(super) fn insert(&mut self, binding: Binding) {
        let uid = binding.pod.uid.clone();
        if let Some(deadline) = first_deadline(&binding) {
            self.waiting.insert(binding.serial, uid.clone());
            self.deadlines.insert((deadline, binding.serial));
        }
        for (until, objects) in binding.sleepers() {
            self.sleeping.insert(binding.serial, uid.clone());
            self.alarms.extend(until.map(|until| (until, binding.serial)));
            for key in objects {
                self.watchers.entry(key.clone()).or_default().insert(binding.serial);
            }
        }
        self.by_uid.insert(uid, binding);
    }

    /// Takes a pod out of the table.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Binding> {
        let binding = self.by_uid.remove(uid)?;
        if let Some(deadline) = first_deadline(&binding) {
            self.waiting.remove(&binding.serial);
            self.deadlines.remove(&(deadline, binding.serial));
        }
        for (until, objects) in binding.sleepers() {
            self.sleeping.remove(&binding.serial);
            if let Some(until) = until {
                self.alarms.remove(&(until, binding.serial));
            }
            for key in objects {
                let Some(serials) = self.watchers.get_mut(key) else { continue };
                serials.remove(&binding.serial);
                if serials.is_empty() {
                    self.watchers.remove(key);
                }
            }
        }
        Some(binding)
    }

    /// The first time at which a wait on Permit ends or a task wakes up.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let first = |times: &BTreeSet<(Timestamp, u64)>| times.first().map(|(time, _)| *time);
        match (first(&self.deadlines), first(&self.alarms)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The pod with the task that should have woken up for longest at `now`.
    pub(super) fn due(&self, now: Timestamp) -> Option<Arc<str>> {
        let (_, serial) = self.alarms.first().filter(|(until, _)| *until <= now)?;
        self.sleeping.get(serial).cloned()
    }

    /// Whether any task waits for an object.
    pub(super) fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// The pods with tasks that wait for this object, in the order in which they set off.
    pub(super) fn watchers(&self, key: &ObjectKey) -> Vec<Arc<str>> {
        let serials = self.watchers.get(key).into_iter().flatten();
        serials.filter_map(|serial| self.sleeping.get(serial).cloned()).collect()
    }

    /// The wait that has been over for longest at `now`; of several that end together, that of the pod that set off first.
    pub(super) fn expired(&self, now: Timestamp) -> Option<(Arc<str>, Wait)> {
        let (deadline, serial) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        let uid = self.waiting.get(serial)?;
        let Stage::Permit(waits) = &self.by_uid.get(uid)?.stage else { return None };
        let wait = waits.iter().find(|wait| wait.deadline == *deadline)?;
        Some((uid.clone(), wait.clone()))
    }

    /// Whether the pod waits on Permit.
    pub(crate) fn is_waiting(&self, uid: &str) -> bool {
        self.by_uid.get(uid).is_some_and(|binding| matches!(binding.stage, Stage::Permit(_)))
    }
}

impl Bindings {
    /// Whether the pod can still be stopped without the API server: it waits on Permit, or for work in PreBind.
    pub(crate) fn is_evictable_in_memory(&self, uid: &str) -> bool {
        self.by_uid.get(uid).is_some_and(|binding| {
            matches!(binding.stage, Stage::Permit(_) | Stage::PreBind { .. })
        })
    }
}

fn first_deadline(binding: &Binding) -> Option<Timestamp> {
    let Stage::Permit(waits) = &binding.stage else { return None };
    waits.iter().map(|wait| wait.deadline).min()
}

impl WaitingPods for Bindings {
    fn waiting_pod(&self, uid: &str) -> Option<WaitingPod> {
        let binding = self.by_uid.get(uid)?;
        let Stage::Permit(waits) = &binding.stage else { return None };
        let mut pending_plugins: Vec<PluginName> =
            waits.iter().map(|wait| wait.plugin.clone()).collect();
        pending_plugins.sort();
        Some(WaitingPod { pod: binding.pod.clone(), pending_plugins })
    }

    fn waiting_pods(&self) -> Vec<WaitingPod> {
        self.waiting.values().filter_map(|uid| self.waiting_pod(uid)).collect()
    }
}
