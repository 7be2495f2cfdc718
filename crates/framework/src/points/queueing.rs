//! PreEnqueue, QueueSort, the events a plugin waits for, and pod signatures.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_scheduler_api_types::well_known::is_numbering_label;
use kube_scheduler_api_types::{Labels, Node, Object, Pod, Timestamp};
use kube_scheduler_queue::{ActionType, ClusterEvent, EventResource, Topics};

use super::choosing::PlannedMember;
use crate::context::{Context, EventObject};
use crate::plugin_error::PluginError;
use crate::status::Status;

/// Decides whether a pod may enter the active queue.
pub trait PreEnqueue: Send + Sync {
    /// Called whenever the pod would become active, possibly often; must be cheap. Any answer but success keeps the
    /// pod out, gated by this plugin, until an event that the plugin registered lets it be asked again.
    fn pre_enqueue(&self, cx: &Context<'_>, pod: &Pod) -> Status;
}

/// What a [`QueueSort`] plugin may read of a queued pod.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPodView<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// When it last entered the queue.
    pub queued: Timestamp,
    /// How often it has been tried.
    pub attempts: u32,
}

/// Decides which of two queued pods is scheduled first. A profile has exactly one such plugin.
pub trait QueueSort: Send + Sync {
    /// `Less` when `a` goes before `b`. Must be a strict weak order that does not change while pods are queued.
    /// Pods that compare equal leave in the order in which they came.
    fn compare(&self, a: QueuedPodView<'_>, b: QueuedPodView<'_>) -> Ordering;

    /// Whether this is exactly "higher priority first, then the one queued earlier". The engine then sorts without calling the
    /// plugin.
    fn is_by_priority_then_age(&self) -> bool {
        false
    }
}

/// Whether an event may have made a pod schedulable: given the event's old and new object.
///
/// The waiting pod comes first. An error counts as yes.
type HintFn = Arc<
    dyn Fn(
            &Context<'_>,
            &Pod,
            Option<&EventObject>,
            Option<&EventObject>,
        ) -> Result<bool, PluginError>
        + Send
        + Sync,
>;

