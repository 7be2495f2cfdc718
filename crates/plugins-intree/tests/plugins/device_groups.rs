//! Claims of pod groups (`docs/spec/plugins-dra.md` §13): whose they are, for whom they are reserved, and what the members of
//! a group share within one cycle.

use std::sync::Arc;

use kube_scheduler_cache::ObjectKey;
use kube_scheduler_framework::api::{Object, Pod, PodResourceClaim};
use kube_scheduler_framework::groups::GroupCycleState;
use kube_scheduler_framework::preemption::EvictionTrials;
use kube_scheduler_framework::testing::{Fixture, fixture};
use kube_scheduler_framework::{
    ApiError, Command, Commands, Completion, Context, CycleState, HypotheticalFilter, ObjectWrite,
    Plugin, PostFilterContext, PreBindTask, Status, TaskContext, TaskEvent, TaskStep, Verdicts,
};
use serde_json::{Value, json};

use crate::support::{carry_out_for_devices, pod, put_device_object, signature, text, try_plugin};

const GATES: [(&str, bool); 2] = [("GenericWorkload", true), ("DRAWorkloadResourceClaims", true)];

/// Nodes `a` and `b` with two devices each, the group `g` with the claim entry `gpus`, and that claim, made for the group.
fn world() -> Fixture {
    let mut world = fixture("node a; node b");
    put_device_object(&mut world, "DeviceClass", "gpu", json!({"spec": {}}));
    for node in ["a", "b"] {
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let devices = json!([{"name": "0"}, {"name": "1"}]);
        let spec = json!({"driver": "d", "nodeName": node, "pool": pool, "devices": devices});
        put_device_object(&mut world, "ResourceSlice", node, json!({"spec": spec}));
    }
    let claims = json!([{"name": "gpus", "resourceClaimTemplateName": "one"}]);
    put_group(&mut world, &claims);
    put_claim(&mut world, "of-g", Some("PodGroup"), &json!({}));
    world
}

fn put_group(world: &mut Fixture, claims: &Value) {
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims},
        "status": {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "of-g"}]},
    });
    world.cluster_mut().upsert_object(Arc::new(Object::from_value(group).unwrap()));
}

/// A claim for one device, owned by the pod or group `g`, if it was generated.
fn put_claim(world: &mut Fixture, name: &str, owner: Option<&str>, status: &Value) {
    let (version, uid) = match owner {
        Some("PodGroup") => ("scheduling.k8s.io/v1beta1", "uid-g"),
        _ => ("v1", "other"),
    };
    let owners = owner.map(|kind| {
        json!([{"apiVersion": version, "kind": kind, "name": "g", "uid": uid, "controller": true}])
    });
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": "5",
            "ownerReferences": owners},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}, "status": status,
    });
    put_device_object(world, "ResourceClaim", name, object);
}

/// A pod of the group `g` with a claim that was generated for its entry `gpus`.
fn member(name: &str) -> Arc<Pod> {
    let claims = json!([{"name": "gpus", "resourceClaimTemplateName": "one"}]);
    let made = json!([{"name": "gpus", "resourceClaimName": "of-g"}]);
    let group = json!({"podGroupName": "g"});
    let spec = json!({"resourceClaims": claims, "schedulingGroup": group});
    pod(&format!("{name} {}", json!({"spec": spec, "status": {"resourceClaimStatuses": made}})))
}

fn plugin() -> Arc<dyn Plugin> {
    try_plugin("DynamicResources", Value::Null, &GATES).unwrap()
}

