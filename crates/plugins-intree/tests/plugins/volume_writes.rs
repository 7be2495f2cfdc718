//! VolumeBinding once a node is chosen: what it reserves, writes, waits for and takes back.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::{Object, Pod, Timestamp};
use kube_scheduler_framework::testing::{Fixture, object};
use kube_scheduler_framework::{
    ApiError, Command, Commands, Completion, CycleState, ObjectWrite, Plugin, PreBindTask, Sources,
    TaskContext, TaskEvent, TaskStep,
};
use serde_json::{Value, json};

use crate::support::{plugin_with, pod, text, two_zones};

const START: Timestamp = Timestamp::from_millis(1_000);

/// One pod on its way to node `a`.
struct Way {
    world: Fixture,
    plugin: Arc<dyn Plugin>,
    pod: Arc<Pod>,
    state: CycleState,
    task: Option<Box<dyn PreBindTask>>,
    now: Timestamp,
    pod_exists: bool,
    /// What was last asked to be written.
    writing: Option<Arc<Object>>,
}

impl Way {
    /// PreFilter and Reserve.
    fn new(world: Fixture, claims: &str, args: Value) -> Self {
        let plugin = plugin_with("VolumeBinding", args);
        let mut way = Self {
            world,
            plugin,
            pod: pod(&format!("p {claims}")),
            state: CycleState::new(),
            task: None,
            now: START,
            pod_exists: true,
            writing: None,
        };
        let pre_filter = way.plugin.as_pre_filter().unwrap();
        let cx = way.world.cx();
        let status = pre_filter.pre_filter(&cx, &mut way.state, &way.pod).status;
        assert!(status.is_success() || status.is_skip(), "{status:?}");
        assert_eq!(way.reserve(), "ok");
        way
    }

    fn reserve(&mut self) -> String {
        let mut commands = Commands::default();
        let reserve = self.plugin.as_reserve().unwrap();
        let status =
            reserve.reserve(&self.world.cx(), &mut self.state, &self.pod, "a", &mut commands);
        self.carry_out(commands);
        text(&status)
    }

    fn unreserve(&mut self) {
        let mut commands = Commands::default();
        let reserve = self.plugin.as_reserve().unwrap();
        reserve.unreserve(&self.world.cx(), &mut self.state, &self.pod, "a", &mut commands);
        self.carry_out(commands);
    }

