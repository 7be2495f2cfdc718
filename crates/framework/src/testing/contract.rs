//! Whether a plugin keeps what it promises, so that cached answers are right answers.
//!
//! The engine evaluates one pod for many, and caches answers until something changes that the plugin has read. A plugin may
//! bypass the recording, by reading from state of its own or from the columns of other nodes. The check finds that by trial: it
//! changes the cluster in every way that the fixture suggests, and after each change compares the answers that would still be
//! cached with fresh ones.

mod declarations;
mod following;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::{PluginReads, ReadSet};
use kube_scheduler_cache::{ChangeKinds, Changes, ClusterState, NodeIdx, Versions};

use super::changes::changed_fixtures;
use super::fixture::Fixture;
use crate::cycle_state::CycleState;
use crate::normalization::MAX_NODE_SCORE;
use crate::plugin::Plugin;
use crate::points::{FeasibleNodes, Filter, FilterSink, PreFilterOutcome, Score, SignatureWriter};
use crate::status::{PluginName, Status};
use crate::verdicts::Verdicts;

/// A promise that a plugin does not keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{promise}: {what}")]
pub struct Violation {
    /// The promise that the plugin does not keep.
    pub promise: &'static str,
    /// What was seen instead.
    pub what: String,
}

/// Tries whether a plugin keeps what it promises about these pods in this cluster and in what it may become:
///
/// - the whole-cluster forms answer as the per-node forms do, whatever nodes they are asked about at once;
/// - a plugin that is [indifferent](crate::Score::is_indifferent) scores 0;
/// - asked twice, it answers the same;
/// - nodes about which counters have shown it nothing different get equal answers, if it has read nothing else about them;
/// - pods with equal signatures get equal answers;
/// - answers change only when something changes that it has read through the views;
/// - answers that it [follows](crate::following::PreFilterFollower) are those that are worked out anew;
/// - a placement's score that [goes by members](crate::groups::PlacementScore::goes_by_members) is the same on other nodes;
/// - calls that it says may be left out do nothing ([`concerns`](crate::PreFilterExtensions::concerns) and
///   [`may_fail`](crate::PreFilterExtensions::may_fail), [`is_idle_for`](crate::Reserve::is_idle_for),
///   [`concerns_groups_alone`](crate::Permit::concerns_groups_alone)), and Reserve, Permit, the pre-flight of PreBind and Bind answer
///   the same without the cycle state if they [do not read](crate::Reserve::reads_cycle_state) it. A Reserve is undone after
///   each call; what a Bind leaves to be awaited is dropped.
///
/// Make the fixture rich: the labels, taints, resources, pods and objects that the plugin reads are what gets changed. An
/// empty list means that nothing was found, not that nothing is wrong.
pub fn check_contract(plugin: &dyn Plugin, fixture: &Fixture, pods: &[Arc<Pod>]) -> Vec<Violation> {
    let mut check = Check { plugin, violations: Vec::new() };
    for pod in pods {
        check.forms_agree(fixture, pod);
        check.answers_repeat(fixture, pod);
        check.groups_agree(fixture, pod);
        check.additions_are_declared(fixture, pod, pods);
        check.late_calls_are_declared(fixture, pod);
        for (what, changed) in changed_fixtures(fixture) {
            check.answers_last(fixture, &changed, &what, pod);
        }
    }
    check.placement_score_is_declared(fixture, pods);
    check.signatures_hold(fixture, pods);
    check.followed_answers_hold(fixture, fixture, "nothing", pods);
    for (what, changed) in changed_fixtures(fixture) {
        check.signatures_hold(&changed, pods);
        check.followed_answers_hold(fixture, &changed, &what, pods);
    }
    check.violations
}

/// The first of these promises alone, and that bounds hold that are promised: for clusters that are too large to try out
/// every change.
pub fn check_forms(plugin: &dyn Plugin, fixture: &Fixture, pods: &[Arc<Pod>]) -> Vec<Violation> {
    let mut check = Check { plugin, violations: Vec::new() };
    pods.iter().for_each(|pod| check.forms_agree(fixture, pod));
    check.violations
}

/// Up to how many nodes the whole-cluster forms are also asked about each of them alone.
const FEW: usize = 64;

