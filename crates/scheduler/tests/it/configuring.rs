//! `config`: files checked, completed and compared.

use serde_json::Value;

use crate::{Files, run, stderr, stdout};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Checks a file and gives the exit code and the findings, one per line.
fn check(body: &str, more: &[&str]) -> (Option<i32>, Vec<String>) {
    let files = Files::new();
    let path = files.write("config.yaml", &format!("{HEAD}{body}"));
    let mut args = vec!["config", "check", &path, "-o", "json"];
    args.extend(more);
    let output = run(&args);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = answer["findings"].as_array().unwrap().iter().map(|finding| {
        format!(
            "{} {}: {}",
            text(finding, "severity"),
            text(finding, "path"),
            text(finding, "message")
        )
    });
    (output.status.code(), findings.collect())
}

#[test]
fn defaults_are_valid_and_the_same_as_an_empty_file() {
    let files = Files::new();
    let defaults = run(&["config", "print-defaults"]);
    assert_eq!(defaults.status.code(), Some(0));
    let a = files.write("a.yaml", &stdout(&defaults));
    let b = files.write("b.yaml", HEAD);
    let output = run(&["config", "check", &a]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("a.yaml: valid; errors: 0, warnings: 0"),
        "{}",
        stdout(&output)
    );
    let output = run(&["config", "diff", &a, &b]);
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), "the same\n"));
    let json = run(&["config", "print-defaults", "-o", "json", "--emulated-version", "1.34"]);
    let json: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["parallelism"], 16);
    assert!(!json.to_string().contains("NodeDeclaredFeatures"), "1.34 has no such plugin");
}