    fn carry_out(&mut self, commands: Commands) {
        for command in commands.into_vec() {
            let objects = self.world.cluster_mut().objects_mut();
            match command {
                Command::AssumeObject(object) => objects.assume(object).unwrap(),
                Command::RestoreObject(object) => drop(objects.restore(&object)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn flight(&self, node: &str) -> String {
        let pre_bind = self.plugin.as_pre_bind().unwrap();
        let flight = pre_bind.pre_bind_pre_flight(&self.world.cx(), &self.state, &self.pod, node);
        assert!(flight.may_run_in_parallel);
        if flight.status.is_skip() { "skip".into() } else { text(&flight.status) }
    }

    /// PreBind, up to what it needs first.
    fn pre_bind(&mut self) -> String {
        let pre_bind = self.plugin.as_pre_bind().unwrap();
        match pre_bind.pre_bind(&self.world.cx(), &mut self.state, &self.pod, "a") {
            Completion::Ready(status) => format!("done {}", text(&status)),
            Completion::Task(task) => {
                self.task = Some(task);
                self.step(TaskEvent::Started)
            }
            Completion::Pending(_) => panic!("nothing to await"),
        }
    }

    fn step(&mut self, event: TaskEvent) -> String {
        let mut commands = Commands::default();
        let step = self.task.as_mut().unwrap().step(
            &mut TaskContext {
                cx: Sources { now: self.now, ..self.world.sources() }.unrecorded(),
                state: &mut self.state,
                pod: &self.pod,
                node: "a",
                pod_exists: self.pod_exists,
                commands: &mut commands,
            },
            event,
        );
        self.carry_out(commands);
        match step {
            TaskStep::Write(ObjectWrite::Replace(object)) => {
                let text = format!("write {}", object.name);
                self.writing = Some(object);
                text
            }
            TaskStep::Wait { until, objects } => {
                let until = until.unwrap().saturating_since(self.now);
                let names: Vec<_> = objects.iter().map(|key| &*key.name).collect();
                format!("wait {}s for {}", until.as_secs(), names.join(" "))
            }
            TaskStep::Done(status) => format!("done {}", text(&status)),
            other => panic!("{other:?}"),
        }
    }

    /// The API server takes what is being written; the watch reports it if `is_reported`.
    fn taken(&mut self, is_reported: bool) -> String {
        let object = revised(&self.writing.take().unwrap());
        if is_reported {
            self.world.cluster_mut().upsert_object(object.clone());
        }
        self.step(TaskEvent::Written(Ok(object)))
    }

    fn refused(&mut self) -> String {
        self.step(TaskEvent::Written(Err(ApiError {
            code: None,
            reason: "Conflict".into(),
            message: "the object has been modified".into(),
        })))
    }

    fn reported(&mut self, text: &str) {
        self.world.cluster_mut().upsert_object(object(text).build());
    }

    /// The watch reports an object with other content, in its next revision.
    fn changed(&mut self, kind: &str, name: &str, fields: Value) {
        let namespace = if kind == "PersistentVolume" { "" } else { "default" };
        let objects = self.world.cluster().objects();
        let json = &objects.get("", kind, namespace, name).unwrap().json;
        let object = object(&format!("object {json}")).with(fields).build();
        self.world.cluster_mut().upsert_object(revised(&object));
    }

    fn woken(&mut self) -> String {
        self.step(TaskEvent::Woken)
    }

    fn after(&mut self, seconds: u64) -> String {
        self.now = self.now + Duration::from_secs(seconds);
        self.woken()
    }

    /// Names of what is expected to change.
    fn assumed(&self) -> Vec<String> {
        self.world.cluster().objects().assumed().map(|object| object.name.to_string()).collect()
    }
}

fn revised(object: &Object) -> Arc<Object> {
    let mut json = Value::from(&*object.json);
    let revision: u64 = object.resource_version.parse().unwrap();
    json["metadata"]["resourceVersion"] = (revision + 1).to_string().into();
    Arc::new(Object::from_value(json).unwrap())
}

const NO_PROVISIONER: &str = "storageclass wffc\n";
const PROVISIONER: &str = "storageclass wffc provisioner=example.com/p\n";

fn world(class: &str, objects: &str) -> Fixture {
    two_zones(class).with(objects)
}

/// Two claims that get existing volumes, `small` and `big`.
fn static_way() -> Way {
    let objects = "pv big storage=10Gi class=wffc version=5; pv small class=wffc version=5
                   pvc c10 storage=10Gi class=wffc version=3; pvc c1 class=wffc version=3";
    Way::new(world(NO_PROVISIONER, objects), "claim=c10 claim=c1", Value::Null)
}

/// A claim that gets an existing volume, and two for which volumes are made.
fn mixed_way() -> Way {
    let objects = "pv pv class=wffc version=5; pvc c1 class=wffc version=3
                   pvc c2 storage=2Gi class=wffc version=3; pvc c3 storage=3Gi class=wffc version=3";
    Way::new(world(PROVISIONER, objects), "claim=c1 claim=c2 claim=c3", Value::Null)
}

fn dynamic_way(args: Value) -> Way {
    Way::new(world(PROVISIONER, "pvc c class=wffc version=3"), "claim=c", args)
}

/// What makes a claim fully bound.
fn bound_to(volume: &str) -> Value {
    json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
    })
}

/// What makes a volume reachable from one zone only.
fn reachable(zone: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}})
}

