//! Topology spread constraints (`spec/plugins-topology.md`).

use std::sync::Arc;

use crate::selector::LabelSelector;

/// What to do when a constraint cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// Do not place the pod.
    DoNotSchedule,
    /// Prefer nodes that reduce the skew.
    ScheduleAnyway,
}

/// Whether nodes excluded by affinity or taints count when skew is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeInclusionPolicy {
    /// Excluded nodes do not count.
    Honor,
    /// All nodes count.
    Ignore,
}

/// One entry of `spec.topologySpreadConstraints`.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologySpreadConstraint {
    /// Permitted skew.
    pub max_skew: i32,
    /// Node label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Hard or soft.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Which pods count; `None` matches nothing. Already includes `matchLabelKeys` of the pod.
    pub selector: Option<LabelSelector>,
    /// Least number of domains; `None` counts as 1.
    pub min_domains: Option<i32>,
    /// Whether node affinity limits the nodes that count; default Honor.
    pub node_affinity_policy: NodeInclusionPolicy,
    /// Whether taints limit the nodes that count; default Ignore.
    pub node_taints_policy: NodeInclusionPolicy,
    /// `matchLabelKeys` as given, in order.
    pub match_label_keys: Arc<[Arc<str>]>,
}
