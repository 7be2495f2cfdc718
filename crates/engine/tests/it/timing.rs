//! What time alone does.

use std::time::Duration;

use kube_scheduler_engine::Input;
use kube_scheduler_framework::{PermitDecision, Status};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::world::{START, World, pod, seconds};

#[test]
fn nothing_happens_by_itself_in_a_quiet_engine() {
    let mut world = World::new(vec![]);
    assert_eq!(world.engine.next_deadline(), None);
    world.try_pod(&pod("p"));
    assert_eq!(world.engine.next_deadline(), None, "an answer is awaited, not a time");
}

#[test]
fn the_next_deadline_is_the_first_of_backoffs_and_waits() {
    let mut world = World::new(vec![
        Toy::new("F").filter(|pod, _| {
            if &*pod.name == "bad" { Status::error("boom") } else { Status::SUCCESS }
        }),
        Toy::new("W").permit(|_, _| PermitDecision::wait(seconds(30))),
    ]);
    world.try_pod(&pod("p"));
    assert_eq!(world.engine.next_deadline(), Some(START + seconds(30)));
    world.try_pod(&pod("bad"));
    let backoff = world.engine.next_deadline().unwrap();
    assert!(backoff > START + seconds(1) - Duration::from_nanos(1) && backoff < START + seconds(3));
    assert!(!world.engine.has_ready());
    world.now = backoff;
    world.input(Input::TimePassed);
    assert_eq!(world.place("bad"), Some(Place::Active));
    assert_eq!(world.engine.next_deadline(), Some(START + seconds(30)));
}

#[test]
fn a_deadline_that_has_come_is_dealt_with_whatever_the_input() {
    let mut world = World::new(vec![Toy::new("W").permit(|_, _| PermitDecision::wait(seconds(3)))]);
    world.try_pod(&pod("p"));
    world.effects();
    world.now = START + seconds(3);
    world.node("n2");
    assert!(world.effects()[0].contains("rejected due to timeout"));
    world.try_pod(&pod("q"));
    world.effects();
    world.now = START + seconds(6);
    assert_eq!(world.attempt(), "nobody");
    assert!(world.effects()[0].contains("event ns/q"), "asking for the next pod counts too");
}

#[test]
fn following_deadlines_always_comes_to_an_end() {
    let mut world = World::new(vec![Toy::new("F").filter(|_, _| Status::unschedulable("full"))]);
    world.try_pod(&pod("p"));
    for _ in 0..5 {
        let deadline = world.engine.next_deadline().unwrap();
        assert!(deadline > world.now, "every deadline is dealt with when it comes");
        world.now = deadline;
        world.input(Input::TimePassed);
        while world.turn().is_some() {}
    }
}