fn pre_enqueue(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> String {
    text(&plugin.as_pre_enqueue().unwrap().pre_enqueue(&world.cx(), pod))
}

/// The members of one group cycle, or pods that are tried each by itself.
struct Cycle {
    world: Fixture,
    plugin: Arc<dyn Plugin>,
    shared: Option<GroupCycleState>,
    written: Vec<ObjectWrite>,
}

impl Cycle {
    fn new() -> Self {
        let shared = Some(GroupCycleState::default());
        Self { world: world(), plugin: plugin(), shared, written: Vec::new() }
    }

    fn pre_filter(&self, pod: &Arc<Pod>) -> (String, CycleState) {
        let mut state = CycleState::new();
        if let Some(shared) = &self.shared {
            state.insert(shared.clone());
        }
        let plugin = self.plugin.as_pre_filter().unwrap();
        let outcome = plugin.pre_filter(&self.world.cx(), &mut state, pod);
        (text(&outcome.status), state)
    }

    fn filter(&self, state: &CycleState, pod: &Arc<Pod>, node: &str) -> String {
        let node = self.world.view(node);
        text(&self.plugin.as_filter().unwrap().filter(&self.world.cx(), state, pod, &node))
    }

    fn reserve(&mut self, state: &mut CycleState, pod: &Arc<Pod>, node: &str) {
        let mut commands = Commands::default();
        let plugin = self.plugin.as_reserve().unwrap();
        let status = plugin.reserve(&self.world.cx(), state, pod, node, &mut commands);
        assert_eq!(text(&status), "ok");
        self.carry_out(commands);
    }

    fn unreserve(&mut self, state: &mut CycleState, pod: &Arc<Pod>, node: &str) {
        let mut commands = Commands::default();
        let plugin = self.plugin.as_reserve().unwrap();
        plugin.unreserve(&self.world.cx(), state, pod, node, &mut commands);
        self.carry_out(commands);
    }

    /// PreFilter, Filter and Reserve.
    fn place(&mut self, pod: &Arc<Pod>, node: &str) -> CycleState {
        let (status, mut state) = self.pre_filter(pod);
        assert_eq!(status, "ok");
        assert_eq!(self.filter(&state, pod, node), "ok");
        self.reserve(&mut state, pod, node);
        state
    }

    fn carry_out(&mut self, commands: Commands) {
        self.written.extend(carry_out_for_devices(&mut self.world, commands));
    }

    fn pre_bind(&self, state: &mut CycleState, pod: &Arc<Pod>, node: &str) -> Box<dyn PreBindTask> {
        match self.plugin.as_pre_bind().unwrap().pre_bind(&self.world.cx(), state, pod, node) {
            Completion::Task(task) => task,
            other => panic!("{other:?}"),
        }
    }

    fn step(
        &mut self,
        task: &mut dyn PreBindTask,
        (state, pod, node): (&mut CycleState, &Arc<Pod>, &str),
        event: TaskEvent,
    ) -> TaskStep {
        let mut commands = Commands::default();
        let step = task.step(
            &mut TaskContext {
                cx: self.world.cx(),
                state,
                pod,
                node,
                pod_exists: true,
                commands: &mut commands,
            },
            event,
        );
        self.carry_out(commands);
        step
    }

    /// Binds the claims of a pod to the end, with an API server that accepts everything; gives what it was asked.
    fn bind(&mut self, state: &mut CycleState, pod: &Arc<Pod>, node: &str) -> Vec<Arc<Object>> {
        let mut task = self.pre_bind(state, pod, node);
        let mut writes = Vec::new();
        let mut step = self.step(&mut *task, (&mut *state, pod, node), TaskEvent::Started);
        loop {
            let object = match step {
                TaskStep::Write(
                    ObjectWrite::Replace(object) | ObjectWrite::ReplaceStatus(object),
                ) => object,
                TaskStep::Done(status) => {
                    assert_eq!(text(&status), "ok");
                    return writes;
                }
                other => panic!("{other:?}"),
            };
            writes.push(object.clone());
            let mut json = Value::from(&*object.json);
            json["metadata"]["resourceVersion"] = (10 + writes.len()).to_string().into();
            let stored = Arc::new(Object::from_value(json).unwrap());
            let answer = TaskEvent::Written(Ok(stored));
            step = self.step(&mut *task, (&mut *state, pod, node), answer);
        }
    }

    fn n_pending(&self) -> usize {
        self.world.cx().cluster().objects().n_pending()
    }
}

fn reserved_for(object: &Object) -> Value {
    Value::from(&object.json["status"]["reservedFor"])
}

fn refused(code: u16, reason: &str) -> TaskEvent {
    TaskEvent::Written(Err(ApiError { code: Some(code), ..ApiError::new(reason, "no") }))
}

fn for_group() -> Value {
    json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}])
}

