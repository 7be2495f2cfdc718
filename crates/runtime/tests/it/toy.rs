//! Plugins whose answers are data, and profiles of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube_scheduler_config::{self as config, KubeSchedulerProfile, PluginSet};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing::{self, Fixture};
use kube_scheduler_framework::{
    Bind, BindOutcome, Commands, Completion, Context, CycleState, FeasibleNodes, Filter, Handle,
    NodeIdx, NodeView, Normalization, Permit, PermitDecision, Plugin, PostBind, PostFilter,
    PostFilterContext, PostFilterOutcome, PreBind, PreBindFlight, PreEnqueue, PreFilter,
    PreFilterExtensions, PreFilterOutcome, PreScore, QueueSort, QueuedPodView, Reserve, Score,
    Status,
};
use kube_scheduler_runtime::{ExtensionPoint, Profile, ProfileError, Registry, Runner};

/// Who was called, in order.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

type FilterFn = Box<dyn Fn(&NodeView<'_>) -> Status + Send + Sync>;
type ScoreFn = Box<dyn Fn(&str) -> Result<i64, Status> + Send + Sync>;
type NormalizeFn = Box<dyn Fn(&mut [i64]) -> Status + Send + Sync>;

/// A plugin that implements what it has an answer for.
#[derive(Default)]
pub(crate) struct Toy {
    name: &'static str,
    log: Log,
    pre_filter: Option<PreFilterOutcome>,
    /// The answers of AddPod and RemovePod.
    extensions: Option<(Status, Status)>,
    /// No pod that is added concerns it.
    is_unconcerned: bool,
    filter: Option<FilterFn>,
    post_filter: Option<PostFilterOutcome>,
    pre_score: Option<Status>,
    score: Option<ScoreFn>,
    normalization: Option<Normalization>,
    normalize: Option<NormalizeFn>,
    /// Points that are there but never asked for an answer.
    bare: Vec<ExtensionPoint>,
    is_for_groups: bool,
}

impl Toy {
    pub(crate) fn new(name: &'static str, log: &Log) -> Self {
        Self { name, log: log.clone(), ..Self::default() }
    }

    /// A plugin that is only there, at these points.
    pub(crate) fn at(name: &'static str, points: &[ExtensionPoint]) -> Self {
        Self { name, bare: points.to_vec(), ..Self::default() }
    }

    /// Its Permit concerns groups alone.
    pub(crate) fn for_groups(mut self) -> Self {
        self.is_for_groups = true;
        self
    }

    pub(crate) fn pre_filter(mut self, outcome: impl Into<PreFilterOutcome>) -> Self {
        self.pre_filter = Some(outcome.into());
        self
    }

    pub(crate) fn extensions(mut self, added: Status, removed: Status) -> Self {
        self.extensions = Some((added, removed));
        self
    }

    pub(crate) fn concerned(mut self, concerned: bool) -> Self {
        self.is_unconcerned = !concerned;
        self
    }

    pub(crate) fn filter(
        mut self,
        filter: impl Fn(&NodeView<'_>) -> Status + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Box::new(filter));
        self
    }

    pub(crate) fn post_filter(mut self, outcome: PostFilterOutcome) -> Self {
        self.post_filter = Some(outcome);
        self
    }

    pub(crate) fn pre_score(mut self, status: Status) -> Self {
        self.pre_score = Some(status);
        self
    }

    pub(crate) fn score(
        mut self,
        score: impl Fn(&str) -> Result<i64, Status> + Send + Sync + 'static,
    ) -> Self {
        self.score = Some(Box::new(score));
        self
    }

    pub(crate) fn normalization(mut self, normalization: Normalization) -> Self {
        self.normalization = Some(normalization);
        self
    }

    pub(crate) fn normalize(
        mut self,
        normalize: impl Fn(&mut [i64]) -> Status + Send + Sync + 'static,
    ) -> Self {
        self.normalization = Some(Normalization::Custom);
        self.normalize = Some(Box::new(normalize));
        self
    }

    fn has(&self, point: ExtensionPoint) -> bool {
        self.bare.contains(&point)
    }

    fn note(&self, point: &str) {
        self.log.lock().unwrap().push(format!("{}.{point}", self.name));
    }
}

impl Plugin for Toy {
    fn name(&self) -> &str {
        self.name
    }

    fn as_pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        self.has(ExtensionPoint::PreEnqueue).then_some(self)
    }

    fn as_queue_sort(&self) -> Option<&dyn QueueSort> {
        self.has(ExtensionPoint::QueueSort).then_some(self)
    }

    fn as_pre_filter(&self) -> Option<&dyn PreFilter> {
        (self.pre_filter.is_some() || self.has(ExtensionPoint::PreFilter)).then_some(self)
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        (self.filter.is_some() || self.has(ExtensionPoint::Filter)).then_some(self)
    }

    fn as_post_filter(&self) -> Option<&dyn PostFilter> {
        (self.post_filter.is_some() || self.has(ExtensionPoint::PostFilter)).then_some(self)
    }

    fn as_pre_score(&self) -> Option<&dyn PreScore> {
        (self.pre_score.is_some() || self.has(ExtensionPoint::PreScore)).then_some(self)
    }

    fn as_score(&self) -> Option<&dyn Score> {
        (self.score.is_some() || self.has(ExtensionPoint::Score)).then_some(self)
    }

    fn as_reserve(&self) -> Option<&dyn Reserve> {
        self.has(ExtensionPoint::Reserve).then_some(self)
    }

    fn as_permit(&self) -> Option<&dyn Permit> {
        self.has(ExtensionPoint::Permit).then_some(self)
    }

    fn as_pre_bind(&self) -> Option<&dyn PreBind> {
        self.has(ExtensionPoint::PreBind).then_some(self)
    }

    fn as_bind(&self) -> Option<&dyn Bind> {
        self.has(ExtensionPoint::Bind).then_some(self)
    }

    fn as_post_bind(&self) -> Option<&dyn PostBind> {
        self.has(ExtensionPoint::PostBind).then_some(self)
    }
}

impl PreFilter for Toy {
    fn pre_filter(&self, _: &Context<'_>, _: &mut CycleState, _: &Pod) -> PreFilterOutcome {
        self.note("PreFilter");
        self.pre_filter.clone().unwrap_or_default()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        self.extensions.is_some().then_some(self)
    }
}

impl PreFilterExtensions for Toy {
    fn concerns(&self, _: &Context<'_>, _: &CycleState, _: &Pod, _: &Pod) -> bool {
        !self.is_unconcerned
    }

    fn add_pod(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Pod,
        added: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        assert!(node.pods().any(|pod| pod.uid == added.uid), "the node shows what was added");
        self.note(&format!("AddPod({})", added.name));
        self.extensions.clone().unwrap_or_default().0
    }

    fn remove_pod(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Pod,
        removed: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        assert!(node.pods().all(|pod| pod.uid != removed.uid), "the node lacks what was removed");
        self.note(&format!("RemovePod({})", removed.name));
        self.extensions.clone().unwrap_or_default().1
    }
}

impl Filter for Toy {
    fn filter(&self, _: &Context<'_>, _: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        self.note(&format!("Filter({})", node.name()));
        self.filter.as_ref().map_or(Status::SUCCESS, |filter| filter(node))
    }
}

impl PostFilter for Toy {
    fn post_filter(
        &self,
        _: &mut PostFilterContext<'_>,
        _: &CycleState,
        _: &Arc<Pod>,
    ) -> PostFilterOutcome {
        self.note("PostFilter");
        let nothing = PostFilterOutcome::without_nomination(Status::SUCCESS);
        self.post_filter.clone().unwrap_or(nothing)
    }
}

impl PreScore for Toy {
    fn pre_score(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        self.note("PreScore");
        self.pre_score.clone().unwrap_or_default()
    }
}

impl Score for Toy {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        self.score.as_ref().map_or(Ok(0), |score| score(node.name()))
    }

    fn normalization(&self) -> Normalization {
        self.normalization.unwrap_or(Normalization::None)
    }

    fn normalize(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        _: &Pod,
        _: &[NodeIdx],
        scores: &mut [i64],
    ) -> Status {
        self.normalize.as_ref().map_or(Status::SUCCESS, |normalize| normalize(scores))
    }
}

