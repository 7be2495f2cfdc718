//! Where the group of a pod stands: how many of its pods there are, what they wait for, and what trying them together now would
//! give.
//!
//! Invariant: a group whose pods are not scheduled together, because the scheduler does not do that, has no answer.

mod table;
pub(crate) mod trial;
mod visibility;

use std::collections::BTreeMap;

use kube_scheduler_framework::{Code, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::Verdict;

/// The group of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupAnswer {
    /// The group, `namespace/name`.
    pub name: String,
    /// How many of its pods must fit together before any is bound; `None` if they do not wait for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<usize>,
    /// How many of its pods there are; one that is only a manifest is counted.
    pub n_pods: usize,
    /// How many of them have a node, also those that are not bound yet.
    pub n_scheduled: usize,
    /// How many of the others are at each stage, by the names of [`PlaceAnswer::stage`](super::PlaceAnswer).
    pub stages: BTreeMap<&'static str, usize>,
    /// What the group waits for before it is tried, if anything is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// A code for that: `NoPodGroup`, `UnreadablePodGroup` or `TooFewPods`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for_code: Option<&'static str>,
    /// What trying it now would give, if it can be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<GroupAttempt>,
}

/// What trying the pods of a group together gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupAttempt {
    /// `Fits`, `FitsAfterPreemption`, `DoesNotFit` or `Error`.
    pub verdict: &'static str,
    /// Why, in the words of the group's condition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How many pods were tried.
    pub n_tried: usize,
    /// The domain that is taken, such as a rack, if the group is kept in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// What making room for the group as a whole gives, if that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<String>,
    /// The pods that would be evicted for the group, `namespace/name`; a name is empty if the reader may not see it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Why there are no domains to try, if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_domains: Option<String>,
    /// Domains in which the group fared alike, the most frequent first; one without names where it is not kept in a domain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainsAnswer>,
    /// Whether only the outcome is known, because there are too many domains and pods to report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_abridged: bool,
    /// Whether the pod that was asked about gets a node, if the group fits, also after evictions; `None` if that is not known.
    #[serde(skip)]
    pub(crate) places_pod: Option<bool>,
    #[serde(skip)]
    is_error: bool,
}

/// Domains in which a group fares alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainsAnswer {
    /// The number of these domains.
    pub count: usize,
    /// The names of some of these domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// How many nodes they have together.
    pub nodes: usize,
    /// What came of it, in the scheduler's words; empty if the group fits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How many pods get a node in each.
    pub n_placed: usize,
    /// The others, by reasons, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedMembers>,
}

/// Pods of a group that get no node for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedMembers {
    /// The number of these pods.
    pub count: usize,
    /// The reason, in the words of a pod's event.
    pub message: String,
    /// The plugins that rejected them, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected_by: Vec<String>,
    /// The names of some of these pods.
    pub examples: Vec<String>,
    #[serde(skip)]
    is_error: bool,
}

impl GroupAnswer {
    /// Whether the pod that was asked about gets a node with the group, in the words of a pod's verdict; a group that cannot be
    /// tried yet does not fit. `None` if it was not tried for another reason, or what became of the pod is not known.
    pub(crate) fn verdict_of_pod(&self) -> Option<Verdict> {
        if self.waits_for.is_some() {
            return Some(Verdict::DoesNotFit);
        }
        let attempt = self.attempt.as_ref()?;
        let fits = match attempt.verdict {
            "Fits" => Verdict::Fits,
            "FitsAfterPreemption" => Verdict::FitsAfterPreemption,
            "Error" => return Some(Verdict::Error),
            _ => return Some(Verdict::DoesNotFit),
        };
        attempt.places_pod.map(|is_placed| if is_placed { fits } else { Verdict::DoesNotFit })
    }

    /// Whether the group as a whole gets no nodes as things are, or none for the pod that was asked about.
    pub(crate) fn is_stuck(&self) -> bool {
        let fails =
            |attempt: &GroupAttempt| attempt.verdict != "Fits" || attempt.places_pod == Some(false);
        self.waits_for.is_some() || self.attempt.as_ref().is_some_and(fails)
    }

    /// The pods that would be evicted for the group.
    pub(crate) fn victims_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.attempt.iter_mut().flat_map(|attempt| &mut attempt.victims)
    }

    /// Shortens the lists.
    pub(crate) fn limit(&mut self, max_examples: usize) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.domains.truncate(max_examples);
        for domains in &mut attempt.domains {
            domains.examples.truncate(max_examples);
            domains.failed.truncate(max_examples);
            domains.failed.iter_mut().for_each(|failed| failed.examples.truncate(max_examples));
        }
    }
}

impl DomainsAnswer {
    fn is_like(&self, other: &Self) -> bool {
        (&self.message, self.n_placed, &self.failed)
            == (&other.message, other.n_placed, &other.failed)
    }
}

impl GroupAttempt {
    fn of(status: &Status, waits: bool) -> Self {
        let verdict = match status.code() {
            Code::Success => "Fits",
            _ if waits => "FitsAfterPreemption",
            Code::Error => "Error",
            _ => "DoesNotFit",
        };
        Self {
            verdict,
            message: if status.is_success() { String::new() } else { status.message() },
            n_tried: 0,
            chosen: None,
            preemption: None,
            victims: Vec::new(),
            no_domains: None,
            domains: Vec::new(),
            is_abridged: false,
            places_pod: None,
            is_error: status.code() == Code::Error,
        }
    }
}
