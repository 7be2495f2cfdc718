//! From the wire to what the scheduler keeps: everything that can be decided about an object on its own is decided
//! here, once.
//!
//! Invariants: compiling never fails; what cannot be used (a selector that does not parse) is kept as the error it is,
//! where the plugin that needs it will find it; equal wire objects compile to equal results.

mod affinity;
mod decode;
mod node;
mod pod;
#[cfg(test)]
mod tests;

pub use decode::DecodeError;
pub(crate) use decode::{decode_text, decode_value};

/// Feature gates that change how objects are read. The default is the reference's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileOptions {
    /// `PodLevelResources`: `spec.resources` of a pod overrides the sum over its containers.
    pub pod_level_resources: bool,
    /// `InPlacePodLevelResourcesVerticalScaling`: pod-level resources in the status count.
    pub pod_level_in_place_scaling: bool,
    /// `MatchLabelKeysInPodTopologySpread`: `matchLabelKeys` of spread constraints join their selectors.
    pub spread_match_label_keys: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            pod_level_resources: true,
            pod_level_in_place_scaling: true,
            spread_match_label_keys: true,
        }
    }
}