impl PreEnqueue for Toy {
    fn pre_enqueue(&self, _: &Context<'_>, _: &Pod) -> Status {
        Status::SUCCESS
    }
}

impl QueueSort for Toy {
    fn compare(&self, a: QueuedPodView<'_>, b: QueuedPodView<'_>) -> std::cmp::Ordering {
        a.queued.cmp(&b.queued)
    }
}

impl Reserve for Toy {
    fn reserve(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) -> Status {
        Status::SUCCESS
    }

    fn unreserve(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) {
    }
}

impl Permit for Toy {
    fn permit(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) -> PermitDecision {
        PermitDecision::allow()
    }

    fn concerns_groups_alone(&self) -> bool {
        self.is_for_groups
    }
}

impl PreBind for Toy {
    fn pre_bind_pre_flight(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        _: &Arc<Pod>,
        _: &str,
    ) -> PreBindFlight {
        PreBindFlight { status: Status::skip(), may_run_in_parallel: false }
    }

    fn pre_bind(&self, _: &Context<'_>, _: &mut CycleState, _: &Arc<Pod>, _: &str) -> Completion {
        Completion::Ready(Status::SUCCESS)
    }
}

impl Bind for Toy {
    fn bind(&self, _: &Context<'_>, _: &mut CycleState, _: &Arc<Pod>, _: &str) -> BindOutcome {
        BindOutcome::WriteBinding
    }
}

