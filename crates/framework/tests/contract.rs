//! The check of what plugins promise finds those that do not keep it, and leaves the others alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kube_scheduler_cache::reads::ReadSet;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::following::{FollowOutcome, PreFilterFollower};
use kube_scheduler_framework::groups::{PlacedGroup, PlacementScore, ProposedPlacement};
use kube_scheduler_framework::testing::{Fixture, Reads, check_contract, node, pod, reads_of};
use kube_scheduler_framework::{
    Bind, BindOutcome, Commands, Context, CycleState, Filter, FilterSink, NodeIdx, NodeView,
    Permit, PermitDecision, Plugin, PreFilter, PreFilterExtensions, PreFilterOutcome, Reserve,
    Score, Sign, SignatureWriter, Status, extension_points,
};
use serde_json::json;

/// Keeps pods with a label `zone` to nodes with the same; scores by the number of pods. Its lies can be chosen.
struct Zone {
    /// Looks at the second node, whatever node it is asked about.
    peeks: bool,
    /// Goes by the slot of a node alone, which is no property of it.
    goes_by_slot: bool,
    /// Says that it scores nothing, and does.
    claims_indifference: bool,
    signs_zone: bool,
    batches_well: bool,
    calls: Option<AtomicI64>,
}

impl Zone {
    fn honest() -> Self {
        Self {
            peeks: false,
            goes_by_slot: false,
            claims_indifference: false,
            signs_zone: true,
            batches_well: true,
            calls: None,
        }
    }
}

impl Plugin for Zone {
    fn name(&self) -> &str {
        "Zone"
    }

    extension_points!(Filter, Score, Sign);
}

impl Filter for Zone {
    fn filter(&self, cx: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        if self.goes_by_slot {
            let is_even = node.idx().index().is_multiple_of(2);
            return if is_even { Status::SUCCESS } else { Status::unschedulable("odd") };
        }
        let is_closed =
            cx.cluster().objects().list("example.com", "Closed").any(|it| it.name == *node.name());
        let second_is_empty = || {
            let counts = cx.cluster().pod_count();
            counts.len() < 2 || counts.get(NodeIdx::from_index(1)) < 1
        };
        let is_quiet = !self.peeks || second_is_empty();
        if pod.labels.get("zone").is_none_or(|zone| node.labels().get("zone") == Some(zone))
            && !is_closed
            && is_quiet
        {
            Status::SUCCESS
        } else {
            Status::unschedulable("wrong zone")
        }
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        for &idx in nodes.iter().take(if self.batches_well { nodes.len() } else { 1 }) {
            let Some(view) = cx.cluster().node(idx) else { continue };
            let status = self.filter(cx, state, pod, &view);
            if !status.is_success() {
                sink.reject(idx, status);
            }
        }
        Ok(())
    }
}

impl Score for Zone {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let calls = self.calls.as_ref().map_or(0, |calls| calls.fetch_add(1, Ordering::Relaxed));
        Ok(if self.goes_by_slot { 0 } else { node.n_pods() + calls })
    }

    fn is_indifferent(&self, _: &CycleState, _: &Pod) -> bool {
        self.claims_indifference
    }
}

impl Sign for Zone {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        if self.signs_zone {
            signature.text(pod.labels.get("zone").unwrap_or_default());
        }
        true
    }
}

/// What is found, each promise once.
fn found(plugin: &Zone) -> Vec<&'static str> {
    let fixture = Fixture::new()
        .with_node(node("a").label("zone", "x"))
        .with_node(node("b").label("zone", "y"))
        .with_pod(pod("old").on("a"))
        .with_object(
            json!({"apiVersion": "example.com/v1", "kind": "Closed", "metadata": {"name": "b"}}),
        );
    let pods = [pod("any"), pod("x").label("zone", "x"), pod("x2").label("zone", "x")];
    let violations = check_contract(plugin, &fixture, &pods.map(|pod| pod.build()));
    let mut promises: Vec<_> = violations.into_iter().map(|violation| violation.promise).collect();
    promises.dedup();
    promises
}

#[test]
fn an_honest_plugin_passes() {
    assert_eq!(found(&Zone::honest()), Vec::<&str>::new());
}

#[test]
fn what_is_read_of_other_nodes_one_by_one_is_not_cached() {
    let peeking = Zone { peeks: true, ..Zone::honest() };
    let fixture = Fixture::new().with_node(node("a").label("zone", "x")).with_node(node("b"));
    let reads = |plugin: &Zone| reads_of(plugin, fixture.sources(), &pod("p").build()).phases();
    assert!(reads(&Zone::honest()).can_be_cached());
    assert!(!reads(&peeking).can_be_cached());
    let objects = Reads::ALL_OBJECTS;
    let own = Reads::LABELS.union(Reads::POD_SUMS).union(objects);
    let with_zone = pod("p").label("zone", "x").build();
    let read = reads_of(&Zone::honest(), fixture.sources(), &with_zone);
    assert_eq!((read.phases().once, read.phases().per_node), (Reads::NOTHING, own));
}

