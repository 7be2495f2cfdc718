//! Whole simulations, from texts to reports.

use kube_scheduler_answers::Verdict;
use kube_scheduler_simulator::{
    ClusterInput, Format, PendingReason, RenderOptions, Report, Simulation, SimulationError,
    SimulationOptions, render,
};

const GOLDEN_INPUT: &str = include_str!("../data/mixed.yaml");

fn simulate(text: &str, options: SimulationOptions) -> Report {
    simulation(text, options).run().unwrap()
}

fn simulation(text: &str, options: SimulationOptions) -> Simulation {
    let mut input = ClusterInput::default();
    input.add_manifests("input", text).unwrap();
    let mut simulation = Simulation::new(options).unwrap();
    simulation.load(input.finish().unwrap());
    simulation
}

fn node(name: &str, cpu: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n\
         status: {{allocatable: {{cpu: '{cpu}', memory: 8Gi, pods: '10'}}}}\n"
    )
}

fn pod(name: &str, cpu: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: c, resources: {{requests: {{cpu: '{cpu}'}}}}}}]{spec}}}\n"
    )
}

#[test]
fn a_message_longer_than_a_format_width_is_printed() {
    // A node names the first 50 resources that it is short of; each of these is short of others.
    const N_NODES: usize = 16;
    const N_NAMED: usize = 50;
    let resources = |n: usize| {
        let all = (0..n).map(|n| format!("example.com/{}-{n:05}: '1'", "resource".repeat(7)));
        all.collect::<Vec<_>>().join(", ")
    };
    let nodes: String = (0..N_NODES)
        .map(|n| {
            format!(
                "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{n}}}\n\
             status: {{allocatable: {{cpu: '1', memory: 1Gi, pods: '110', {}}}}}\n",
                resources(n * N_NAMED)
            )
        })
        .collect();
    let pod = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n\
         spec: {{containers: [{{name: c, resources: {{requests: {{{}}}}}}}]}}\n",
        resources(N_NODES * N_NAMED)
    );
    let report = simulate(&(nodes + &pod), SimulationOptions::default());
    assert!(report.pending[0].message.len() > usize::from(u16::MAX));
    let text = render(&report, RenderOptions::default()).unwrap();
    assert!(text.contains("resource-00799"));
}

fn placements(report: &Report) -> Vec<(&str, &str)> {
    report
        .placements
        .iter()
        .map(|placement| (placement.pod.as_str(), placement.node.as_str()))
        .collect()
}

fn golden(name: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{} differs; UPDATE_GOLDEN=1 rewrites it", path.display());
}

fn golden_report() -> Report {
    let options = SimulationOptions {
        explain: vec!["web-1".parse().unwrap(), "huge".parse().unwrap()],
        ..Default::default()
    };
    simulate(GOLDEN_INPUT, options)
}

#[test]
fn the_report_of_a_small_cluster_is_as_recorded() {
    let report = golden_report();
    for (format, name) in [
        (Format::Json, "mixed.json"),
        (Format::Yaml, "mixed.yaml.out"),
        (Format::Table, "mixed.table"),
        (Format::Wide, "mixed.wide"),
    ] {
        golden(name, &render(&report, RenderOptions { format, shows_pending: false }).unwrap());
    }
}

#[test]
fn the_yaml_report_says_what_the_json_report_says() {
    let report = golden_report();
    let text = |format| render(&report, RenderOptions { format, shows_pending: false }).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&text(Format::Yaml)).unwrap();
    assert_eq!(json, yaml);
}

#[test]
fn the_same_input_gives_an_equal_report_whoever_asks() {
    let simulation = simulation(GOLDEN_INPUT, SimulationOptions::default());
    let first = simulation.run().unwrap();
    assert_eq!(first, simulation.run().unwrap());
    let mut explained = golden_report();
    explained.explanations.clear();
    assert_eq!(first, explained, "explaining changes nothing");
}

#[test]
fn a_pod_of_high_priority_makes_room_for_itself() {
    let text =
        node("n1", "2") + &pod("low", "2", ", nodeName: n1") + &pod("high", "2", ", priority: 10");
    let report = simulate(
        &text,
        SimulationOptions { explain: vec!["high".parse().unwrap()], ..Default::default() },
    );
    assert_eq!(placements(&report), [("default/high", "n1")]);
    let [victim] = &*report.preempted else { panic!("{report:?}") };
    assert_eq!(
        (victim.pod.as_str(), victim.node.as_str(), victim.by.as_deref()),
        ("default/low", "n1", Some("default/high"))
    );
    let pods = report.pods;
    assert_eq!((pods.total, pods.scheduled, pods.preempted, pods.already_running), (2, 1, 1, 0));
    let [explanation] = &*report.explanations else { panic!("{report:?}") };
    assert_eq!(
        (explanation.attempts, explanation.preempts.as_slice()),
        (2, &["default/low".to_owned()][..])
    );
    let decision = explanation.decision.as_ref().unwrap();
    assert_eq!(decision.verdict, Verdict::Fits, "the last attempt is what counts: {decision:?}");
}

