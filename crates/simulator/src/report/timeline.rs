//! The part of a report about pods that come and go.

use std::collections::BTreeMap;

use serde::Serialize;

/// How a cluster served the pods of a trace over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TimelineReport {
    /// From the creation of the first pod to the end of the run, in seconds of virtual time.
    pub seconds: f64,
    /// From the creation of a pod to its placement, over all that got a node.
    pub(crate) wait_seconds: WaitTimes,
    /// Requests of running pods divided by what is allocatable, by resource.
    pub resources: BTreeMap<String, ResourceUse>,
}

/// Times of waiting, in seconds; percentiles by the nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitTimes {
    /// The mean.
    pub(crate) mean: f64,
    /// Half of the pods waited no longer.
    pub(crate) p50: f64,
    /// 99 of 100 pods waited no longer.
    pub(crate) p99: f64,
    /// The longest.
    pub(crate) max: f64,
}

/// Use of a resource over time: 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceUse {
    /// The mean over the time of the run.
    pub mean: f64,
    /// The most at any time.
    pub(crate) peak: f64,
}