/// Reads the cluster, or has what it reads noted, somewhere else than through the context that it is given.
enum GoesRound {
    Sources,
    OwnReads,
}

impl Plugin for GoesRound {
    fn name(&self) -> &str {
        "GoesRound"
    }

    extension_points!(Filter);
}

impl Filter for GoesRound {
    fn filter(&self, cx: &Context<'_>, _: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        let is_empty = match self {
            Self::Sources => cx.sources().cluster.n_pods() == 0,
            Self::OwnReads => node.with_reads(&ReadSet::new()).pods().next().is_none(),
        };
        if is_empty { Status::SUCCESS } else { Status::unschedulable("not empty") }
    }
}

#[test]
fn what_is_read_past_the_context_is_not_cached() {
    let fixture = Fixture::new().with_node(node("a"));
    for plugin in [GoesRound::Sources, GoesRound::OwnReads] {
        let read = reads_of(&plugin, fixture.sources(), &pod("p").build()).phases();
        assert!(read.per_node.intersects(Reads::ANYTHING) && !read.can_be_cached());
    }
}

#[test]
fn every_kind_of_lie_is_found() {
    let cases = [
        (Zone { peeks: true, ..Zone::honest() }, "answers change only with what was read"),
        (
            Zone { goes_by_slot: true, ..Zone::honest() },
            "nodes that counters show alike get equal answers",
        ),
        (Zone { claims_indifference: true, ..Zone::honest() }, "an indifferent plugin scores 0"),
        (
            Zone { signs_zone: false, ..Zone::honest() },
            "pods with equal signatures get equal answers",
        ),
        (
            Zone { batches_well: false, ..Zone::honest() },
            "the whole-cluster form answers as the per-node form does",
        ),
        (
            Zone { calls: Some(AtomicI64::new(0)), ..Zone::honest() },
            "asked twice, it answers the same",
        ),
    ];
    for (liar, promise) in cases {
        let found = found(&liar);
        assert!(found.contains(&promise), "{promise:?} is not among {found:?}");
    }
}

/// What a plugin may say wrongly of calls that can be left out.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    None,
    /// Pods that are added concern no pod.
    Concern,
    /// Adding pods never fails.
    Failure,
    /// Reserve has nothing to do.
    Idleness,
    /// Reserve reads nothing of the cycle.
    State,
    /// Permit allows pods that are in no group.
    Groups,
    /// Bind reads nothing of the cycle.
    Binding,
}

/// Lets one pod with a label `single` on a node; its calls after Filter ask for things, or read what PreFilter stored.
struct Single(Lie);

#[derive(Clone)]
struct AddedPods(usize);

impl Single {
    fn n_added(state: &CycleState) -> Option<usize> {
        state.get::<AddedPods>().map(|added| added.0)
    }
}

impl Plugin for Single {
    fn name(&self) -> &str {
        "Single"
    }

    extension_points!(PreFilter, Filter, Reserve, Permit, Bind);
}

impl PreFilter for Single {
    fn pre_filter(&self, _: &Context<'_>, state: &mut CycleState, _: &Pod) -> PreFilterOutcome {
        state.insert(AddedPods(0));
        PreFilterOutcome::success()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PreFilterExtensions for Single {
    fn may_fail(&self, _: &CycleState) -> bool {
        false
    }

    fn concerns(&self, _: &Context<'_>, _: &CycleState, _: &Pod, added: &Pod) -> bool {
        self.0 != Lie::Concern && added.labels.contains_key("single")
    }

    fn add_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        _: &Pod,
        added: &Pod,
        _: &NodeView<'_>,
    ) -> Status {
        if added.labels.contains_key("single") {
            state.insert(AddedPods(Self::n_added(state).unwrap_or(0) + 1));
        }
        if self.0 == Lie::Failure { Status::error("cannot add") } else { Status::SUCCESS }
    }

    fn remove_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        _: &Pod,
        removed: &Pod,
        _: &NodeView<'_>,
    ) -> Status {
        if removed.labels.contains_key("single") {
            state.insert(AddedPods(Self::n_added(state).unwrap_or(0).saturating_sub(1)));
        }
        Status::SUCCESS
    }
}

impl Filter for Single {
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, _: &NodeView<'_>) -> Status {
        match Self::n_added(state) {
            Some(0) => Status::SUCCESS,
            _ => Status::unschedulable("another is there"),
        }
    }
}

impl Reserve for Single {
    fn reserve(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        commands: &mut Commands,
    ) -> Status {
        if self.0 == Lie::Idleness {
            commands.activate(vec![pod.clone()]);
        }
        if pod.labels.contains_key("single") && Self::n_added(state).is_none() {
            return Status::error("nothing is stored");
        }
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

    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        self.0 != Lie::State && pod.labels.contains_key("single")
    }

    fn is_idle_for(&self, pod: &Pod) -> bool {
        self.0 == Lie::Idleness || !pod.labels.contains_key("single")
    }
}

impl Permit for Single {
    fn permit(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) -> PermitDecision {
        if self.0 == Lie::Groups {
            return PermitDecision::deny(Status::unschedulable("no"));
        }
        PermitDecision::allow()
    }

