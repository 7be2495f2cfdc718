//! The runner of benchmark definitions, from file to results, against the API server in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube_scheduler_benches::blackbox::Backend;
use kube_scheduler_benches::scheduler_perf::{DataItem, Definitions, RunOptions, run_workload};

fn workloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads")
}

fn options() -> RunOptions {
    RunOptions {
        backend: Backend::Devcluster { is_plain: true },
        program: env!("CARGO_BIN_EXE_bench-scheduler-perf").into(),
        topic: String::new(),
        patience: Duration::from_secs(180),
        seed: 0,
        timeout: Duration::from_secs(300),
        gates: BTreeMap::new(),
    }
}

fn metrics<'a>(items: &'a [DataItem], name: &str) -> Vec<&'a DataItem> {
    items.iter().filter(|item| item.labels["Metric"] == name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_opcode_does_its_work() {
    let definitions = Definitions::read(&workloads().join("every-opcode.yaml")).unwrap();
    let outcome = run_workload(&definitions, "EveryOpcode", "small", &options()).await.unwrap();
    let names: Vec<&str> = metrics(&outcome.items, "SchedulingDuration")
        .iter()
        .map(|item| item.labels["Name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "BenchmarkPerfScheduling/EveryOpcode/small/waiting",
            "BenchmarkPerfScheduling/EveryOpcode/small/steady"
        ]
    );
    let attempts = metrics(&outcome.items, "scheduler_scheduling_attempt_duration_seconds");
    assert!(attempts.iter().any(|item| item.labels["result"] == "scheduled"), "{attempts:?}");
    assert_eq!(outcome.missed, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_small_workloads_run() {
    for file in ["own-classes.yaml", "anti-affinity-groups.yaml", "unschedulable.yaml"] {
        let definitions = Definitions::read(&workloads().join(file)).unwrap();
        let (case, workload, _) = definitions
            .workloads()
            .find(|(_, _, labels)| labels.contains(&"short"))
            .unwrap_or_else(|| panic!("{file} has a short workload"));
        let outcome = run_workload(&definitions, case, workload, &options()).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{file}: {error:#}"));
        assert_eq!(metrics(&outcome.items, "SchedulingDuration").len(), 1, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_waited_for_until_the_scheduler_knows_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("groups.yaml");
    std::fs::write(
        &path,
        "
- name: Groups
  workloadTemplate:
  - opcode: waitForPodGroups
    namespace: empty
    countParam: $groups
  - opcode: createPods
    count: 0
    collectMetrics: true
  workloads:
  - name: missing
    featureGates: {GenericWorkload: true}
    params: {groups: 1}
  - name: enough
    featureGates: {GenericWorkload: true}
    params: {groups: 0}
  - name: ungated
    params: {groups: 1}
",
    )
    .unwrap();
    let definitions = Definitions::read(&path).unwrap();
    let run = async |workload: &str| {
        let options = RunOptions { patience: Duration::from_secs(1), ..options() };
        run_workload(&definitions, "Groups", workload, &options).await
    };
    run("enough").await.unwrap();
    assert_eq!(
        format!("{:#}", run("missing").await.unwrap_err()),
        "Groups/missing: op 0: waitForPodGroups: the scheduler knows 0 of 1 pod groups of namespace empty after 1s"
    );
    assert_eq!(
        format!("{:#}", run("ungated").await.unwrap_err()),
        "Groups/ungated: op 0: waitForPodGroups: the scheduler does not watch pod groups: featureGates lacks GenericWorkload"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_workload_operation_and_pod() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("never.yaml");
    std::fs::write(
        &path,
        "
- name: Never
  workloadTemplate:
  - opcode: createNodes
    count: 1
    nodeTemplatePath: node.yaml
  - opcode: createPods
    countParam: $pods
    collectMetrics: true
  workloads:
  - name: one
    params: {pods: 1}
  - name: unused
    params: {pods: 0, podz: 1}
  - name: undefined
",
    )
    .unwrap();
    let node = "{apiVersion: v1, kind: Node, metadata: {name: 'n{{ .Index }}'}, status: {capacity: {pods: 0}}}";
    std::fs::write(directory.path().join("node.yaml"), node).unwrap();
    let definitions = Definitions::read(&path).unwrap();
    let refused = async |workload: &str| {
        let options = RunOptions { patience: Duration::from_secs(2), ..options() };
        let outcome = run_workload(&definitions, "Never", workload, &options).await;
        format!("{:#}", outcome.unwrap_err())
    };
    let told = refused("one").await;
    assert!(
        told.starts_with(
            "Never/one: op 1: createPods: 0 of 1 pods of namespace namespace-1 scheduled after 2s; "
        ),
        "{told}"
    );
    assert_eq!(
        refused("unused").await,
        "Never/unused: the parameters podz are defined, but unused"
    );
    assert_eq!(
        refused("undefined").await,
        "Never/undefined: op 1: createPods: countParam: parameter pods is undefined; the workload defines: "
    );
}