/// A status as a finding shows it.
struct StatusDisplay<'s>(&'s Status);

impl fmt::Display for StatusDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_success() {
            return f.write_str("passes");
        }
        let message = self.0.message();
        write!(f, "{:?}", self.0.code())?;
        if message.is_empty() { Ok(()) } else { write!(f, " {message:?}") }
    }
}

fn score_text(score: &Result<i64, Status>) -> String {
    match score {
        Ok(score) => score.to_string(),
        Err(status) => StatusDisplay(status).to_string(),
    }
}

/// Where two sets of answers begin to differ.
fn difference(one: &Answers, other: &Answers, between: &str) -> String {
    let (nodes, other_nodes) = (&one.nodes, &other.nodes);
    let (one, other) = (&one.once, &other.once);
    let points = [
        ("PreFilter", &one.pre_filter, &other.pre_filter),
        ("PreScore", &one.pre_score, &other.pre_score),
    ];
    if let Some((point, a, b)) = points.into_iter().find(|(_, a, b)| a != b) {
        return format!("{point} {} {between} {}", StatusDisplay(a), StatusDisplay(b));
    }
    if one.node_names != other.node_names {
        let text = |names: Option<&BTreeSet<Arc<str>>>| match names {
            Some(names) => names.iter().map(|name| &**name).collect::<Vec<_>>().join(", "),
            None => "all nodes".to_owned(),
        };
        return format!(
            "PreFilter names {} {between} {}",
            text(one.node_names.as_ref()),
            text(other.node_names.as_ref())
        );
    }
    let mut pairs = nodes.iter().zip(other_nodes);
    match pairs.find(|(a, b)| a != b) {
        Some(((node, a), (_, b))) => format!("node {node}: {a} {between} {b}"),
        None => format!("{} {between} {} nodes", nodes.len(), other_nodes.len()),
    }
}

impl fmt::Display for NodeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter {}, Score {}", StatusDisplay(&self.filter), score_text(&self.score))
    }
}

/// Everything a plugin says about a pod, node by node.
#[derive(Clone, Debug, PartialEq)]
struct Answers {
    once: AnswersAboutPod,
    nodes: Vec<(Arc<str>, NodeAnswer)>,
}

/// What it says of the pod alone.
#[derive(Clone, Debug, PartialEq)]
struct AnswersAboutPod {
    pre_filter: Status,
    node_names: Option<BTreeSet<Arc<str>>>,
    pre_score: Status,
}

#[derive(Clone, Debug, PartialEq)]
struct NodeAnswer {
    filter: Status,
    score: Result<i64, Status>,
}

/// A pod about which PreFilter and PreScore have been asked, for the points that are asked node by node.
struct PreparedPod<'p> {
    plugin: &'p dyn Plugin,
    pod: &'p Pod,
    once: AnswersAboutPod,
    state: CycleState,
}

impl<'p> PreparedPod<'p> {
    /// Notes in `reads` what the plugin reads.
    fn new(plugin: &'p dyn Plugin, fixture: &Fixture, pod: &'p Pod, reads: &PluginReads) -> Self {
        let cx = fixture.sources().recorded_by(&reads.pre_filter);
        let mut state = CycleState::new();
        let outcome = match plugin.as_pre_filter() {
            Some(point) => point.pre_filter(&cx, &mut state, pod),
            None => PreFilterOutcome::success(),
        };
        let cx = fixture.sources().recorded_by(&reads.pre_score);
        let nodes = FeasibleNodes::recorded_by(fixture.cluster().order(), &reads.pre_score);
        let pre_score = match plugin.as_pre_score() {
            Some(point) => point.pre_score(&cx, &mut state, pod, &nodes),
            None => Status::SUCCESS,
        };
        let PreFilterOutcome { status: pre_filter, node_names } = outcome;
        let once = AnswersAboutPod { pre_filter, node_names, pre_score };
        Self { plugin, pod, once, state }
    }