#[test]
fn a_generated_claim_belongs_to_the_pod_or_to_its_group() {
    let mut world = world();
    assert_eq!(pre_enqueue(&world, &*plugin(), &member("p")), "ok", "whatever the API's version");
    put_claim(&mut world, "of-g", Some("Pod"), &json!({}));
    let neither = "UnschedulableAndUnresolvable: ResourceClaim default/of-g was not created for Pod default/p \
                   (neither Pod nor PodGroup g is the owner)";
    assert_eq!(pre_enqueue(&world, &*plugin(), &member("p")), neither);
    // Without the gate, and for a pod without a group, only the pod can be the owner.
    put_claim(&mut world, "of-g", Some("PodGroup"), &json!({}));
    let not_owner = "UnschedulableAndUnresolvable: ResourceClaim default/of-g was not created for Pod default/p \
                     (Pod is not owner)";
    let without_gate = try_plugin("DynamicResources", Value::Null, &[]).unwrap();
    assert_eq!(pre_enqueue(&world, &*without_gate, &member("p")), not_owner);
    let mut alone = Pod::clone(&member("p"));
    Arc::make_mut(&mut alone.spec).pod_group = None;
    assert_eq!(pre_enqueue(&world, &*plugin(), &alone), not_owner);
}

#[test]
fn members_without_claims_share_answers_with_each_other_only() {
    let asking = |name: &str, is_member: bool| {
        let mut pod = Pod::clone(&pod(&format!("{name} example.com/gpu=1")));
        Arc::make_mut(&mut pod.spec).pod_group = is_member.then(|| "g".into());
        signature(&*plugin(), &pod)
    };
    assert!(asking("p", true).is_some());
    assert_eq!(asking("p", true), asking("q", true));
    assert_ne!(asking("p", true), asking("p", false));
    assert_eq!(signature(&*plugin(), &member("p")), None, "a claim of the group is never shared");
}

#[test]
fn a_group_that_is_missing_rejects_the_pod() {
    let mut cycle = Cycle::new();
    cycle.world.cluster_mut().remove_object("scheduling.k8s.io", "PodGroup", "default", "g");
    let (status, _) = cycle.pre_filter(&member("p"));
    let expected = "UnschedulableAndUnresolvable: podgroup.scheduling.k8s.io \"g\" not found";
    assert_eq!(status, expected);
}

#[test]
fn a_claim_of_the_group_is_reserved_for_the_group() {
    let mut cycle = Cycle::new();
    let pod = member("p");
    let mut state = cycle.place(&pod, "a");
    let writes = cycle.bind(&mut state, &pod, "a");
    assert_eq!(writes.len(), 2, "the finalizer, then the status");
    assert_eq!(reserved_for(&writes[1]), for_group());
    assert_eq!(cycle.n_pending(), 0);

    // The next one finds it reserved and has nothing to write.
    let late = member("late");
    cycle.shared = None;
    let (status, mut state) = cycle.pre_filter(&late);
    assert_eq!(status, "ok");
    assert_eq!(cycle.filter(&state, &late, "a"), "ok");
    let unavailable = "UnschedulableAndUnresolvable: resourceclaim not available on the node";
    assert_eq!(cycle.filter(&state, &late, "b"), unavailable);
    cycle.reserve(&mut state, &late, "a");
    assert_eq!(cycle.bind(&mut state, &late, "a"), Vec::<Arc<Object>>::new());
    // Its failure does not take the claim from the others.
    cycle.unreserve(&mut state, &late, "a");
    assert!(cycle.written.is_empty(), "{:?}", cycle.written);
}