#[test]
fn what_the_scheduler_would_refuse_is_an_error() {
    for (body, needed) in [
        (
            "parallelism: -1\n",
            "parallelism: Invalid value: -1: should be an integer value greater than zero",
        ),
        ("paralelism: 1\n", "paralelism"),
        (
            "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: NodeAfinity\n",
            "profiles[0].plugins.filter.enabled[0]: no plugin is called \"NodeAfinity\"; do you mean NodeAffinity?",
        ),
        (
            "profiles:\n- plugins:\n    bind:\n      disabled:\n      - name: '*'\n",
            "at least one bind plugin is needed",
        ),
        (
            "leaderElection:\n  retryPeriod: 9s\n",
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
    ] {
        let (code, findings) = check(body, &[]);
        assert_eq!(code, Some(1), "{body}: {findings:?}");
        let is_reported =
            |finding: &String| finding.starts_with("error ") && finding.contains(needed);
        assert!(findings.iter().any(is_reported), "{needed:?} is not in {findings:?}");
    }
    let output = run(&["config", "check", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/no/such/file"), "{}", stderr(&output));
}

#[test]
fn endless_files_are_not_read() {
    for args in
        [&["config", "check", "/dev/zero"][..], &["config", "diff", "/dev/zero", "/dev/zero"]]
    {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains("/dev/zero: larger than 16 MiB, the limit"), "{args:?}: {said}");
    }
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let profile =
        |plugins: &str| format!("profiles:\n- schedulerName: default-scheduler\n{plugins}");
    let extender = |fields: &str| format!("extenders:\n- urlPrefix: http://x\n{fields}");
    for (body, place, needed) in [
        (
            profile(
                "  plugins:\n    filter:\n      enabled:\n      - {name: NodeName, weight: 3}\n",
            ),
            "profiles[0].plugins.filter.enabled[0].weight",
            "at score and multiPoint only",
        ),
        (
            profile(
                "  plugins:\n    multiPoint:\n      enabled:\n      - {name: NodeName, weight: 3}\n",
            ),
            "profiles[0].plugins.multiPoint.enabled[0].weight",
            "NodeName does not score",
        ),
        (
            profile(
                "  plugins:\n    multiPoint:\n      disabled:\n      - name: NodeAffinity\n  pluginConfig:\n  - name: \
                 NodeAffinity\n",
            ),
            "profiles[0].pluginConfig[0]",
            "its args have no effect",
        ),
        (
            profile("  plugins:\n    score:\n      disabled:\n      - name: Coscheduling\n"),
            "profiles[0].plugins.score.disabled[0]",
            "disabling it has no effect",
        ),
        (extender(""), "extenders[0]", "manages nothing"),
        (
            extender("  filterVerb: f\n  weight: 5\n"),
            "extenders[0].weight",
            "without prioritizeVerb",
        ),
        (
            extender("  filterVerb: f\n  enableHTTPS: true\n"),
            "extenders[0].enableHTTPS",
            "does not turn on TLS",
        ),
        (
            extender("  filterVerb: f\n  tlsConfig: {insecure: true}\n"),
            "extenders[0].tlsConfig",
            "no effect",
        ),
        (
            "leaderElection: {leaderElect: false, leaseDuration: 20s}\n".to_owned(),
            "leaderElection",
            "nothing else here has an effect",
        ),
        (
            "leaderElection: {leaderElect: false}\ndelayCacheUntilActive: true\n".to_owned(),
            "delayCacheUntilActive",
            "without leader election",
        ),
        (
            "profiles:\n- schedulerName: default-scheduler\n- schedulerName: ' a'\n".to_owned(),
            "profiles[1].schedulerName",
            "unreachable",
        ),
    ] {
        let (code, findings) = check(&body, &[]);
        let start = format!("warning {place}: ");
        let is_reported =
            |finding: &String| finding.starts_with(&start) && finding.contains(needed);
        assert!(findings.iter().any(is_reported), "{needed:?} is not in {findings:?}");
        assert_eq!(code, Some(0), "{body}");
        assert_eq!(check(&body, &["--strict"]).0, Some(1), "{body}");
    }
    let (code, findings) = check("profiles:\n- schedulerName: mine\n", &["--strict"]);
    assert_eq!(code, Some(0), "notes are no reason: {findings:?}");
    let reported = "note profiles: no profile is called default-scheduler";
    assert!(findings.iter().any(|finding| finding.starts_with(reported)), "{findings:?}");
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let (code, findings) = check(
        "parallelism: -1\nnonsense: 1\nnonsense: 2\nplugins: {}\nprofiles:\n- schedulerName: a\n- schedulerName: a\n  plugins:\n    filter:\n      \
         enabled: [{name: NodeNam}]\n  pluginConfig:\n  - name: NodeAffinity\n    args: {kind: Other}\n",
        &[],
    );
    assert_eq!(code, Some(1));
    for needed in [
        "parallelism: Invalid value: -1",
        "unknown field \"nonsense\"",
        "line 5: key \"nonsense\" already set in map",
        "unknown field \"plugins\"; plugins is gone since v1alpha2: put it into profiles",
        "profiles[1].schedulerName: \"a\" is the name of profiles[0] too",
        "no plugin is called \"NodeNam\"; do you mean NodeName?",
        "decoding .profiles[1].pluginConfig[0]: decoding args for plugin NodeAffinity: no kind \"Other\"",
    ] {
        let is_reported =
            |finding: &String| finding.starts_with("error ") && finding.contains(needed);
        assert!(findings.iter().any(is_reported), "{needed:?} is not in {findings:#?}");
    }
}

#[test]
fn what_is_there_twice_is_named() {
    let (code, findings) = check(
        "profiles:\n- plugins:\n    filter:\n      enabled: [{name: NodeName}, {name: NodePorts}, {name: NodeName}]\n  \
         pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]\n- schedulerName: default-scheduler\n",
        &[],
    );
    assert_eq!(code, Some(1));
    for needed in [
        "error profiles[0].plugins.filter.enabled[2]: NodeName is enabled[0] too",
        "error profiles[0].pluginConfig[1]: NodeAffinity is configured by pluginConfig[0] too",
        "error profiles[1].schedulerName: \"default-scheduler\" is the name of profiles[0] too",
    ] {
        assert!(findings.iter().any(|finding| finding == needed), "{needed:?}: {findings:#?}");
    }
}

#[test]
fn names_of_older_versions_are_reported_with_what_replaces_them() {
    let files = Files::new();
    for (text, needed) in [
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
            "kubescheduler.config.k8s.io/v1beta3 is gone since v1.29: use kubescheduler.config.k8s.io/v1",
        ),
        (
            "apiVersion: v1\nkind: Policy\n",
            "Policy is gone since v1.23: use a KubeSchedulerConfiguration",
        ),
    ] {
        let path = files.write("old.yaml", text);
        let output = run(&["config", "check", &path]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stdout(&output).contains(needed), "{needed:?} is not in {}", stdout(&output));
    }
    let plugin = |name: &str| {
        format!("profiles:\n- plugins:\n    multiPoint:\n      enabled:\n      - name: {name}\n")
    };
    for (name, needed) in [
        ("SelectorSpread", "PodTopologySpread spreads by default"),
        ("EBSLimits", "gone since v1.32: NodeVolumeLimits counts these volumes"),
        ("ServiceAffinity", "use inter-pod affinity"),
    ] {
        let (code, findings) = check(&plugin(name), &[]);
        assert_eq!(code, Some(1), "{name}");
        let start = "error profiles[0].plugins.multiPoint.enabled[0]: no plugin is called";
        let is_reported = |finding: &String| finding.starts_with(start) && finding.contains(needed);
        assert!(findings.iter().any(is_reported), "{needed:?} is not in {findings:?}");
    }
}

#[test]
fn what_is_scored_and_what_runs_beside_a_list_is_a_note() {
    let noted = |body: &str, place: &str, needed: &str| {
        let (code, findings) = check(body, &["--strict"]);
        assert_eq!(code, Some(0), "{findings:?}");
        let start = format!("note {place}: ");
        let is_reported =
            |finding: &String| finding.starts_with(&start) && finding.contains(needed);
        assert!(findings.iter().any(is_reported), "{needed:?} is not in {findings:?}");
    };
    noted("", "percentageOfNodesToScore", "all nodes are scored");
    noted("percentageOfNodesToScore: 0\n", "percentageOfNodesToScore", "all nodes are scored");
    let own = "profiles:\n- schedulerName: default-scheduler\n  percentageOfNodesToScore: 0\n";
    noted(own, "profiles[0].percentageOfNodesToScore", "depends on their number");
    assert!(!check(own, &[]).1.iter().any(|finding| finding.contains("all nodes are scored")));
    noted("parallelism: 4\n", "parallelism", "has no effect");
    noted(
        "profiles:\n- schedulerName: default-scheduler\n  plugins:\n    filter:\n      enabled: [{name: NodeName}, {name: NodePorts}, \
         {name: NodeResourcesFit}]\n",
        "profiles[0].plugins.filter.enabled",
        "other default plugins of this point run as well",
    );
}

#[test]
fn arguments_of_nobody_keep_no_scheduler_from_starting() {
    let body = "profiles:\n- schedulerName: default-scheduler\n  pluginConfig:\n  - name: NodeAfinity\n    args: {a: 1}\n";
    let (code, findings) = check(body, &[]);
    assert_eq!(code, Some(0), "{findings:?}");
    let needed = "warning profiles[0].pluginConfig[0]: no plugin is called \"NodeAfinity\": its args have no effect; do you \
                  mean NodeAffinity?";
    assert!(findings.iter().any(|finding| finding == needed), "{findings:?}");
    let files = Files::new();
    let path = files.write("config.yaml", &format!("{HEAD}{body}"));
    let out = files.path("written.yaml");
    let output =
        run(&["--config", &path, "--master=http://127.0.0.1:1", "--write-config-to", &out]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn old_files_are_migrated() {
    let files = Files::new();
    let old = files.write(
        "old.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: a\n  \
         plugins:\n    score:\n      enabled: [{name: SelectorSpread, weight: 3}]\n",
    );
    let output = run(&["config", "migrate", &old]);
    assert_eq!(output.status.code(), Some(1), "not all of it can be said");
    let reported =
        "not carried over: profiles[0].plugins.score.enabled: SelectorSpread, gone since";
    assert!(stderr(&output).contains(reported), "{}", stderr(&output));
    let new = files.write("new.yaml", &stdout(&output));
    assert_eq!(run(&["config", "check", &new]).status.code(), Some(0), "{}", stdout(&output));
    let again = run(&["config", "migrate", &new]);
    assert_eq!((again.status.code(), stdout(&again)), (Some(0), stdout(&output)));
    assert_eq!(run(&["config", "migrate", "/no/such/file"]).status.code(), Some(2));
}

#[test]
fn files_are_compared_by_meaning() {
    let files = Files::new();
    let a = files.write("a.yaml", HEAD);
    let b = files.write(
        "b.yaml",
        &format!(
            "{HEAD}clientConnection: {{qps: 10}}\nprofiles:\n- schedulerName: default-scheduler\n  plugins:\n    \
             multiPoint:\n      disabled:\n      - name: ImageLocality\n      enabled:\n      - {{name: TaintToleration, \
             weight: 7}}\n  pluginConfig:\n  - name: InterPodAffinity\n    args: {{hardPodAffinityWeight: 5}}\n- \
             schedulerName: other\n"
        ),
    );
    let output = run(&["config", "diff", &a, &b]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for line in [
        "~ clientConnection.qps: 50 -> 10\n",
        "~ profiles[default-scheduler].Score[TaintToleration].weight: 3 -> 7\n",
        "- profiles[default-scheduler].Score[ImageLocality]: enabled, weight 1\n",
        "~ profiles[default-scheduler].pluginConfig[InterPodAffinity].hardPodAffinityWeight: 1 -> 5\n",
        "+ profiles[other]: present\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert_eq!(text.lines().count(), 5, "{text}");
    // The other way round it says the opposite.
    let back = stdout(&run(&["config", "diff", &b, &a]));
    assert!(
        back.contains("+ profiles[default-scheduler].Score[ImageLocality]: enabled, weight 1\n"),
        "{back}"
    );
    let json = stdout(&run(&["config", "diff", &a, &b, "-o", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["same"], json["differences"].as_array().unwrap().len()), (&false.into(), 5));
    let broken = files.write("c.yaml", "kind: Other\n");
    assert_eq!(run(&["config", "diff", &a, &broken]).status.code(), Some(2));
}

#[test]
fn an_order_that_changed_is_reported() {
    let files = Files::new();
    let a = files.write("a.yaml", HEAD);
    let plugins = "  plugins:\n    filter:\n      disabled: [{name: '*'}]\n      enabled: [{name: NodeName}, {name: NodeUnschedulable}]\n";
    let b = files.write(
        "b.yaml",
        &format!("{HEAD}profiles:\n- schedulerName: default-scheduler\n{plugins}"),
    );
    let text = stdout(&run(&["config", "diff", &a, &b]));
    assert!(text.contains("~ profiles[default-scheduler].Filter (order): NodeUnschedulable, NodeName -> NodeName, NodeUnschedulable\n"), "{text}");
}

#[test]
fn manuals_and_completions_know_the_flags() {
    let files = Files::new();
    let page = stdout(&run(&["man"]));
    assert!(page.contains("\\-\\-leader\\-elect\\-lease\\-duration"), "the flags are missing");
    let directory = files.path("man");
    assert_eq!(run(&["man", "--out", &directory]).status.code(), Some(0));
    for page in
        ["kube-scheduler-rs.1", "kube-scheduler-rs-simulate.1", "kube-scheduler-rs-config-check.1"]
    {
        assert!(std::fs::metadata(format!("{directory}/{page}")).is_ok(), "{page}");
    }
    let pages = std::fs::read_dir(&directory).unwrap().count();
    assert_eq!(pages, 21, "one per command: no pages for the help of help");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(script.contains("leader-elect-lease-duration"), "{shell}");
        assert!(script.contains("print-defaults"), "{shell}");
    }
}
