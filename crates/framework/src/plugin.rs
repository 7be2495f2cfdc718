//! The plugin itself: a name, and which extension points it implements.

use std::fmt;

use kube_scheduler_queue::EventResource;

use crate::points::{
    Bind, EnqueueExtensions, Filter, GroupSource, ObjectReader, Permit, PlacementBound,
    PlacementGenerate, PlacementScore, PodGroupPostFilter, PostBind, PostFilter, PreBind,
    PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score, Sign,
};

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

    /// Reads objects when they come in, so that no attempt has to.
    fn as_object_reader(&self) -> Option<&dyn ObjectReader> {
        None
    }
    /// Says which pods are a pod group by other means than `scheduling.k8s.io`. Asked where the plugin is enabled for Permit.
    fn as_group_source(&self) -> Option<&dyn GroupSource> {
        None
    }
    /// Decides whether a pod may enter the active queue.
    fn as_pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        None
    }
    /// Decides which of two queued pods is scheduled first.
    fn as_queue_sort(&self) -> Option<&dyn QueueSort> {
        None
    }
    /// Computes once per attempt what Filter needs for every node; may restrict the attempt to some nodes.
    fn as_pre_filter(&self) -> Option<&dyn PreFilter> {
        None
    }
    /// Decides whether the pod can run on a node.
    fn as_filter(&self) -> Option<&dyn Filter> {
        None
    }
    /// Looks for a way to make the pod fit when no node does, such as preemption.
    fn as_post_filter(&self) -> Option<&dyn PostFilter> {
        None
    }
    /// Computes once per attempt what Score needs for every node.
    fn as_pre_score(&self) -> Option<&dyn PreScore> {
        None
    }
    /// Scores the nodes that fit.
    fn as_score(&self) -> Option<&dyn Score> {
        None
    }
    /// Book-keeping once a node is chosen; undone when the pod is not bound to it after all.
    fn as_reserve(&self) -> Option<&dyn Reserve> {
        None
    }
    /// Approves, denies or delays the binding.
    fn as_permit(&self) -> Option<&dyn Permit> {
        None
    }
    /// Work that must be done before the binding is written.
    fn as_pre_bind(&self) -> Option<&dyn PreBind> {
        None
    }
    /// Writes the binding.
    fn as_bind(&self) -> Option<&dyn Bind> {
        None
    }
    /// Notified about a finished binding.
    fn as_post_bind(&self) -> Option<&dyn PostBind> {
        None
    }
    /// Looks for a way to make a whole pod group fit. Asked where the plugin is enabled for PostFilter.
    fn as_pod_group_post_filter(&self) -> Option<&dyn PodGroupPostFilter> {
        None
    }
    /// Proposes sets of nodes for a whole pod group.
    fn as_placement_generate(&self) -> Option<&dyn PlacementGenerate> {
        None
    }
    /// Rules sets of nodes out for a pod group by counting. Asked where the plugin is enabled for Filter.
    fn as_placement_bound(&self) -> Option<&dyn PlacementBound> {
        None
    }
    /// Scores sets of nodes in which a pod group fits.
    fn as_placement_score(&self) -> Option<&dyn PlacementScore> {
        None
    }
    /// Lists the cluster events after which a pod that this plugin rejected is worth a retry.
    fn as_enqueue_extensions(&self) -> Option<&dyn EnqueueExtensions> {
        None
    }
    /// Writes the fields of a pod that this plugin's answers depend on, so that equal pods can share answers.
    fn as_sign(&self) -> Option<&dyn Sign> {
        None
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
