//! What pods give back: claims, by writes that are not waited for, so that the next attempt may come before the watch shows
//! them, and must not take the claim for what it was; devices and room that they did not get in the end, for which others
//! wait.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Object, Timestamp};
use kube_scheduler_engine::{
    AttemptResult, Effect, Engine, EngineOptions, Input, PodRef, TableSize, Token,
};
use kube_scheduler_framework::{ApiError, ObjectWrite};
use kube_scheduler_queue::Place;
use kube_scheduler_tests::fixtures::{applied, devices_applied, engine, object_applied};
use serde_json::{Value, json};

const API_VERSION: &str = "resource.k8s.io/v1";

/// An engine, and what it asked to have written.
struct Scheduler {
    engine: Engine,
    now: Timestamp,
    effects: Vec<Effect>,
}

impl Scheduler {
    /// With devices on `a` and `b`, of which only `a` is there; a claim `c` in this state, and a pod `p` that uses it.
    fn new(claim_status: &Value) -> Self {
        let engine = engine(EngineOptions::default());
        let now = Timestamp::from_millis(1_000_000);
        let mut scheduler = Self { engine, now, effects: Vec::new() };
        scheduler.node("a", true);
        scheduler.handle(applied("deviceclass gpu"));
        for node in ["a", "b"] {
            scheduler.handle(devices_applied(node, &[json!({"name": "gpu"})]));
        }
        scheduler.claim(5, claim_status);
        scheduler.pod("p", &uses("c"));
        scheduler
    }

    /// The watch shows a pod that wants 3 CPU, unless these words say something else.
    fn pod(&mut self, name: &str, words: &str) {
        self.handle(applied(&format!("pod {name} uid={name} version=1 cpu=3 {words}")));
    }

    fn is_unschedulable(&self, pod: &str) -> bool {
        let place = self.engine.queue().place("default", pod);
        place == Some(Place::Unschedulable)
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.effects.extend(self.engine.drain_effects());
    }

    fn node(&mut self, name: &str, is_open: bool) {
        let word = if is_open { "" } else { "unschedulable" };
        self.handle(applied(&format!("node {name} {word}")));
    }

    fn object(&mut self, json: Value) {
        self.handle(object_applied(json));
    }

    /// The watch shows the claim.
    fn claim(&mut self, revision: u64, status: &Value) {
        self.object(claim(revision, status));
    }

    /// The pod's next attempt, once its backoff is over.
    fn attempt(&mut self) -> AttemptResult {
        self.now = self.now + Duration::from_secs(400);
        self.handle(Input::TimePassed);
        self.turn()
    }

    /// The next attempt of any pod.
    fn turn(&mut self) -> AttemptResult {
        let turn = self.engine.schedule_next(self.now).unwrap();
        self.effects.extend(self.engine.drain_effects());
        turn.result
    }

    /// The only write of an object or binding since the last time.
    fn written(&mut self) -> Effect {
        let is_write =
            |it: &Effect| matches!(it, Effect::WriteObject { .. } | Effect::WriteBinding { .. });
        let mut writes: Vec<Effect> = self.effects.drain(..).filter(is_write).collect();
        assert_eq!(writes.len(), 1, "{writes:?}");
        writes.remove(0)
    }

    /// The claim's status as it is to be written now, in place of this revision; and whose answer is awaited.
    fn status_written(&mut self) -> (Option<Token>, String, Value) {
        match self.written() {
            Effect::WriteObject {
                write: ObjectWrite::ReplaceStatus(claim), awaited_by, ..
            } => (
                awaited_by.map(|(token, _)| token),
                claim.resource_version.to_string(),
                Value::from(&claim.json["status"]),
            ),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, token: Token, result: Result<Value, &str>) {
        let result = match result {
            Ok(json) => Ok(Arc::new(Object::from_value(json).unwrap())),
            Err(reason) => Err(ApiError::new(reason, "no")),
        };
        self.handle(Input::ObjectWritten { token, result });
    }

    fn n_unanswered(&self) -> usize {
        let is_meant = |size: &TableSize| size.table == "writes without an answer";
        self.engine.table_sizes().into_iter().find(is_meant).unwrap().n_entries
    }
}

/// The word for a pod with this claim.
fn uses(claim: &str) -> String {
    json!({"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": claim}]}}).to_string()
}

fn claim(revision: u64, status: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "ResourceClaim",
        "metadata": {
            "namespace": "default", "name": "c", "uid": "c", "resourceVersion": revision.to_string(),
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {
            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
        }}]}},
        "status": status,
    })
}