#[test]
fn a_claim_that_differs_from_those_of_the_group_is_reserved_for_the_pod() {
    for other in [
        json!([{"name": "gpus", "resourceClaimTemplateName": "two"}]),
        json!([{"name": "gpus", "resourceClaimName": "of-g"}]),
        json!([{"name": "other", "resourceClaimTemplateName": "one"}]),
        json!([]),
    ] {
        let mut cycle = Cycle::new();
        put_group(&mut cycle.world, &other);
        let pod = member("p");
        let mut state = cycle.place(&pod, "a");
        let writes = cycle.bind(&mut state, &pod, "a");
        let expected = json!([{"resource": "pods", "name": "p", "uid": *pod.uid}]);
        assert_eq!(reserved_for(&writes[1]), expected, "{other}");
    }
}

#[test]
fn members_of_one_cycle_share_what_is_in_flight() {
    let mut cycle = Cycle::new();
    let (first, second) = (member("first"), member("second"));
    let mut first_state = cycle.place(&first, "a");
    let (status, mut second_state) = cycle.pre_filter(&second);
    assert_eq!(status, "ok");
    let unavailable = "UnschedulableAndUnresolvable: resourceclaim not available on the node";
    assert_eq!(cycle.filter(&second_state, &second, "b"), unavailable, "the devices are on a");
    assert_eq!(cycle.filter(&second_state, &second, "a"), "ok");
    cycle.reserve(&mut second_state, &second, "a");
    assert_eq!(cycle.n_pending(), 1);
    // It is in flight until the last one lets go.
    cycle.unreserve(&mut second_state, &second, "a");
    cycle.unreserve(&mut second_state, &second, "a");
    assert_eq!(cycle.n_pending(), 1, "once is enough");
    cycle.unreserve(&mut first_state, &first, "a");
    assert_eq!(cycle.n_pending(), 0);

    // What was tried and taken back is done for good: in the same order, with the same devices.
    cycle.reserve(&mut first_state, &first, "a");
    cycle.reserve(&mut second_state, &second, "a");
    let writes = cycle.bind(&mut first_state, &first, "a");
    assert_eq!(writes[1].json["status"]["allocation"]["devices"]["results"][0]["pool"], "a");
    assert_eq!(cycle.n_pending(), 0, "it is allocated");
    assert_eq!(cycle.bind(&mut second_state, &second, "a"), Vec::<Arc<Object>>::new());
    assert!(cycle.written.is_empty(), "{:?}", cycle.written);
}

#[test]
fn pods_of_other_cycles_wait_for_what_is_in_flight() {
    let mut cycle = Cycle::new();
    cycle.place(&member("first"), "a");
    let busy = "UnschedulableAndUnresolvable: resource claim default/of-g is in the process of being allocated";
    for shared in [Some(GroupCycleState::default()), None] {
        cycle.shared = shared;
        assert_eq!(cycle.pre_filter(&member("second")).0, busy);
    }
}

#[test]
fn a_member_whose_write_comes_second_takes_over_what_the_first_wrote() {
    let mut cycle = Cycle::new();
    let (first, second) = (member("first"), member("second"));
    let mut first_state = cycle.place(&first, "a");
    let mut second_state = cycle.place(&second, "a");
    let mut task = cycle.pre_bind(&mut second_state, &second, "a");
    let step = cycle.step(&mut *task, (&mut second_state, &second, "a"), TaskEvent::Started);
    assert!(matches!(step, TaskStep::Write(ObjectWrite::Replace(_))), "{step:?}");
    let written = cycle.bind(&mut first_state, &first, "a").pop().unwrap();
    let answer = refused(409, "Conflict");
    let step = cycle.step(&mut *task, (&mut second_state, &second, "a"), answer);
    assert!(matches!(step, TaskStep::Wait { .. }), "{step:?}");
    let step = cycle.step(&mut *task, (&mut second_state, &second, "a"), TaskEvent::Woken);
    assert!(matches!(step, TaskStep::Write(ObjectWrite::Get(_))), "{step:?}");
    let answer = TaskEvent::Written(Ok(written));
    let step = cycle.step(&mut *task, (&mut second_state, &second, "a"), answer);
    let TaskStep::Done(status) = step else { panic!("{step:?}") };
    assert_eq!(text(&status), "ok");
}

