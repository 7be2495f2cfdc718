//! Where the group of a pod stands: how many of its pods there are, what they wait for, and what trying them together now would
//! give.
//!
//! Invariant: a group whose pods are not scheduled together, because the scheduler does not do that, has no answer.

mod table;
mod trial;

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_framework::{Code, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::data::Verdict;
use super::visibility::{ERROR_HIDDEN, merged};
pub(super) use trial::group_of;

/// What stands for a text that names domains.
const DOMAINS_HIDDEN: &str =
    "a reason that names domains; its text is shown to those who may list nodes";

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
    /// Why there are no domains to try, if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_domains: Option<String>,
    /// Domains in which the group fared alike, the most frequent first; one without names where it is not kept in a domain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainsAnswer>,
    /// Whether only the outcome is known, because there are too many domains and pods to report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_abridged: bool,
    #[serde(skip)]
    is_error: bool,
}

/// Domains in which a group fares alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainsAnswer {
    /// How many.
    pub count: usize,
    /// Some of them.
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
    /// How many.
    pub count: usize,
    /// The reason, in the words of a pod's event.
    pub message: String,
    /// Some of them, by name.
    pub examples: Vec<String>,
    #[serde(skip)]
    is_error: bool,
}

impl GroupAnswer {
    /// Whether the group fits, if it was tried.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Some(match self.attempt.as_ref()?.verdict {
            "Fits" => Verdict::Fits,
            "FitsAfterPreemption" => Verdict::FitsAfterPreemption,
            "Error" => Verdict::Error,
            _ => Verdict::DoesNotFit,
        })
    }

    /// The same with shorter lists.
    pub(super) fn limit(&mut self, max_examples: usize) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.domains.truncate(max_examples);
        for domains in &mut attempt.domains {
            domains.examples.truncate(max_examples);
            domains.failed.truncate(max_examples);
            domains.failed.iter_mut().for_each(|failed| failed.examples.truncate(max_examples));
        }
    }

    /// Leaves out the names of domains, which may be those of nodes, the texts that have them, and those of errors.
    pub(super) fn hide_nodes(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.hide_nodes();
        }
    }
}

impl GroupAttempt {
    fn hide_nodes(&mut self) {
        let examples =
            self.domains.iter_mut().flat_map(|domains| std::mem::take(&mut domains.examples));
        let names: BTreeSet<String> = examples.chain(self.chosen.take()).collect();
        // Which domains there are is not known of one that is abridged.
        let (all, is_error) = (self.is_abridged, self.is_error);
        let hide = |text: &mut String, is_error: bool| {
            if text.is_empty() {
                return;
            }
            if is_error {
                ERROR_HIDDEN.clone_into(text);
            } else if all || has_one_of(text, &names) {
                DOMAINS_HIDDEN.clone_into(text);
            }
        };
        hide(&mut self.message, is_error);
        self.preemption
            .iter_mut()
            .chain(&mut self.no_domains)
            .for_each(|text| hide(text, is_error));
        for domains in &mut self.domains {
            hide(&mut domains.message, is_error);
            domains.failed.iter_mut().for_each(|failed| hide(&mut failed.message, failed.is_error));
        }
        let is_same = |a: &DomainsAnswer, b: &DomainsAnswer| a.is_like(b);
        self.domains = merged(std::mem::take(&mut self.domains), is_same, |known, domains| {
            known.count += domains.count;
            known.nodes += domains.nodes;
        });
    }
}

/// Whether one of the words of a text is one of these names.
fn has_one_of(text: &str, names: &BTreeSet<String>) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let words = text.split(|c| !is_of_name(c));
    words.map(|word| word.trim_matches(['.', '/', '-'])).any(|word| names.contains(word))
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
            no_domains: None,
            domains: Vec::new(),
            is_abridged: false,
            is_error: status.code() == Code::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str, is_error: bool) -> FailedMembers {
        FailedMembers {
            count: 1,
            message: message.to_owned(),
            examples: vec!["m".to_owned()],
            is_error,
        }
    }

    fn domain(name: &str, failed: FailedMembers) -> DomainsAnswer {
        DomainsAnswer {
            count: 1,
            examples: vec![name.to_owned()],
            nodes: 1,
            message: String::new(),
            n_placed: 0,
            failed: vec![failed],
        }
    }

    #[test]
    fn texts_with_names_of_domains_are_hidden_and_others_stay() {
        let exact = "pod group is unschedulable, kubernetes.io/hostname: 2 of 2 domains, such as node-7: cpu (milli): 8 needed";
        let mut attempt = GroupAttempt::of(&Status::unschedulable(exact), false);
        attempt.preemption = Some("No preemption victims found".to_owned());
        attempt.domains = vec![
            domain("node-7", failed("node-7 is too small.", false)),
            domain("node-8", failed("Insufficient cpu in node-8.", false)),
            domain("a", failed("0/1 nodes are a bit small", false)),
            domain("cpu-1", failed("Insufficient cpu", false)),
            domain("d", failed("timed out at node-9", true)),
        ];
        let mut abridged = attempt.clone();
        attempt.hide_nodes();
        let hidden = serde_json::to_string(&attempt).unwrap();
        for name in ["node-7", "node-8", "node-9", "cpu-1"] {
            assert!(!hidden.contains(name), "{hidden}");
        }
        assert_eq!(attempt.preemption.as_deref(), Some("No preemption victims found"));
        let seen: Vec<(usize, &str)> =
            attempt.domains.iter().map(|it| (it.count, &*it.failed[0].message)).collect();
        assert_eq!(seen, [(3, DOMAINS_HIDDEN), (1, "Insufficient cpu"), (1, ERROR_HIDDEN)]);
        (abridged.is_abridged, abridged.domains) = (true, Vec::new());
        abridged.hide_nodes();
        assert_eq!(abridged.message, DOMAINS_HIDDEN);
    }
}