    /// Filter, if it is asked.
    fn filter(&self) -> Option<&'p dyn Filter> {
        self.plugin.as_filter().filter(|_| self.once.pre_filter.is_success())
    }

    /// Score, if it is asked.
    fn score(&self) -> Option<&'p dyn Score> {
        let is_asked = self.once.pre_filter.is_success() && self.once.pre_score.is_success();
        self.plugin.as_score().filter(|_| is_asked)
    }

    /// Filter and Score for one node, with what they read noted in `reads`.
    fn about(
        &self,
        fixture: &Fixture,
        idx: NodeIdx,
        reads: &PluginReads,
    ) -> Option<(Arc<str>, NodeAnswer)> {
        let (state, pod) = (&self.state, self.pod);
        let cx = fixture.sources().recorded_by(&reads.per_node);
        let scan = fixture.sources().scan_recorded_by(&reads.per_node);
        let view = scan.cluster().node(idx)?;
        let filter = self.filter().map(|point| point.filter(&cx, state, pod, &view));
        let score = self.score().map_or(Ok(0), |point| point.score(&cx, state, pod, &view));
        // Not through the view, which would record the name as read by the plugin.
        let name = fixture.cluster().node_name(idx)?.clone();
        Some((name, NodeAnswer { filter: filter.unwrap_or_default(), score }))
    }

    /// The same for every node.
    fn about_all(&self, fixture: &Fixture, reads: &PluginReads) -> Vec<(Arc<str>, NodeAnswer)> {
        let order = fixture.cluster().order().iter();
        order.filter_map(|idx| self.about(fixture, *idx, reads)).collect()
    }

    /// What the whole-cluster forms say about every node; where one fails, what the per-node forms say.
    fn scanned(&self, fixture: &Fixture, reads: &PluginReads) -> Vec<(Arc<str>, NodeAnswer)> {
        let (state, pod) = (&self.state, self.pod);
        let cx = fixture.sources().scan_recorded_by(&reads.per_node);
        let order = fixture.cluster().order();
        let mut verdicts = Verdicts::absent(fixture.cluster().capacity());
        verdicts.let_pass(order);
        let name: PluginName = self.plugin.name().into();
        let filtered = self.filter().map_or(Ok(()), |point| {
            let mut sink = FilterSink::new(&mut verdicts, &name);
            point.filter_all(&cx, state, pod, order, &mut sink)
        });
        let mut column = vec![0; order.len()];
        let scored = self
            .score()
            .map_or(Ok(()), |point| point.score_all(&cx, state, pod, order, &mut column));
        let nodes = order.iter().zip(&column).filter_map(|(&idx, score)| {
            let (node, mut answer) = self.about(fixture, idx, &PluginReads::default())?;
            let whole = verdicts.rejection(idx).cloned().unwrap_or_default();
            // The sink attributes rejections to the plugin.
            if filtered.is_ok() && whole != answer.filter.clone().from_plugin(&name) {
                answer.filter = whole;
            }
            if scored.is_ok() {
                answer.score = Ok(*score);
            }
            Some((node, answer))
        });
        nodes.collect()
    }
}

struct Check<'p> {
    plugin: &'p dyn Plugin,
    violations: Vec<Violation>,
}

