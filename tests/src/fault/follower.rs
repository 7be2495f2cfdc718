//! How a scheduler follows one kind: lists, watches, resumes, lists again, with the faults that a network brings.
//!
//! Invariants, as in the daemon: what the engine is shown is always a state that the server had, never older than what it
//! was shown before of this kind; one watch brings events in order; after a complete list nothing is known that it lacked.
//! Different kinds arrive at different times.

use std::collections::{BTreeSet, VecDeque};

use kube_scheduler_engine::{Input, KnownObjects, WatchedKey};
use kube_scheduler_framework::EventObject;

use super::server::{RevisionTooOld, Server};
use crate::history::Numbers;

/// Objects of a list that arrive at once.
const PAGE: u64 = 4;

#[derive(Debug)]
enum State {
    /// Everything must be listed.
    Unlisted,
    /// A list of this revision arrives page by page.
    Listing { revision: u64, rest: VecDeque<EventObject>, seen: BTreeSet<WatchedKey> },
    /// Everything up to the version was passed on.
    Watching,
    /// The watch broke off.
    Interrupted,
}

/// One kind, followed.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) kind: &'static str,
    pub(super) known: KnownObjects,
    state: State,
    version: u64,
    pub(super) is_synced: bool,
    /// What was passed on last, to be repeated.
    last: Option<EventObject>,
}

impl Follower {
    pub(super) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            known: KnownObjects::default(),
            state: State::Unlisted,
            version: 0,
            is_synced: false,
            last: None,
        }
    }

    /// Whether everything is known that this kind was at `revision`.
    pub(super) fn has_reached(&self, revision: u64, server: &Server) -> bool {
        self.is_synced
            && matches!(self.state, State::Watching)
            && (self.version >= revision
                || server
                    .next_after(self.kind, self.version)
                    .is_ok_and(|next| next.is_none_or(|next| next.revision > revision)))
    }

    /// The connection is lost.
    pub(super) fn interrupt(&mut self) {
        self.state = match &self.state {
            State::Watching | State::Interrupted => State::Interrupted,
            State::Unlisted | State::Listing { .. } => State::Unlisted,
        };
    }

    /// The next thing that arrives: the inputs for the engine, and what happened in a few words; `None` when nothing does.
    pub(super) fn receive(
        &mut self,
        server: &Server,
        numbers: &mut Numbers,
        inputs: &mut Vec<Input>,
    ) -> Option<&'static str> {
        match &mut self.state {
            State::Unlisted => {
                let rest = server.list(self.kind).into();
                let (revision, seen) = (server.revision(), BTreeSet::new());
                self.state = State::Listing { revision, rest, seen };
                self.last = None;
                Some("lists")
            }
            State::Listing { revision, rest, seen } => {
                for _ in 0..=numbers.below(PAGE) {
                    let Some(object) = rest.pop_front() else { break };
                    seen.insert(object.key());
                    self.known.apply(object, inputs);
                }
                if rest.is_empty() {
                    self.known.keep_only(seen, inputs);
                    self.version = *revision;
                    self.is_synced = true;
                    self.state = State::Watching;
                    return Some("has listed");
                }
                Some("reads a page")
            }
            State::Interrupted => {
                self.state = State::Watching;
                Some("resumes")
            }
            State::Watching => match server.next_after(self.kind, self.version) {
                Err(RevisionTooOld) => {
                    self.state = State::Unlisted;
                    Some("must list again")
                }
                Ok(None) => {
                    // A bookmark.
                    let is_behind = self.version < server.revision();
                    self.version = server.revision();
                    is_behind.then_some("reads a bookmark")
                }
                Ok(Some(happened)) => {
                    self.version = happened.revision;
                    match &happened.object {
                        Some(object) => {
                            self.last = Some(object.clone());
                            self.known.apply(object.clone(), inputs);
                        }
                        None => {
                            self.last = None;
                            self.known.delete(&happened.key, inputs);
                        }
                    }
                    Some("hears")
                }
            },
        }
    }

    /// Delivers the last event a second time, past the check that drops repeated ones.
    pub(super) fn repeat(&mut self, inputs: &mut Vec<Input>) -> bool {
        let last = self.last.take();
        let is_there = last.is_some();
        inputs.extend(last.map(Input::from));
        is_there
    }
}
