//! A plugin that fails, panics, waits and changes its mind at every extension point, as a dial says.
//!
//! Invariant: an answer is a function of the seed, the step of the simulation, the extension point, the pod and the node,
//! never of how often or in which order the plugin was asked: sharing evaluations or splitting scans changes nothing.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_scheduler_api_types::lock;
use kube_scheduler_engine::PodRef;
use kube_scheduler_framework::api::{Object, Pod};
use kube_scheduler_framework::{
    Bind, BindOutcome, Commands, Completion, Context, CycleState, FeasibleNodes, Filter, NodeIdx,
    NodeView, Normalization, ObjectKey, ObjectWrite, Permit, PermitDecision, Plugin, PluginName,
    PostBind, PostFilter, PostFilterContext, PostFilterOutcome, PreBind, PreBindFlight,
    PreBindTask, PreEnqueue, PreFilter, PreFilterOutcome, PreScore, Reserve, Score, Status,
    TaskContext, TaskEvent, TaskStep, extension_points,
};
use kube_scheduler_runtime::{Registry, RegistryError};

use super::trace::Digest;

/// The plugin at every extension point.
pub(super) const CHAOS: &str = "Chaos";
/// The plugin from Reserve on, so that pods still share evaluations.
pub(super) const LATE_CHAOS: &str = "LateChaos";
/// How a panic of the plugin begins.
pub(super) const PANIC: &str = "chaos";

/// Pods of one scheduler whose work before the binding waits for an object, and for no time.
#[derive(Debug, Default)]
pub(super) struct Sleepers(Mutex<BTreeSet<Arc<str>>>);

impl Sleepers {
    fn set(&self, uid: &Arc<str>, is_asleep: bool) {
        let mut sleepers = lock(&self.0);
        if is_asleep {
            sleepers.insert(uid.clone());
        } else {
            sleepers.remove(uid);
        }
    }

    /// The UIDs of the pods.
    pub(super) fn uids(&self) -> BTreeSet<Arc<str>> {
        lock(&self.0).clone()
    }
}

/// What an awaited work of the plugin is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// Something that ends in any way.
    Work,
    /// The plugin writes the binding itself.
    Bind { pod: PodRef, node: Arc<str> },
}

/// How bad it is at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    step: u64,
    once_in: u64,
}

/// How bad it is at the moment, for all plugins of a simulation.
#[derive(Debug)]
pub(super) struct Dial {
    seed: u64,
    step: AtomicU64,
    /// Once in how many calls something goes wrong; 0 for never.
    once_in: AtomicU64,
    intents: Mutex<VecDeque<Intent>>,
    /// Whether plugins are called on copies of engines, for questions.
    is_apart: AtomicBool,
    /// Of the scheduler that was built last.
    sleepers: Mutex<Arc<Sleepers>>,
}

impl Dial {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            seed,
            step: AtomicU64::new(0),
            once_in: AtomicU64::new(0),
            intents: Mutex::default(),
            is_apart: AtomicBool::new(false),
            sleepers: Mutex::default(),
        })
    }

    pub(super) fn set_step(&self, step: u64) {
        self.step.store(step, Ordering::Relaxed);
    }

    pub(super) fn set_once_in(&self, n: u64) {
        self.once_in.store(n, Ordering::Relaxed);
    }

    /// How bad it is.
    pub(super) fn setting(&self) -> Setting {
        let [step, once_in] = [&self.step, &self.once_in].map(|it| it.load(Ordering::Relaxed));
        Setting { step, once_in }
    }

    /// Lets work go on on copies of engines as if it were as bad as `setting` says. What plugins begin there is not noted.
    pub(super) fn apart<T>(&self, setting: Setting, work: impl FnOnce() -> T) -> T {
        let present = self.setting();
        let set = |Setting { step, once_in }, is_apart| {
            self.set_step(step);
            self.set_once_in(once_in);
            self.is_apart.store(is_apart, Ordering::Relaxed);
        };
        set(setting, true);
        let outcome = work();
        set(present, false);
        outcome
    }

    fn is_apart(&self) -> bool {
        self.is_apart.load(Ordering::Relaxed)
    }

    fn is_calm(&self) -> bool {
        self.once_in.load(Ordering::Relaxed) == 0
    }

    /// The sleepers of a scheduler that is about to be built.
    pub(super) fn new_sleepers(&self) -> Arc<Sleepers> {
        let sleepers = Arc::<Sleepers>::default();
        *lock(&self.sleepers) = sleepers.clone();
        sleepers
    }

    /// What the work that was handed over next is about, oldest first.
    pub(super) fn next_intent(&self) -> Option<Intent> {
        lock(&self.intents).pop_front()
    }

    pub(super) fn intend(&self, intent: Intent) {
        if self.is_apart() {
            return;
        }
        lock(&self.intents).push_back(intent);
    }

    pub(super) fn number(&self, point: &str, pod: &str, node: &str) -> u64 {
        let mut digest = Digest::default();
        (self.seed, self.step.load(Ordering::Relaxed), point, pod, node).hash(&mut digest);
        digest.finish()
    }

    /// What goes wrong here, as a number below `n`; `None` for nothing.
    pub(super) fn mishap(&self, point: &str, pod: &str, node: &str, n: u64) -> Option<u64> {
        let once_in = self.once_in.load(Ordering::Relaxed);
        let number = self.number(point, pod, node);
        (once_in > 0 && number.is_multiple_of(once_in)).then(|| (number / once_in) % n)
    }

    /// Fails in one of four ways, or answers `fine`.
    fn status(&self, point: &str, pod: &str, node: &str, fine: Status) -> Status {
        match self.mishap(point, pod, node, 4) {
            None => fine,
            Some(0) => Status::unschedulable(format!("chaos in {point}")),
            Some(1) => Status::unresolvable(format!("chaos in {point}")),
            Some(2) => Status::error(format!("broken in {point}")),
            Some(_) => std::panic::panic_any(format!("{PANIC} in {point}")),
        }
    }

    /// Panics sometimes, where a plugin has no other way to fail.
    fn may_panic(&self, point: &str, pod: &str) {
        if self.mishap(point, pod, "", 2) == Some(0) {
            std::panic::panic_any(format!("{PANIC} in {point}"));
        }
    }
}

