//! Recorded decisions of the reference, with evaluations shared between equal pods and without.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use kube_scheduler_tests::conformance::{Options, run_family};

/// Every step of `family` must conform, however evaluations are shared.
fn check(family: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/conformance");
    for uses_class_cache in [true, false] {
        let report = run_family(&dir, family, Options { uses_class_cache, only: None }).unwrap();
        assert!(
            report.conforms(),
            "{family} steps={} conform={} class_cache={uses_class_cache}\n{}",
            report.n_steps,
            report.n_conforming,
            report.differences.join("\n")
        );
    }
}

macro_rules! families {
    ($($test:ident: $family:literal;)*) => {
        $(
            #[test]
            fn $test() {
                check($family);
            }
        )*
    };
}

families! {
    quantities_conform: "quantities";
    selector_expressions_conform: "cel";
    queue_histories_conform: "queue";
    resources_conform: "resources";
    strategies_conform: "strategies";
    node_affinity_conforms: "nodeaffinity";
    taints_conform: "taints";
    ports_gates_and_names_conform: "ports-gates-names";
    images_conform: "images";
    topology_spread_conforms: "topologyspread";
    default_spread_conforms: "spread-defaults";
    inter_pod_affinity_conforms: "interpodaffinity";
    volumes_conform: "volumes";
    preemption_conforms: "preemption";
    profiles_conform: "profiles";
    mixed_clusters_conform: "mixed";
    hints_conform: "hints";
    configurations_conform: "config";
}
