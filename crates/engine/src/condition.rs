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

/// The complete condition to write for an object of this generation; `None` when it has it already. A new generation alone is no
/// news (`docs/spec/core.md` §8), and the time of the last transition only changes with the status.
pub(crate) fn changed_condition(
    (conditions, generation): (&[PodCondition], i64),
    condition: Condition<'_>,
    now: Timestamp,
) -> Option<PodCondition> {
    let Condition { kind, status, reason, message } = condition;
    let before = conditions.iter().find(|before| *before.kind == *kind);
    let same = before.filter(|before| *before.status == *status);
    let says_so = |it: &PodCondition| {
        *it.reason == *reason && *it.message == *message && it.last_probe.is_none()
    };
    if same.is_some_and(says_so) {
        return None;
    }
    Some(PodCondition {
        text: Arc::new(ConditionText {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_probe: None,
            observed_generation: generation,
        }),
        last_transition: same.map_or(Some(now), |before| before.last_transition),
    })
}
