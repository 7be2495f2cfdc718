//! NodeResourcesFit's arguments.

use kube_scheduler_framework::PluginArgs;

use super::demand::IgnoredResources;
use super::resource::Resource;
use super::scored::ScoredResource;
use super::shape::Shape;
use super::strategy::Strategy;
use crate::plugin_args::checked_args;

/// What the plugin needs of its arguments.
#[derive(Clone, Debug)]
pub(super) struct FitArgs {
    pub(super) ignored: IgnoredResources,
    pub(super) strategy: Strategy,
    pub(super) resources: Box<[ScoredResource]>,
}

impl FitArgs {
    pub(super) fn new(args: &PluginArgs) -> Result<Self, String> {
        let args = checked_args!(NodeResourcesFit, args)?;
        let scoring = args.scoring_strategy.unwrap_or_default();
        let strategy = match &*scoring.kind {
            "LeastAllocated" => Strategy::LeastAllocated,
            "MostAllocated" => Strategy::MostAllocated,
            _ => {
                let ratio = scoring.requested_to_capacity_ratio.unwrap_or_default();
                Strategy::RequestedToCapacityRatio(Shape::configured(&ratio.shape))
            }
        };
        Ok(Self {
            ignored: IgnoredResources {
                names: args.ignored_resources,
                groups: args.ignored_resource_groups,
            },
            strategy,
            resources: scoring
                .resources
                .iter()
                .map(|spec| ScoredResource {
                    resource: Resource::named(&spec.name),
                    weight: spec.weight,
                })
                .collect(),
        })
    }
}