#[test]
fn pods_that_nobody_tries_are_accounted_for() {
    let text = node("n1", "2")
        + &pod("gated", "1", ", schedulingGates: [{name: a}, {name: b}]")
        + &pod("other", "1", ", schedulerName: mine")
        + &pod("going", "1", "")
            .replace("{name: going}", "{name: going, deletionTimestamp: '2026-01-01T00:00:00Z'}");
    let report = simulate(
        &text,
        SimulationOptions { explain: vec!["gated".parse().unwrap()], ..Default::default() },
    );
    let found: Vec<(&str, PendingReason, &str)> = report
        .pending
        .iter()
        .map(|pending| (pending.pod.as_str(), pending.reason, pending.message.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (
                "default/gated",
                PendingReason::SchedulingGated,
                "waiting for scheduling gates: [a b]"
            ),
            ("default/going", PendingReason::Skipped, "the pod is being deleted"),
            ("default/other", PendingReason::Skipped, "no profile for scheduler name \"mine\""),
        ]
    );
    assert_eq!((report.pods.total, report.pods.gated, report.pods.skipped), (3, 1, 2));
    let decision = report.explanations[0].decision.as_ref().unwrap();
    assert_eq!(decision.n_feasible, 1, "where it would go without its gates");
    assert_eq!(decision.place.as_ref().unwrap().stage, "Gated");
}

#[test]
fn pending_pods_come_in_the_order_of_their_creation() {
    let dated = |name: &str, date: &str| {
        pod(name, "1", "")
            .replace("{name: ", &format!("{{creationTimestamp: '{date}', name: "))
            .replace(
                &format!("containers: [{{creationTimestamp: '{date}', name: c"),
                "containers: [{name: c",
            )
    };
    let text = node("n1", "2")
        + &pod("undated", "1", "")
        + &dated("second", "2026-01-02T00:00:00Z")
        + &dated("first", "2026-01-01T00:00:00Z");
    let report = simulate(&text, SimulationOptions::default());
    assert_eq!(placements(&report), [("default/first", "n1"), ("default/second", "n1")]);
    assert_eq!(report.pending[0].pod, "default/undated");
    assert_eq!(
        report.pending[0].message,
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
}

#[test]
fn without_nodes_nothing_is_placed_and_the_run_ends() {
    let report = simulate(&(pod("a", "1", "") + &pod("b", "1", "")), SimulationOptions::default());
    assert_eq!((report.pods.unschedulable, report.nodes.total), (2, 0));
    assert_eq!(report.pending[0].message, "no nodes available to schedule pods");
    assert!(report.utilisation.is_empty());
}

#[test]
fn loading_more_answers_what_if() {
    let mut simulation = simulation(
        &(node("n1", "1") + &pod("a", "1", "") + &pod("b", "1", "")),
        SimulationOptions::default(),
    );
    assert_eq!(simulation.run().unwrap().pods.unschedulable, 1);
    let mut more = ClusterInput::default();
    more.add_manifests("more", &node("n1", "2")).unwrap();
    simulation.load(more.finish().unwrap());
    let report = simulation.run().unwrap();
    assert_eq!((report.pods.unschedulable, report.nodes.total), (0, 1));
}

#[test]
fn explaining_a_pod_that_is_not_there_is_an_error() {
    let options = SimulationOptions { explain: vec!["x/y".parse().unwrap()], ..Default::default() };
    let error = simulation(&node("n1", "1"), options).run().unwrap_err();
    assert!(matches!(error, SimulationError::NoSuchPod(_)));
    assert_eq!(error.to_string(), "cannot explain pod x/y: there is no such pod in the input");
}

#[test]
fn plugins_that_do_not_exist_are_refused() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n    \
                  filter: {enabled: [{name: NoSuchPlugin}]}\n";
    let options = SimulationOptions::default().with_config_text(config).unwrap();
    let error = Simulation::new(options).unwrap_err().to_string();
    assert!(error.contains("NoSuchPlugin"), "{error}");
}

#[test]
fn the_configuration_decides() {
    let text = node("small", "2") + &node("big", "8") + &pod("p", "1", "");
    let config = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
";
    assert_eq!(placements(&simulate(&text, SimulationOptions::default())), [("default/p", "big")]);
    let packing = SimulationOptions::default().with_config_text(config).unwrap();
    assert_eq!(placements(&simulate(&text, packing)), [("default/p", "small")]);
}

#[test]
fn a_labelled_pod_whose_group_is_not_there_is_a_warning_where_labels_count() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n    \
        multiPoint: {enabled: [{name: Coscheduling}]}\n    \
        queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}\n";
    let labelled = |name: &str, group: &str| {
        let named = format!("{{name: {name}, labels: {{scheduling.x-k8s.io/pod-group: {group}}}}}");
        pod(name, "1", "").replace(&format!("{{name: {name}}}"), &named)
    };
    let group = "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: there}\n\
        spec: {minMember: 1}\n";
    let input = node("n1", "4") + &labelled("a", "train") + &labelled("b", "there") + group;
    let options = SimulationOptions::default().with_config_text(config).unwrap();
    let report = simulate(&input, options);
    let [warning] = &*report.warnings else { panic!("{:?}", report.warnings) };
    assert!(warning.contains(": default/scheduling.x-k8s.io/train (1 pod);"), "{warning}");
    assert_eq!(placements(&report), [("default/b", "n1")]);
    assert_eq!(simulate(&input, SimulationOptions::default()).warnings, [""; 0]);
}
