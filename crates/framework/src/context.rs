//! What a plugin may look at, and what it may ask for.
//!
//! Plugins never change the cluster themselves: they read through [`Context`] and ask through [`Commands`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Timestamp, WorkMeter};
use kube_scheduler_cache::ClusterState;
use kube_scheduler_cache::reads::{DISCARDED, Memo, ReadSet, Reads};
use smallvec::SmallVec;

use crate::cluster_view::{ClusterView, Scope};
use crate::known_pods::KnownPods;
use crate::points::ObjectWrite;
use crate::status::PluginName;
use crate::user_event::EventKind;

/// Where contexts read from: what the engine knows at one moment.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The cluster: nodes, assigned and assumed pods, other objects.
    pub cluster: &'a ClusterState,
    /// Every pod of the API server, pending ones included.
    pub pods: &'a dyn KnownPods,
    /// Pods that wait on Permit.
    pub waiting: &'a dyn WaitingPods,
    /// Pods that are nominated to nodes.
    pub nominated: &'a dyn NominatedPods,
    /// Preemptions that are being carried out.
    pub preemptions: &'a dyn RunningPreemptions,
    /// What plugins found out in this cycle.
    pub memo: &'a Memo,
    /// Where plugins count the work of the attempt, if anything is to be counted.
    pub work: Option<&'a WorkMeter>,
    /// The time of the attempt.
    pub now: Timestamp,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a> Sources<'a> {
    /// A context for calls whose answers are not cached: what is read is not recorded.
    pub fn unrecorded(self) -> Context<'a> {
        self.recorded_by(&DISCARDED)
    }

    /// A context for calls about one node, or about none, with what is read noted in `reads`.
    #[inline]
    pub fn recorded_by(self, reads: &'a ReadSet) -> Context<'a> {
        Context { sources: self, reads, scope: Scope::OneNode }
    }

    /// A context for calls about many nodes, each by its slot, with what is read noted in `reads`.
    pub fn scan_recorded_by(self, reads: &'a ReadSet) -> Context<'a> {
        Context { sources: self, reads, scope: Scope::Asked }
    }
}

/// What every call to a plugin may look at. Borrowed for the length of the call.
///
/// The engine notes what is read, and asks again when it has changed. There are no copies: with one, what is read could be noted
/// elsewhere.
#[derive(Debug)]
pub struct Context<'a> {
    sources: Sources<'a>,
    reads: &'a ReadSet,
    scope: Scope,
}

impl<'a> Context<'a> {
    /// The cluster: nodes, assigned and assumed pods, other objects.
    #[inline]
    pub fn cluster(&self) -> ClusterView<'a> {
        ClusterView::recorded_by(self.sources.cluster, self.reads, self.scope)
    }

    /// What `find` makes of `key` and of objects that it reads from the view. Members of a group may be tried hundreds of times in
    /// one cycle: what is found the first time is given again as long as the objects are unchanged, and is forgotten after the
    /// cycle. What also depends on nodes or pods is found each time. `find` has to depend on nothing but the key and the view,
    /// and `T` is to be a type of the plugin's own.
    pub fn once_per_cycle<K, T>(&self, key: &K, find: impl FnOnce(ClusterView<'_>) -> T) -> Arc<T>
    where
        K: Any + Clone + Ord + Send,
        T: Any + Send + Sync,
    {
        let Sources { cluster, memo, .. } = self.sources;
        let now = cluster.objects().versions();
        if let Some((value, reads)) = memo.get(key, &now) {
            self.reads.note(reads);
            return value;
        }
        let own_reads = ReadSet::new();
        let value = Arc::new(find(ClusterView::recorded_by(cluster, &own_reads, Scope::Asked)));
        self.reads.note(own_reads.get());
        memo.keep(key.clone(), value.clone(), own_reads.get(), now);
        value
    }

    /// How much work without a price plugins may still do in this attempt, in [units](Self::count_work).
    ///
    /// It is little once pods of the namespace have cost too much. A plugin that depends on it has to fail the attempt with an error,
    /// which is in no cache: there may be more of it next time.
    pub fn work_left(&self) -> u64 {
        self.sources.work.map_or(u64::MAX, WorkMeter::left)
    }

    /// Counts work that depends on more than the size of the pod and the cluster, such as a search through combinations: one unit
    /// for a comparison or an entry of a table, some nanoseconds. Much of it is taken from what pods of the namespace may cost.
    pub fn count_work(&self, units: u64) {
        if let Some(work) = self.sources.work {
            work.add(units);
        }
    }

    /// Every pod of the API server, pending ones included.
    pub fn pods(&self) -> &'a dyn KnownPods {
        self.anything().pods
    }

    /// Pods that wait on Permit.
    pub fn waiting(&self) -> &'a dyn WaitingPods {
        self.anything().waiting
    }

    /// Pods that are nominated to nodes.
    pub fn nominated(&self) -> &'a dyn NominatedPods {
        self.anything().nominated
    }

    /// Preemptions that are being carried out.
    pub fn preemptions(&self) -> &'a dyn RunningPreemptions {
        self.anything().preemptions
    }

    /// The time of the attempt. The only clock a plugin may read.
    pub fn now(&self) -> Timestamp {
        self.anything().now
    }

    /// This context, for a call about one node of a scan.
    pub(crate) fn about_one_node(&self) -> Self {
        Self { scope: Scope::OneNode, ..*self }
    }

    /// Notes what is read in `reads` from now on.
    pub fn note_in(&mut self, reads: &'a ReadSet) {
        self.reads = reads;
    }

    /// What the context reads from. What is read there is not recorded, so the answer counts as depending on everything, and is not
    /// cached.
    pub fn sources(&self) -> Sources<'a> {
        *self.anything()
    }

    /// The cluster for reading about many nodes, with what is read noted in `reads`.
    pub(crate) fn cluster_noted_in(&self, reads: &'a ReadSet) -> ClusterView<'a> {
        ClusterView::recorded_by(self.sources.cluster, reads, Scope::Asked)
    }

    fn anything(&self) -> &Sources<'a> {
        self.reads.note(Reads::ANYTHING);
        &self.sources
    }
}

