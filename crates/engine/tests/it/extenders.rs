//! Extenders: what they are asked, when, and what their answers do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube_scheduler_engine::{BuildError, ClassCacheCounts, Effect};
use kube_scheduler_framework::api::{Node, Pod};
use kube_scheduler_framework::preemption::PreemptionCandidate;
use kube_scheduler_framework::{BindOutcome, BoxFuture, NominatingInfo, PostFilterOutcome, Status};
use kube_scheduler_queue::Place;
use kube_scheduler_runtime::{
    Extender, ExtenderCallError, ExtenderFilterResult, ExtenderReport, ExtenderVerbs,
    ExtenderVictims, HostPriority, PendingPriorities,
};

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, important, nominated, pod, running, seconds};

type Log = Arc<Mutex<Vec<String>>>;
type Answer<T> = Option<Box<dyn Fn(&Pod, &[&str]) -> T + Send + Sync>>;
type Victims = Result<BTreeMap<String, ExtenderVictims>, String>;

/// An extender that can be asked for what it has an answer to.
#[derive(Default)]
struct Outsider {
    name: &'static str,
    log: Log,
    is_ignorable: bool,
    weight: i64,
    /// Only pods whose name begins with this concern it.
    cares_for: &'static str,
    filter: Answer<Result<ExtenderFilterResult, String>>,
    prioritize: Answer<Result<Vec<(&'static str, i64)>, String>>,
    preempt: Answer<Victims>,
    binds: bool,
}

impl Outsider {
    fn new(name: &'static str, log: &Log) -> Self {
        Self { name, log: log.clone(), weight: 1, ..Self::default() }
    }

    fn ignorable(mut self) -> Self {
        self.is_ignorable = true;
        self
    }

    fn cares_for(mut self, prefix: &'static str) -> Self {
        self.cares_for = prefix;
        self
    }

    fn weight(mut self, weight: i64) -> Self {
        self.weight = weight;
        self
    }

    fn binds(mut self) -> Self {
        self.binds = true;
        self
    }

    fn filter(
        mut self,
        answer: impl Fn(&Pod, &[&str]) -> Result<ExtenderFilterResult, String> + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Box::new(answer));
        self
    }

    /// Leaves these of the nodes it is asked about.
    fn keeps(self, nodes: &'static [&'static str]) -> Self {
        self.filter(move |_, asked| {
            Ok(kept(asked.iter().copied().filter(|node| nodes.contains(node))))
        })
    }

    fn prioritize(
        mut self,
        answer: impl Fn(&Pod, &[&str]) -> Result<Vec<(&'static str, i64)>, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.prioritize = Some(Box::new(answer));
        self
    }

    fn scores(self, scores: &'static [(&'static str, i64)]) -> Self {
        self.prioritize(|_, _| Ok(scores.to_vec()))
    }

    fn preempt(
        mut self,
        answer: impl Fn(&Pod, &[&str]) -> Victims + Send + Sync + 'static,
    ) -> Self {
        self.preempt = Some(Box::new(answer));
        self
    }

    fn asked(&self, verb: &str, pod: &Pod, about: &str) {
        self.log.lock().unwrap().push(format!("{}.{verb}({}: {about})", self.name, pod.name));
    }
}

impl Extender for Outsider {
    fn name(&self) -> &str {
        self.name
    }

    fn verbs(&self) -> ExtenderVerbs {
        ExtenderVerbs {
            filter: self.filter.is_some(),
            prioritize: self.prioritize.is_some(),
            preempt: self.preempt.is_some(),
            bind: self.binds,
        }
    }

    fn is_ignorable(&self) -> bool {
        self.is_ignorable
    }

    fn weight(&self) -> i64 {
        self.weight
    }

    fn is_interested(&self, pod: &Pod) -> bool {
        pod.name.starts_with(self.cares_for)
    }

    fn filter(
        &self,
        pod: &Arc<Pod>,
        nodes: &[Arc<Node>],
    ) -> Result<ExtenderFilterResult, ExtenderCallError> {
        let names = names(nodes);
        self.asked("filter", pod, &names.join(" "));
        Ok((self.filter.as_ref().unwrap())(pod, &names)?)
    }