/// The devices of a node, reserved for pods.
fn allocated(node: &str, pods: &[&str]) -> Value {
    let reserved: Vec<Value> =
        pods.iter().map(|pod| json!({"resource": "pods", "name": pod, "uid": pod})).collect();
    json!({
        "reservedFor": reserved,
        "allocation": {
            "allocationTimestamp": "1970-01-01T00:00:01Z",
            "devices": {"results": [
                {"request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu"},
            ]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]},
            ]}]},
        },
    })
}

fn assumed(node: &str) -> AttemptResult {
    AttemptResult::Assumed(node.into())
}

/// A pod whose binding has just failed, for a claim that was shared with `others`.
fn unreserved(others: &[&str]) -> Scheduler {
    let mut scheduler = Scheduler::new(&allocated("a", others));
    assert_eq!(scheduler.attempt(), assumed("a"));
    let (token, revision, status) = scheduler.status_written();
    assert_eq!(revision, "5");
    let pods: Vec<&str> = others.iter().copied().chain(["p"]).collect();
    assert_eq!(status["reservedFor"], allocated("a", &pods)["reservedFor"]);
    scheduler.answer(token.unwrap(), Ok(claim(6, &status)));
    let Effect::WriteBinding { token, .. } = scheduler.written() else { panic!() };
    let refused = ApiError { code: Some(403), ..ApiError::new("Forbidden", "no") };
    scheduler.handle(Input::BindingWritten { token, result: Err(refused) });
    let Effect::WriteObject { write, awaited_by: None, .. } = scheduler.written() else { panic!() };
    let ObjectWrite::PatchStatus { patch, .. } = write else { panic!("{write:?}") };
    assert_eq!(patch["metadata"], json!({"uid": "c", "resourceVersion": "6"}));
    scheduler
}

#[test]
fn a_reservation_that_was_given_back_is_written_again() {
    // The claim still shows the reservation, or shows it in a revision that others have made before it was taken back.
    for revision in [6, 7] {
        let mut scheduler = unreserved(&[]);
        if revision == 7 {
            scheduler.claim(7, &allocated("a", &["p", "q"]));
        }
        assert_eq!(scheduler.attempt(), assumed("a"));
        // To write it as it stands would leave the revision in which it can still be taken away.
        let (token, written, status) = scheduler.status_written();
        assert_eq!((token.is_some(), written), (true, revision.to_string()));
        let others = if revision == 7 { &["q"][..] } else { &[] };
        assert_eq!(status["reservedFor"], allocated("a", others)["reservedFor"]);
        scheduler.answer(token.unwrap(), Ok(claim(8, &status)));
        let (token, written, status) = scheduler.status_written();
        assert_eq!((token.is_some(), &*written), (true, "8"));
        let pods: Vec<&str> = others.iter().copied().chain(["p"]).collect();
        assert_eq!(status["reservedFor"], allocated("a", &pods)["reservedFor"]);
        scheduler.answer(token.unwrap(), Ok(claim(9, &status)));
        assert!(matches!(scheduler.written(), Effect::WriteBinding { .. }));
    }
}

#[test]
fn a_pod_is_not_bound_before_its_reservation_is_there_again() {
    let mut scheduler = unreserved(&["q"]);
    assert_eq!(scheduler.attempt(), assumed("a"));
    let (token, ..) = scheduler.status_written();
    scheduler.answer(token.unwrap(), Err("Conflict"));
    scheduler.now = scheduler.now + Duration::from_secs(1);
    scheduler.handle(Input::TimePassed);
    let Effect::WriteObject { write: ObjectWrite::Get(_), awaited_by, .. } = scheduler.written()
    else {
        panic!()
    };
    scheduler.answer(awaited_by.unwrap().0, Ok(claim(7, &allocated("a", &["q"]))));
    let (token, revision, status) = scheduler.status_written();
    assert_eq!(revision, "7");
    assert_eq!(status["reservedFor"], allocated("a", &["q", "p"])["reservedFor"]);
    scheduler.answer(token.unwrap(), Ok(claim(8, &status)));
    assert!(matches!(scheduler.written(), Effect::WriteBinding { .. }));
}

#[test]
fn devices_that_were_given_back_are_not_used() {
    let mut scheduler = Scheduler::new(&allocated("b", &["p"]));
    let result = scheduler.attempt();
    assert!(is_rejected(&result), "{result:?}");
    let (token, revision, status) = scheduler.status_written();
    assert_eq!((token, &*revision), (None, "5"));
    assert_eq!(status, json!({}));

    // Now there is a node for what the claim still shows; all that may be done is to give it back a second time.
    scheduler.node("b", true);
    let result = scheduler.attempt();
    assert!(is_rejected(&result), "{result:?}");
    let (token, revision, status) = scheduler.status_written();
    assert_eq!((token, &*revision, status), (None, "5", json!({})));

    // Another writer was faster, and the devices stay.
    scheduler.claim(6, &allocated("b", &["p"]));
    assert_eq!(scheduler.attempt(), assumed("b"));
    let (token, revision, _) = scheduler.status_written();
    assert_eq!((token.is_some(), &*revision), (true, "6"));
}

