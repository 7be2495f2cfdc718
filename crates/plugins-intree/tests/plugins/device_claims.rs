//! DynamicResources from PreFilter to the end of a binding: what it finds, reserves, writes and gives back.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::{Object, Pod, Timestamp};
use kube_scheduler_framework::testing::{Fixture, Reads, fixture, reads_of};
use kube_scheduler_framework::{
    ApiError, Commands, Completion, CycleState, ObjectWrite, Plugin, PreBindTask, Sources,
    TaskContext, TaskEvent, TaskStep,
};
use serde_json::{Value, json};

use crate::support::{
    carry_out_for_devices, plugin, pod, pre_verdict, put_device_object, text, verdict,
};

const START: Timestamp = Timestamp::from_millis(1_000);
const API_VERSION: &str = "resource.k8s.io/v1";

fn put(world: &mut Fixture, json: Value) {
    let object = Object::from_value(json).unwrap();
    world.cluster_mut().upsert_object(Arc::new(object));
}

fn claim(name: &str, count: u32) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "resourceVersion": "5", "unknown": "kept",
        },
        "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {
                "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
            }},
        ]}},
        "status": {},
    })
}

/// Node `a` with two devices, and node `b` without; claims `one` for one device and `two` for two.
fn world() -> Fixture {
    let mut world = fixture("node a; node b; node plugin example.com/gpu=2");
    put(
        &mut world,
        json!({
            "apiVersion": API_VERSION,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu", "selectors": [
                {"cel": {"expression": "device.driver == 'gpu.example.com'"}},
            ]},
        }),
    );
    put(
        &mut world,
        json!({
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "a",
                "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        }),
    );
    put(&mut world, claim("one", 1));
    put(&mut world, claim("two", 2));
    world
}

fn user(name: &str, claim: &str) -> Arc<Pod> {
    let spec = json!({"resourceClaims": [{"name": "c", "resourceClaimName": claim}]});
    pod(&format!("{name} {}", json!({ "spec": spec })))
}

/// One pod on its way to node `a`.
struct Way {
    world: Fixture,
    plugin: Arc<dyn Plugin>,
    pod: Arc<Pod>,
    state: CycleState,
    task: Option<Box<dyn PreBindTask>>,
    now: Timestamp,
    /// What was asked to be written without an answer.
    written: Vec<ObjectWrite>,
}

impl Way {
    /// PreFilter, Filter on `a` and Reserve.
    fn new(pod: Arc<Pod>) -> Self {
        Self::within(world(), pod)
    }

    fn within(world: Fixture, pod: Arc<Pod>) -> Self {
        let mut way = Self {
            world,
            plugin: plugin("DynamicResources"),
            pod,
            state: CycleState::new(),
            task: None,
            now: START,
            written: Vec::new(),
        };
        let cx = way.world.cx();
        let status =
            way.plugin.as_pre_filter().unwrap().pre_filter(&cx, &mut way.state, &way.pod).status;
        assert_eq!(text(&status), "ok");
        let idx = cx.cluster().node_idx("a").unwrap();
        let node = cx.cluster().node(idx).unwrap();
        let status = way.plugin.as_filter().unwrap().filter(&cx, &way.state, &way.pod, &node);
        assert_eq!(text(&status), "ok");
        let mut commands = Commands::default();
        let reserve = way.plugin.as_reserve().unwrap();
        let status = reserve.reserve(&cx, &mut way.state, &way.pod, "a", &mut commands);
        assert_eq!(text(&status), "ok");
        way.carry_out(commands);
        way
    }

    fn unreserve(&mut self) {
        let mut commands = Commands::default();
        let reserve = self.plugin.as_reserve().unwrap();
        reserve.unreserve(&self.world.cx(), &mut self.state, &self.pod, "a", &mut commands);
        self.carry_out(commands);
    }

    fn carry_out(&mut self, commands: Commands) {
        self.written.extend(carry_out_for_devices(&mut self.world, commands));
    }

    fn pre_bind(&mut self) -> TaskStep {
        let pre_bind = self.plugin.as_pre_bind().unwrap();
        let flight = pre_bind.pre_bind_pre_flight(&self.world.cx(), &self.state, &self.pod, "a");
        assert_eq!(text(&flight.status), "ok");
        match pre_bind.pre_bind(&self.world.cx(), &mut self.state, &self.pod, "a") {
            Completion::Task(task) => self.task = Some(task),
            other => panic!("{other:?}"),
        }
        self.step(TaskEvent::Started)
    }

    fn step(&mut self, event: TaskEvent) -> TaskStep {
        let mut commands = Commands::default();
        let step = self.task.as_mut().unwrap().step(
            &mut TaskContext {
                cx: Sources { now: self.now, ..self.world.sources() }.unrecorded(),
                state: &mut self.state,
                pod: &self.pod,
                node: "a",
                pod_exists: true,
                commands: &mut commands,
            },
            event,
        );
        self.carry_out(commands);
        step
    }

    /// The API server stores what is asked for, in this revision.
    fn store(&mut self, object: &Object, revision: &str) -> TaskStep {
        let stored = at_revision(object, revision);
        self.step(TaskEvent::Written(Ok(Arc::new(stored))))
    }

    fn n_pending(&self) -> usize {
        self.world.cx().cluster().objects().n_pending()
    }
}

fn at_revision(object: &Object, revision: &str) -> Object {
    let mut json = Value::from(&*object.json);
    json["metadata"]["resourceVersion"] = revision.into();
    Object::from_value(json).unwrap()
}

fn replaced(step: TaskStep) -> Arc<Object> {
    match step {
        TaskStep::Write(ObjectWrite::Replace(object)) => object,
        other => panic!("{other:?}"),
    }
}

fn status_replaced(step: TaskStep) -> Arc<Object> {
    match step {
        TaskStep::Write(ObjectWrite::ReplaceStatus(object)) => object,
        other => panic!("{other:?}"),
    }
}

fn done(step: TaskStep) -> String {
    match step {
        TaskStep::Done(status) => text(&status),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nodes_need_the_devices() {
    let world = world();
    let plugin = plugin("DynamicResources");
    let verdict = |pod: &Pod, node: &str| verdict(&world, &*plugin, pod, node);
    assert_eq!(verdict(&user("p", "two"), "a"), "ok");
    let none = "UnschedulableAndUnresolvable: cannot allocate all claims";
    assert_eq!(verdict(&user("p", "two"), "b"), none);
    let missing = r#"UnschedulableAndUnresolvable: could not find ResourceClaim "default/x""#;
    assert_eq!(pre_verdict(&world, &*plugin, &user("p", "x")), missing);
    let gated = plugin.as_pre_enqueue().unwrap().pre_enqueue(&world.cx(), &user("p", "x"));
    assert_eq!(text(&gated), missing);
    assert_eq!(pre_verdict(&world, &*plugin, &pod("p")), "skip");
}

#[test]
fn extended_resources_come_from_devices_or_from_device_plugins() {
    let world = world();
    let plugin = plugin("DynamicResources");
    let verdict = |n: u32, node: &str| {
        let pod = pod(&format!("p example.com/gpu={n}"));
        verdict(&world, &*plugin, &pod, node)
    };
    let none = "UnschedulableAndUnresolvable: cannot allocate all claims";
    assert_eq!([2, 3].map(|n| verdict(n, "a")), ["ok", none]);
    assert_eq!(verdict(1, "b"), none);
    // NodeResourcesFit counts there.
    assert_eq!(verdict(3, "plugin"), "ok");
}

#[test]
fn what_is_in_flight_is_taken() {
    let way = Way::new(user("p", "two"));
    let dra = &*way.plugin;
    let none = "UnschedulableAndUnresolvable: cannot allocate all claims";
    assert_eq!(verdict(&way.world, dra, &user("q", "one"), "a"), none);
    assert_eq!(
        pre_verdict(&way.world, dra, &user("q", "two")),
        "UnschedulableAndUnresolvable: resource claim default/two is in the process of being allocated"
    );
}

#[test]
fn a_claim_is_written_and_tried_again_after_a_conflict() {
    let mut way = Way::new(user("p", "two"));
    let with_finalizer = replaced(way.pre_bind());
    let finalizer = "resource.kubernetes.io/delete-protection";
    assert_eq!(with_finalizer.json["metadata"]["finalizers"], json!([finalizer]));
    assert_eq!(with_finalizer.json["metadata"]["unknown"], "kept");
    let status = status_replaced(way.store(&with_finalizer, "6"));
    let conflict = TaskEvent::Written(Err(ApiError::new("Conflict", "changed")));
    assert!(matches!(way.step(conflict), TaskStep::Wait { .. }));
    let TaskStep::Write(ObjectWrite::Get(key)) = way.step(TaskEvent::Woken) else { panic!() };
    assert_eq!(&*key.name, "two");
    let status_again = status_replaced(way.store(&with_finalizer, "7"));
    assert_eq!(status_again.json["status"], status.json["status"]);
    let stored = &status_again.json["status"];
    assert_eq!(stored["allocation"]["allocationTimestamp"], "1970-01-01T00:00:01Z");
    let devices = stored["allocation"]["devices"]["results"].as_array().unwrap();
    let devices: Vec<_> = devices.iter().map(|result| &result["device"]).collect();
    assert_eq!(devices, ["gpu-0", "gpu-1"]);
    assert_eq!(stored["reservedFor"][0]["name"], "p");
    assert_eq!(way.n_pending(), 1);
    assert_eq!(done(way.store(&status_again, "8")), "ok");
    assert_eq!(way.n_pending(), 0);
    // The answer counts before the watch reports it.
    let none = "UnschedulableAndUnresolvable: cannot allocate all claims";
    assert_eq!(verdict(&way.world, &*way.plugin, &user("q", "one"), "a"), none);

    way.unreserve();
    way.unreserve();
    let [ObjectWrite::PatchStatus { object, patch, .. }] = &way.written[..] else {
        panic!("{:?}", way.written)
    };
    assert_eq!(&*object.name, "two");
    let taken_back = json!([{"$patch": "delete", "uid": *way.pod.uid}]);
    assert_eq!(patch["status"]["reservedFor"], taken_back);
    assert_eq!(patch["metadata"]["uid"], "uid-two");
}

/// The plugin reads the claim; nothing else may come.
fn is_read(step: &TaskStep) -> bool {
    matches!(step, TaskStep::Write(ObjectWrite::Get(key)) if &*key.kind == "ResourceClaim")
}

fn no_answer() -> TaskEvent {
    TaskEvent::Written(Err(ApiError::new("", "timed out")))
}

fn status(code: u16, reason: &str) -> TaskEvent {
    TaskEvent::Written(Err(ApiError { code: Some(code), ..ApiError::new(reason, "no") }))
}

/// A pod whose claim's allocation is being written.
fn allocating() -> (Way, Arc<Object>) {
    let mut way = Way::new(user("p", "two"));
    let with_finalizer = replaced(way.pre_bind());
    let allocated = status_replaced(way.store(&with_finalizer, "6"));
    (way, allocated)
}

const NONE: &str = "UnschedulableAndUnresolvable: cannot allocate all claims";

#[test]
fn an_allocation_that_was_written_without_an_answer_stands() {
    for lost in [no_answer(), status(500, "InternalError"), status(504, "Timeout")] {
        let (mut way, allocated) = allocating();
        assert!(is_read(&way.step(lost)));
        assert_eq!(way.n_pending(), 1);
        assert_eq!(verdict(&way.world, &*way.plugin, &user("q", "one"), "a"), NONE);
        assert_eq!(done(way.store(&allocated, "7")), "ok");
        assert_eq!(way.n_pending(), 0);
        // What was read counts before the watch reports it, and is given back.
        assert_eq!(verdict(&way.world, &*way.plugin, &user("q", "one"), "a"), NONE);
        way.unreserve();
        assert_eq!(way.written.len(), 1);
    }
}

#[test]
fn an_allocation_that_may_arrive_late_is_written_again_in_the_same_revision() {
    let (mut way, allocated) = allocating();
    assert!(is_read(&way.step(no_answer())));
    let mut before = Value::from(&*allocated.json);
    before["status"] = json!({});
    let before = Object::from_value(before).unwrap();
    let again = status_replaced(way.store(&before, "6"));
    assert_eq!(&*again.resource_version, "6");
    // The first one was faster.
    assert!(matches!(way.step(status(409, "Conflict")), TaskStep::Wait { .. }));
    assert!(is_read(&way.step(TaskEvent::Woken)));
    assert_eq!(way.n_pending(), 1);
    assert_eq!(done(way.store(&allocated, "7")), "ok");
}

#[test]
fn a_claim_that_cannot_be_read_is_given_up_after_half_a_minute() {
    let (mut way, _) = allocating();
    let mut step = way.step(no_answer());
    for _ in 1..30 {
        assert!(is_read(&step), "{step:?}");
        let TaskStep::Wait { until, .. } = way.step(no_answer()) else { panic!() };
        way.now = until.unwrap();
        assert_eq!(way.n_pending(), 1);
        step = way.step(TaskEvent::Woken);
    }
    assert!(is_read(&step), "{step:?}");
    let text = "Error: add allocation and reservation to claim default/two: timed out";
    assert_eq!(done(way.step(no_answer())), text);
    assert_eq!((way.now.saturating_since(START).as_secs(), way.n_pending()), (29, 0));
}

#[test]
fn what_became_of_an_allocation_without_an_answer_is_what_the_claim_shows() {
    let text = "Error: add allocation and reservation to claim default/two: timed out";
    let (mut way, _) = allocating();
    assert!(is_read(&way.step(no_answer())));
    assert_eq!(done(way.step(status(404, "NotFound"))), text);

    let (mut way, allocated) = allocating();
    assert!(is_read(&way.step(no_answer())));
    let mut other = Value::from(&*allocated.json);
    other["metadata"]["uid"] = "another".into();
    assert_eq!(done(way.store(&Object::from_value(other).unwrap(), "9")), text);

    let (mut way, allocated) = allocating();
    assert!(is_read(&way.step(no_answer())));
    let mut other = Value::from(&*allocated.json);
    other["status"]["reservedFor"] = json!([{"resource": "pods", "name": "x", "uid": "x"}]);
    let text = "Error: claim default/two got allocated elsewhere in the meantime";
    assert_eq!(done(way.store(&Object::from_value(other).unwrap(), "9")), text);
    assert_eq!(way.n_pending(), 0);
    assert_eq!(verdict(&way.world, &*way.plugin, &user("q", "one"), "a"), NONE);
}

#[test]
fn a_claim_that_got_other_devices_before_it_was_reserved_is_not_used() {
    let with_device = |device: &str| {
        let results = json!([
            {"driver": "gpu.example.com", "pool": "a", "device": device, "request": "r"},
        ]);
        let mut one = claim("one", 1);
        one["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
        one["status"] = json!({"allocation": {"devices": {"results": results}}});
        one
    };
    let other = "Error: claim default/one got allocated elsewhere in the meantime";
    for (device, result) in [("gpu-0", "ok"), ("gpu-1", other)] {
        let mut world = world();
        put(&mut world, with_device("gpu-0"));
        let mut way = Way::within(world, user("p", "one"));
        status_replaced(way.pre_bind());
        assert!(matches!(way.step(status(409, "Conflict")), TaskStep::Wait { .. }));
        assert!(is_read(&way.step(TaskEvent::Woken)));
        let step = way.store(&Object::from_value(with_device(device)).unwrap(), "9");
        let step = match step {
            TaskStep::Write(ObjectWrite::ReplaceStatus(written)) => {
                assert_eq!(written.json["status"]["reservedFor"][0]["name"], "p");
                way.store(&written, "10")
            }
            step => step,
        };
        assert_eq!(done(step), result, "{device}");
    }
}

#[test]
fn a_refused_write_fails_the_binding_and_ends_the_flight() {
    let mut way = Way::new(user("p", "one"));
    replaced(way.pre_bind());
    let refused = TaskEvent::Written(Err(ApiError::new("Forbidden", "no")));
    assert_eq!(done(way.step(refused)), "Error: add finalizer to claim default/one: no");
    assert_eq!(way.n_pending(), 0);
    way.unreserve();
    assert!(way.written.is_empty(), "{:?}", way.written);
    assert_eq!(verdict(&way.world, &*way.plugin, &user("q", "two"), "a"), "ok");
}

#[test]
fn nothing_is_left_of_a_reservation_that_is_given_up() {
    let mut way = Way::new(user("p", "one"));
    assert_eq!(way.n_pending(), 1);
    way.unreserve();
    assert_eq!(way.n_pending(), 0);
    assert!(way.written.is_empty());
}

/// A pod whose claim for extended resources has its devices while the pod's status is being written, and that claim.
fn allocated() -> (Way, Object) {
    let mut way = Way::new(pod("p example.com/gpu=1"));
    let TaskStep::Write(ObjectWrite::Create(created)) = way.pre_bind() else { panic!() };
    assert_eq!(created.json["metadata"]["generateName"], "p-extended-resources-");
    assert_eq!(created.json["metadata"].get("name"), None);
    let mut stored = Value::from(&*created.json);
    stored["metadata"]["name"] = "p-extended-resources-x".into();
    stored["metadata"]["uid"] = "uid-x".into();
    let stored = Object::from_value(stored).unwrap();
    assert!(!way.task.as_ref().unwrap().must_finish());
    let with_finalizer = replaced(way.store(&stored, "6"));
    let allocated = status_replaced(way.store(&with_finalizer, "7"));
    let TaskStep::Write(ObjectWrite::PatchStatus { object, patch, .. }) =
        way.store(&allocated, "8")
    else {
        panic!()
    };
    // Whatever else fails: the devices are in use, and no watch shows that yet.
    assert!(way.task.as_ref().unwrap().must_finish());
    assert_eq!((&*object.kind, &*object.name), ("Pod", "p"));
    let status = &patch["status"]["extendedResourceClaimStatus"];
    assert_eq!(status["resourceClaimName"], "p-extended-resources-x");
    assert_eq!(status["requestMappings"][0]["resourceName"], "example.com/gpu");
    (way, at_revision(&allocated, "8"))
}

/// The same when the pod's status is written: the claim is in flight until it is seen.
fn made() -> (Way, Object) {
    let (mut way, allocated) = allocated();
    let pod_object = Arc::new(allocated.clone());
    let TaskStep::Wait { until, .. } = way.step(TaskEvent::Written(Ok(pod_object))) else {
        panic!()
    };
    assert_eq!((until, way.n_pending()), (Some(START + Duration::from_secs(120)), 1));
    (way, allocated)
}

#[test]
fn a_claim_is_made_for_extended_resources_and_deleted_again() {
    let (mut way, made) = made();
    put(&mut way.world, Value::from(&*at_revision(&made, "6").json));
    assert_eq!(done(way.step(TaskEvent::Woken)), "ok");
    assert_eq!(way.n_pending(), 0);
    way.unreserve();
    let [ObjectWrite::Delete { object, .. }] = &way.written[..] else {
        panic!("{:?}", way.written)
    };
    assert_eq!(&*object.name, "p-extended-resources-x");
}

#[test]
fn a_claim_that_is_not_seen_for_long_stays_in_flight_as_long_as_it_is_there() {
    let (mut way, made) = made();
    for answer in [Ok(Arc::new(made.clone())), Err(ApiError::new("", "timed out"))] {
        way.now = way.now + Duration::from_secs(120);
        assert!(is_read(&way.step(TaskEvent::Woken)));
        let TaskStep::Wait { until, .. } = way.step(TaskEvent::Written(answer)) else { panic!() };
        assert_eq!((until, way.n_pending()), (Some(way.now + Duration::from_secs(120)), 1));
    }
    way.now = way.now + Duration::from_secs(120);
    assert!(is_read(&way.step(TaskEvent::Woken)));
    let gone = "Error: claim default/p-extended-resources-x got deleted in the meantime";
    assert_eq!(done(way.step(status(404, "NotFound"))), gone);
    assert_eq!(way.n_pending(), 0);
}

#[test]
fn a_claim_that_went_with_its_pod_is_not_waited_for() {
    let (mut way, made) = allocated();
    assert!(is_read(&way.step(status(404, "NotFound"))));
    let TaskStep::Wait { until, .. } = way.step(TaskEvent::Written(Ok(Arc::new(made)))) else {
        panic!("it is still there")
    };
    assert_eq!((until, way.n_pending()), (Some(START + Duration::from_secs(120)), 1));

    let text = "Error: update pod default/p ExtendedResourceClaimStatus: no";
    let (mut way, _) = allocated();
    assert!(is_read(&way.step(status(404, "NotFound"))));
    assert_eq!(done(way.step(status(404, "NotFound"))), text);
    assert_eq!(way.n_pending(), 0);

    // It is there, but the devices were taken back: nothing has to be seen of it.
    let (mut way, made) = allocated();
    assert!(is_read(&way.step(status(404, "NotFound"))));
    let mut taken_back = Value::from(&*at_revision(&made, "9").json);
    taken_back["status"] = json!({});
    let taken_back = Arc::new(Object::from_value(taken_back).unwrap());
    assert_eq!(done(way.step(TaskEvent::Written(Ok(taken_back)))), text);
    assert_eq!(way.n_pending(), 0);
}

#[test]
fn a_claim_without_devices_is_not_waited_for() {
    let mut way = Way::new(pod("p example.com/gpu=1"));
    let TaskStep::Write(ObjectWrite::Create(created)) = way.pre_bind() else { panic!() };
    let mut stored = Value::from(&*created.json);
    stored["metadata"]["name"] = "p-extended-resources-x".into();
    stored["metadata"]["uid"] = "uid-x".into();
    replaced(way.store(&Object::from_value(stored).unwrap(), "6"));
    let text = "Error: add finalizer to claim default/p-extended-resources-x: no";
    assert_eq!(done(way.step(status(404, "NotFound"))), text);
    assert_eq!(way.n_pending(), 0);
}

#[test]
fn a_pod_whose_resources_no_class_serves_reads_classes_only() {
    let mut world = fixture("node a example.com/gpu=2");
    let plugin = plugin("DynamicResources");
    let asking = pod("p example.com/gpu=1");
    put_device_object(&mut world, "DeviceClass", "other", json!({"spec": {}}));
    let reads = reads_of(&*plugin, world.sources(), &asking).phases().union();
    assert_eq!(reads, Reads::of_kind("resource.k8s.io", "DeviceClass"));
    let spec = json!({"extendedResourceName": "example.com/gpu"});
    put_device_object(&mut world, "DeviceClass", "gpu", json!({"spec": spec}));
    let reads = reads_of(&*plugin, world.sources(), &asking).phases().union();
    assert!(reads.intersects(Reads::OBJECTS));
}