impl Check<'_> {
    fn complain(&mut self, promise: &'static str, what: String) {
        let violation = Violation { promise, what };
        if !self.violations.contains(&violation) {
            self.violations.push(violation);
        }
    }

    fn answers(&self, fixture: &Fixture, pod: &Pod) -> Answers {
        let reads = PluginReads::default();
        let asked = PreparedPod::new(self.plugin, fixture, pod, &reads);
        Answers { nodes: asked.about_all(fixture, &reads), once: asked.once }
    }

    fn answers_repeat(&mut self, fixture: &Fixture, pod: &Pod) {
        let (first, second) = (self.answers(fixture, pod), self.answers(fixture, pod));
        if first != second {
            let what = format!("pod {}: {}", pod.key(), difference(&first, &second, "then"));
            self.complain("asked twice, it answers the same", what);
        }
    }

    /// Compares the answers of nodes of which the engine would ask one for all, raw scores included.
    fn groups_agree(&mut self, fixture: &Fixture, pod: &Pod) {
        let mut reads = PluginReads {
            pre_filter: ReadSet::with_counters(),
            pre_score: ReadSet::with_counters(),
            per_node: ReadSet::new(),
        };
        let asked = PreparedPod::new(self.plugin, fixture, pod, &reads);
        let cluster = fixture.cluster();
        let about = |idx: &NodeIdx| Some((*idx, asked.about(fixture, *idx, &reads)?));
        let answers: Vec<_> = cluster.order().iter().filter_map(about).collect();
        if !reads.get().can_be_grouped() {
            return;
        }
        let mut counters = reads.pre_filter.take_counters();
        counters.extend(reads.pre_score.take_counters());
        let mut groups: BTreeMap<Vec<u32>, (Arc<str>, NodeAnswer)> = BTreeMap::new();
        for (idx, (node, answer)) in answers {
            let mut standing = Vec::new();
            for counter in &counters {
                counter.stand(cluster, counter.looks(), idx, &mut standing);
            }
            let (first, known) = groups.entry(standing).or_insert((node.clone(), answer.clone()));
            if *known != answer {
                let what =
                    format!("pod {}, nodes {first} and {node}: {known} and {answer}", pod.key());
                self.complain("nodes that counters show alike get equal answers", what);
            }
        }
    }

    /// Compares the whole-cluster forms with the per-node forms, over all nodes, over some of them, and over one node or a
    /// few at a time.
    fn forms_agree(&mut self, fixture: &Fixture, pod: &Pod) {
        const PROMISE: &str = "the whole-cluster form answers as the per-node form does";
        let reads = PluginReads::default();
        let asked = PreparedPod::new(self.plugin, fixture, pod, &reads);
        // The engine asks about all nodes in the order of their slots.
        let mut all: Vec<NodeIdx> = fixture.cluster().order().to_vec();
        all.sort_unstable();
        // A subset in reverse order finds forms that rely on seeing all nodes, or on seeing them in slot order.
        let third: Vec<NodeIdx> = all.iter().copied().step_by(3).rev().collect();
        let mut groups: Vec<&[NodeIdx]> = vec![&all, &third];
        groups.extend(all.chunks(if all.len() > FEW { FEW / 2 } else { 1 }));
        let name: PluginName = self.plugin.name().into();
        for group in groups {
            if let Some(point) = asked.filter() {
                let mut verdicts = Verdicts::absent(fixture.cluster().capacity());
                group.iter().for_each(|idx| verdicts.put(*idx, &Status::SUCCESS));
                let mut sink = FilterSink::new(&mut verdicts, &name);
                let result = point.filter_all(&fixture.cx(), &asked.state, pod, group, &mut sink);
                // After an error the whole-cluster form may stop anywhere, so its verdicts are not compared.
                for &idx in group {
                    let Some((node, one)) = asked.about(fixture, idx, &reads) else { continue };
                    let is_error = !one.filter.is_success() && !one.filter.is_rejected();
                    let whole = verdicts.rejection(idx).cloned().unwrap_or_default();
                    let differs = is_error || whole != one.filter.clone().from_plugin(&name);
                    if result.is_ok() && differs {
                        let what = format!(
                            "Filter, pod {}, node {node}: {} at once, {} alone",
                            pod.key(),
                            StatusDisplay(&whole),
                            StatusDisplay(&one.filter)
                        );
                        self.complain(PROMISE, what);
                    }
                }
            }
            if let Some(point) = asked.score() {
                let mut column = vec![i64::MIN; group.len()];
                let result = point.score_all(&fixture.cx(), &asked.state, pod, group, &mut column);
                for (&idx, whole) in group.iter().zip(&column) {
                    let Some((node, one)) = asked.about(fixture, idx, &reads) else { continue };
                    if result.is_ok() && one.score != Ok(*whole) {
                        let what = format!(
                            "Score, pod {}, node {node}: {whole} at once, {} alone",
                            pod.key(),
                            score_text(&one.score)
                        );
                        self.complain(PROMISE, what);
                    }
                    if point.is_indifferent(&asked.state, pod) && one.score != Ok(0) {
                        let score = score_text(&one.score);
                        let what = format!("Score, pod {}, node {node}: {score}", pod.key());
                        self.complain("an indifferent plugin scores 0", what);
                    }
                    let is_within = (0..=MAX_NODE_SCORE).contains(whole);
                    if point.promises_bounds() && !(result.is_ok() && is_within) {
                        let what = format!("Score, pod {}, node {node}: {whole}", pod.key());
                        self.complain("scores are within bounds", what);
                    }
                }
            }
        }
    }

    fn signatures_hold(&mut self, fixture: &Fixture, pods: &[Arc<Pod>]) {
        for class in equally_signed(self.plugin, pods) {
            let mut answers = class.iter().map(|pod| (pod, self.answers(fixture, pod)));
            let Some((first, right)) = answers.next() else { continue };
            let others: Vec<_> = answers.filter(|(_, answers)| *answers != right).collect();
            for (other, theirs) in others {
                let differs = difference(&right, &theirs, "and");
                let what = format!("pods {} and {}: {differs}", first.key(), other.key());
                self.complain("pods with equal signatures get equal answers", what);
            }
        }
    }

    /// What would still be cached from `before` against fresh answers in `after`.
    fn answers_last(&mut self, before: &Fixture, after: &Fixture, change: &str, pod: &Pod) {
        // Nothing is cached for pods that cannot be signed.
        let signs =
            self.plugin.as_sign().is_some_and(|point| point.sign(pod, &mut SignatureWriter::new()));
        if !signs {
            return;
        }
        for by_scan in [false, true] {
            self.cached_answers_last(before, after, change, pod, by_scan);
        }
    }

    /// The same with what was read by the per-node forms, or by the whole-cluster forms.
    fn cached_answers_last(
        &mut self,
        before: &Fixture,
        after: &Fixture,
        change: &str,
        pod: &Pod,
        by_scan: bool,
    ) {
        let reads = PluginReads::default();
        let asked = PreparedPod::new(self.plugin, before, pod, &reads);
        let cached = match by_scan {
            true => asked.scanned(before, &reads),
            false => asked.about_all(before, &reads),
        };
        let reads = reads.get();
        let (was, is) = (Versions::of(before.cluster()), Versions::of(after.cluster()));
        if !reads.can_be_cached() || !was.agree(&is, reads.union()) {
            return;
        }
        let fresh = self.answers(after, pod);
        let promise = "answers change only with what was read";
        if asked.once != fresh.once {
            let what = format!("pod {}, PreFilter or PreScore, after {change}", pod.key());
            return self.complain(promise, what);
        }
        let changed = changed_nodes(before.cluster(), after.cluster(), reads.per_node.node_kinds());
        for (node, is) in &fresh.nodes {
            let Some(idx) = after.cluster().node_idx(node) else { continue };
            // A changed node is asked again, with the state that is cached.
            let known = if changed.contains(&idx) {
                asked.about(after, idx, &PluginReads::default())
            } else {
                cached.iter().find(|(name, _)| name == node).cloned()
            };
            let Some((_, known)) = known else { continue };
            if known != *is {
                let what = format!(
                    "pod {}, node {node}, after {change}: {known} would be cached, right is {is}",
                    pod.key()
                );
                self.complain(promise, what);
            }
        }
    }
}

/// Pods in classes of equal signatures; those that cannot be signed are in none.
fn equally_signed<'p>(plugin: &dyn Plugin, pods: &'p [Arc<Pod>]) -> Vec<Vec<&'p Arc<Pod>>> {
    let mut classes: BTreeMap<Vec<u8>, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        let mut writer = SignatureWriter::new();
        if plugin.as_sign().is_some_and(|point| point.sign(pod, &mut writer)) {
            classes.entry(writer.into_bytes()).or_default().push(pod);
        }
    }
    classes.into_values().collect()
}

fn changed_nodes(
    before: &ClusterState,
    after: &ClusterState,
    kinds: ChangeKinds,
) -> BTreeSet<NodeIdx> {
    let kinds = kinds | ChangeKinds::ADDED | ChangeKinds::REMOVED;
    match after.changes_since(before.sequence()) {
        Changes::Entries(changes) => changes
            .filter(|change| change.kinds.intersects(kinds))
            .map(|change| change.node)
            .collect(),
        Changes::Lost => after.order().iter().copied().collect(),
    }
}
