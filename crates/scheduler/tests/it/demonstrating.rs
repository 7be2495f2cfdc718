//! `demo` end to end: every pod is bound and counted, and the exit code tells the truth.

use serde_json::Value;

use crate::{Files, run, stderr, stdout};

#[test]
fn every_pod_is_bound_and_reported() {
    let files = Files::new();
    let report = files.write("report.json", "");
    let args = [
        "demo", "--nodes", "10", "--pods", "200", "--seed", "7", "-o", "json", "--report", &report,
    ];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!(printed, written);
    assert_eq!(
        (&printed["nodes"], &printed["pods"]["total"], &printed["pods"]["bound"]),
        (&10.into(), &200.into(), &200.into())
    );
    let shapes = printed["shapes"].as_object().unwrap();
    assert_eq!(shapes.len(), 9);
    let bound: u64 = shapes.values().map(|shape| shape["bound"].as_u64().unwrap()).sum();
    assert_eq!(bound, 200);
    assert!(printed["timeToBindSeconds"]["p99"].as_f64().unwrap() > 0.0);
    assert!(printed["pending"].as_array().unwrap().is_empty());
}

#[test]
fn devices_are_allocated_and_what_does_not_fit_is_reported() {
    let files = Files::new();
    let report = files.write("report.json", "");
    let args =
        ["demo", "--devices", "--nodes", "10", "--pods", "200", "-o", "json", "--report", &report];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(printed["pods"]["bound"], 196);
    let allocated = |driver: &str| printed["devices"][driver]["allocated"].as_u64().unwrap();
    // 50 pods with one GPU, 10 with two, 10 with a large one; 16 with half of one; 10 in the network.
    assert_eq!(
        ["gpu", "partition", "fabric"].map(|name| allocated(&format!("{name}.example.com"))),
        [80, 16, 10]
    );
    let pending = printed["pending"].as_array().unwrap();
    assert_eq!(pending.len(), 4);
    for pod in pending {
        let message = pod["message"].as_str().unwrap();
        assert!(message.contains("10 cannot allocate all claims"), "{message}");
    }
}

#[test]
fn not_binding_everything_in_time_is_a_failure() {
    let files = Files::new();
    let report = files.write("report.json", "");
    let args = [
        "demo",
        "--nodes",
        "10",
        "--pods",
        "2000",
        "--timeout",
        "0",
        "-o",
        "json",
        "--report",
        &report,
    ];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(printed["pods"]["bound"].as_u64().unwrap() < 2000);
}
