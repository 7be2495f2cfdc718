//! What a scheduler reports of a pod that it cannot place: the condition that the API server has then, and the event.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube_scheduler_engine::{Effect, FAILED_SCHEDULING};
use serde_json::Value;

use crate::history::ApiServer;

/// Events have at most this many bytes of text. What is longer ends in dots.
const MAX_NOTE: usize = 1024;
const DOTS: &str = " ...";
const SCHEDULER_ERROR: &str = "SchedulerError";

/// The texts of the last events about attempts that failed, by the pod's UID.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<String, String>);

impl Reports {
    /// Forgets all that was reported until now.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps what is reported, if it is an event of this kind.
    pub(super) fn note(&mut self, effect: &Effect) {
        if let Effect::RecordEvent { pod, reason, note, .. } = effect
            && *reason == FAILED_SCHEDULING
        {
            self.0.insert(pod.uid.to_string(), note.clone());
        }
    }

    /// Whether an attempt at the pod has failed.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// The last report about the pod is this text, to the letter: in the event and in the condition.
    pub(super) fn compare(
        &self,
        server: &ApiServer,
        uid: &str,
        (code, text): (&str, &str),
    ) -> Result<()> {
        let key = server.pod_of(uid).with_context(|| format!("no pod has the UID {uid}"))?;
        let event = self.0.get(uid).with_context(|| format!("no event about {key:?}"))?;
        let is_same = match text.len() > MAX_NOTE {
            false => event == text,
            true => event
                .strip_suffix(DOTS)
                .is_some_and(|start| event.len() == MAX_NOTE && text.starts_with(start)),
        };
        ensure!(is_same, "the event about {key:?} is {event:?}, foreseen was {text:?}");
        let conditions = server.pods[&key]["status"]["conditions"].as_array();
        let is_scheduled = |one: &&Value| one["type"] == "PodScheduled";
        let condition = conditions.and_then(|all| all.iter().find(is_scheduled));
        // There are several reasons why a pod is not schedulable.
        let is_same = condition.is_some_and(|one| {
            one["message"] == text
                && (one["reason"] == SCHEDULER_ERROR) == (code == SCHEDULER_ERROR)
        });
        ensure!(is_same, "the condition of {key:?} is {condition:?}, foreseen was {code} {text:?}");
        Ok(())
    }
}
