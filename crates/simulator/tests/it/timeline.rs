//! Pods that come and go.

use kube_scheduler_simulator::{
    ClusterInput, PendingReason, Report, Simulation, SimulationOptions,
};
use proptest::prelude::*;
use serde_json::json;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1024,0,\n";
const HEAD: &str = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\n";

fn input(pods: &str) -> ClusterInput {
    let mut input = ClusterInput::default();
    input.add_nodes_csv("nodes.csv", NODES).unwrap();
    input.add_pods_csv("pods.csv", pods).unwrap();
    input
}

fn played(pods: &str, timeline: bool) -> Report {
    let mut simulation =
        Simulation::new(SimulationOptions { timeline, ..SimulationOptions::default() }).unwrap();
    simulation.load(input(pods).finish().unwrap());
    simulation.run().unwrap()
}

#[test]
fn pods_come_wait_and_go_at_their_times() {
    let pods = format!(
        "{HEAD}first,1000,1,0,1000,1100\nimpatient,1000,1,0,1010,1050\nlast,1000,1,0,1020,1300\nnever,1000,1,0,1030,1030\n"
    );
    let report = played(&pods, true);
    let placed: Vec<&str> =
        report.placements.iter().map(|placement| placement.pod.as_str()).collect();
    assert_eq!(placed, ["default/first", "default/last"]);
    assert_eq!((report.pods.total, report.pods.scheduled, report.pods.deleted), (4, 2, 2));
    let gone: Vec<_> = report.pending.iter().map(|gone| (gone.pod.as_str(), gone.reason)).collect();
    let deleted = PendingReason::Deleted;
    assert_eq!(gone, [("default/impatient", deleted), ("default/never", deleted)]);
    assert!(report.pending[0].message.starts_with("0/1 nodes are available"), "{report:?}");
    assert_eq!(report.nodes.used, 0, "all are gone at the end");
    let timeline = serde_json::to_value(report.timeline).unwrap();
    assert_eq!(timeline["seconds"], 300.0);
    let waits = json!({"mean": 40.0, "p50": 0.0, "p99": 80.0, "max": 80.0});
    assert_eq!(timeline["waitSeconds"], waits);
    assert_eq!(timeline["resources"]["cpu"], json!({"mean": 1.0, "peak": 1.0}));
    assert_eq!(timeline["resources"]["memory"]["peak"], 0.000977);
}

#[test]
fn without_a_timeline_times_of_deletion_mean_nothing() {
    let pods = format!("{HEAD}first,1000,1,0,1000,1100\nlast,1000,1,0,1020,1300\n");
    let report = played(&pods, false);
    assert_eq!((report.pods.scheduled, report.pods.unschedulable), (1, 1));
    assert_eq!(report.timeline, None);
}

#[test]
fn a_pod_cannot_go_before_it_comes() {
    let refused = |pods: &str| {
        let mut input = ClusterInput::default();
        input.add_pods_csv("pods.csv", pods).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&format!("{HEAD}a,1,1,0,20,10\n")),
        "pods.csv: line 2, column 6: deletion_time: expected no less than creation_time, which is 20, found 10"
    );
    assert!(
        refused(&format!("{HEAD}a,1,1,0,20,soon\n"))
            .contains("deletion_time: expected a whole number")
    );
}

fn pod() -> impl Strategy<Value = (u32, u32, Option<u32>)> {
    (1..1200u32, 0..500u32, prop::option::of(0..300u32))
}

proptest! {
    /// Every pod is counted once, and no more is used than there is.
    #[test]
    fn pods_are_accounted_for(pods in prop::collection::vec(pod(), 0..30)) {
        let rows: String = pods
            .iter()
            .enumerate()
            .map(|(n, (cpu, comes, stays))| {
                let goes = stays.map_or_else(String::new, |stays| (comes + stays).to_string());
                format!("p{n},{cpu},1,0,{comes},{goes}\n")
            })
            .collect();
        let report = played(&(HEAD.to_owned() + &rows), true);
        let counts = report.pods;
        prop_assert_eq!(counts.total, pods.len());
        prop_assert_eq!(counts.total, counts.scheduled + counts.unschedulable + counts.deleted);
        // What has no end is still there, or still waits.
        let n_endless = pods.iter().filter(|(_, _, stays)| stays.is_none()).count();
        let n_left: i64 = report.node_usage.iter().map(|usage| usage.pods).sum();
        prop_assert_eq!(n_left as usize + counts.unschedulable, n_endless);
        let too_large = pods.iter().filter(|(cpu, ..)| *cpu > 1000).count();
        prop_assert!(counts.unschedulable + counts.deleted >= too_large);
        let timeline = report.timeline.unwrap();
        for used in timeline.resources.values() {
            let used = serde_json::to_value(used).unwrap();
            let [mean, peak] = ["mean", "peak"].map(|field| used[field].as_f64().unwrap());
            prop_assert!(mean <= peak && peak <= 1.0, "{}", used);
        }
    }
}
