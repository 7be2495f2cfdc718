//! PreBind tasks: objects written, waits, and what ends them; and what Reserve expects of objects.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use kube_scheduler_engine::{Input, Token};
use kube_scheduler_framework::api::{LazyJson, Object, Timestamp};
use kube_scheduler_framework::testing::object;
use kube_scheduler_framework::{
    ApiError, Completion, ObjectKey, ObjectWrite, PreBindFlight, PreBindTask, Status, TaskContext,
    TaskEvent, TaskStep,
};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::toy_scheduler::{START, ToyScheduler, node, pod, seconds};

type Step = Box<dyn FnMut(&mut TaskContext<'_>) -> TaskStep + Send + Sync>;

/// Does one step after the other, and writes down why.
struct Script {
    steps: VecDeque<Step>,
    events: Arc<Mutex<Vec<String>>>,
}

impl PreBindTask for Script {
    fn step(&mut self, cx: &mut TaskContext<'_>, event: TaskEvent) -> TaskStep {
        let event = match event {
            TaskEvent::Written(Ok(object)) => format!("written {}", object.resource_version),
            TaskEvent::Written(Err(error)) => format!("refused {} {error}", error.reason),
            other => format!("{other:?}").to_lowercase(),
        };
        let gone = if cx.pod_exists { "" } else { ", pod gone" };
        self.events.lock().unwrap().push(format!("{event}{gone}"));
        self.steps.pop_front().unwrap()(cx)
    }
}

type Events = Arc<Mutex<Vec<String>>>;

/// A plugin whose PreBind is a task with the steps that `steps` gives.
fn scripted(
    name: &'static str,
    may_run_in_parallel: bool,
    steps: impl Fn() -> Vec<Step> + Send + Sync + 'static,
) -> (Toy, Events) {
    let events = Events::default();
    let theirs = events.clone();
    let toy = Toy::new(name)
        .flight(move |_, _| PreBindFlight { status: Status::SUCCESS, may_run_in_parallel })
        .pre_bind(move |_, _| {
            let (steps, events) = (steps().into(), theirs.clone());
            Completion::Task(Box::new(Script { steps, events }))
        });
    (toy, events)
}

fn step(step: impl Fn(&mut TaskContext<'_>) -> TaskStep + Send + Sync + 'static) -> Step {
    Box::new(step)
}

fn write(name: &'static str) -> Step {
    step(move |_| TaskStep::Write(ObjectWrite::Replace(volume(name, "1", "changed"))))
}

fn sleep(until: Option<Timestamp>, name: &'static str) -> Step {
    step(move |_| TaskStep::Wait { until, objects: vec![ObjectKey::from(&*volume(name, "", ""))] })
}

fn done(status: Status) -> Step {
    step(move |_| TaskStep::Done(status.clone()))
}

fn volume(name: &str, revision: &str, note: &str) -> Arc<Object> {
    object(&format!("pv {name} version={revision} label:note={note}")).build()
}

impl ToyScheduler {
    fn answered(&mut self, token: u64, result: Result<Arc<Object>, ApiError>) {
        self.input(Input::ObjectWritten { token: Token(token), result });
    }

    fn applied(&mut self, object: Arc<Object>) {
        self.input(Input::ObjectApplied(object));
    }

    /// The note on the volume as decisions count with it.
    fn latest(&self, name: &str) -> Option<String> {
        let objects = self.engine.cluster().objects();
        let volume = objects.latest("", "PersistentVolume", "", name)?;
        volume.labels.get("note").map(str::to_owned)
    }
}

fn conflict() -> ApiError {
    ApiError::new("Conflict", "the object has been modified")
}

fn taken(events: &Events) -> Vec<String> {
    std::mem::take(&mut events.lock().unwrap())
}

/// Tries a pod; drops the early nomination.
fn started(toys: Vec<Toy>) -> ToyScheduler {
    let mut scheduler = ToyScheduler::new(toys);
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n1");
    scheduler
}

#[test]
fn a_task_writes_waits_and_lets_the_binding_go_on() {
    let (toy, events) = scripted("A", true, || {
        let until = Some(START + seconds(5));
        vec![write("a"), write("b"), sleep(until, "a"), sleep(until, "a"), done(Status::SUCCESS)]
    });
    let mut scheduler = started(vec![toy]);
    assert_eq!(
        scheduler.effects(),
        ["patch ns/p uid=p-uid nominated=n1", "write #1 A PersistentVolume a revision=1",]
    );
    scheduler.applied(volume("a", "1", ""));
    scheduler.answered(1, Ok(volume("a", "2", "")));
    assert_eq!(scheduler.effects(), ["write #2 A PersistentVolume b revision=1"]);
    scheduler.answered(1, Ok(volume("a", "2", "")));
    assert_eq!(scheduler.effects(), Vec::<String>::new(), "a token is good for one answer");
    scheduler.answered(2, Ok(volume("b", "7", "")));
    assert_eq!(taken(&events), ["started", "written 2", "written 7"]);
    assert_eq!(scheduler.engine.next_deadline(), Some(START + seconds(5)));

    scheduler.applied(volume("b", "7", ""));
    scheduler.advance(seconds(4));
    assert_eq!(taken(&events), Vec::<String>::new(), "nothing it waits for");
    scheduler.applied(volume("a", "2", ""));
    assert_eq!(taken(&events), ["woken"]);
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    scheduler.advance(seconds(1));
    assert_eq!(taken(&events), ["woken"]);
    assert_eq!(scheduler.effects(), ["bind #3 ns/p uid=p-uid node=n1"]);
    assert_eq!(scheduler.engine.next_deadline(), None, "no task waits for a time any more");
    scheduler.written(3, Ok(()));
    assert_eq!(scheduler.engine.n_binding(), 0);
}

#[test]
fn the_deletion_of_an_object_wakes_who_waits_for_it() {
    let (toy, events) = scripted("A", false, || vec![sleep(None, "a"), sleep(None, "a")]);
    let mut scheduler = started(vec![toy]);
    scheduler.input(Input::ObjectDeleted(volume("a", "1", "")));
    assert_eq!(taken(&events), ["started"], "there was nothing to delete");
    scheduler.applied(volume("b", "1", ""));
    scheduler.input(Input::ObjectDeleted(volume("b", "1", "")));
    assert_eq!(taken(&events), Vec::<String>::new());
    scheduler.applied(volume("a", "1", ""));
    assert_eq!(taken(&events), ["woken"]);
}

#[test]
fn a_time_that_is_past_wakes_only_when_time_passes() {
    let (toy, events) =
        scripted("A", false, || vec![sleep(Some(START), "a"), done(Status::SUCCESS)]);
    let mut scheduler = started(vec![toy]);
    assert_eq!(taken(&events), ["started"]);
    scheduler.input(Input::TimePassed);
    assert_eq!(taken(&events), Vec::<String>::new());
    scheduler.advance(std::time::Duration::from_millis(1));
    assert_eq!(taken(&events), ["woken"]);
}

#[test]
fn a_refused_write_is_the_tasks_to_judge() {
    let (toy, events) = scripted("A", false, || vec![write("a"), done(Status::error("modified"))]);
    let mut scheduler = started(vec![toy, Toy::new("R").unreserve(|_, _| ())]);
    scheduler.effects();
    scheduler.answered(1, Err(conflict()));
    assert_eq!(taken(&events), ["started", "refused Conflict the object has been modified"]);
    let message = "running PreBind plugin \\\"A\\\": modified";
    assert_eq!(
        scheduler.effects(),
        [
            format!("event ns/p Warning FailedScheduling Scheduling \"{message}\""),
            format!(
                "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError message=\"{message}\""
            ),
        ]
    );
    assert_eq!(scheduler.calls_at("Unreserve"), ["R.Unreserve(p)"]);
    assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
    assert!(scheduler.is_clean());
}

#[test]
fn a_task_hears_that_its_pod_is_gone() {
    let (toy, events) = scripted("A", false, || {
        vec![
            sleep(None, "a"),
            step(|cx| {
                assert!(!cx.pod_exists);
                TaskStep::Done(Status::error("gone"))
            }),
        ]
    });
    let mut scheduler = started(vec![toy]);
    scheduler.delete(&pod("p"));
    assert_eq!(taken(&events), ["started", "woken, pod gone"]);
    assert!(scheduler.is_clean());
    assert_eq!(scheduler.place("p"), None);
}

#[test]
fn a_task_that_writes_hears_of_the_end_of_its_pod_with_the_answer() {
    let (toy, events) = scripted("A", false, || vec![write("a"), done(Status::error("gone"))]);
    let mut scheduler = started(vec![toy]);
    scheduler.delete(&pod("p"));
    assert_eq!(taken(&events), ["started"]);
    scheduler.answered(1, Ok(volume("a", "2", "")));
    assert_eq!(taken(&events), ["written 2, pod gone"]);
    assert!(scheduler.is_clean());
}

#[test]
fn a_panic_ends_a_task_and_what_it_asked_for_in_that_step_is_not_done() {
    let (toy, _) = scripted("A", false, || {
        vec![
            sleep(None, "a"),
            step(|cx| {
                cx.commands.assume_object(volume("a", "1", "mine"));
                panic!("no")
            }),
        ]
    });
    let mut scheduler = started(vec![toy]);
    scheduler.applied(volume("a", "1", "reported"));
    assert_eq!(scheduler.latest("a").as_deref(), Some("reported"));
    assert!(scheduler.is_clean());
    assert!(scheduler.effects().iter().any(|effect| effect.contains("plugin panicked: no")));
}

#[test]
fn what_a_step_asks_for_is_done_at_once() {
    let (toy, _) = scripted("A", false, || {
        vec![
            sleep(None, "a"),
            step(|cx| {
                cx.commands.assume_object(volume("a", "1", "mine"));
                TaskStep::Write(ObjectWrite::Replace(volume("a", "1", "mine")))
            }),
            step(|cx| {
                cx.commands.restore_object(volume("a", "1", ""));
                TaskStep::Done(Status::SUCCESS)
            }),
        ]
    });
    let mut scheduler = started(vec![toy]);
    scheduler.applied(volume("a", "1", "reported"));
    assert_eq!(scheduler.latest("a").as_deref(), Some("mine"));
    scheduler.answered(1, Ok(volume("a", "2", "")));
    assert_eq!(scheduler.latest("a").as_deref(), Some("reported"));
}

/// A fails while B sleeps, or while B writes.
#[test]
fn a_failed_neighbour_ends_those_that_sleep_and_waits_for_writes() {
    for writes in [false, true] {
        let (a, _) = scripted("A", true, || vec![write("a"), done(Status::error("boom"))]);
        let (b, b_events) = scripted("B", true, move || {
            let first = if writes { write("b") } else { sleep(Some(START + seconds(9)), "b") };
            vec![first, write("c")]
        });
        let mut scheduler = started(vec![a, b]);
        scheduler.effects();
        scheduler.answered(1, Err(conflict()));
        if writes {
            assert!(scheduler.is_assumed(&pod("p")), "B's write is under way");
            scheduler.answered(2, Ok(volume("b", "2", "")));
            assert_eq!(taken(&b_events), ["started", "written 2"]);
        } else {
            assert_eq!(taken(&b_events), ["started"]);
        }
        let effects = scheduler.effects();
        assert_eq!(effects.len(), 2, "no further write: {effects:?}");
        assert!(effects[0].contains("running PreBind plugin \\\"A\\\": boom"));
        assert!(scheduler.is_clean());
        scheduler.advance(seconds(20));
        assert_eq!(taken(&b_events), Vec::<String>::new(), "it is gone");
    }
}

#[test]
fn an_answer_that_comes_after_the_end_finds_nobody() {
    let (a, _) = scripted("A", true, || vec![write("a"), done(Status::error("boom"))]);
    let (b, events) = scripted("B", true, || vec![sleep(None, "b")]);
    let mut scheduler = started(vec![a, b]);
    scheduler.answered(1, Err(conflict()));
    assert!(scheduler.is_clean());
    scheduler.effects();
    scheduler.answered(1, Ok(volume("a", "2", "")));
    scheduler.applied(volume("b", "2", ""));
    assert_eq!(taken(&events), ["started"]);
    assert_eq!(scheduler.effects(), Vec::<String>::new());
}

fn expecting() -> Toy {
    Toy::new("E").expects(
        |_, _, commands| commands.assume_object(volume("a", "1", "mine")),
        |_, _, commands| commands.restore_object(volume("a", "1", "")),
    )
}

#[test]
fn what_reserve_expects_is_seen_by_the_next_plugin_and_undone_with_it() {
    let seen = Events::default();
    let theirs = seen.clone();
    let looking = Toy::new("L")
        .expects(
            move |cx, _, _| {
                let latest = cx.cluster().objects().latest("", "PersistentVolume", "", "a");
                let note = latest.and_then(|volume| volume.labels.get("note")).unwrap_or("none");
                theirs.lock().unwrap().push(note.to_owned());
            },
            |_, _, _| (),
        )
        .reserve(|_, _| Status::unschedulable("no"));
    let mut scheduler = ToyScheduler::new(vec![expecting(), looking]);
    scheduler.applied(volume("a", "1", "reported"));
    assert_eq!(scheduler.try_pod(&pod("p")), "unschedulable 0/1 nodes are available: 1 no.");
    assert_eq!(taken(&seen), ["mine"]);
    assert_eq!(scheduler.latest("a").as_deref(), Some("reported"));
    assert_eq!(scheduler.engine.cluster().objects().n_assumed(), 0);
}

#[test]
fn a_refused_expectation_is_noted_and_changes_nothing() {
    let mut scheduler = ToyScheduler::new(vec![expecting()]);
    scheduler.applied(volume("a", "2", "reported"));
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n1");
    assert_eq!(scheduler.latest("a").as_deref(), Some("reported"));
    assert_eq!(
        scheduler.engine.drain_notes().collect::<Vec<_>>(),
        ["assume: \"a\" is out of sync (stored: 2, assume: 1)"]
    );
}

#[test]
fn a_recorded_decision_is_followed_if_the_pod_fits_anywhere() {
    let score = Toy::new("S").score(|_, node| if node == "n2" { 9 } else { 1 }).filter(|pod, _| {
        if &*pod.name == "q" { Status::unschedulable("no") } else { Status::SUCCESS }
    });
    let mut scheduler =
        ToyScheduler::new(vec![score, Toy::new("R").reserve(|_, _| Status::SUCCESS)]);
    scheduler.input(Input::NodeApplied(node("n2")));
    scheduler.apply(&pod("p"));
    let turn = scheduler.engine.schedule_next_onto("n1", START).unwrap();
    assert_eq!(turn.chosen.as_deref(), Some("n2"));
    assert_eq!(scheduler.calls_at("Reserve"), ["R.Reserve(p)"]);
    let placed = scheduler.engine.cluster().pod("p-uid").unwrap().node_name.clone();
    assert_eq!(placed.as_deref(), Some("n1"));
    scheduler.apply(&pod("q"));
    let turn = scheduler.engine.schedule_next_onto("n1", START).unwrap();
    assert_eq!(turn.chosen, None);
    scheduler.apply(&pod("r"));
    let turn = scheduler.engine.schedule_next_onto("gone", START).unwrap();
    assert_eq!(turn.result, kube_scheduler_engine::AttemptResult::Assumed("n2".into()));
}

fn request(write: impl Fn() -> ObjectWrite + Send + Sync + 'static) -> Step {
    step(move |_| TaskStep::Write(write()))
}

#[test]
fn a_task_asks_for_every_kind_of_request() {
    let key = || ObjectKey::from(&*volume("a", "", ""));
    let patch = || LazyJson::from(serde_json::json!({"status": {"phase": "Failed"}}));
    let (toy, events) = scripted("A", true, move || {
        vec![
            request(|| ObjectWrite::Create(volume("a", "", ""))),
            request(|| ObjectWrite::ReplaceStatus(volume("a", "1", ""))),
            request(move || ObjectWrite::PatchStatus {
                object: key(),
                patch: patch(),
                is_final: false,
            }),
            request(move || ObjectWrite::Get(key())),
            request(|| ObjectWrite::Delete { object: volume("a", "3", ""), finalizer: None }),
            done(Status::SUCCESS),
        ]
    });
    let mut scheduler = started(vec![toy]);
    let mut asked = scheduler.effects().split_off(1);
    for token in 1..=5 {
        scheduler.answered(token, Ok(volume("a", &token.to_string(), "")));
        asked.extend(scheduler.effects());
    }
    assert_eq!(
        asked[..5],
        [
            "write #1 A PersistentVolume a created",
            "write #2 A PersistentVolume a status revision=1",
            "write #3 A PersistentVolume a status patch={\"status\":{\"phase\":\"Failed\"}}",
            "write #4 A PersistentVolume a read",
            "write #5 A PersistentVolume a deleted",
        ]
    );
    let written = (1..=5).map(|revision| format!("written {revision}"));
    let expected: Vec<String> = std::iter::once("started".to_owned()).chain(written).collect();
    assert_eq!(taken(&events), expected);
}

#[test]
fn a_confirmed_object_is_known_before_the_watch_reports_it() {
    let (toy, _) = scripted("A", true, || {
        let confirm = step(|cx| {
            cx.commands.confirm_object(volume("a", "5", "confirmed"));
            cx.commands.write_object(cx.pod, ObjectWrite::Replace(volume("b", "1", "")));
            TaskStep::Done(Status::SUCCESS)
        });
        vec![write("a"), confirm]
    });
    let mut scheduler = started(vec![toy]);
    scheduler.applied(volume("a", "1", "reported"));
    scheduler.effects();
    scheduler.answered(1, Ok(volume("a", "5", "confirmed")));
    assert_eq!(scheduler.latest("a").as_deref(), Some("confirmed"));
    assert!(
        scheduler.effects().contains(&"write for ns/p PersistentVolume b revision=1".to_owned()),
        "requests without an answer are carried out too"
    );
    for (revision, note) in [("4", "older"), ("5", "same")] {
        scheduler.applied(volume("a", revision, note));
        assert_eq!(scheduler.latest("a").as_deref(), Some("confirmed"), "{note}");
    }
    scheduler.applied(volume("a", "6", "newer"));
    assert_eq!(scheduler.latest("a").as_deref(), Some("newer"));
}

#[test]
fn pending_objects_are_seen_by_all_until_they_are_taken_back() {
    let pending = |scheduler: &ToyScheduler| {
        scheduler.engine.cluster().objects().pending("", "PersistentVolume", "v-uid").is_some()
    };
    let (toy, _) = scripted("A", true, || {
        let announce = step(|cx| {
            let mut object = Object::clone(&volume("a", "1", ""));
            object.uid = "v-uid".into();
            cx.commands.add_pending_object(Arc::new(object));
            TaskStep::Write(ObjectWrite::Replace(volume("a", "1", "changed")))
        });
        let take_back = step(|cx| {
            cx.commands.remove_pending_object("", "PersistentVolume", &"v-uid".into(), false);
            TaskStep::Done(Status::SUCCESS)
        });
        vec![announce, take_back]
    });
    let mut scheduler = started(vec![toy]);
    assert!(pending(&scheduler));
    scheduler.answered(1, Ok(volume("a", "2", "")));
    assert!(!pending(&scheduler));
}