#[test]
fn a_failed_binding_leaves_the_devices_to_the_other_members() {
    let mut cycle = Cycle::new();
    let (first, second) = (member("first"), member("second"));
    let mut first_state = cycle.place(&first, "a");
    let mut second_state = cycle.place(&second, "a");
    let mut task = cycle.pre_bind(&mut first_state, &first, "a");
    cycle.step(&mut *task, (&mut first_state, &first, "a"), TaskEvent::Started);
    let answer = refused(403, "Forbidden");
    let step = cycle.step(&mut *task, (&mut first_state, &first, "a"), answer);
    assert!(matches!(step, TaskStep::Done(_)), "{step:?}");
    cycle.unreserve(&mut first_state, &first, "a");
    assert_eq!(cycle.n_pending(), 1, "the second still needs it");
    let writes = cycle.bind(&mut second_state, &second, "a");
    assert_eq!(reserved_for(&writes[1]), for_group());
    assert_eq!(cycle.n_pending(), 0);
}

/// No test here tries nodes without some of their pods.
struct NoFilters;

impl HypotheticalFilter for NoFilters {
    fn eviction_trials<'a>(
        &'a self,
        _: &Context<'a>,
        _: &'a CycleState,
        _: &'a Pod,
    ) -> Box<dyn EvictionTrials + 'a> {
        unreachable!("no node is tried")
    }
}

/// What PostFilter says, and what it asks for.
fn post_filter(cycle: &Cycle, state: &CycleState, pod: &Arc<Pod>) -> (String, Vec<Command>) {
    let mut commands = Commands::default();
    let mut cx = PostFilterContext {
        cx: cycle.world.cx(),
        verdicts: &Verdicts::absent(cycle.world.cluster().capacity()),
        absent: &Status::SUCCESS,
        filters: &NoFilters,
        extenders: None,
        random: 0,
        commands: &mut commands,
        report: None,
    };
    let outcome = cycle.plugin.as_post_filter().unwrap().post_filter(&mut cx, state, pod);
    (text(&outcome.status), commands.into_vec())
}

#[test]
fn a_group_without_scheduled_pods_gives_its_reservation_back() {
    let mut cycle = Cycle::new();
    let results = json!([{"request": "r", "driver": "d", "pool": "a", "device": "0"}]);
    let status = json!({
        "allocation": {"devices": {"results": results}}, "reservedFor": for_group(),
    });
    put_claim(&mut cycle.world, "of-g", Some("PodGroup"), &status);
    let pod = member("p");
    let (_, state) = cycle.pre_filter(&pod);
    let (answer, commands) = post_filter(&cycle, &state, &pod);
    let expected = "UnschedulableAndUnresolvable: ResourceClaim unreserved for PodGroup";
    assert_eq!(answer, expected);
    let [Command::WriteObject { write: ObjectWrite::PatchStatus { patch, is_final, .. }, .. }] =
        &commands[..]
    else {
        panic!("{commands:?}")
    };
    // After a conflict another member may rely on the reservation.
    assert!(is_final);
    let expected = json!({
        "metadata": {"uid": "of-g", "resourceVersion": "5"},
        "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-g"}]},
    });
    assert_eq!(**patch, expected);

    // As soon as one has a node, the others have to go where the devices are.
    let mut running = Pod::clone(&member("running"));
    running = running.with_node_name(&"a".into());
    cycle.world.cluster_mut().group_member_known(&Arc::new(running));
    let (answer, commands) = post_filter(&cycle, &state, &pod);
    assert_eq!(answer, "Unschedulable: still not schedulable");
    assert!(commands.is_empty(), "{commands:?}");
}

