//! What time alone does.

use std::time::Duration;

use kube_scheduler_engine::Input;
use kube_scheduler_framework::{PermitDecision, Status};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::toy_scheduler::{START, ToyScheduler, pod, seconds};

#[test]
fn nothing_happens_by_itself_in_a_quiet_engine() {
    let mut scheduler = ToyScheduler::new(vec![]);
    assert_eq!(scheduler.engine.next_deadline(), None);
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.engine.next_deadline(), None, "an answer is awaited, not a time");
}

#[test]
fn the_next_deadline_is_the_first_of_backoffs_and_waits() {
    let mut scheduler = ToyScheduler::new(vec![
        Toy::new("F").filter(|pod, _| {
            if &*pod.name == "bad" { Status::error("boom") } else { Status::SUCCESS }
        }),
        Toy::new("W").permit(|_, _| PermitDecision::wait(seconds(30))),
    ]);
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.engine.next_deadline(), Some(START + seconds(30)));
    scheduler.try_pod(&pod("bad"));
    let backoff = scheduler.engine.next_deadline().unwrap();
    assert!(backoff > START + seconds(1) - Duration::from_nanos(1) && backoff < START + seconds(3));
    assert!(!scheduler.engine.has_ready());
    scheduler.now = backoff;
    scheduler.input(Input::TimePassed);
    assert_eq!(scheduler.place("bad"), Some(Place::Active));
    assert_eq!(scheduler.engine.next_deadline(), Some(START + seconds(30)));
}

#[test]
fn a_deadline_that_has_come_is_dealt_with_whatever_the_input() {
    let mut scheduler =
        ToyScheduler::new(vec![Toy::new("W").permit(|_, _| PermitDecision::wait(seconds(3)))]);
    scheduler.try_pod(&pod("p"));
    scheduler.effects();
    scheduler.now = START + seconds(3);
    scheduler.node("n2");
    assert!(scheduler.effects()[0].contains("rejected due to timeout"));
    scheduler.try_pod(&pod("q"));
    scheduler.effects();
    scheduler.now = START + seconds(6);
    assert_eq!(scheduler.attempt(), "nobody");
    assert!(scheduler.effects()[0].contains("event ns/q"), "asking for the next pod counts too");
}

#[test]
fn following_deadlines_always_comes_to_an_end() {
    let mut scheduler =
        ToyScheduler::new(vec![Toy::new("F").filter(|_, _| Status::unschedulable("full"))]);
    scheduler.try_pod(&pod("p"));
    for _ in 0..5 {
        let deadline = scheduler.engine.next_deadline().unwrap();
        assert!(deadline > scheduler.now, "every deadline is dealt with when it comes");
        scheduler.now = deadline;
        scheduler.input(Input::TimePassed);
        while scheduler.turn().is_some() {}
    }
}