/// A pod that waits on Permit.
#[derive(Clone, Debug)]
pub struct WaitingPod {
    /// The pod, with its node filled in.
    pub pod: Arc<Pod>,
    /// Plugins that still have to allow it, sorted by name.
    pub pending_plugins: Vec<PluginName>,
}

/// Read access to the pods that wait on Permit.
pub trait WaitingPods: Sync {
    /// All waiting pods in the order in which they began to wait.
    fn waiting_pods(&self) -> Vec<WaitingPod>;
    /// The waiting pod with this UID.
    fn waiting_pod(&self, uid: &str) -> Option<WaitingPod> {
        self.waiting_pods().into_iter().find(|waiting| *waiting.pod.uid == *uid)
    }
    /// Whether any pod waits.
    fn has_waiting_pods(&self) -> bool {
        !self.waiting_pods().is_empty()
    }
}

/// A node with the pods that are nominated to it.
type NodeNominations = (Arc<str>, SmallVec<[Arc<Pod>; 1]>);

/// Read access to nominations: which pods wait for room on which node.
pub trait NominatedPods: Sync {
    /// Pods nominated to `node`, oldest nomination first. A pod that the queue does not hold at the moment is a
    /// stub without priority and requests (`docs/spec/core.md` §10.6).
    fn nominated_pods(&self, node: &str) -> Vec<Arc<Pod>>;
    /// All nodes that have nominated pods, sorted by name, with [these pods](Self::nominated_pods).
    fn nominations(&self) -> Vec<NodeNominations>;
    /// Whether any pod is nominated anywhere: a cheap way out.
    fn has_nominated_pods(&self) -> bool {
        !self.nominations().is_empty()
    }
}

/// Read access to the preemptions that are being carried out.
pub trait RunningPreemptions: Sync {
    /// Whether the scheduler is still busy evicting the victims of the pod with this UID (`docs/spec/preemption.md` §7.3).
    /// `false` once the last victim is seen to go, even if the answer to its deletion has not arrived yet.
    fn is_preempting(&self, uid: &str) -> bool;
}

/// An object of a kind that is watched, as the one of a cluster event.
#[derive(Clone, Debug)]
pub enum EventObject {
    /// A pod.
    Pod(Arc<Pod>),
    /// A node.
    Node(Arc<Node>),
    /// Any other kind.
    Other(Arc<Object>),
}

impl EventObject {
    /// What messages call the kinds.
    pub(crate) const POD: &'static str = "pod";
    pub(crate) const NODE: &'static str = "node";
    pub(crate) const OTHER: &'static str = "object of another kind";