/// A reservation of the group on the way to be taken away: of the revision that is seen, or of an earlier one.
#[test]
fn a_reservation_that_may_yet_be_taken_away_is_written_again_once_for_all_members() {
    let mut cycle = Cycle::new();
    let results = json!([{"request": "r", "driver": "d", "pool": "a", "device": "0"}]);
    let status = json!({
        "allocation": {"devices": {"results": results}}, "reservedFor": for_group(),
    });
    put_claim(&mut cycle.world, "of-g", Some("PodGroup"), &status);
    let objects = cycle.world.cluster_mut().objects_mut();
    let claim = objects.get("resource.k8s.io", "ResourceClaim", "default", "of-g").unwrap();
    let key = ObjectKey::from(&**claim);
    objects.note_unanswered(&key, &"gone".into(), Some("5".into()), true);
    objects.forget_unanswered("gone");
    let (first, second) = (member("first"), member("second"));
    let mut first_state = cycle.place(&first, "a");
    let mut second_state = cycle.place(&second, "a");
    let mut task = cycle.pre_bind(&mut second_state, &second, "a");
    let step = cycle.step(&mut *task, (&mut second_state, &second, "a"), TaskEvent::Started);
    let TaskStep::Write(ObjectWrite::ReplaceStatus(withdrawn)) = step else { panic!("{step:?}") };
    assert_eq!(reserved_for(&withdrawn), json!([]));

    let written = cycle.bind(&mut first_state, &first, "a");
    let [withdrawn, reserved] = &written[..] else { panic!("{written:?}") };
    assert_eq!(reserved_for(withdrawn), json!([]));
    assert_eq!(reserved_for(reserved), for_group());

    // What the first has written is of a revision that the patch is not about, and the first relies on it.
    cycle.step(&mut *task, (&mut second_state, &second, "a"), refused(409, "Conflict"));
    let step = cycle.step(&mut *task, (&mut second_state, &second, "a"), TaskEvent::Woken);
    assert!(matches!(step, TaskStep::Write(ObjectWrite::Get(_))), "{step:?}");
    let mut json = Value::from(&*reserved.json);
    json["metadata"]["resourceVersion"] = "12".into();
    let stored = Arc::new(Object::from_value(json).unwrap());
    let answer = TaskEvent::Written(Ok(stored));
    let step = cycle.step(&mut *task, (&mut second_state, &second, "a"), answer);
    let TaskStep::Write(ObjectWrite::ReplaceStatus(left)) = step else { panic!("{step:?}") };
    assert_eq!(reserved_for(&left), for_group());
    assert_eq!(cycle.world.cx().cluster().objects().n_unanswered(), 0);
}

/// Status of a claim with a device that is reserved for the group.
fn reserved_status() -> Value {
    let results = json!([{"request": "r", "driver": "d", "pool": "a", "device": "0"}]);
    json!({"allocation": {"devices": {"results": results}}, "reservedFor": for_group()})
}

