//! A profile: which plugins run at which extension point, in which order and with which weight.
//!
//! Behaviour: `docs/spec/core.md` §10.1 to §10.3.

mod build;
mod measuring;

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, named_enum};
use kube_scheduler_config::{PluginSet, Plugins};
use kube_scheduler_framework::groups::{PlacementGenerate, PlacementScore};
use kube_scheduler_framework::{
    Bind, Filter, Permit, Plugin, PluginName, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter,
    PreScore, QueueSort, Reserve, Score,
};

use crate::meter::{Meter, Timer};

pub use self::build::ProfileError;
pub(crate) use self::measuring::code_of;

named_enum! {
    /// The extension points that configuration can name, in the order in which they are processed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    all pub enum ExtensionPoint {
        /// `preFilter`
        PreFilter = "PreFilter",
        /// `filter`
        Filter = "Filter",
        /// `postFilter`
        PostFilter = "PostFilter",
        /// `reserve`
        Reserve = "Reserve",
        /// `preScore`
        PreScore = "PreScore",
        /// `score`
        Score = "Score",
        /// `preBind`
        PreBind = "PreBind",
        /// `bind`
        Bind = "Bind",
        /// `postBind`
        PostBind = "PostBind",
        /// `permit`
        Permit = "Permit",
        /// `preEnqueue`
        PreEnqueue = "PreEnqueue",
        /// `queueSort`
        QueueSort = "QueueSort",
        /// `placementGenerate`
        PlacementGenerate = "PlacementGenerate",
        /// `placementScore`
        PlacementScore = "PlacementScore",
    }
}

/// A plugin of a profile, by its place in [`Profile::plugins`]: each profile numbers its own. The queue has numbers for all profiles
/// together, by name (`RejectorId`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginIdx(usize);

impl PluginIdx {
    /// The plugin at this place.
    pub const fn from_index(index: usize) -> Self {
        Self(index)
    }

    /// Its place, for tables by plugin.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// One plugin of a profile.
#[derive(Clone, Debug)]
pub struct PluginEntry {
    /// Its name.
    pub name: PluginName,
    /// The plugin.
    pub plugin: Arc<dyn Plugin>,
}

/// A profile, ready to run: every list holds positions of plugins that implement the point.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Pods with this `spec.schedulerName` belong to the profile.
    pub scheduler_name: Arc<str>,
    /// Overrides the global percentage of nodes to score; 0 means adaptive.
    pub percentage_of_nodes_to_score: Option<i32>,
    plugins: Vec<PluginEntry>,
    points: Vec<Vec<PluginIdx>>,
    weights: Vec<i64>,
    placement_weights: Vec<i64>,
    /// The Permit plugins without those that concern groups alone.
    permit_beyond_groups: Vec<PluginIdx>,
    meter: Option<Arc<Meter>>,
}

/// `$name` is what the configuration calls the point, too, and `$point` the trait of its plugins.
macro_rules! points {
    ($($name:ident, $point:ident, $accessor:ident, $doc:literal;)*) => {
        impl ExtensionPoint {
            /// What a configuration says about this point.
            fn set_in(self, plugins: &Plugins) -> &PluginSet {
                match self { $(Self::$point => &plugins.$name,)* }
            }

            /// Whether `plugin` implements this point.
            pub(crate) fn is_implemented_by(self, plugin: &dyn Plugin) -> bool {
                match self { $(Self::$point => plugin.$accessor().is_some(),)* }
            }
        }

        /// # The plugins of one point
        impl Profile {
            $(
                #[doc = $doc]
                pub fn $name(&self) -> impl Iterator<Item = (PluginIdx, &PluginName, &dyn $point)> {
                    self.at(ExtensionPoint::$point).iter().filter_map(|&idx| {
                        let entry = self.plugin(idx)?;
                        Some((idx, &entry.name, entry.plugin.$accessor()?))
                    })
                }
            )*
        }
    };
}

impl Profile {
    /// All plugins that any point names, in the order in which they were made.
    pub fn plugins(&self) -> &[PluginEntry] {
        &self.plugins
    }

    /// One of the [plugins](Self::plugins) by its number; `None` if the number is another profile's.
    pub fn plugin(&self, idx: PluginIdx) -> Option<&PluginEntry> {
        self.plugins.get(idx.0)
    }

    /// The numbers of all [plugins](Self::plugins), in order.
    pub fn indexes(&self) -> impl Iterator<Item = PluginIdx> + use<> {
        (0..self.plugins.len()).map(PluginIdx)
    }

    /// The plugins of a point, in order.
    pub fn at(&self, point: ExtensionPoint) -> &[PluginIdx] {
        self.points.get(point as usize).map_or(&[], Vec::as_slice)
    }

    /// The Permit plugins to ask about a pod, in order. Those that
    /// [concern groups alone](Permit::concerns_groups_alone) are left out for a pod without a group, but not while plugins are
    /// measured: metrics show them for every pod.
    pub fn permit_about(
        &self,
        pod: &Pod,
    ) -> impl Iterator<Item = (PluginIdx, &PluginName, &dyn Permit)> {
        let asks_all = pod.spec.pod_group.is_some() || self.meter().is_some_and(Meter::is_sampled);
        let asked = match asks_all {
            true => self.at(ExtensionPoint::Permit),
            false => &self.permit_beyond_groups,
        };
        asked.iter().filter_map(|&idx| {
            let entry = self.plugin(idx)?;
            Some((idx, &entry.name, entry.plugin.as_permit()?))
        })
    }

    /// The weight of a Score plugin; 1 for plugins without one.
    pub fn weight(&self, plugin: PluginIdx) -> i64 {
        self.weights.get(plugin.0).copied().unwrap_or(1)
    }

    /// The weight of a PlacementScore plugin; 1 for plugins without one.
    pub fn placement_weight(&self, plugin: PluginIdx) -> i64 {
        self.placement_weights.get(plugin.0).copied().unwrap_or(1)
    }

    /// Measures the plugins from now on.
    pub fn measure(&mut self, timer: Arc<dyn Timer>) {
        self.meter = Some(Arc::new(Meter::new(timer, self.plugins.len())));
    }

    /// What measures the plugins, if anything does.
    pub fn meter(&self) -> Option<&Meter> {
        self.meter.as_deref()
    }

    /// The position of a plugin by name.
    pub fn position(&self, name: &str) -> Option<PluginIdx> {
        self.plugins.iter().position(|entry| &*entry.name == name).map(PluginIdx)
    }
}

points! {
    pre_enqueue, PreEnqueue, as_pre_enqueue, "PreEnqueue plugins in order.";
    queue_sort, QueueSort, as_queue_sort, "The one QueueSort plugin.";
    pre_filter, PreFilter, as_pre_filter, "PreFilter plugins in order.";
    filter, Filter, as_filter, "Filter plugins in order.";
    post_filter, PostFilter, as_post_filter, "PostFilter plugins in order.";
    pre_score, PreScore, as_pre_score, "PreScore plugins in order.";
    score, Score, as_score, "Score plugins in order.";
    reserve, Reserve, as_reserve, "Reserve plugins in order.";
    permit, Permit, as_permit, "Permit plugins in order.";
    pre_bind, PreBind, as_pre_bind, "PreBind plugins in order.";
    bind, Bind, as_bind, "Bind plugins in order.";
    post_bind, PostBind, as_post_bind, "PostBind plugins in order.";
    placement_generate, PlacementGenerate, as_placement_generate, "The PlacementGenerate plugin, if there is one.";
    placement_score, PlacementScore, as_placement_score, "PlacementScore plugins in order.";
}