fn expected(object: &Object, path: &str) -> Value {
    Value::from(&*object.json).pointer(path).cloned().unwrap_or_default()
}

#[test]
fn pods_whose_claims_are_bound_reserve_nothing() {
    for (objects, claims) in [("pvc c bound=pv; pv pv", "claim=c"), ("", "")] {
        let mut way = Way::new(two_zones(objects), claims, Value::Null);
        assert_eq!(way.assumed(), Vec::<String>::new());
        assert_eq!(way.flight("a"), "skip");
        assert_eq!(way.pre_bind(), "done ok");
        way.unreserve();
    }
}

#[test]
fn the_look_ahead_knows_what_is_reserved_where() {
    let mut way = static_way();
    assert_eq!(way.flight("a"), "ok");
    assert_eq!(way.flight("b"), "Error: no pod volume found for node \"b\"");
    way.state = CycleState::new();
    assert_eq!(way.flight("a"), "Error: not found");
}

#[test]
fn reserved_objects_are_expected_to_be_the_pods() {
    let mut way = mixed_way();
    assert_eq!(way.assumed(), ["pv", "c2", "c3"]);
    let objects = way.world.cluster().objects();
    let volume = objects.latest("", "PersistentVolume", "", "pv").unwrap();
    assert_eq!(
        expected(volume, "/spec/claimRef"),
        json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default",
            "name": "c1", "uid": "c1-uid", "resourceVersion": "3",
        })
    );
    assert_eq!(
        expected(volume, "/metadata/annotations"),
        json!({"pv.kubernetes.io/bound-by-controller": "yes"})
    );
    let claim = objects.latest("", "PersistentVolumeClaim", "default", "c2").unwrap();
    assert_eq!(
        expected(claim, "/metadata/annotations"),
        json!({"volume.kubernetes.io/selected-node": "a"})
    );
    way.unreserve();
    assert_eq!(way.assumed(), Vec::<String>::new());
    way.unreserve();
}

#[test]
fn a_volume_that_its_author_reserved_is_completed_but_not_marked() {
    for (uid, is_assumed) in [("", true), ("c-uid", false)] {
        let objects =
            format!("pv pv class=wffc version=5 claim=c:{uid}; pvc c class=wffc version=3");
        let mut way = Way::new(world(NO_PROVISIONER, &objects), "claim=c", Value::Null);
        assert_eq!(way.assumed(), if is_assumed { vec!["pv"] } else { vec![] });
        assert_eq!(way.pre_bind(), "write pv", "even if nothing changes");
        let volume = way.writing.clone().unwrap();
        assert_eq!(expected(&volume, "/spec/claimRef/uid"), "c-uid");
        assert_eq!(expected(&volume, "/metadata/annotations"), Value::Null);
    }
}

#[test]
fn an_object_that_changed_meanwhile_is_out_of_sync_and_nothing_is_reserved() {
    let mut way = mixed_way();
    way.unreserve();
    way.changed("PersistentVolumeClaim", "c3", json!({"metadata": {"labels": {"x": "y"}}}));
    assert_eq!(way.reserve(), "Error: \"default/c3\" is out of sync (stored: 4, assume: 3)");
    assert_eq!(way.assumed(), Vec::<String>::new());
    way.changed("PersistentVolume", "pv", json!({}));
    assert_eq!(way.reserve(), "Error: \"pv\" is out of sync (stored: 6, assume: 5)");
    assert_eq!(way.assumed(), Vec::<String>::new());
}

