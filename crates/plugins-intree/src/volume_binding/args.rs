//! VolumeBinding's arguments, which depend on whether capacity is scored.

use std::time::Duration;

use kube_scheduler_config::{FeatureGates, Gate, PluginArgs as ConfigArgs};
use kube_scheduler_framework::{Handle, PluginArgs};

use crate::plugin_args::{self, WRONG_ARGS};
use crate::resources::shape::Shape;

/// What the plugin needs of its arguments.
#[derive(Clone, Debug)]
pub(super) struct BindingArgs {
    /// How long to wait for bindings.
    pub(super) timeout: Duration,
    /// How use of capacity becomes a score; `None` when it is not scored.
    pub(super) shape: Option<Shape>,
}

impl BindingArgs {
    pub(super) fn new(args: &PluginArgs, handle: &Handle) -> Result<Self, String> {
        let gate = Gate::StorageCapacityScoring;
        let scores_capacity = handle.is_enabled("StorageCapacityScoring");
        let gates = FeatureGates::default().with(gate, scores_capacity);
        let checked = plugin_args::checked_with(args, ConfigArgs::VolumeBinding, &gates)?;
        let ConfigArgs::VolumeBinding(args) = checked else { return Err(WRONG_ARGS.into()) };
        let timeout = args.bind_timeout_seconds.unwrap_or_default();
        let shape = scores_capacity.then(|| Shape::configured(&args.shape.unwrap_or_default()));
        Ok(Self { timeout: Duration::from_secs(u64::try_from(timeout).unwrap_or_default()), shape })
    }
}