/// Adds both forms of the plugin to a registry.
pub(super) fn register(registry: &mut Registry, dial: &Arc<Dial>) -> Result<(), RegistryError> {
    for (name, is_late) in [(CHAOS, false), (LATE_CHAOS, true)] {
        let dial = dial.clone();
        registry.register(name, move |_, _| {
            let sleepers = lock(&dial.sleepers).clone();
            Ok(Arc::new(Chaos { name: name.into(), is_late, dial: dial.clone(), sleepers }))
        })?;
    }
    Ok(())
}

struct Chaos {
    name: PluginName,
    is_late: bool,
    dial: Arc<Dial>,
    sleepers: Arc<Sleepers>,
}

impl Chaos {
    /// Lets pods go that wait for this plugin, or turns them down.
    fn meddle(&self, cx: &Context<'_>, commands: &mut Commands) {
        for waiting in cx.waiting().waiting_pods() {
            if !waiting.pending_plugins.contains(&self.name) {
                continue;
            }
            match self.dial.mishap("Meddling", &waiting.pod.uid, "", 3) {
                Some(0) => commands.reject(&waiting.pod.uid, &self.name, "turned down"),
                Some(1) => commands.activate(vec![waiting.pod.clone()]),
                _ => commands.allow(&waiting.pod.uid, &self.name),
            }
        }
    }
}

impl Plugin for Chaos {
    fn name(&self) -> &str {
        &self.name
    }

    fn as_pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        (!self.is_late).then_some(self)
    }

    fn as_pre_filter(&self) -> Option<&dyn PreFilter> {
        (!self.is_late).then_some(self)
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        (!self.is_late).then_some(self)
    }

    fn as_post_filter(&self) -> Option<&dyn PostFilter> {
        (!self.is_late).then_some(self)
    }

    fn as_pre_score(&self) -> Option<&dyn PreScore> {
        (!self.is_late).then_some(self)
    }

    fn as_score(&self) -> Option<&dyn Score> {
        (!self.is_late).then_some(self)
    }

    extension_points!(Reserve, Permit, PreBind, Bind, PostBind);
}

impl PreEnqueue for Chaos {
    fn pre_enqueue(&self, _: &Context<'_>, pod: &Pod) -> Status {
        self.dial.status("PreEnqueue", &pod.uid, "", Status::SUCCESS)
    }
}

impl PreFilter for Chaos {
    fn pre_filter(&self, cx: &Context<'_>, _: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        let half = |name: &Arc<str>| self.dial.number("Half", &pod.uid, name).is_multiple_of(2);
        match self.dial.mishap("Narrowing", &pod.uid, "", 2) {
            Some(0) => PreFilterOutcome::skip(),
            Some(_) => {
                let names =
                    cx.cluster().order().iter().filter_map(|idx| cx.cluster().node_name(*idx));
                let names: BTreeSet<Arc<str>> = names.filter(|name| half(name)).cloned().collect();
                PreFilterOutcome::narrowed_to(names)
            }
            None => self.dial.status("PreFilter", &pod.uid, "", Status::SUCCESS).into(),
        }
    }
}

impl Filter for Chaos {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        self.dial.status("Filter", &pod.uid, node.name(), Status::SUCCESS)
    }
}

impl PostFilter for Chaos {
    fn post_filter(
        &self,
        _: &mut PostFilterContext<'_>,
        _: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome {
        let no_idea = Status::unschedulable("no idea");
        let status = self.dial.status("PostFilter", &pod.uid, "", no_idea);
        PostFilterOutcome::without_nomination(status)
    }
}

impl PreScore for Chaos {
    fn pre_score(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        self.dial.status("PreScore", &pod.uid, "", Status::SUCCESS)
    }
}

impl Score for Chaos {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let status = self.dial.status("Score", &pod.uid, node.name(), Status::SUCCESS);
        if status.is_success() { Ok(0) } else { Err(status) }
    }

    fn normalization(&self) -> Normalization {
        Normalization::Custom
    }