impl PostBind for Toy {
    fn post_bind(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) {
    }
}

/// A plugin set from `"A B:3 -C"`: names with weights, and disabled names after a dash.
pub(crate) fn set(text: &str) -> PluginSet {
    let mut set = PluginSet::default();
    for word in text.split_whitespace() {
        match (word.strip_prefix('-'), word.split_once(':')) {
            (Some(name), _) => set.disabled.push(config::WeightedPlugin::new(name, 0)),
            (None, Some((name, weight))) => {
                set.enabled.push(config::WeightedPlugin::new(name, weight.parse().unwrap()));
            }
            (None, None) => set.enabled.push(config::WeightedPlugin::new(word, 0)),
        }
    }
    set
}

/// A registry of `toys`, each to be made once.
pub(crate) fn registry(toys: Vec<Toy>) -> Registry {
    let mut registry = Registry::new();
    for toy in toys {
        let name = toy.name;
        let toy: Arc<dyn Plugin> = Arc::new(toy);
        registry.register(name, move |_, _| Ok(toy.clone())).unwrap();
    }
    registry
}

pub(crate) fn build(
    toys: Vec<Toy>,
    config: &KubeSchedulerProfile,
) -> Result<Profile, ProfileError> {
    Profile::build(config, "profiles[0]", &registry(toys), &Handle::default())
}

/// A profile named `s` with these MultiPoint plugins and points.
pub(crate) fn config(multi_point: &str, points: &[(ExtensionPoint, &str)]) -> KubeSchedulerProfile {
    let mut sets = BTreeMap::from([("multiPoint".to_owned(), set(multi_point))]);
    for (point, text) in points {
        let (first, rest) = point.as_str().split_at(1);
        sets.insert(first.to_lowercase() + rest, set(text));
    }
    let sets = serde_json::to_value(sets).unwrap();
    KubeSchedulerProfile {
        scheduler_name: Some("s".into()),
        plugins: Some(serde_json::from_value(sets).unwrap()),
        ..KubeSchedulerProfile::default()
    }
}

/// A profile of `toys` in their order, beside what every profile must have.
pub(crate) fn profile(toys: Vec<Toy>) -> Profile {
    let mut multi_point: Vec<&str> = toys.iter().map(|toy| toy.name).collect();
    multi_point.push("Base");
    let base = Toy::at("Base", &[ExtensionPoint::QueueSort, ExtensionPoint::Bind]);
    let config = config(&multi_point.join(" "), &[]);
    build(toys.into_iter().chain([base]).collect(), &config).unwrap()
}

pub(crate) fn names(profile: &Profile, point: ExtensionPoint) -> Vec<&str> {
    profile.at(point).iter().map(|idx| &*profile.plugin(*idx).unwrap().name).collect()
}

pub(crate) fn pod(text: &str) -> Arc<Pod> {
    testing::pod(text).build()
}

pub(crate) fn runner<'a>(world: &'a Fixture, profile: &'a Profile) -> Runner<'a> {
    Runner::new(profile, world.sources())
}

/// Code, who, and message of a status: `Error A: text`.
pub(crate) fn text(status: &Status) -> String {
    let by = status.plugin().map_or_else(String::new, |plugin| format!(" {plugin}"));
    format!("{}{by}: {}", status.code(), status.message())
}

pub(crate) fn calls(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}
