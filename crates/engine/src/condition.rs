//! Conditions of pods and pod groups: whether setting one would change anything, and what it becomes.

use std::borrow::Cow;
use std::sync::Arc;

use kube_scheduler_api_types::{ConditionText, PodCondition, Timestamp};

/// A condition to set.
#[derive(Clone, Debug)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: Cow<'a, str>,
}

impl Condition<'_> {
    fn before<'c>(&self, conditions: &'c [PodCondition]) -> Option<&'c PodCondition> {
        conditions.iter().find(|before| *before.kind == *self.kind)
    }

    /// Whether an object with these conditions does not have it already. A new generation alone is no news
    /// (`docs/spec/core.md` §8).
    pub(crate) fn is_news(&self, conditions: &[PodCondition]) -> bool {
        self.before(conditions).is_none_or(|before| {
            *before.status != *self.status
                || *before.reason != *self.reason
                || *before.message != *self.message
                || before.last_probe.is_some()
        })
    }

    /// The time of its last transition when it is set now: that of an object with these conditions only changes with the status.
    pub(crate) fn since(&self, conditions: &[PodCondition], now: Timestamp) -> Option<Timestamp> {
        let before = self.before(conditions).filter(|before| *before.status == *self.status);
        before.map_or(Some(now), |before| before.last_transition)
    }
}

/// The complete condition to write for an object of this generation; `None` when it has it already.
pub(crate) fn changed_condition(
    (conditions, generation): (&[PodCondition], i64),
    condition: &Condition<'_>,
    now: Timestamp,
) -> Option<PodCondition> {
    condition.is_news(conditions).then(|| PodCondition {
        text: Arc::new(ConditionText {
            kind: condition.kind.into(),
            status: condition.status.into(),
            reason: condition.reason.into(),
            message: (*condition.message).into(),
            last_probe: None,
            observed_generation: generation,
        }),
        last_transition: condition.since(conditions, now),
    })
}