    fn normalize(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        _: &[NodeIdx],
        scores: &mut [i64],
    ) -> Status {
        if self.dial.mishap("Overdoing", &pod.uid, "", 2) == Some(0) {
            scores.fill(1_000);
        }
        self.dial.status("Normalize", &pod.uid, "", Status::SUCCESS)
    }
}

impl Reserve for Chaos {
    fn reserve(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        _: &mut Commands,
    ) -> Status {
        self.dial.status("Reserve", &pod.uid, node, Status::SUCCESS)
    }

    fn unreserve(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) {
        self.dial.may_panic("Unreserve", &pod.uid);
    }
}

impl Permit for Chaos {
    fn permit(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> PermitDecision {
        self.meddle(cx, commands);
        if let Some(seconds) = self.dial.mishap("Waiting", &pod.uid, node, 30) {
            return PermitDecision::wait(Duration::from_secs(seconds));
        }
        let status = self.dial.status("Permit", &pod.uid, node, Status::SUCCESS);
        if status.is_success() { PermitDecision::allow() } else { PermitDecision::deny(status) }
    }
}

impl PreBind for Chaos {
    fn pre_bind_pre_flight(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> PreBindFlight {
        let number = self.dial.number("Flight", &pod.uid, node);
        let fine = if number.is_multiple_of(2) { Status::SUCCESS } else { Status::skip() };
        let status = self.dial.status("PreBindPreFlight", &pod.uid, node, fine);
        PreBindFlight { status, may_run_in_parallel: number.is_multiple_of(3) }
    }

    fn pre_bind(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> Completion {
        match self.dial.mishap("Working", &pod.uid, node, 3) {
            Some(0) => {
                self.dial.intend(Intent::Work);
                Completion::Pending(Box::pin(std::future::pending()))
            }
            Some(_) => Completion::Task(Box::new(Task {
                dial: self.dial.clone(),
                sleepers: self.sleepers.clone(),
                uid: pod.uid.clone(),
                n_steps: 0,
                written: None,
            })),
            None => Completion::Ready(self.dial.status("PreBind", &pod.uid, node, Status::SUCCESS)),
        }
    }
}

impl Bind for Chaos {
    fn bind(&self, _: &Context<'_>, _: &mut CycleState, pod: &Arc<Pod>, node: &str) -> BindOutcome {
        if self.dial.mishap("Binding", &pod.uid, node, 2) == Some(0) {
            self.dial.intend(Intent::Bind { pod: PodRef::from(&**pod), node: node.into() });
            return BindOutcome::Pending(Box::pin(std::future::pending()));
        }
        BindOutcome::Ready(self.dial.status("Bind", &pod.uid, node, Status::skip()))
    }
}

impl PostBind for Chaos {
    fn post_bind(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        commands: &mut Commands,
    ) {
        self.meddle(cx, commands);
        self.dial.may_panic("PostBind", &pod.uid);
    }
}

/// Work before the binding that writes objects, waits for them, and fails.
struct Task {
    dial: Arc<Dial>,
    sleepers: Arc<Sleepers>,
    uid: Arc<str>,
    n_steps: u64,
    written: Option<Arc<Object>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.set_asleep(false);
    }
}

impl PreBindTask for Task {
    fn step(&mut self, cx: &mut TaskContext<'_>, event: TaskEvent) -> TaskStep {
        let step = self.next(cx, event);
        self.set_asleep(matches!(step, TaskStep::Wait { until: None, .. }));
        step
    }
}

impl Task {
    fn set_asleep(&self, is_asleep: bool) {
        if !self.dial.is_apart() {
            self.sleepers.set(&self.uid, is_asleep);
        }
    }

    fn next(&mut self, cx: &TaskContext<'_>, event: TaskEvent) -> TaskStep {
        self.n_steps += 1;
        if let TaskEvent::Written(Ok(object)) = event {
            self.written = Some(object);
        }
        let point = format!("Task{}", self.n_steps);
        if !cx.pod_exists || self.n_steps > 4 || self.dial.is_calm() {
            return TaskStep::Done(self.dial.status(&point, &cx.pod.uid, cx.node, Status::SUCCESS));
        }
        let objects = cx.cx.cluster().objects();
        let service = objects.list("", "Service").next();
        match self.dial.number(&point, &cx.pod.uid, cx.node) % 6 {
            0 => {
                let status = self.dial.status(&point, &cx.pod.uid, cx.node, Status::SUCCESS);
                TaskStep::Done(status)
            }
            1 if let Some(service) = self.written.as_ref().or(service) => {
                let mut changed = Object::clone(service);
                let value = self.n_steps.to_string().into();
                changed.set_field(&["metadata", "annotations", "chaos"], value);
                TaskStep::Write(ObjectWrite::Replace(Arc::new(changed)))
            }
            number => {
                let until = cx.cx.now() + Duration::from_secs(number);
                let objects = service.map(|service| ObjectKey::from(&**service));
                // Without an object only time could end the wait.
                let until = Some(until).filter(|_| number < 4 || objects.is_none());
                TaskStep::Wait { until, objects: objects.into_iter().collect() }
            }
        }
    }
}