#[test]
fn volumes_are_written_before_claims_and_waited_for() {
    let mut way = mixed_way();
    assert_eq!(way.pre_bind(), "write pv");
    assert_eq!(way.taken(true), "write c2");
    assert_eq!(way.taken(true), "write c3");
    assert_eq!(way.taken(true), "wait 1s for pv c1 c2 c3");
    assert_eq!(way.assumed(), Vec::<String>::new(), "what is reported need not be expected");
    way.changed("PersistentVolumeClaim", "c1", bound_to("pv"));
    assert_eq!(way.woken(), "wait 1s for pv c1 c2 c3");
    way.changed("PersistentVolumeClaim", "c2", bound_to("new-2"));
    assert_eq!(way.woken(), "wait 1s for pv c1 new-2 c2 c3", "its volume is not reported yet");
    way.reported("pv new-2 storage=2Gi class=wffc node-affinity=zone=za");
    assert_eq!(way.after(5), "wait 1s for pv c1 new-2 c2 c3");
    way.reported("pv new-3 storage=3Gi class=wffc");
    way.changed("PersistentVolumeClaim", "c3", bound_to("new-3"));
    assert_eq!(way.woken(), "done ok");
}

#[test]
fn what_was_written_must_be_told_before_it_counts() {
    let mut way = dynamic_way(Value::Null);
    assert_eq!(way.pre_bind(), "write c");
    assert_eq!(way.taken(false), "wait 1s for c", "no annotation is seen yet");
    assert_eq!(way.assumed(), ["c"]);
    let annotations = json!({"volume.kubernetes.io/selected-node": "a"});
    way.changed("PersistentVolumeClaim", "c", json!({"metadata": {"annotations": annotations}}));
    assert_eq!(way.woken(), "wait 1s for c");
    assert_eq!(way.assumed(), Vec::<String>::new());
}

#[test]
fn a_conflict_gives_back_what_is_not_written() {
    let mut way = static_way();
    assert_eq!(way.pre_bind(), "write small");
    assert_eq!(way.assumed(), ["big", "small"]);
    assert_eq!(way.taken(false), "write big");
    assert_eq!(way.refused(), "done Error: the object has been modified");
    assert_eq!(way.assumed(), ["small"], "written, and to be reported soon");
    way.unreserve();
    assert_eq!(way.assumed(), ["small"]);
    way.changed("PersistentVolume", "small", json!({}));
    assert_eq!(way.assumed(), Vec::<String>::new());

    let mut way = mixed_way();
    way.pre_bind();
    assert_eq!(way.refused(), "done Error: the object has been modified");
    assert_eq!(way.assumed(), Vec::<String>::new(), "the claims with the volumes");

    let mut way = mixed_way();
    way.pre_bind();
    way.taken(true);
    assert_eq!(way.taken(false), "write c3");
    assert_eq!(way.refused(), "done Error: the object has been modified");
    assert_eq!(way.assumed(), ["c2"]);
    way.unreserve();
    assert_eq!(way.assumed(), Vec::<String>::new(), "of claims the old revision is remembered");
}

#[test]
fn waiting_has_its_limit() {
    let late = "done Error: binding volumes: context deadline exceeded";
    let mut way = dynamic_way(json!({"bindTimeoutSeconds": 5}));
    way.pre_bind();
    assert_eq!(way.taken(true), "wait 1s for c");
    assert_eq!(way.after(4), "wait 1s for c");
    assert_eq!(way.after(1), late);
    let mut way = dynamic_way(json!({"bindTimeoutSeconds": 0}));
    way.pre_bind();
    assert_eq!(way.taken(true), late);
}

/// What the wait ends with once `change` is reported, written as an error below the common words.
#[track_caller]
fn check_wait(mut way: Way, change: impl FnOnce(&mut Way), expected: &str) {
    let mut step = way.pre_bind();
    while step.starts_with("write ") {
        step = way.taken(true);
    }
    assert!(step.starts_with("wait "), "{step}");
    change(&mut way);
    assert_eq!(way.woken(), format!("done Error: binding volumes: {expected}"));
}

