//! Topology spread constraints (`docs/spec/plugins-topology.md`).

use std::sync::Arc;

use crate::selector::{LabelSelector, SelectorError};
use crate::well_known::is_numbering_label;

/// What to do when a constraint cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// Do not place the pod.
    DoNotSchedule,
    /// Prefer nodes that reduce the skew.
    ScheduleAnyway,
    /// A word this version does not know; the constraint has no effect, but the pod does not get default ones either.
    Unknown,
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
    /// `maxSkew`: by how many pods domains may differ.
    pub max_skew: i32,
    /// Node label whose values are the domains.
    pub topology_key: Arc<str>,
    /// `whenUnsatisfiable`: whether the constraint filters nodes or only scores them.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Which pods count; `None` matches nothing. Already includes `matchLabelKeys` of the pod.
    pub selector: Option<LabelSelector>,
    /// Why the selector does not compile, if it does not; `selector` is `None` then and the constraint cannot be used.
    pub selector_error: Option<Arc<SelectorError>>,
    /// Least number of domains; `None` counts as 1.
    pub min_domains: Option<i32>,
    /// Whether node affinity limits the nodes that count; default Honor.
    pub node_affinity_policy: NodeInclusionPolicy,
    /// Whether taints limit the nodes that count; default Ignore.
    pub node_taints_policy: NodeInclusionPolicy,
    /// `matchLabelKeys` as given, in order.
    pub match_label_keys: Arc<[Arc<str>]>,
}

impl TopologySpreadConstraint {
    /// Whether it counts pods by one of the [labels that number them](crate::well_known::NUMBERING_LABELS). O(`matchLabelKeys`).
    pub fn selects_by_number(&self) -> bool {
        self.selector.as_ref().is_some_and(LabelSelector::selects_by_number)
            || self.match_label_keys.iter().any(|key| is_numbering_label(key))
    }
}