    /// Which of them it is.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Pod(_) => Self::POD,
            Self::Node(_) => Self::NODE,
            Self::Other(_) => Self::OTHER,
        }
    }

    /// Namespace and name; the namespace is empty for cluster-wide kinds.
    pub fn key(&self) -> (Arc<str>, Arc<str>) {
        match self {
            Self::Pod(pod) => (pod.namespace.clone(), pod.name.clone()),
            Self::Node(node) => (Arc::default(), node.name.clone()),
            Self::Other(object) => (object.namespace.clone(), object.name.clone()),
        }
    }

    /// `metadata.uid`, which tells objects of the same name apart.
    pub fn uid(&self) -> &Arc<str> {
        match self {
            Self::Pod(pod) => &pod.uid,
            Self::Node(node) => &node.uid,
            Self::Other(object) => &object.uid,
        }
    }

    /// `metadata.resourceVersion`: the revision of this state.
    pub fn resource_version(&self) -> &Arc<str> {
        match self {
            Self::Pod(pod) => &pod.resource_version,
            Self::Node(node) => &node.resource_version,
            Self::Other(object) => &object.resource_version,
        }
    }

    /// The pod, if it is one.
    pub fn as_pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    pub(crate) fn as_node(&self) -> Option<&Arc<Node>> {
        match self {
            Self::Node(node) => Some(node),
            _ => None,
        }
    }

    /// The object of any other kind, if it is one.
    pub fn as_object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Other(object) => Some(object),
            _ => None,
        }
    }
}

/// What a plugin asks the engine to do once its call has returned. Carried out in order.
#[derive(Clone, Debug, Default)]
pub struct Commands(Vec<Command>);

/// One request of a plugin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Command {
    /// Take back this plugin's wait for a waiting pod.
    Allow {
        /// Which pod.
        uid: Arc<str>,
        /// The plugin whose wait ends.
        plugin: PluginName,
    },
    /// Reject a waiting pod.
    Reject {
        /// Which pod.
        uid: Arc<str>,
        /// The plugin that rejects it.
        plugin: PluginName,
        /// Why.
        message: String,
    },
    /// Put pods into the active queue, backoff or not.
    Activate(Vec<Arc<Pod>>),
    /// As [`Activate`](Self::Activate), for all members of a pod group that have no node, except one.
    ActivateGroup {
        /// Namespace of the group.
        namespace: Arc<str>,
        /// Name of the group.
        name: Arc<str>,
        /// The UID of the member that is left alone.
        except: Arc<str>,
    },
    /// Use this changed copy of an object in later decisions, before the API server has it.
    AssumeObject(Arc<Object>),
    /// Undo [`AssumeObject`](Self::AssumeObject), if what is assumed was made from this revision.
    RestoreObject(Arc<Object>),
    /// Show every plugin that this object is about to be written.
    AddPendingObject(Arc<Object>),
    /// Undo [`AddPendingObject`](Self::AddPendingObject).
    RemovePendingObject {
        /// API group.
        group: Arc<str>,
        /// Kind.
        kind: Arc<str>,
        /// Identity.
        uid: Arc<str>,
        /// For all pods that share it, not for one of them.
        for_all: bool,
    },
    /// Take over a revision that the API server answered with, without waiting for the watch.
    ConfirmObject(Arc<Object>),
    /// Carry out a request to the API server, for a pod.
    WriteObject {
        /// For which pod.
        pod: Arc<Pod>,
        /// What to do.
        write: ObjectWrite,
    },
    /// Count so many attempts at preemption.
    CountPreemptionAttempts(u64),
    /// Publish an event of the API about a pod.
    RecordEvent {
        /// About which pod.
        pod: Arc<Pod>,
        /// Whether something went as planned or not.
        kind: EventKind,
        /// Machine-readable cause, such as `GangIncomplete`.
        reason: Arc<str>,
        /// What was being done, such as `Scheduling`.
        action: Arc<str>,
        /// Human-readable text; cut after 1,024 bytes.
        note: String,
    },
}

impl Commands {
    /// Ends `plugin`'s wait for a waiting pod; its binding goes on when no other plugin waits.
    pub fn allow(&mut self, uid: &Arc<str>, plugin: &PluginName) {
        self.0.push(Command::Allow { uid: uid.clone(), plugin: plugin.clone() });
    }

    /// Rejects a waiting pod with `message`.
    pub fn reject(&mut self, uid: &Arc<str>, plugin: &PluginName, message: impl Into<String>) {
        self.0.push(Command::Reject {
            uid: uid.clone(),
            plugin: plugin.clone(),
            message: message.into(),
        });
    }

    /// Puts pods into the active queue.
    pub fn activate(&mut self, pods: Vec<Arc<Pod>>) {
        self.0.push(Command::Activate(pods));
    }

    /// Puts the members of `pod`'s group that have no node into the active queue, except for `pod` itself. Cheaper than
    /// [`activate`](Self::activate) for all of them when every member asks for it. Nothing if it belongs to no group.
    pub fn activate_group_of(&mut self, pod: &Pod) {
        if let Some(name) = pod.spec.pod_group.clone() {
            let (namespace, except) = (pod.namespace.clone(), pod.uid.clone());
            self.0.push(Command::ActivateGroup { namespace, name, except });
        }
    }

