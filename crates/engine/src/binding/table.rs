//! All pods on their way to their node, and which of them waits for what.
//!
//! Invariants: `sleeping` holds exactly the pods with PreBind tasks that sleep, by serial; `watchers` the objects that
//! these wait for; the table of deadlines the times at which they go on. Finding what is due costs no more than that,
//! however many pods are on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::KeyedMap;
use kube_scheduler_framework::ObjectKey;
use rustc_hash::FxHashMap;

use super::Binding;
use crate::deadlines::{Deadlines, WakeUp};
use crate::effect::Token;

/// The number of a binding in the order in which pods set off; never used twice.
pub(crate) type Serial = u64;

/// All pods on their way, by UID.
#[derive(Debug, Default)]
pub(super) struct BindingTable {
    /// In boxes, since a binding goes in and out with each of its steps.
    by_uid: KeyedMap<Arc<str>, Box<Binding>>,
    by_token: FxHashMap<Token, Arc<str>>,
    sleeping: BTreeMap<Serial, Arc<str>>,
    watchers: BTreeMap<ObjectKey, BTreeSet<Serial>>,
    last_token: u64,
    last_serial: Serial,
}

impl BindingTable {
    /// An empty table that gives no number which this one has given.
    pub(super) fn fork(&self) -> Self {
        let Self { last_token, last_serial, .. } = *self;
        Self { last_token, last_serial, ..Self::default() }
    }

    /// All pods on their way, in the order in which they set off.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Binding> {
        let mut all: Vec<&Binding> = self.by_uid.values().map(|binding| &**binding).collect();
        all.sort_unstable_by_key(|binding| binding.serial);
        all.into_iter()
    }

    /// How many pods are on their way.
    pub(super) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// What is in which table, and how much of it.
    pub(super) fn sizes(&self) -> [(&'static str, usize); 4] {
        [
            ("pods on their way", self.by_uid.len()),
            ("answers that bindings wait for", self.by_token.len()),
            ("pods with sleeping tasks", self.sleeping.len()),
            ("objects that tasks wait for", self.watchers.len()),
        ]
    }

    /// The number of the next binding.
    pub(super) fn next_serial(&mut self) -> Serial {
        self.last_serial += 1;
        self.last_serial
    }

    /// A new token for work that the pod waits for.
    pub(super) fn issue_token(&mut self, uid: &Arc<str>) -> Token {
        self.last_token += 1;
        let token = Token(self.last_token);
        self.by_token.insert(token, uid.clone());
        token
    }

    /// Whose work has ended; a token is good for one answer.
    pub(super) fn redeem(&mut self, token: Token) -> Option<Arc<str>> {
        self.by_token.remove(&token)
    }

    /// A binding, to look at.
    pub(super) fn get(&self, uid: &str) -> Option<&Binding> {
        self.by_uid.get(uid).map(|binding| &**binding)
    }

    /// Puts a binding into the table.
    pub(super) fn put(&mut self, binding: Box<Binding>, deadlines: &mut Deadlines) {
        let uid = binding.pod.uid.clone();
        for (until, objects) in binding.sleepers() {
            self.sleeping.insert(binding.serial, uid.clone());
            if let Some(until) = until {
                deadlines.set(WakeUp::TaskGoesOn(binding.serial), until);
            }
            for key in objects {
                self.watchers.entry(key.clone()).or_default().insert(binding.serial);
            }
        }
        self.by_uid.insert(uid, binding);
    }

    /// Takes a binding out of the table, to change or end it.
    pub(super) fn take(&mut self, uid: &str, deadlines: &mut Deadlines) -> Option<Box<Binding>> {
        let binding = self.by_uid.remove(uid)?;
        for (until, objects) in binding.sleepers() {
            self.sleeping.remove(&binding.serial);
            if let Some(until) = until {
                deadlines.clear(WakeUp::TaskGoesOn(binding.serial), until);
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

    /// The pod of a binding with sleeping tasks.
    pub(super) fn sleeper(&self, serial: Serial) -> Option<Arc<str>> {
        self.sleeping.get(&serial).cloned()
    }

    /// Whether any task waits for an object.
    pub(super) fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// The pods with tasks that wait for this object, in the order in which they set off.
    pub(super) fn watchers(&self, key: &ObjectKey) -> Vec<Arc<str>> {
        let serials = self.watchers.get(key).into_iter().flatten();
        serials.filter_map(|serial| self.sleeper(*serial)).collect()
    }
}