#[test]
fn what_was_given_back_is_forgotten_with_the_pod() {
    let mut scheduler = unreserved(&[]);
    assert_eq!(scheduler.n_unanswered(), 1);
    scheduler.handle(Input::PodDeleted { namespace: "default".into(), name: "p".into() });
    assert_eq!(scheduler.n_unanswered(), 0);

    let mut scheduler = unreserved(&[]);
    let pod = scheduler.engine.known_pod("default", "p").unwrap().with_node_name(&"a".into());
    assert_eq!(PodRef::from(&pod).to_string(), "default/p");
    scheduler.handle(Input::PodApplied(Arc::new(pod)));
    assert_eq!(scheduler.n_unanswered(), 0);
}

fn is_rejected(result: &AttemptResult) -> bool {
    matches!(result, AttemptResult::Unschedulable(_))
}

#[test]
fn devices_that_were_not_allocated_in_the_end_wake_who_waits_for_them() {
    let mut scheduler = Scheduler::new(&json!({}));
    let mut other = claim(6, &json!({}));
    other["metadata"]["name"] = "d".into();
    other["metadata"]["uid"] = "d".into();
    scheduler.object(other);
    scheduler.pod("q", &format!("cpu=- {}", uses("d")));
    assert_eq!(scheduler.attempt(), assumed("a"));
    let (token, ..) = scheduler.status_written();
    assert!(is_rejected(&scheduler.attempt()));
    assert!(scheduler.is_unschedulable("q"));
    scheduler.effects.clear();
    scheduler.answer(token.unwrap(), Err("NotFound"));
    assert!(!scheduler.is_unschedulable("q"));
}

#[test]
fn room_on_another_node_wakes_who_waits_for_it_when_the_pod_is_bound_elsewhere() {
    let mut scheduler = Scheduler::new(&allocated("a", &["p"]));
    scheduler.node("b", false);
    assert_eq!(scheduler.attempt(), assumed("a"));
    scheduler.pod("q", "");
    assert!(is_rejected(&scheduler.attempt()));
    assert!(scheduler.is_unschedulable("q"));
    scheduler.pod("p", "node=b");
    assert!(!scheduler.is_unschedulable("q"));
}

#[test]
fn a_nomination_wakes_pods_that_wait_for_its_room_when_an_announcement_takes_its_place() {
    let on_b = "selector:kubernetes.io/hostname=b priority=10 preemption=Never";
    let mut scheduler = Scheduler::new(&json!({}));
    scheduler.node("b", false);
    scheduler.handle(Input::PodDeleted { namespace: "default".into(), name: "p".into() });
    scheduler.pod("p", &format!("{on_b} nominated=a"));
    assert!(is_rejected(&scheduler.turn()));
    scheduler.pod("q", "selector:kubernetes.io/hostname=a");
    assert!(is_rejected(&scheduler.turn()));
    assert!(scheduler.is_unschedulable("q"));

    scheduler.pod("p", &format!("{on_b} nominated=a tolerate:* version=2"));
    scheduler.now = scheduler.now + Duration::from_secs(20);
    scheduler.handle(Input::TimePassed);
    assert_eq!(scheduler.turn(), assumed("b"));
    assert!(scheduler.is_unschedulable("q"));
    scheduler.pod("p", &format!("{on_b} nominated=b tolerate:* version=3"));
    assert!(!scheduler.is_unschedulable("q"));
}

#[test]
fn a_nomination_wakes_who_waits_for_its_room_when_the_pod_is_bound_elsewhere() {
    let nominated = "nominated=a selector:is=nowhere priority=10 preemption=Never";
    for (node, is_woken) in [("b", true), ("a", false)] {
        let mut scheduler = Scheduler::new(&json!({}));
        scheduler.node("b", false);
        scheduler.handle(Input::PodDeleted { namespace: "default".into(), name: "p".into() });
        scheduler.pod("p", nominated);
        assert!(is_rejected(&scheduler.turn()));
        scheduler.pod("q", "");
        assert!(is_rejected(&scheduler.turn()));
        assert!(scheduler.is_unschedulable("q"));
        scheduler.pod("p", &format!("{nominated} node={node}"));
        assert_eq!(!scheduler.is_unschedulable("q"), is_woken, "{node}");
    }
}