    fn reads_cycle_state(&self, _: &Pod) -> bool {
        false
    }

    fn concerns_groups_alone(&self) -> bool {
        true
    }
}

impl Bind for Single {
    fn bind(&self, _: &Context<'_>, state: &mut CycleState, _: &Arc<Pod>, _: &str) -> BindOutcome {
        match Self::n_added(state) {
            Some(_) => BindOutcome::WriteBinding,
            None => BindOutcome::Ready(Status::error("nothing is stored")),
        }
    }

    fn reads_cycle_state(&self) -> bool {
        self.0 != Lie::Binding
    }
}

#[test]
fn lies_about_calls_that_can_be_left_out_are_found() {
    let fixture = Fixture::new().with_node(node("a")).with_pod(pod("old").on("a"));
    let pods = [pod("any"), pod("one").label("single", ""), pod("two").label("single", "")];
    let pods = pods.map(|pod| pod.build());
    let cases = [
        (Lie::None, None),
        (Lie::Concern, Some("a pod that does not concern another changes nothing")),
        (Lie::Failure, Some("pods are added and removed without failure")),
        (Lie::Idleness, Some("a plugin that is idle for a pod has nothing to do")),
        (Lie::State, Some("what does not read the cycle state answers without it")),
        (Lie::Groups, Some("a plugin for groups allows pods that are in none")),
        (Lie::Binding, Some("what does not read the cycle state answers without it")),
    ];
    for (lie, promise) in cases {
        let found = check_contract(&Single(lie), &fixture, &pods);
        let promises: Vec<_> = found.iter().map(|violation| violation.promise).collect();
        match promise {
            None => assert_eq!(promises, Vec::<&str>::new()),
            Some(promise) => assert!(promises.contains(&promise), "{promise:?}: {promises:?}"),
        }
    }
}

/// Lets pods go where there is a pod in the cluster, and follows the number of pods; scores placements by their first node, or by
/// their members.
struct Company {
    /// Says that nothing has changed whatever the number of pods.
    is_blind: bool,
    /// Scores by the node, and says that it does not.
    claims_members: bool,
}

#[derive(Clone)]
struct NumberOfPods(usize);

impl NumberOfPods {
    fn count(cx: &Context<'_>) -> Self {
        Self(cx.cluster().all_pods().count())
    }
}

impl Plugin for Company {
    fn name(&self) -> &str {
        "Company"
    }

    extension_points!(PreFilter, Filter, Sign, PlacementScore);
}

impl PreFilter for Company {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, _: &Pod) -> PreFilterOutcome {
        state.insert(NumberOfPods::count(cx));
        PreFilterOutcome::success()
    }

    fn follower(&self) -> Option<&dyn PreFilterFollower> {
        Some(self)
    }
}

impl PreFilterFollower for Company {
    fn can_follow(&self, _: &Context<'_>, _: &CycleState) -> bool {
        true
    }

    fn follow(&self, cx: &Context<'_>, state: &mut CycleState, _: &Pod) -> FollowOutcome {
        let (before, now) = (state.get::<NumberOfPods>().map(|n| n.0), NumberOfPods::count(cx));
        let is_same = before.is_some_and(|before| (before > 0) == (now.0 > 0));
        state.insert(now);
        match is_same || self.is_blind {
            true => FollowOutcome::Except(Vec::new()),
            false => FollowOutcome::Outdated,
        }
    }

    fn rest(&self, _: &mut CycleState) {}
}

impl Filter for Company {
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, _: &NodeView<'_>) -> Status {
        match state.get::<NumberOfPods>() {
            Some(n) if n.0 > 0 => Status::SUCCESS,
            _ => Status::unschedulable("nobody is there"),
        }
    }
}

impl Sign for Company {
    fn sign(&self, _: &Pod, _: &mut SignatureWriter) -> bool {
        true
    }
}

impl PlacementScore for Company {
    fn score(
        &self,
        _: &Context<'_>,
        _: PlacedGroup<'_>,
        placement: ProposedPlacement<'_>,
    ) -> Result<i64, Status> {
        let assignments = placement.assignments;
        let n = if self.claims_members { assignments[0].1.index() } else { assignments.len() };
        Ok(i64::try_from(n).unwrap_or(i64::MAX))
    }

    fn goes_by_members(&self) -> bool {
        true
    }
}

#[test]
fn what_is_followed_and_what_goes_by_members_is_tried() {
    let fixture =
        Fixture::new().with_node(node("a")).with_node(node("b")).with_pod(pod("old").on("a"));
    let pods = [pod("one"), pod("two")].map(|pod| pod.build());
    let cases = [
        (false, false, None),
        (true, false, Some("followed answers are those that would be worked out anew")),
        (false, true, Some("a score that goes by members is the same on other nodes")),
    ];
    for (is_blind, claims_members, promise) in cases {
        let found = check_contract(&Company { is_blind, claims_members }, &fixture, &pods);
        let mut promises: Vec<_> = found.iter().map(|violation| violation.promise).collect();
        promises.dedup();
        assert_eq!(promises, Vec::from_iter(promise));
    }
}