type PodTopics = Arc<dyn Fn(&Pod) -> Topics + Send + Sync>;
type EventTopics =
    Arc<dyn Fn(&Context<'_>, Option<&EventObject>, Option<&EventObject>) -> Topics + Send + Sync>;

/// What a queueing hint may answer to whether an event may have made a pod schedulable: `bool`, or `Result<bool, PluginError>`, of
/// which an error counts as yes.
pub trait HintAnswer {
    /// The answer, or why there is none.
    fn into_result(self) -> Result<bool, PluginError>;
}

impl HintAnswer for bool {
    fn into_result(self) -> Result<bool, PluginError> {
        Ok(self)
    }
}

impl HintAnswer for Result<bool, PluginError> {
    fn into_result(self) -> Result<bool, PluginError> {
        self
    }
}

/// One kind of event a plugin waits for.
#[derive(Clone)]
pub struct EventRegistration {
    /// The events after which the pod may be worth a retry.
    pub event: ClusterEvent,
    /// Whether one such event is worth a retry of one pod; `None` means always.
    pub hint: Option<HintFn>,
    topics: Option<(PodTopics, EventTopics)>,
    /// The [kind](EventObject::kind) of objects that the hint expects, if it expects one.
    expected: Option<&'static str>,
}

impl EventRegistration {
    /// Every such event is worth a retry.
    pub fn always(event: ClusterEvent) -> Self {
        Self { event, hint: None, topics: None, expected: None }
    }

    /// An event after which `hint` decides whether the pod is worth a retry. It gets the pod that waits, and the object before
    /// and after the event, where there is one.
    ///
    /// [`on_pod`](Self::on_pod), [`on_node`](Self::on_node) and [`on_object`](Self::on_object) are for hints that look at the object.
    pub fn with_hint<F, A>(event: ClusterEvent, hint: F) -> Self
    where
        F: Fn(&Context<'_>, &Pod, Option<&EventObject>, Option<&EventObject>) -> A
            + Send
            + Sync
            + 'static,
        A: HintAnswer,
    {
        let hint: HintFn = Arc::new(move |cx, pod, old, new| hint(cx, pod, old, new).into_result());
        Self { hint: Some(hint), ..Self::always(event) }
    }

    /// Events about pods, after which `hint` decides as in [`with_hint`](Self::with_hint).
    ///
    /// ```
    /// use kube_scheduler_framework::{ActionType, EventRegistration};
    ///
    /// // A pod that waits for its own toleration.
    /// let registration = EventRegistration::on_pod(ActionType::UPDATE_POD_TOLERATION, |_, pod, _, new| {
    ///     new.is_none_or(|new| new.uid == pod.uid)
    /// });
    /// # drop(registration);
    /// ```
    pub fn on_pod<F, A>(actions: ActionType, hint: F) -> Self
    where
        F: Fn(&Context<'_>, &Pod, Option<&Pod>, Option<&Pod>) -> A + Send + Sync + 'static,
        A: HintAnswer,
    {
        let event = ClusterEvent::new(EventResource::Pod, actions);
        Self::about(event, EventObject::POD, |it| it.as_pod().map(|pod| &**pod), hint)
    }

    /// Events about nodes, after which `hint` decides as in [`with_hint`](Self::with_hint).
    pub fn on_node<F, A>(actions: ActionType, hint: F) -> Self
    where
        F: Fn(&Context<'_>, &Pod, Option<&Node>, Option<&Node>) -> A + Send + Sync + 'static,
        A: HintAnswer,
    {
        let event = ClusterEvent::new(EventResource::Node, actions);
        Self::about(event, EventObject::NODE, |it| it.as_node().map(|node| &**node), hint)
    }

    /// Events about objects of another kind than pods and nodes, after which `hint` decides as in [`with_hint`](Self::with_hint).
    pub fn on_object<F, A>(resource: EventResource, actions: ActionType, hint: F) -> Self
    where
        F: Fn(&Context<'_>, &Pod, Option<&Object>, Option<&Object>) -> A + Send + Sync + 'static,
        A: HintAnswer,
    {
        let event = ClusterEvent::new(resource, actions);
        Self::about(event, EventObject::OTHER, |it| it.as_object().map(|object| &**object), hint)
    }

    /// As [`with_hint`](Self::with_hint), for a hint that expects objects of one kind. One of another kind is an error, which counts
    /// as yes: a hint never loses a pod.
    fn about<T, F, A>(
        event: ClusterEvent,
        kind: &'static str,
        of_kind: fn(&EventObject) -> Option<&T>,
        hint: F,
    ) -> Self
    where
        T: 'static,
        F: Fn(&Context<'_>, &Pod, Option<&T>, Option<&T>) -> A + Send + Sync + 'static,
        A: HintAnswer,
    {
        let registration = Self::with_hint(event, move |cx, pod, old, new| {
            let mut objects = [old, new].into_iter().flatten();
            if let Some(wrong) = objects.find(|object| object.kind() != kind) {
                let got = wrong.kind();
                return Err(PluginError::from(format!("expected a {kind}, but got a {got}")));
            }
            hint(cx, pod, old.and_then(of_kind), new.and_then(of_kind)).into_result()
        });
        Self { expected: Some(kind), ..registration }
    }

    /// Has the hint asked only about pods that share a topic with the event, so that thousands of pods that wait for something of their
    /// own do not make each event expensive.
    ///
    /// Contract: where the hint answers yes or an error, `of_pod` of the pod and `of_event` of the event's
    /// objects, as things stand then, have a topic in common, or one of them is [`Topics::All`]. `of_pod` depends on the pod alone;
    /// `of_event` is asked once for each event, and may look at what the hint may look at. Not asked about objects of another kind than
    /// the hint expects: these concern every pod.
    ///
    /// ```
    /// use kube_scheduler_framework::topics::{Topics, topic};
    /// use kube_scheduler_framework::{ActionType, EventRegistration};
    ///
    /// // Pods that wait for other pods of their namespace to go.
    /// let registration = EventRegistration::on_pod(ActionType::DELETE, |_, pod, gone, _| {
    ///     gone.is_none_or(|gone| gone.namespace == pod.namespace)
    /// })
    /// .by_topic(
    ///     |pod| Topics::Only(vec![topic(&pod.namespace)]),
    ///     |_, old, _| match old.and_then(|old| old.as_pod()) {
    ///         Some(gone) => Topics::Only(vec![topic(&gone.namespace)]),
    ///         None => Topics::All,
    ///     },
    /// );
    /// # drop(registration);
    /// ```
    #[must_use]
    pub fn by_topic<P, E>(mut self, of_pod: P, of_event: E) -> Self
    where
        P: Fn(&Pod) -> Topics + Send + Sync + 'static,
        E: Fn(&Context<'_>, Option<&EventObject>, Option<&EventObject>) -> Topics
            + Send
            + Sync
            + 'static,
    {
        self.topics = Some((Arc::new(of_pod), Arc::new(of_event)));
        self
    }

    /// Whether the hint is asked about this pod and an event on these objects.
    pub fn concerns(
        &self,
        cx: &Context<'_>,
        pod: &Pod,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) -> bool {
        match (self.topics_of_pod(pod), self.topics_of_event(cx, old, new)) {
            (None | Some(Topics::All), _) | (_, Topics::All) => true,
            (Some(Topics::Only(of_pod)), Topics::Only(of_event)) => {
                of_pod.iter().any(|topic| of_event.contains(topic))
            }
        }
    }

    /// The topics of a pod; `None` if the registration has none.
    pub fn topics_of_pod(&self, pod: &Pod) -> Option<Topics> {
        self.topics.as_ref().map(|(of_pod, _)| of_pod(pod))
    }

    /// The topics of an event on these objects; all if the registration has none, or expects objects of another kind.
    pub fn topics_of_event(
        &self,
        cx: &Context<'_>,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) -> Topics {
        let is_expected =
            |object: &EventObject| self.expected.is_none_or(|kind| object.kind() == kind);
        match &self.topics {
            Some((_, of_event)) if [old, new].into_iter().flatten().all(is_expected) => {
                of_event(cx, old, new)
            }
            _ => Topics::All,
        }
    }
}

/// Lists the cluster events after which a pod that this plugin rejected is worth a retry.
pub trait EnqueueExtensions: Send + Sync {
    /// Called once, when the profile is built. With an empty list, rejected pods are retried only after a timeout.
    fn events_to_register(&self) -> Vec<EventRegistration>;
}

/// What this plugin's answers depend on, as bytes of the pod.
///
/// Contract: two pods with equal bytes get equal answers from this plugin, at every extension point up to Score, on every
/// cluster state. The engine then evaluates one of them and reuses the answer. What a
/// [follower](crate::PreFilter::follower) sees to itself may differ.
pub trait Sign: Send + Sync {
    /// Writes the fragment. Returns `false` when this pod must always be evaluated on its own.
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool;

    /// Writes the fragment of a member of a group that is planned as a whole. Returns `false` when it must be tried in each place by
    /// itself.
    ///
    /// Contract: while the group is planned, two members with equal bytes are interchangeable: swapping their nodes changes no
    /// answer about any member of the group. Labels and priority need not be written: members that differ in them are never
    /// treated as alike, except for [labels that number them](kube_scheduler_api_types::well_known::NUMBERING_LABELS) if no
    /// selector refers to these. Unlike [`sign`](Self::sign) this may depend on the present state of objects, and each member is
    /// evaluated on its own. Called for members without a signature, and for those with a [chooser](crate::Reserve::chooser).
    /// Work that depends on more than the size of the pod must be [counted](Context::count_work).
    fn sign_member(
        &self,
        cx: &Context<'_>,
        member: PlannedMember<'_>,
        signature: &mut SignatureWriter,
    ) -> bool {
        let _ = cx;
        self.sign(member.pod, signature)
    }
}

/// Beyond this many bytes nothing more is written.
const MAX_SIGNATURE: usize = 64 << 10;

/// Collects fragments of a pod's signature; every field is written so that no two different inputs give equal bytes.
///
/// What comes after the first 64 KiB is dropped: the engine evaluates pods with a signature of more than half of that on their
/// own, so the rest would not be used.
#[derive(Debug, Default)]
pub struct SignatureWriter {
    bytes: Vec<u8>,
    leaves_numbers_out: bool,
    has_left_out: bool,
}

impl SignatureWriter {
    /// An empty signature.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty signature in which [labels that number
    /// pods](kube_scheduler_api_types::well_known::NUMBERING_LABELS) are left out, as far as plugins write them as
    /// [`selectable_labels`](Self::selectable_labels). It holds as long as no selector is about one of them.
    pub fn without_numbers() -> Self {
        Self { leaves_numbers_out: true, ..Self::default() }
    }

    /// Whether such labels are left out.
    pub const fn leaves_numbers_out(&self) -> bool {
        self.leaves_numbers_out
    }

    /// Whether a label was left out.
    pub const fn has_left_out(&self) -> bool {
        self.has_left_out
    }

    /// Whether nothing more that is written counts: the pod is evaluated on its own then.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_SIGNATURE
    }

    /// Writes a number, in eight bytes.
    pub fn int(&mut self, value: i64) {
        if !self.is_full() {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Writes a text with its length.
    pub fn text(&mut self, value: &str) {
        self.int(i64::try_from(value.len()).unwrap_or(i64::MAX));
        let n_left = MAX_SIGNATURE.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&value.as_bytes()[..value.len().min(n_left)]);
    }

    /// Writes whether an optional value is present; if it is, write the value next.
    pub fn present(&mut self, is_present: bool) {
        if !self.is_full() {
            self.bytes.push(u8::from(is_present));
        }
    }

    /// Writes the number of items that follow.
    pub fn len(&mut self, n: usize) {
        self.int(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// Writes a value by its debug form with its length: for rare, deep values whose debug form shows every field.
    pub fn debug(&mut self, value: &impl std::fmt::Debug) {
        if !self.is_full() {
            self.text(&format!("{value:?}"));
        }
    }

    /// Writes the pod's labels, for a plugin whose answers depend on them only through the selectors of these: the pod's own
    /// affinity terms and topology spread constraints, the affinity terms of other pods, the services of the pod's namespace,
    /// and the controller that owns it. A plugin that looks at labels in any other way writes each of them as
    /// [`text`](Self::text).
    ///
    /// The pods of one StatefulSet or indexed Job differ by [labels that number
    /// them](kube_scheduler_api_types::well_known::NUMBERING_LABELS). They are alike as long as none of these selectors is about
    /// such a label, and this is how the engine gets to know what they have in common then: it has pods signed a second time,
    /// [without these labels](Self::without_numbers).
    pub fn selectable_labels(&mut self, labels: &Labels) {
        let leaves_numbers_out = self.leaves_numbers_out;
        let is_left_out = |key: &str| leaves_numbers_out && is_numbering_label(key);
        let n_left_out = labels.iter().filter(|(key, _)| is_left_out(key)).count();
        self.has_left_out |= n_left_out > 0;
        self.len(labels.len() - n_left_out);
        for (key, value) in labels.iter().filter(|(key, _)| !is_left_out(key)) {
            self.text(key);
            self.text(value);
        }
    }

    /// The signature: the bytes written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::well_known::NUMBERING_LABELS;

    use super::*;

    fn written(mut writer: SignatureWriter, labels: &[(&str, &str)]) -> (Vec<u8>, bool) {
        writer.selectable_labels(&labels.iter().copied().collect());
        let has_left_out = writer.has_left_out();
        (writer.into_bytes(), has_left_out)
    }

    #[test]
    fn labels_that_number_a_pod_are_left_out_where_that_is_asked_for() {
        let plain = [("app", "web"), ("zone", "z")];
        for label in NUMBERING_LABELS {
            let [first, second] = ["1", "2"].map(|number| [plain[0], (label, number), plain[1]]);
            let all = |labels: &[(&str, &str)]| written(SignatureWriter::new(), labels);
            assert_ne!(all(&first), all(&second));
            assert!(!all(&first).1);
            let most =
                |labels: &[(&str, &str)]| written(SignatureWriter::without_numbers(), labels);
            assert_eq!(most(&first), most(&second));
            assert!(most(&first).1 && !most(&plain).1);
            assert_eq!(most(&first).0, most(&plain).0);
            assert_eq!(all(&plain), most(&plain));
            assert_ne!(most(&first), most(&[plain[0], (label, "1")]));
        }
    }
}