#[test]
fn what_can_go_wrong_while_volumes_are_bound() {
    let volume = "PersistentVolume";
    check_wait(
        static_way(),
        |way| way.pod_exists = false,
        "pod does not exist any more: pod \"p\" not found",
    );
    check_wait(
        static_way(),
        |way| way.world.cluster_mut().remove_node("a").unwrap(),
        "failed to get node \"a\": node \"a\" not found",
    );
    check_wait(
        static_way(),
        |way| {
            way.pod_exists = false;
            way.world.cluster_mut().remove_node("a").unwrap();
        },
        "failed to get node \"a\": node \"a\" not found",
    );
    check_wait(
        static_way(),
        |way| drop(way.world.cluster_mut().remove_object("", volume, "", "small")),
        "failed to check binding: persistentvolumes \"small\" not found",
    );
    check_wait(
        static_way(),
        |way| {
            way.world.cluster_mut().remove_object("", "PersistentVolumeClaim", "default", "c1");
        },
        "failed to check binding: persistentvolumeclaims \"default/c1\" not found",
    );
    check_wait(
        static_way(),
        |way| way.changed(volume, "small", json!({"spec": {"claimRef": null}})),
        "ClaimRef got reset for pv \"small\"",
    );
    check_wait(
        static_way(),
        |way| way.changed(volume, "small", json!({"spec": {"claimRef": {"uid": ""}}})),
        "ClaimRef got reset for pv \"small\"",
    );
    check_wait(
        static_way(),
        |way| way.changed(volume, "small", reachable("zb")),
        "pv \"small\" node affinity doesn't match node \"a\": no matching NodeSelectorTerms",
    );
}

#[test]
fn what_can_go_wrong_while_volumes_are_made() {
    let claim = "PersistentVolumeClaim";
    let annotations = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    check_wait(
        dynamic_way(Value::Null),
        |way| drop(way.world.cluster_mut().remove_object("", claim, "default", "c")),
        "failed to check provisioning pvc: persistentvolumeclaims \"default/c\" not found",
    );
    check_wait(
        dynamic_way(Value::Null),
        |way| way.changed(claim, "c", annotations(Value::Null)),
        "selectedNode annotation reset for PVC \"c\"",
    );
    let selected = |node: Value| {
        annotations(json!({"volume.kubernetes.io/selected-node": node, "other": "x"}))
    };
    for node in [Value::Null, "b".into()] {
        check_wait(
            dynamic_way(Value::Null),
            |way| way.changed(claim, "c", selected(node)),
            "provisioning failed for PVC \"c\"",
        );
    }
    check_wait(
        dynamic_way(Value::Null),
        |way| {
            way.reported("pv new class=wffc node-affinity=zone=zb");
            way.changed(claim, "c", json!({"spec": {"volumeName": "new"}}));
        },
        "pv \"new\" node affinity doesn't match node \"a\": no matching NodeSelectorTerms",
    );
    check_wait(
        dynamic_way(Value::Null),
        |way| {
            let source = json!({"awsElasticBlockStore": {"volumeID": "aws:///x"}});
            way.reported(&format!("pv new class=wffc {}", json!({"spec": source})));
            way.reported("csinode a annotation:storage.alpha.kubernetes.io/migrated-plugins=kubernetes.io/aws-ebs");
            way.changed(claim, "c", json!({"spec": {"volumeName": "new"}}));
        },
        "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID \
         Invalid format for AWS volume (aws:///x)",
    );
}

/// After assuming, every other reader finds the claim's volume again, however often it looks.
#[test]
fn a_reserved_volume_is_found_again_for_its_claim_and_for_nobody_else() {
    let objects = "pv x class=wffc version=5; pv y class=wffc version=5
                   pvc c class=wffc version=3; pvc d class=wffc version=3";
    let mut way = Way::new(world(NO_PROVISIONER, objects), "claim=c", Value::Null);
    assert_eq!(way.assumed(), ["x"]);
    for _ in 0..3 {
        way = Way::new(way.world, "claim=c", Value::Null);
        assert_eq!(way.assumed(), ["x"]);
    }
    let other = Way::new(way.world, "claim=d", Value::Null);
    assert_eq!(other.assumed(), ["x", "y"]);
}
