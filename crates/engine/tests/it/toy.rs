//! Plugins whose answers are closures over the pod and the node, and a log of who was called.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    Bind, BindOutcome, Commands, Completion, Context, CycleState, EnqueueExtensions,
    EventRegistration, FeasibleNodes, Filter, NodeIdx, NodeView, Normalization, Permit,
    PermitDecision, Plugin, PostBind, PostFilter, PostFilterContext, PostFilterOutcome, PreBind,
    PreBindFlight, PreEnqueue, PreFilter, PreFilterExtensions, PreFilterOutcome, PreScore,
    QueueSort, QueuedPodView, Reserve, Score, Status, extension_points,
};

/// Who was called, in order, as `Plugin.Point(pod)`.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

type Answer<T> = Option<Box<dyn Fn(&Pod, &str) -> T + Send + Sync>>;
type Ask = Option<Box<dyn Fn(&Context<'_>, &Pod, &mut Commands) + Send + Sync>>;

/// A plugin that implements what it has an answer for, and waits for no events but those it is given.
#[derive(Default)]
pub(crate) struct Toy {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
    sorts: bool,
    /// Whether PreEnqueue holds pods back that are preempting.
    holds: bool,
    events: Vec<EventRegistration>,
    pre_enqueue: Answer<Status>,
    /// The label key whose column PreFilter reads.
    column: Answer<Arc<str>>,
    pre_filter: Answer<PreFilterOutcome>,
    extensions: Answer<Status>,
    filter: Answer<Status>,
    post_filter: Answer<PostFilterOutcome>,
    pre_score: Answer<Status>,
    score: Answer<i64>,
    promises_bounds: bool,
    normalize: Answer<Status>,
    reserve: Answer<Status>,
    unreserve: Answer<()>,
    permit: Answer<PermitDecision>,
    /// What Permit and PostBind ask for.
    ask: Ask,
    /// What Reserve asks for.
    expect: Ask,
    /// What Unreserve asks for.
    forget: Ask,
    flight: Answer<PreBindFlight>,
    pre_bind: Answer<Completion>,
    bind: Answer<BindOutcome>,
    post_bind: Answer<()>,
}

macro_rules! answers {
    ($($point:ident: $answer:ty),* $(,)?) => {
        $(
            pub(crate) fn $point(
                mut self,
                answer: impl Fn(&Pod, &str) -> $answer + Send + Sync + 'static,
            ) -> Self {
                self.$point = Some(Box::new(answer));
                self
            }
        )*
    };
}

impl Toy {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// The plugin that every profile has: it sorts as usual and lets the shell write the binding.
    pub(crate) fn base() -> Self {
        Self { sorts: true, ..Self::new("Base") }.bind(|_, _| BindOutcome::WriteBinding)
    }

    /// A plugin that only sorts.
    pub(crate) fn sorter(name: &'static str) -> Self {
        Self { sorts: true, ..Self::new(name) }
    }

    answers! {
        pre_enqueue: Status,
        column: Arc<str>,
        pre_filter: PreFilterOutcome,
        extensions: Status,
        filter: Status,
        post_filter: PostFilterOutcome,
        pre_score: Status,
        score: i64,
        normalize: Status,
        reserve: Status,
        permit: PermitDecision,
        flight: PreBindFlight,
        pre_bind: Completion,
        bind: BindOutcome,
    }

    pub(crate) fn unreserve(mut self, answer: impl Fn(&Pod, &str) + Send + Sync + 'static) -> Self {
        self.unreserve = Some(Box::new(answer));
        self
    }

    pub(crate) fn post_bind(mut self, answer: impl Fn(&Pod, &str) + Send + Sync + 'static) -> Self {
        self.post_bind = Some(Box::new(answer));
        self
    }

    /// Promises that all of its scores are between 0 and 100.
    pub(crate) fn promising_bounds(self) -> Self {
        Self { promises_bounds: true, ..self }
    }

    /// PreEnqueue holds pods back as long as they are preempting.
    pub(crate) fn holds(mut self) -> Self {
        self.holds = true;
        self
    }

    pub(crate) fn wants(mut self, registration: EventRegistration) -> Self {
        self.events.push(registration);
        self
    }

    pub(crate) fn asks(
        mut self,
        ask: impl Fn(&Context<'_>, &Pod, &mut Commands) + Send + Sync + 'static,
    ) -> Self {
        self.ask = Some(Box::new(ask));
        self
    }

    /// A Reserve that asks for something, and an Unreserve that asks to take it back.
    pub(crate) fn expects(
        mut self,
        expect: impl Fn(&Context<'_>, &Pod, &mut Commands) + Send + Sync + 'static,
        forget: impl Fn(&Context<'_>, &Pod, &mut Commands) + Send + Sync + 'static,
    ) -> Self {
        self.expect = Some(Box::new(expect));
        self.forget = Some(Box::new(forget));
        self
    }

    fn call<T>(&self, answer: &Answer<T>, point: &str, pod: &Pod, node: &str) -> Option<T> {
        self.log.lock().unwrap().push(format!("{}.{point}({})", self.name, pod.name));
        answer.as_ref().map(|answer| answer(pod, node))
    }
}

macro_rules! accessors {
    ($($accessor:ident $trait:ident: $($field:ident)|+;)*) => {
        $(
            fn $accessor(&self) -> Option<&dyn $trait> {
                ($(self.$field.is_some())||+).then_some(self)
            }
        )*
    };
}

impl Plugin for Toy {
    fn name(&self) -> &str {
        self.name
    }

    fn as_queue_sort(&self) -> Option<&dyn QueueSort> {
        self.sorts.then_some(self)
    }

    extension_points!(EnqueueExtensions);

    fn as_pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        (self.holds || self.pre_enqueue.is_some()).then_some(self)
    }

    accessors! {
        as_pre_filter PreFilter: pre_filter | column | extensions;
        as_filter Filter: filter;
        as_post_filter PostFilter: post_filter;
        as_pre_score PreScore: pre_score;
        as_score Score: score;
        as_reserve Reserve: reserve | unreserve | expect;
        as_permit Permit: permit;
        as_pre_bind PreBind: flight | pre_bind;
        as_bind Bind: bind;
        as_post_bind PostBind: post_bind;
    }
}

impl QueueSort for Toy {
    fn compare(&self, a: QueuedPodView<'_>, b: QueuedPodView<'_>) -> Ordering {
        b.pod.priority().cmp(&a.pod.priority()).then(a.queued.cmp(&b.queued))
    }

    fn is_by_priority_then_age(&self) -> bool {
        true
    }
}

impl EnqueueExtensions for Toy {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        self.events.clone()
    }
}

impl PreEnqueue for Toy {
    fn pre_enqueue(&self, cx: &Context<'_>, pod: &Pod) -> Status {
        if self.holds && cx.preemptions().is_preempting(&pod.uid) {
            return Status::unresolvable("busy");
        }
        self.call(&self.pre_enqueue, "PreEnqueue", pod, "").unwrap_or_default()
    }
}

impl PreFilter for Toy {
    fn pre_filter(&self, cx: &Context<'_>, _: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        if let Some(key) = &self.column {
            cx.cluster().label_column(&key(pod, ""));
        }
        self.call(&self.pre_filter, "PreFilter", pod, "").unwrap_or_default()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        self.extensions.is_some().then_some(self)
    }
}

impl PreFilterExtensions for Toy {
    fn add_pod(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Pod,
        added: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        self.call(&self.extensions, "AddPod", added, node.name()).unwrap_or_default()
    }

    fn remove_pod(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Pod,
        removed: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        self.call(&self.extensions, "RemovePod", removed, node.name()).unwrap_or_default()
    }
}

impl Filter for Toy {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        self.call(&self.filter, "Filter", pod, node.name()).unwrap_or_default()
    }
}

