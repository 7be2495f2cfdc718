//! Taints, tolerations, and which tolerates which (`docs/spec/plugins-node.md` §2.8).

use std::sync::Arc;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintEffect {
    /// New pods do not go to the node.
    NoSchedule,
    /// New pods go elsewhere if they can.
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
    /// An effect this version does not know; it has no influence.
    Other(Arc<str>),
}

/// One taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// The key, never empty in a valid taint.
    pub key: Arc<str>,
    /// Value, possibly empty.
    pub value: Arc<str>,
    /// What happens to pods that do not tolerate the taint.
    pub effect: TaintEffect,
}

/// How a toleration compares values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// Values are equal; also the meaning of an absent operator.
    Equal,
    /// The taint is there, with any value.
    Exists,
    /// The taint's number is below the toleration's (`TaintTolerationComparisonOperators`).
    Lt,
    /// The taint's number is above the toleration's (`TaintTolerationComparisonOperators`).
    Gt,
    /// An operator this version does not know; it tolerates nothing.
    Other(Arc<str>),
}

/// One toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    /// Key of the taints it matches; empty matches every key.
    pub key: Arc<str>,
    /// How key and value are compared with those of a taint.
    pub operator: TolerationOperator,
    /// The value that a taint must have, for the operators that compare it.
    pub value: Arc<str>,
    /// Effect of the taints it matches; `None` matches every effect.
    pub effect: Option<TaintEffect>,
    /// How long a NoExecute taint is tolerated, in seconds; of no meaning to scheduling.
    pub toleration_seconds: Option<i64>,
}

impl TaintEffect {
    /// The effect as the API writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Other(text) => text,
        }
    }

    /// Whether pods that do not tolerate the taint must not be placed.
    pub fn is_hard(&self) -> bool {
        matches!(self, Self::NoSchedule | Self::NoExecute)
    }
}

impl From<&Arc<str>> for TaintEffect {
    fn from(text: &Arc<str>) -> Self {
        match &**text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            _ => Self::Other(text.clone()),
        }
    }
}

impl From<&str> for TaintEffect {
    fn from(text: &str) -> Self {
        Self::from(&Arc::from(text))
    }
}

impl TolerationOperator {
    /// The operator as the API writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Equal => "Equal",
            Self::Exists => "Exists",
            Self::Lt => "Lt",
            Self::Gt => "Gt",
            Self::Other(text) => text,
        }
    }
}

impl From<&Arc<str>> for TolerationOperator {
    fn from(text: &Arc<str>) -> Self {
        match &**text {
            "" | "Equal" => Self::Equal,
            "Exists" => Self::Exists,
            "Lt" => Self::Lt,
            "Gt" => Self::Gt,
            _ => Self::Other(text.clone()),
        }
    }
}

impl From<&str> for TolerationOperator {
    fn from(text: &str) -> Self {
        Self::from(&Arc::from(text))
    }
}

impl Toleration {
    /// Whether this tolerates `taint`. `comparison_operators` is the gate `TaintTolerationComparisonOperators`; without
    /// it `Lt` and `Gt` tolerate nothing.
    pub fn tolerates(&self, taint: &Taint, comparison_operators: bool) -> bool {
        if self.effect.as_ref().is_some_and(|effect| *effect != taint.effect) {
            return false;
        }
        // Quirk: an empty key matches every key, with `Equal` too, which the API server would not let pass.
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Lt => {
                comparison_operators && self.compares(taint, |taint, bound| taint < bound)
            }
            TolerationOperator::Gt => {
                comparison_operators && self.compares(taint, |taint, bound| taint > bound)
            }
            TolerationOperator::Other(_) => false,
        }
    }

    fn compares(&self, taint: &Taint, holds: impl Fn(i64, i64) -> bool) -> bool {
        match (canonical_integer(&taint.value), canonical_integer(&self.value)) {
            (Some(taint), Some(bound)) => holds(taint, bound),
            _ => false,
        }
    }
}

/// A 64-bit integer in its one canonical spelling: no plus sign, no leading zeros, no `-0`.
fn canonical_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if text != "0" && !digits.starts_with(|c: char| matches!(c, '1'..='9')) {
        return None;
    }
    text.parse().ok()
}

/// The first taint with effect `NoSchedule` or `NoExecute`, in the node's order, that nothing tolerates.
pub fn untolerated_taint<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    comparison_operators: bool,
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        taint.effect.is_hard()
            && !tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint, comparison_operators))
    })
}

#[cfg(test)]
mod tests;
