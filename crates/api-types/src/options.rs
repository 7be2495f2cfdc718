//! Feature gates that change how objects are read.

/// Feature gates that change how pods are read, for [`Pod::from_json_with`](crate::Pod::from_json_with) and the other decoders
/// that take options. The default is the reference's default; decoders without options use it.
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
