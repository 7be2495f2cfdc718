//! Taints, tolerations, and which tolerates which (`spec/plugins-node.md` §2.8).

use std::sync::Arc;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
    /// An effect this version does not know; it has no influence.
    Other(Arc<str>),
}

/// One taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Arc<str>,
    /// Value, possibly empty.
    pub value: Arc<str>,
    /// Effect.
    pub effect: TaintEffect,
}

/// How a toleration compares values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// Values are equal; also the meaning of an absent operator.
    Equal,
    /// Any value.
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
    /// Key; empty matches every key.
    pub key: Arc<str>,
    /// Comparison.
    pub operator: TolerationOperator,
    /// Value.
    pub value: Arc<str>,
    /// Effect; `None` matches every effect.
    pub effect: Option<TaintEffect>,
    /// How long a NoExecute taint is tolerated, in seconds; of no meaning to scheduling.
    pub toleration_seconds: Option<i64>,
}
