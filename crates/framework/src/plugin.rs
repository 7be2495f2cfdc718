//! The plugin itself: a name, and which extension points it implements.

use std::fmt;

use kube_scheduler_queue::EventResource;

use crate::points::{
    Bind, EnqueueExtensions, Filter, GroupSource, ObjectReader, Permit, PlacementBound,
    PlacementGenerate, PlacementScore, PodGroupPostFilter, PostBind, PostFilter, PreBind,
    PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score, Sign,
};

/// Methods of [`Plugin`] that give it as an extension point; `None` for one that it does not implement.
macro_rules! accessors {
    ($($(#[$doc:meta])* $accessor:ident: $point:ident;)*) => {$(
        $(#[$doc])*
        fn $accessor(&self) -> Option<&dyn $point> {
            None
        }
    )*};
}

/// A scheduler plugin.
///
/// A plugin is one value per profile, shared by all attempts; what belongs to one attempt lives in the
/// [`CycleState`](crate::CycleState). List the extension points that it implements with
/// [`extension_points!`](crate::extension_points), or override an accessor if that is only known at run time.
///
/// A plugin that panics fails the attempt it was called for, not the process.
pub trait Plugin: Send + Sync + 'static {
    /// The name, as configuration and messages write it. Constant for the life of the plugin.
    fn name(&self) -> &str;

    /// Kinds of objects that the plugin reads from the cluster state without registering for their events. The scheduler
    /// watches them at the API server, just like the kinds in [`EnqueueExtensions::events_to_register`].
    fn reads_objects(&self) -> Vec<EventResource> {
        Vec::new()
    }

    /// Whether the plugin reads pods in full: annotations, containers, fields that the scheduler knows nothing of. Then all
    /// pods are kept with their [`source`](kube_scheduler_api_types::Pod::source), which costs kilobytes each.
    fn reads_pod_sources(&self) -> bool {
        false
    }

    /// Whether the plugin reads nodes in full, with [`NodeView::source`](crate::NodeView::source). Then all nodes are kept with it.
    fn reads_node_sources(&self) -> bool {
        false
    }

    /// About how many bytes the plugin keeps from one attempt to the next, beside what is kept with objects.
    fn kept_bytes(&self) -> usize {
        0
    }

    accessors! {
        /// Reads objects when they come in, so that no attempt has to.
        as_object_reader: ObjectReader;
        /// Says which pods are a pod group by other means than `scheduling.k8s.io`. Asked where the plugin is enabled for Permit.
        as_group_source: GroupSource;
        /// Decides whether a pod may enter the active queue.
        as_pre_enqueue: PreEnqueue;
        /// Decides which of two queued pods is scheduled first.
        as_queue_sort: QueueSort;
        /// Computes once per attempt what Filter needs for every node; may restrict the attempt to some nodes.
        as_pre_filter: PreFilter;
        /// Decides whether the pod can run on a node.
        as_filter: Filter;
        /// Looks for a way to make the pod fit when no node does, such as preemption.
        as_post_filter: PostFilter;
        /// Computes once per attempt what Score needs for every node.
        as_pre_score: PreScore;
        /// Scores the nodes that fit.
        as_score: Score;
        /// Book-keeping once a node is chosen; undone when the pod is not bound to it after all.
        as_reserve: Reserve;
        /// Approves, denies or delays the binding.
        as_permit: Permit;
        /// Work that must be done before the binding is written.
        as_pre_bind: PreBind;
        /// Writes the binding.
        as_bind: Bind;
        /// Notified about a finished binding.
        as_post_bind: PostBind;
        /// Looks for a way to make a whole pod group fit. Asked where the plugin is enabled for PostFilter.
        as_pod_group_post_filter: PodGroupPostFilter;
        /// Proposes sets of nodes for a whole pod group.
        as_placement_generate: PlacementGenerate;
        /// Rules sets of nodes out for a pod group by counting. Asked where the plugin is enabled for Filter.
        as_placement_bound: PlacementBound;
        /// Scores sets of nodes in which a pod group fits.
        as_placement_score: PlacementScore;
        /// Lists the cluster events after which a pod that this plugin rejected is worth a retry.
        as_enqueue_extensions: EnqueueExtensions;
        /// Writes the fields of a pod that this plugin's answers depend on, so that equal pods can share answers.
        as_sign: Sign;
    }
}

/// Lists, inside of `impl Plugin for …`, the extension points that the type implements.
///
/// A point that is implemented but not listed is never called.
///
/// ```
/// use kube_scheduler_framework::api::Pod;
/// use kube_scheduler_framework::{Context, CycleState, Filter, NodeView, Plugin, Status, extension_points};
///
/// struct OneNode;
///
/// impl Plugin for OneNode {
///     fn name(&self) -> &str {
///         "OneNode"
///     }
///
///     extension_points!(Filter);
/// }
///
/// impl Filter for OneNode {
///     fn filter(&self, _: &Context<'_>, _: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
///         if **node.name() == *"node-1" { Status::SUCCESS } else { Status::unschedulable("another node") }
///     }
/// }
///
/// assert!(OneNode.as_filter().is_some() && OneNode.as_score().is_none());
/// ```
#[macro_export]
macro_rules! extension_points {
    (@accessor ObjectReader) => { $crate::extension_points!(@method as_object_reader, ObjectReader); };
    (@accessor GroupSource) => { $crate::extension_points!(@method as_group_source, groups::GroupSource); };
    (@accessor PreEnqueue) => { $crate::extension_points!(@method as_pre_enqueue, PreEnqueue); };
    (@accessor QueueSort) => { $crate::extension_points!(@method as_queue_sort, QueueSort); };
    (@accessor PreFilter) => { $crate::extension_points!(@method as_pre_filter, PreFilter); };
    (@accessor Filter) => { $crate::extension_points!(@method as_filter, Filter); };
    (@accessor PostFilter) => { $crate::extension_points!(@method as_post_filter, PostFilter); };
    (@accessor PreScore) => { $crate::extension_points!(@method as_pre_score, PreScore); };
    (@accessor Score) => { $crate::extension_points!(@method as_score, Score); };
    (@accessor Reserve) => { $crate::extension_points!(@method as_reserve, Reserve); };
    (@accessor Permit) => { $crate::extension_points!(@method as_permit, Permit); };
    (@accessor PreBind) => { $crate::extension_points!(@method as_pre_bind, PreBind); };
    (@accessor Bind) => { $crate::extension_points!(@method as_bind, Bind); };
    (@accessor PostBind) => { $crate::extension_points!(@method as_post_bind, PostBind); };
    (@accessor PlacementGenerate) => { $crate::extension_points!(@method as_placement_generate, groups::PlacementGenerate); };
    (@accessor PlacementBound) => { $crate::extension_points!(@method as_placement_bound, groups::PlacementBound); };
    (@accessor PlacementScore) => { $crate::extension_points!(@method as_placement_score, groups::PlacementScore); };
    (@accessor EnqueueExtensions) => { $crate::extension_points!(@method as_enqueue_extensions, EnqueueExtensions); };
    (@accessor Sign) => { $crate::extension_points!(@method as_sign, Sign); };
    (@method $accessor:ident, $($point:ident)::+) => {
        fn $accessor(&self) -> ::core::option::Option<&dyn $crate::$($point)::+> {
            ::core::option::Option::Some(self)
        }
    };
    ($($point:ident),+ $(,)?) => { $($crate::extension_points!(@accessor $point);)+ };
}

impl fmt::Debug for dyn Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({:?})", self.name())
    }
}