    fn prioritize(&self, pod: &Arc<Pod>, nodes: &[Arc<Node>]) -> PendingPriorities {
        let names = names(nodes);
        self.asked("prioritize", pod, &names.join(" "));
        let answer = (self.prioritize.as_ref().unwrap())(pod, &names);
        let (log, name) = (self.log.clone(), self.name);
        Box::new(move || {
            log.lock().unwrap().push(format!("{name} is awaited"));
            let priority = |(host, score): (&str, i64)| HostPriority { host: host.into(), score };
            Ok(answer?.into_iter().map(priority).collect())
        })
    }

    fn preempt(
        &self,
        pod: &Arc<Pod>,
        candidates: &[(Arc<Node>, PreemptionCandidate)],
    ) -> Result<BTreeMap<String, ExtenderVictims>, ExtenderCallError> {
        let about: Vec<String> = candidates
            .iter()
            .map(|(node, candidate)| {
                let victims: Vec<&str> =
                    candidate.victims.iter().map(|victim| &*victim.name).collect();
                format!("{}={}", node.name, victims.join("+"))
            })
            .collect();
        self.asked("preempt", pod, &about.join(" "));
        let nodes: Vec<&str> = candidates.iter().map(|(node, _)| &*node.name).collect();
        Ok((self.preempt.as_ref().unwrap())(pod, &nodes)?)
    }

    fn bind(&self, pod: &Arc<Pod>, node: &str) -> BoxFuture<Status> {
        self.asked("bind", pod, node);
        assert!(&*pod.name != "explosive", "no fuse");
        Box::pin(std::future::pending())
    }

    fn report(&self, report: ExtenderReport<'_>) {
        let text = match report {
            ExtenderReport::Scored { .. } => return,
            ExtenderReport::NotScored { pod, error } => {
                format!("did not score {}: {error}", pod.name)
            }
            other => format!("{other:?}"),
        };
        self.log.lock().unwrap().push(format!("{}: {text}", self.name));
    }
}

fn names(nodes: &[Arc<Node>]) -> Vec<&str> {
    nodes.iter().map(|node| &*node.name).collect()
}

fn kept<'a>(nodes: impl IntoIterator<Item = &'a str>) -> ExtenderFilterResult {
    let nodes = nodes.into_iter().map(str::to_owned).collect();
    ExtenderFilterResult { nodes, ..ExtenderFilterResult::default() }
}

fn reasons(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(node, why)| ((*node).to_owned(), (*why).to_owned())).collect()
}

/// A cluster of `n` nodes, once with all nodes looked at and once with the reference's sampling, which looks at all of so
/// few as well.
fn schedulers(
    toys: fn() -> Vec<Toy>,
    extenders: fn(&Log) -> Vec<Outsider>,
    n: usize,
) -> [(ToyScheduler, Log); 2] {
    [None, Some(100)].map(|share| {
        let log = Log::default();
        let mut scheduler = ToyScheduler::configured(toys(), |config, options| {
            config.percentage_of_nodes_to_score = share;
            let extenders = extenders(&log).into_iter();
            options.extenders =
                extenders.map(|extender| Arc::new(extender) as Arc<dyn Extender>).collect();
        });
        scheduler.nodes(n);
        (scheduler, log)
    })
}