    /// Makes later decisions use `object`, a changed copy of the present revision. If it is a copy of another revision, the
    /// request is refused and logged; call
    /// [`ObjectStore::check_assumable`](kube_scheduler_cache::ObjectStore::check_assumable) first.
    pub fn assume_object(&mut self, object: Arc<Object>) {
        self.0.push(Command::AssumeObject(object));
    }

    /// Undoes [`assume_object`](Self::assume_object), if what is assumed was made from the revision of `object`.
    pub fn restore_object(&mut self, object: Arc<Object>) {
        self.0.push(Command::RestoreObject(object));
    }

    /// Makes `object` visible to all profiles as one that is about to be written, in the form that it will have; see
    /// [`ObjectStore::pending`](kube_scheduler_cache::ObjectStore::pending). If another pod has done so for the same uid,
    /// the two share it, and the object stays as it was.
    pub fn add_pending_object(&mut self, object: Arc<Object>) {
        self.0.push(Command::AddPendingObject(object));
    }

    /// Undoes [`add_pending_object`](Self::add_pending_object), for one pod of those that share the object or `for_all`.
    pub fn remove_pending_object(
        &mut self,
        group: &str,
        kind: &str,
        uid: &Arc<str>,
        for_all: bool,
    ) {
        let (group, kind, uid) = (group.into(), kind.into(), uid.clone());
        self.0.push(Command::RemovePendingObject { group, kind, uid, for_all });
    }

    /// Makes later decisions use a newer revision of a known object that the API server answered a write with. The queue
    /// gets the update now, and the watch event of the same revision changes nothing. Has no effect if the object is
    /// not known, or in a newer revision.
    pub fn confirm_object(&mut self, object: Arc<Object>) {
        self.0.push(Command::ConfirmObject(object));
    }

    /// Has a request to the API server carried out for `pod`, after those that were asked for earlier. There is no answer;
    /// failures are logged. As long as the pod may be tried again, the request is
    /// [noted](kube_scheduler_cache::ObjectStore::unanswered): its next attempt may see the object as it was before.
    pub fn write_object(&mut self, pod: &Arc<Pod>, write: ObjectWrite) {
        self.0.push(Command::WriteObject { pod: pod.clone(), write });
    }

    /// Adds one request at the end. Attempts at preemption that are counted one after the other are one request: a group of
    /// thousands of pods may make thousands of them in each of thousands of placements.
    pub fn push(&mut self, command: Command) {
        match (self.0.last_mut(), command) {
            (Some(Command::CountPreemptionAttempts(n)), Command::CountPreemptionAttempts(more)) => {
                *n = n.saturating_add(more)
            }
            (_, command) => self.0.push(command),
        }
    }

    /// Counts an attempt at preemption, whatever its result.
    pub fn count_preemption_attempt(&mut self) {
        self.push(Command::CountPreemptionAttempts(1));
    }

    /// Publishes an event of the API about a pod. `reason` and `action` are words in camel case; `note` is a sentence, cut
    /// after 1,024 bytes.
    pub fn record_event(
        &mut self,
        pod: &Arc<Pod>,
        kind: EventKind,
        reason: &str,
        action: &str,
        note: impl Into<String>,
    ) {
        let (pod, note) = (pod.clone(), note.into());
        let (reason, action) = (reason.into(), action.into());
        self.0.push(Command::RecordEvent { pod, kind, reason, action, note });
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything asked for so far, in order.
    pub fn as_slice(&self) -> &[Command] {
        &self.0
    }

    /// Everything asked for, in order.
    pub fn into_vec(self) -> Vec<Command> {
        self.0
    }
}

impl Extend<Command> for Commands {
    /// [Adds](Self::push) all of `commands` at the end, in their order.
    fn extend<T: IntoIterator<Item = Command>>(&mut self, commands: T) {
        commands.into_iter().for_each(|command| self.push(command));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a plugin asks for in between.
    #[test]
    fn attempts_that_are_counted_one_after_the_other_are_one_request() {
        let mut commands = Commands::default();
        (0..1000).for_each(|_| commands.count_preemption_attempt());
        commands.push(Command::Activate(Vec::new()));
        commands.count_preemption_attempt();
        commands.push(Command::CountPreemptionAttempts(7));
        let all = commands.into_vec();
        let counts = [&all[0], &all[2]].map(|command| match command {
            Command::CountPreemptionAttempts(n) => *n,
            other => unreachable!("{other:?}"),
        });
        assert_eq!((all.len(), counts), (3, [1000, 8]));
    }
}