impl PostFilter for Toy {
    fn post_filter(
        &self,
        _: &mut PostFilterContext<'_>,
        _: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome {
        let nothing = PostFilterOutcome::without_nomination(Status::SUCCESS);
        self.call(&self.post_filter, "PostFilter", pod, "").unwrap_or(nothing)
    }
}

impl PreScore for Toy {
    fn pre_score(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        self.call(&self.pre_score, "PreScore", pod, "").unwrap_or_default()
    }
}

impl Score for Toy {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        Ok(self.call(&self.score, "Score", pod, node.name()).unwrap_or_default())
    }

    fn normalization(&self) -> Normalization {
        if self.normalize.is_some() { Normalization::Custom } else { Normalization::None }
    }

    fn promises_bounds(&self) -> bool {
        self.promises_bounds
    }

    fn normalize(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        _: &[NodeIdx],
        _: &mut [i64],
    ) -> Status {
        self.call(&self.normalize, "Normalize", pod, "").unwrap_or_default()
    }
}

impl Reserve for Toy {
    fn reserve(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> Status {
        if let Some(expect) = &self.expect {
            expect(cx, pod, commands);
        }
        self.call(&self.reserve, "Reserve", pod, node).unwrap_or_default()
    }

    fn unreserve(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) {
        if let Some(forget) = &self.forget {
            forget(cx, pod, commands);
        }
        self.call(&self.unreserve, "Unreserve", pod, node);
    }
}

impl Permit for Toy {
    fn permit(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> PermitDecision {
        if let Some(ask) = &self.ask {
            ask(cx, pod, commands);
        }
        self.call(&self.permit, "Permit", pod, node).unwrap_or_else(PermitDecision::allow)
    }
}

impl PreBind for Toy {
    fn pre_bind_pre_flight(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> PreBindFlight {
        let alone = PreBindFlight { status: Status::SUCCESS, may_run_in_parallel: false };
        self.call(&self.flight, "PreFlight", pod, node).unwrap_or(alone)
    }

    fn pre_bind(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> Completion {
        let done = Completion::Ready(Status::SUCCESS);
        self.call(&self.pre_bind, "PreBind", pod, node).unwrap_or(done)
    }
}

impl Bind for Toy {
    fn bind(&self, _: &Context<'_>, _: &mut CycleState, pod: &Arc<Pod>, node: &str) -> BindOutcome {
        self.call(&self.bind, "Bind", pod, node).unwrap_or(BindOutcome::WriteBinding)
    }
}

impl PostBind for Toy {
    fn post_bind(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) {
        if let Some(ask) = &self.ask {
            ask(cx, pod, commands);
        }
        self.call(&self.post_bind, "PostBind", pod, node);
    }
}
