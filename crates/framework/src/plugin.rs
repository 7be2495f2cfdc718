//! The plugin itself: a name, and which extension points it implements.

use std::fmt;

use kube_scheduler_queue::EventResource;

use crate::points::{
    Bind, DomainScoped, EnqueueExtensions, Filter, Permit, PostBind, PostFilter, PreBind,
    PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score, Sign,
};

/// A scheduler plugin.
///
/// A plugin is one value per profile, shared by all attempts; what belongs to one attempt lives in the
/// [`CycleState`](crate::CycleState). Override the accessor of each extension point that you implement and return
/// `Some(self)` from it.
///
/// A plugin that panics fails the attempt it was called for, not the process.
pub trait Plugin: Send + Sync + 'static {
    /// The name, as configuration and messages write it. Constant for the life of the plugin.
    fn name(&self) -> &str;

    /// Kinds of objects that the plugin reads from the cluster state without waiting for their events: whoever watches
    /// for the engine watches them too, like those in [`EnqueueExtensions::events_to_register`].
    fn reads_objects(&self) -> Vec<EventResource> {
        Vec::new()
    }

    /// May a pod enter the active queue?
    fn as_pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        None
    }
    /// Which of two pods goes first?
    fn as_queue_sort(&self) -> Option<&dyn QueueSort> {
        None
    }
    /// What is worth computing once per attempt; may narrow the nodes.
    fn as_pre_filter(&self) -> Option<&dyn PreFilter> {
        None
    }
    /// Can the pod run on a node?
    fn as_filter(&self) -> Option<&dyn Filter> {
        None
    }
    /// What can be done when no node fits?
    fn as_post_filter(&self) -> Option<&dyn PostFilter> {
        None
    }
    /// What is worth computing once before scoring.
    fn as_pre_score(&self) -> Option<&dyn PreScore> {
        None
    }
    /// How good is a node that fits?
    fn as_score(&self) -> Option<&dyn Score> {
        None
    }
    /// How its answers follow pods on other nodes, if they do and can be kept up to date.
    fn as_domain_scoped(&self) -> Option<&dyn DomainScoped> {
        None
    }
    /// Book-keeping once a node is chosen, undone when the pod does not get there.
    fn as_reserve(&self) -> Option<&dyn Reserve> {
        None
    }
    /// Approve, deny or delay the binding.
    fn as_permit(&self) -> Option<&dyn Permit> {
        None
    }
    /// Work that must be done before the binding is written.
    fn as_pre_bind(&self) -> Option<&dyn PreBind> {
        None
    }
    /// Write the binding.
    fn as_bind(&self) -> Option<&dyn Bind> {
        None
    }
    /// Told about a finished binding.
    fn as_post_bind(&self) -> Option<&dyn PostBind> {
        None
    }
    /// Which cluster events can make a pod schedulable that this plugin turned down.
    fn as_enqueue_extensions(&self) -> Option<&dyn EnqueueExtensions> {
        None
    }
    /// What this plugin's answers depend on, as a signature of the pod.
    fn as_sign(&self) -> Option<&dyn Sign> {
        None
    }
}

impl fmt::Debug for dyn Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({:?})", self.name())
    }
}
