//! A queue as data.
//!
//! Invariant: each of all pods is in one of the groups, and counted by its stage; none of them is being deleted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::explanation::PlaceAnswer;

/// The pods that wait to be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// The time of the answer. Of an answer that was made from objects, without a running scheduler: the newest timestamp among
    /// the nodes and pods, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<String>,
    /// How many pods wait.
    pub n_pods: usize,
    /// How many of these pods are at each stage.
    pub by_stage: BTreeMap<&'static str, usize>,
    /// How many more have no node and are being deleted: they are never scheduled, and do not wait.
    pub n_being_deleted: usize,
    /// The pods in the order in which they come to their turn, the first of them if there are more than are listed.
    pub pods: Vec<QueuedPodAnswer>,
    /// How many groups of pods that wait for the same there are, with those that are not listed.
    pub n_groups: usize,
    /// Pods that wait for the same, by stage and then the largest group first.
    pub groups: Vec<WaitingGroup>,
    /// How many pods of a group are named.
    #[serde(skip)]
    pub(super) max_examples: usize,
    /// What the reader should know about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A pod that waits to be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WaitingPod")]
pub struct QueuedPodAnswer {
    /// Its place among all that wait, from 1 on. Active pods are in the order of QueueSort, those in backoff in that in which
    /// it ends; unschedulable and gated ones are in the order in which they came, and which of them goes first depends on
    /// what happens.
    pub order: usize,
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Its priority.
    pub priority: i32,
    /// Its pod group, by name; it is in the pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    /// What it waits for.
    pub place: PlaceAnswer,
    /// The node that it gets when it is tried in its turn, if that was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goes_to: Option<String>,
    /// Why the last attempt at it failed; of a gated pod, what holds it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether that is the text of an error.
    #[serde(skip)]
    pub(super) is_error: bool,
}

/// Pods that are at the same stage and wait for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingGroup {
    /// Where these pods are: one of the values of `stage` of a pod's place.
    pub stage: &'static str,
    /// The plugins that hold them at this stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// The plugins that rejected them in their last attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected_by: Vec<String>,
    /// The events that may bring them back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// Why the last attempt at them failed; of gated pods, what holds them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The number of these pods.
    pub count: usize,
    /// Some of them, the first in the order first.
    pub examples: Vec<String>,
}
