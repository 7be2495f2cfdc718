//! Conditions of pods and pod groups: whether setting one would change anything, and what it becomes.

use std::sync::Arc;

use kube_scheduler_api_types::{ConditionText, PodCondition, Timestamp};

/// A condition to set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// The complete condition to write for an object of this generation; `None` when it has it already. The time of the last transition only changes
/// with the status, and a new generation alone is no news (`docs/spec/core.md` §8).
pub(crate) fn changed_condition(
    (conditions, generation): (&[PodCondition], i64),
    condition: &Condition<'_>,
    now: Timestamp,
) -> Option<PodCondition> {
    let before = conditions.iter().find(|before| *before.kind == *condition.kind);
    let changed = PodCondition {
        text: Arc::new(ConditionText {
            kind: condition.kind.into(),
            status: condition.status.into(),
            reason: condition.reason.into(),
            message: condition.message.into(),
            last_probe: None,
            observed_generation: generation,
        }),
        last_transition: before
            .filter(|before| *before.status == *condition.status)
            .map_or(Some(now), |before| before.last_transition),
    };
    let is_news = before.is_none_or(|before| {
        before.status != changed.status
            || before.reason != changed.reason
            || before.message != changed.message
            || before.last_probe != changed.last_probe
    });
    is_news.then_some(changed)
}
