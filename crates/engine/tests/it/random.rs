//! Random histories: the same twice gives the same effects, and nothing is ever left behind.

use kube_scheduler_engine::Input;
use kube_scheduler_framework::{Completion, PermitDecision, PreBindFlight, Status};
use proptest::prelude::*;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, important, leaving, running, seconds};

/// A step of a history; numbers name one of a few pods, nodes or tokens.
#[derive(Clone, Debug)]
enum Step {
    Pod(u8),
    Leaving(u8),
    Running(u8, u8),
    Deleted(u8),
    Node(u8),
    NodeGone(u8),
    Attempt,
    Written(u8, bool),
    Finished(u8, bool),
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..8).prop_map(Step::Pod),
        1 => (0_u8..8).prop_map(Step::Leaving),
        2 => (0_u8..8, 0_u8..4).prop_map(|(pod, node)| Step::Running(pod, node)),
        2 => (0_u8..8).prop_map(Step::Deleted),
        3 => (0_u8..4).prop_map(Step::Node),
        1 => (0_u8..4).prop_map(Step::NodeGone),
        8 => Just(Step::Attempt),
        4 => (0_u8..20, any::<bool>()).prop_map(|(token, ok)| Step::Written(token, ok)),
        4 => (0_u8..20, any::<bool>()).prop_map(|(token, ok)| Step::Finished(token, ok)),
        2 => (0_u8..9).prop_map(Step::Wait),
    ]
}

fn digit(pod: &kube_scheduler_framework::api::Pod) -> u32 {
    pod.name[1..].parse().unwrap()
}

/// Plugins whose answers differ from pod to pod.
fn toys() -> Vec<Toy> {
    vec![
        Toy::new("A")
            .filter(|pod, node| {
                if node == "n3" && digit(pod).is_multiple_of(2) {
                    Status::unschedulable("odd only")
                } else {
                    Status::SUCCESS
                }
            })
            .score(|pod, node| i64::from(digit(pod) + u32::from(node.as_bytes()[1])) % 5)
            .reserve(|pod, _| match digit(pod) {
                6 => Status::unschedulable("never"),
                _ => Status::SUCCESS,
            }),
        Toy::new("B")
            .permit(|pod, _| match digit(pod) {
                n @ 1..=3 => PermitDecision::wait(seconds(n.into())),
                _ => PermitDecision::allow(),
            })
            .asks(|_, pod, commands| match digit(pod) {
                4 => commands.allow(&"p1-uid".into(), &"B".into()),
                5 => commands.reject(&"p2-uid".into(), &"B".into(), "no more"),
                _ => {}
            }),
        Toy::new("C")
            .flight(|pod, _| {
                let status = if digit(pod) == 0 { Status::skip() } else { Status::SUCCESS };
                PreBindFlight { status, may_run_in_parallel: true }
            })
            .pre_bind(|pod, _| match digit(pod) {
                7 => Completion::Pending(Box::pin(std::future::pending())),
                _ => Completion::Ready(Status::SUCCESS),
            }),
    ]
}

fn run(steps: &[Step]) -> (ToyScheduler, Vec<String>) {
    let mut scheduler = ToyScheduler::new(toys());
    let mut effects = Vec::new();
    let name = |pod: &u8| format!("p{pod}");
    for step in steps {
        match step {
            Step::Pod(pod) => {
                let pod = important(&name(pod), i32::from(pod % 3));
                // A pod that runs does not come back without its node.
                let cluster = scheduler.engine.cluster();
                if cluster.pod(&pod.uid).is_none() || cluster.is_assumed(&pod.uid) {
                    scheduler.apply(&pod);
                }
            }
            Step::Leaving(pod) => {
                let pod = leaving(&name(pod));
                let cluster = scheduler.engine.cluster();
                if cluster.pod(&pod.uid).is_none() || cluster.is_assumed(&pod.uid) {
                    scheduler.apply(&pod);
                }
            }
            Step::Running(pod, node) => {
                // Pods do not move.
                let node = format!("n{node}");
                let pod = running(&name(pod), &node);
                let cluster = scheduler.engine.cluster();
                let known = cluster.pod(&pod.uid).filter(|_| !cluster.is_assumed(&pod.uid));
                if known.is_none_or(|known| known.node_name == pod.node_name) {
                    scheduler.apply(&pod);
                }
            }
            Step::Deleted(pod) => scheduler.delete(&important(&name(pod), 0)),
            Step::Node(node) => scheduler.node(&format!("n{node}")),
            Step::NodeGone(node) => {
                scheduler.input(Input::NodeDeleted { name: format!("n{node}").into() });
            }
            Step::Attempt => drop(scheduler.turn()),
            Step::Written(token, true) => scheduler.written(u64::from(*token), Ok(())),
            Step::Written(token, false) => scheduler.written(u64::from(*token), Err("refused")),
            Step::Finished(token, true) => scheduler.finished(u64::from(*token), Status::SUCCESS),
            Step::Finished(token, false) => {
                scheduler.finished(u64::from(*token), Status::error("failed"));
            }
            Step::Wait(n) => scheduler.advance(seconds(u64::from(*n))),
        }
        effects.extend(scheduler.effects());
        assert_eq!(kube_scheduler_cache::check(scheduler.engine.cluster()), []);
    }
    (scheduler, effects)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_history_gives_the_same_effects(steps in proptest::collection::vec(step(), 1..80)) {
        prop_assert_eq!(run(&steps).1, run(&steps).1);
    }

    /// Once every wait is over and every answer is a refusal, nothing is on its way; what is still assumed has been
    /// bound.
    #[test]
    fn nothing_is_left_behind(steps in proptest::collection::vec(step(), 1..80)) {
        let (mut scheduler, effects) = run(&steps);
        scheduler.advance(seconds(60));
        let bound: std::collections::BTreeSet<String> = effects
            .iter()
            .filter_map(|effect| Some(effect.strip_prefix("event ns/")?.split_once(" Normal Scheduled")?.0.to_owned()))
            .collect();
        for token in 0..400 {
            scheduler.finished(token, Status::error("over"));
        }
        prop_assert_eq!(scheduler.engine.n_binding(), 0);
        let cluster = scheduler.engine.cluster();
        for (pod, _) in cluster.all_pods().filter(|(pod, _)| cluster.is_assumed(&pod.uid)) {
            prop_assert!(bound.contains(&*pod.name), "{} is assumed but was never bound", pod.name);
        }
    }
}