/// The claims of the group count in its own order, whether the pod uses them or not.
#[test]
fn the_first_reserved_claim_of_the_group_is_given_back() {
    let entries = json!([
        {"name": "gpus", "resourceClaimTemplateName": "one"},
        {"name": "first", "resourceClaimName": "first"},
        {"name": "second", "resourceClaimName": "second"},
    ]);
    let mut cycle = Cycle::new();
    put_group(&mut cycle.world, &entries);
    let mut claim_without_devices = reserved_status();
    claim_without_devices["allocation"] = Value::Null;
    put_claim(&mut cycle.world, "of-g", Some("PodGroup"), &claim_without_devices);
    put_claim(&mut cycle.world, "first", None, &reserved_status());
    put_claim(&mut cycle.world, "second", None, &reserved_status());
    let given_back = |cycle: &Cycle| {
        let pod = member("p");
        let (status, state) = cycle.pre_filter(&pod);
        assert_eq!(status, "ok");
        let (answer, commands) = post_filter(cycle, &state, &pod);
        let names = commands.iter().map(|command| match command {
            Command::WriteObject { write: ObjectWrite::PatchStatus { object, .. }, .. } => {
                object.name.to_string()
            }
            other => panic!("{other:?}"),
        });
        (answer, names.collect::<Vec<_>>())
    };
    let unreserved = "UnschedulableAndUnresolvable: ResourceClaim unreserved for PodGroup";
    assert_eq!(given_back(&cycle), (unreserved.to_owned(), vec!["first".to_owned()]));

    // What was generated for something else is passed over.
    put_claim(&mut cycle.world, "of-g", Some("PodGroup"), &reserved_status());
    assert_eq!(given_back(&cycle).1, ["of-g"]);
    put_claim(&mut cycle.world, "first", None, &json!({}));
    let mut entries = entries;
    entries[0] = json!({"name": "gpus", "resourceClaimTemplateName": "another"});
    put_group(&mut cycle.world, &entries);
    put_claim(&mut cycle.world, "of-g", Some("PodGroupOfAnotherName"), &reserved_status());
    let mut pod = Pod::clone(&member("p"));
    Arc::make_mut(&mut pod.spec).resource_claims =
        vec![PodResourceClaim { name: "x".into(), claim: Some("second".into()), template: None }]
            .into();
    let pod = Arc::new(pod);
    let (_, state) = cycle.pre_filter(&pod);
    let (answer, commands) = post_filter(&cycle, &state, &pod);
    assert_eq!((answer.as_str(), commands.len()), (unreserved, 1));

    // A claim that is not there yet, and an entry without anything, are fatal.
    for (entry, why) in [
        (
            json!({"name": "none", "resourceClaimTemplateName": "one"}),
            "Error: PodGroup default/g: ResourceClaim not created yet",
        ),
        (
            json!({"name": "none", "resourceClaimName": "none"}),
            "Error: could not find ResourceClaim \"default/none\"",
        ),
        (
            json!({"name": "none"}),
            "Error: PodGroup default/g, spec.resourceClaim none: none of the supported fields are set",
        ),
    ] {
        put_group(&mut cycle.world, &json!([entry]));
        let (answer, commands) = post_filter(&cycle, &state, &pod);
        assert_eq!((answer.as_str(), commands.len()), (why, 0));
    }
}

#[test]
fn every_member_needs_its_group() {
    let mut cycle = Cycle::new();
    let plain = |name: &str, text: &str| {
        let mut pod = Pod::clone(&pod(&format!("{name} {text}")));
        Arc::make_mut(&mut pod.spec).pod_group = Some("g".into());
        Arc::new(pod)
    };
    let (without, asking) = (plain("p", ""), plain("p", "example.com/gpu=1"));
    assert_eq!(cycle.pre_filter(&without).0, "Skip: ");
    assert_eq!(cycle.pre_filter(&asking).0, "Skip: ");
    cycle.world.cluster_mut().remove_object("scheduling.k8s.io", "PodGroup", "default", "g");
    let missing = "UnschedulableAndUnresolvable: podgroup.scheduling.k8s.io \"g\" not found";
    for pod in [without, asking, member("p")] {
        assert_eq!(cycle.pre_filter(&pod).0, missing);
        cycle.plugin = try_plugin("DynamicResources", Value::Null, &GATES[..1]).unwrap();
        assert_ne!(cycle.pre_filter(&pod).0, missing, "without the gate");
        cycle.plugin = plugin();
    }
    let signed = |group: &str, gates: &[(&str, bool)]| {
        let mut pod = Pod::clone(&pod("p"));
        Arc::make_mut(&mut pod.spec).pod_group = Some(group.into());
        signature(&*try_plugin("DynamicResources", Value::Null, gates).unwrap(), &pod)
    };
    assert_ne!(signed("g", &GATES), signed("h", &GATES));
    assert_eq!(signed("g", &[]), signed("h", &[]));
}