fn said(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

fn nothing() -> Vec<Toy> {
    Vec::new()
}

#[test]
fn filters_narrow_one_after_the_other_what_plugins_left() {
    let toys = || {
        vec![Toy::new("F").filter(|_, node| match node {
            "n0" => Status::unschedulable("full"),
            _ => Status::SUCCESS,
        })]
    };
    let extenders = |log: &Log| {
        vec![
            Outsider::new("later", log).ignorable().keeps(&["n2"]),
            Outsider::new("uninterested", log).cares_for("x").keeps(&[]),
            Outsider::new("first", log).keeps(&["n3", "n2"]),
            Outsider::new("mute", log),
        ]
    };
    for (mut scheduler, log) in schedulers(toys, extenders, 5) {
        assert_eq!(scheduler.try_pod(&pod("p")), "assumed n2");
        assert_eq!(said(&log), ["first.filter(p: n1 n2 n3 n4)", "later.filter(p: n2 n3)"]);
    }
}

#[test]
fn nobody_is_asked_about_no_nodes() {
    let toys = || vec![Toy::new("F").filter(|_, _| Status::unschedulable("full"))];
    let extenders = |log: &Log| vec![Outsider::new("e", log).keeps(&[]).scores(&[])];
    for (mut scheduler, log) in schedulers(toys, extenders, 2) {
        assert_eq!(scheduler.try_pod(&pod("p")), "unschedulable 0/2 nodes are available: 2 full.");
        assert!(said(&log).is_empty());
        assert_eq!(scheduler.place("p"), Some(Place::Unschedulable), "only the plugin is to blame");
    }
}

#[test]
fn reasons_of_extenders_are_reported_and_any_event_brings_the_pod_back() {
    let toys = || {
        vec![Toy::new("F").filter(|_, node| match node {
            "n0" => Status::unschedulable("full"),
            _ => Status::SUCCESS,
        })]
    };
    let extenders = |log: &Log| {
        vec![Outsider::new("e", log).filter(|_, _| {
            Ok(ExtenderFilterResult {
                failed: reasons(&[("n1", "no"), ("n2", "no"), ("n3", "perhaps"), ("n9", "what")]),
                failed_and_unresolvable: reasons(&[("n3", "never"), ("n0", "never")]),
                ..ExtenderFilterResult::default()
            })
        })]
    };
    for (mut scheduler, _) in schedulers(toys, extenders, 5) {
        // n4 is dropped without a word, and n9 does not exist.
        assert_eq!(
            scheduler.try_pod(&pod("p")),
            "unschedulable 0/5 nodes are available: 2 never, 2 no."
        );
        assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
        scheduler.apply(&running("other", "n0"));
        assert_eq!(scheduler.place("p"), Some(Place::Backoff));
    }
}

#[test]
fn a_failing_filter_fails_the_attempt_unless_it_may_be_ignored() {
    let extenders = |log: &Log| {
        vec![
            Outsider::new("maybe", log).ignorable().filter(|_, _| Err("away".into())),
            Outsider::new("http://must", log).filter(|pod, asked| match &*pod.name {
                "broken" => Err("boom".into()),
                "unknown" => Ok(kept(["n1", "n\"9"])),
                "panic" => panic!("no idea"),
                "twice" => Ok(kept(["n1", "n1"])),
                _ => Ok(kept(asked.iter().copied())),
            }),
        ]
    };
    for (mut scheduler, log) in schedulers(nothing, extenders, 2) {
        assert_eq!(scheduler.try_pod(&pod("fine")), "assumed n0");
        assert_eq!(
            said(&log),
            [
                "http://must.filter(fine: n0 n1)",
                "maybe.filter(fine: n0 n1)",
                "maybe: FilterIgnored { error: \"away\" }"
            ]
        );
        assert_eq!(scheduler.try_pod(&pod("twice")), "assumed n1", "and counts once");
        for (name, text) in [
            ("broken", "error boom"),
            (
                "unknown",
                "error extender \"http://must\" claims a filtered node \"n\\\"9\" which is not found in the input node list",
            ),
            ("panic", "error extender panicked: no idea"),
        ] {
            assert_eq!(scheduler.try_pod(&pod(name)), text);
            assert_eq!(scheduler.place(name), Some(Place::ErrorBackoff));
        }
    }
}

type MakeOutsiders = fn(&Log) -> Vec<Outsider>;

#[test]
fn scores_are_scaled_weighed_and_added() {
    let toys = || vec![Toy::new("S").score(|_, node| if node == "n0" { 70 } else { 0 })];
    let cases: [(MakeOutsiders, &str); 7] = [
        (|log| vec![Outsider::new("e", log).scores(&[("n1", 7), ("n9", 99)])], "assumed n1"),
        (|log| vec![Outsider::new("e", log).scores(&[("n1", 6), ("n2", 6)])], "assumed n0"),
        (|log| vec![Outsider::new("e", log).weight(2).scores(&[("n2", 4)])], "assumed n2"),
        (|log| vec![Outsider::new("e", log).scores(&[("n2", 4), ("n2", 4)])], "assumed n2"),
        (
            |log| {
                vec![
                    Outsider::new("e", log).scores(&[("n2", 4)]),
                    Outsider::new("f", log).scores(&[("n2", 4)]),
                ]
            },
            "assumed n2",
        ),
        (|log| vec![Outsider::new("e", log).scores(&[("n0", -8)])], "assumed n1"),
        (|log| vec![Outsider::new("e", log).scores(&[("n0", i64::MAX / 10 + 1)])], "assumed n1"),
    ];
    for (extenders, chosen) in cases {
        for (mut scheduler, _) in schedulers(toys, extenders, 3) {
            assert_eq!(scheduler.try_pod(&pod("p")), chosen);
        }
    }
}

#[test]
fn of_equally_good_nodes_those_are_taken_that_an_extender_mentioned() {
    let extenders = |log: &Log| vec![Outsider::new("e", log).scores(&[("n2", 0)])];
    for (mut scheduler, _) in schedulers(nothing, extenders, 3) {
        assert_eq!(scheduler.try_pod(&pod("p")), "assumed n2");
    }
    // One that has no opinion on any node counts as one that mentions all of them.
    let extenders = |log: &Log| {
        vec![Outsider::new("e", log).scores(&[("n2", 0)]), Outsider::new("f", log).binds()]
    };
    for (mut scheduler, _) in schedulers(nothing, extenders, 3) {
        assert_eq!(scheduler.try_pod(&pod("p")), "assumed n0");
    }
}

#[test]
fn all_are_asked_for_scores_before_any_is_awaited_and_failures_score_nothing() {
    let extenders = |log: &Log| {
        vec![
            Outsider::new("a", log).prioritize(|_, _| Err("late".into())),
            Outsider::new("b", log).prioritize(|_, _| panic!("no idea")),
            Outsider::new("c", log).scores(&[("n1", 1)]),
        ]
    };
    for (mut scheduler, log) in schedulers(nothing, extenders, 2) {
        assert_eq!(scheduler.try_pod(&pod("p")), "assumed n1");
        assert_eq!(
            said(&log),
            [
                "a.prioritize(p: n0 n1)",
                "b.prioritize(p: n0 n1)",
                "c.prioritize(p: n0 n1)",
                "a is awaited",
                "a: did not score p: late",
                "b: did not score p: extender panicked: no idea",
                "c is awaited",
            ]
        );
    }
}

#[test]
fn a_single_node_is_not_scored() {
    let toys = || vec![Toy::new("S").pre_score(|_, _| Status::SUCCESS).score(|_, _| 1)];
    let extenders = |log: &Log| vec![Outsider::new("e", log).keeps(&["n1"]).scores(&[])];
    for (mut scheduler, log) in schedulers(toys, extenders, 3) {
        assert_eq!(scheduler.try_pod(&pod("p")), "assumed n1");
        assert_eq!(said(&log), ["e.filter(p: n0 n1 n2)"]);
        assert!(
            scheduler.calls_at("Score").is_empty() && scheduler.calls_at("PreScore").is_empty()
        );
    }
}

#[test]
fn plugins_score_what_extenders_left() {
    // Scaled so that the best node has a hundred: without n0 and its 90, n2 is much better than n1.
    let toys = || {
        vec![
            Toy::new("S").score(|_, node| match node {
                "n0" => 90,
                "n1" => 1,
                _ => 0,
            }),
            Toy::new("T").score(|_, node| if node == "n2" { 2 } else { 0 }),
        ]
    };
    let extenders = |log: &Log| vec![Outsider::new("e", log).keeps(&["n1", "n2"])];
    for (mut scheduler, _) in schedulers(toys, extenders, 3) {
        assert_eq!(scheduler.try_pod(&pod("p")), "assumed n2");
        let scored = scheduler.calls_at("Score");
        assert_eq!(scored.iter().filter(|call| call.starts_with("S.")).count(), 2);
    }
}

#[test]
fn one_fitting_node_is_only_enough_if_nobody_has_an_opinion() {
    let n_looked_at = |extenders: fn(&Log) -> Vec<Outsider>| {
        let toys = || vec![Toy::new("F").filter(|_, _| Status::SUCCESS)];
        let [_, (mut scheduler, _)] = schedulers(toys, extenders, 4);
        scheduler.try_pod(&pod("p"));
        scheduler.calls_at("Filter").len()
    };
    assert_eq!(n_looked_at(|log| vec![Outsider::new("e", log).binds()]), 2);
    assert_eq!(n_looked_at(|log| vec![Outsider::new("e", log).keeps(&["n3"])]), 4);
    assert_eq!(n_looked_at(|log| vec![Outsider::new("e", log).scores(&[])]), 4);
}

#[test]
fn a_nominated_node_needs_the_consent_of_extenders() {
    let extenders = |log: &Log| {
        vec![Outsider::new("e", log).filter(|pod, asked| match (&*pod.name, asked) {
            ("fails", ["n2"]) => Err("boom".into()),
            ("refused", ["n2"]) => Ok(ExtenderFilterResult {
                failed: reasons(&[("n2", "not there")]),
                ..ExtenderFilterResult::default()
            }),
            ("refused", _) => Ok(kept([])),
            _ => Ok(kept(asked.iter().copied())),
        })]
    };
    for (mut scheduler, log) in schedulers(nothing, extenders, 4) {
        assert_eq!(scheduler.try_pod(&nominated("fine", "n2", 0)), "assumed n2");
        assert_eq!(said(&log), ["e.filter(fine: n2)"]);
        // Whatever goes wrong with the nominated node only means that all are looked at.
        assert_eq!(scheduler.try_pod(&nominated("fails", "n2", 0)), "assumed n0");
        assert_eq!(said(&log), ["e.filter(fails: n2)", "e.filter(fails: n0 n1 n2 n3)"]);
        assert_eq!(
            scheduler.try_pod(&nominated("refused", "n2", 0)),
            "unschedulable 0/4 nodes are available: 1 not there."
        );
    }
}

#[test]
fn every_pod_is_asked_about_even_if_plugins_answer_for_its_class() {
    let extenders = |log: &Log| {
        vec![Outsider::new("e", log).filter(|pod, asked| {
            let wanted = format!("n{}", &pod.name[1..]);
            Ok(kept(asked.iter().copied().filter(|node| **node == wanted)))
        })]
    };
    let [(mut scheduler, _), _] = schedulers(nothing, extenders, 4);
    for name in ["p3", "p1", "p2", "p1x", "p0"] {
        let expected = match name {
            "p1x" => "unschedulable 0/4 nodes are available:".to_owned(),
            _ => format!("assumed n{}", &name[1..]),
        };
        assert_eq!(scheduler.try_pod(&pod(name)), expected);
    }
    let ClassCacheCounts { hits, misses } = scheduler.engine.class_cache_counts();
    assert_eq!((hits + misses, misses < 5), (5, true), "{hits} hits");
}

fn bound_by(log: &Log) -> Vec<String> {
    said(log).into_iter().filter(|line| line.contains("bind") || line.contains("Bind")).collect()
}

#[test]
fn an_extender_that_binds_takes_the_place_of_bind_plugins() {
    let extenders = |log: &Log| {
        vec![
            Outsider::new("e", log).cares_for("mine").binds(),
            Outsider::new("f", log).cares_for("mine").binds(),
        ]
    };
    for (mut scheduler, log) in schedulers(nothing, extenders, 1) {
        assert_eq!(scheduler.try_pod(&pod("mine")), "assumed n0");
        assert_eq!(bound_by(&log), ["e.bind(mine: n0)"]);
        assert_eq!(scheduler.effects(), ["await #1 e"]);
        scheduler.finished(1, Status::SUCCESS);
        assert_eq!(
            scheduler.effects(),
            ["event ns/mine Normal Scheduled Binding \"Successfully assigned ns/mine to n0\""]
        );
        assert_eq!(scheduler.engine.profile_counts()[0].scheduled, 1);
        scheduler.try_pod(&pod("other"));
        assert_eq!(scheduler.effects(), ["bind #2 ns/other uid=other-uid node=n0"]);
        assert!(bound_by(&log).is_empty());
    }
}

#[test]
fn a_binding_that_an_extender_fails_to_write_is_undone() {
    let extenders = |log: &Log| vec![Outsider::new("e", log).binds()];
    for (mut scheduler, _) in schedulers(nothing, extenders, 1) {
        scheduler.try_pod(&pod("p"));
        scheduler.effects();
        // Any answer that is no success is an error, in the extender's own words.
        scheduler.finished(1, Status::unschedulable("refused"));
        let effects = scheduler.effects();
        assert_eq!(
            effects[0], "event ns/p Warning FailedScheduling Scheduling \"refused\"",
            "{effects:?}"
        );
        assert!(effects[1].contains("reason=SchedulerError"), "{effects:?}");
        assert!(scheduler.is_clean());
        assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
        // It may have been bound nevertheless.
        scheduler.apply(&running("p", "n0"));
        assert_eq!(scheduler.place("p"), None);
    }
}

#[test]
fn others_bind_when_an_extender_fails_that_may_be_ignored() {
    let toys = || vec![Toy::new("B").bind(|_, _| BindOutcome::WriteBinding)];
    let extenders = |log: &Log| {
        vec![
            Outsider::new("e", log).ignorable().binds(),
            Outsider::new("f", log).ignorable().binds(),
        ]
    };
    for (mut scheduler, log) in schedulers(toys, extenders, 1) {
        scheduler.try_pod(&pod("p"));
        scheduler.finished(1, Status::error("away"));
        scheduler.finished(1, Status::SUCCESS);
        scheduler.finished(2, Status::error("away too"));
        assert_eq!(
            bound_by(&log),
            [
                "e.bind(p: n0)",
                "e: BindIgnored { error: \"away\" }",
                "f.bind(p: n0)",
                "f: BindIgnored { error: \"away too\" }"
            ]
        );
        let effects = scheduler.effects();
        assert_eq!(effects, ["await #1 e", "await #2 f", "bind #3 ns/p uid=p-uid node=n0"]);
        scheduler.written(3, Ok(()));
        assert_eq!(scheduler.effects().len(), 1);
        // A panic is an error as any other.
        assert_eq!(scheduler.try_pod(&pod("explosive")), "assumed n0");
        assert_eq!(scheduler.effects(), ["bind #4 ns/explosive uid=explosive-uid node=n0"]);
    }
}

#[test]
fn a_panic_while_binding_undoes_it() {
    let extenders = |log: &Log| vec![Outsider::new("e", log).binds()];
    let [(mut scheduler, _), _] = schedulers(nothing, extenders, 1);
    scheduler.try_pod(&pod("explosive"));
    assert!(scheduler.effects()[0].contains("plugin panicked: no fuse"));
    assert!(scheduler.is_clean());
}

#[test]
fn extenders_that_are_configured_must_be_made() {
    let built = ToyScheduler::build(vec![], |config, _| {
        config.extenders = vec![kube_scheduler_config::ExtenderConfig::default()];
    });
    assert!(matches!(built, Err(BuildError::MissingExtenders { configured: 1, given: 0 })));
}

#[test]
fn managed_resources_need_a_place_to_be_ignored_in() {
    let resource = kube_scheduler_config::ManagedResource {
        name: "x.io/gpu".into(),
        ignored_by_scheduler: true,
    };
    let log = Log::default();
    let built = ToyScheduler::build(vec![], |config, options| {
        config.extenders = vec![kube_scheduler_config::ExtenderConfig {
            managed_resources: vec![resource],
            ..kube_scheduler_config::ExtenderConfig::default()
        }];
        options.extenders =
            [Arc::new(Outsider::new("e", &log)) as Arc<dyn Extender>].into_iter().collect();
    });
    let text = built.err().unwrap().to_string();
    assert_eq!(text, "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config");
}

/// PostFilter gets the extenders to ask; what they do there is tested with the plugin that preempts.
#[test]
fn rejections_by_extenders_are_seen_by_post_filter() {
    let toys = || {
        vec![Toy::new("P").post_filter(|_, _| PostFilterOutcome {
            nominating: Some(NominatingInfo::Override(Some("n0".into()))),
            victims: vec![pod("victim node=n0")],
            found_by: None,
            status: Status::SUCCESS,
        })]
    };
    let extenders =
        |log: &Log| vec![Outsider::new("e", log).keeps(&[]).preempt(|_, _| Err("x".into()))];
    for (mut scheduler, _) in schedulers(toys, extenders, 1) {
        assert_eq!(scheduler.try_pod(&important("p", 5)), "unschedulable 0/1 nodes are available:");
        let evictions = scheduler.raw_effects();
        let is_eviction = |effect: &Effect| matches!(effect, Effect::EvictPod { .. });
        assert!(evictions.iter().any(is_eviction));
        scheduler.advance(seconds(1));
    }
}

#[test]
fn a_copy_asks_no_extender() {
    let extenders = |log: &Log| vec![Outsider::new("X", log).keeps(&["n2"]).binds()];
    for (mut scheduler, log) in schedulers(nothing, extenders, 3) {
        scheduler.apply(&pod("p"));
        let mut copy = scheduler.engine.fork(scheduler.now);
        assert!(copy.has_extenders());
        let turn = copy.schedule_next(scheduler.now).unwrap();
        assert_eq!(
            (turn.chosen.as_deref(), said(&log)),
            (Some("n0"), vec![]),
            "nothing is narrowed"
        );
        let effects: Vec<String> = copy.drain_effects().map(|effect| effect.to_string()).collect();
        assert!(effects.iter().any(|effect| effect.starts_with("bind #1 ns/p")), "{effects:?}");
        let turn = scheduler.turn().unwrap();
        assert_eq!(turn.chosen.as_deref(), Some("n2"));
        assert_eq!(said(&log).len(), 2, "the original asks it to filter and to bind");
    }
}
