//! Where pods and manifests are that name no namespace: as for kubectl, that of `-n`, else that of the kubeconfig's context, else
//! `default`.

use std::process::Command;

use serde_json::{Value, json};

use crate::assisting::Assistant;
use crate::live::LiveScheduler;
use crate::{Files, run, stderr, stdout};

/// A pod without a namespace.
const SMALL: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]}
";

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/answers");

/// A kubeconfig with contexts that mean namespaces `shop`, which is the current one, `bank`, and none.
fn kubeconfig(files: &Files, given: &str) -> String {
    let text = std::fs::read_to_string(given).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    let context = config["contexts"][0]["context"].clone();
    let in_namespace = |name: &str, namespace: &Value| {
        let mut context = context.clone();
        context["namespace"] = namespace.clone();
        json!({"name": name, "context": context})
    };
    config["contexts"] = json!([
        in_namespace("shop", &json!("shop")),
        in_namespace("bank", &json!("bank")),
        in_namespace("plain", &Value::Null),
    ]);
    config["current-context"] = "shop".into();
    files.write("contexts", &config.to_string())
}

/// What a command says, on both ways.
fn said(args: &[&str]) -> String {
    let output = run(args);
    stdout(&output) + &stderr(&output)
}

#[test]
fn what_names_no_namespace_is_in_that_of_the_context() {
    let running = LiveScheduler::start();
    let config = kubeconfig(&running.files, &running.cluster.kubeconfig);
    let small = running.files.write("small.yaml", SMALL);
    let live = ["--kubeconfig", &config, "--server", &running.url, "--insecure-skip-server-check"];
    let local = ["--kubeconfig", &config, "--local"];
    for (more, namespace) in [
        (&[][..], "shop"),
        (&["--context", "bank"], "bank"),
        (&["--context", "plain"], "default"),
        (&["-n", "park"], "park"),
        (&["--context", "bank", "--namespace", "park"], "park"),
    ] {
        let no_pod = format!("error: there is no pod {namespace}/none");
        let found = format!("{namespace}/small: ");
        let placed = format!("{namespace}/small ");
        for (command, expected) in [
            (&["explain", "none"][..], &no_pod),
            (&["preempt", "none"], &no_pod),
            (&["what-if", "--delete-pod", "none"], &no_pod),
            (&["what-if", "--evict-pod", "none"], &no_pod),
            (&["explain", "-p", &small], &found),
            (&["preempt", "-p", &small], &found),
            (&["capacity", "-p", &small, "--max", "2"], &found),
            (&["what-if", "--add", &small], &placed),
        ] {
            for source in [&live[..], &local] {
                let said = said(&[command, source, more].concat());
                assert!(said.contains(expected), "{command:?} {more:?} {source:?}: {said}");
            }
        }
        // Names with a namespace are as they are.
        for source in [&live[..], &local] {
            let said = said(&[&["explain", "default/large"], source, more].concat());
            assert!(said.contains("default/large: does not fit"), "{more:?} {source:?}: {said}");
        }
    }
    // An assistant's questions are the user's, too.
    for (more, namespace) in
        [(&[][..], "shop"), (&["--context", "bank"], "bank"), (&["-n", "park"], "park")]
    {
        for source in [&live[..], &local] {
            let mut assistant = Assistant::start(&[source, more].concat());
            let result = assistant.call("explain", &json!({"spec": {"podName": "none"}}));
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(
                text.contains(&format!("there is no pod {namespace}/none")),
                "{more:?}: {text}"
            );
            assert_eq!(assistant.end(), Some(0));
        }
    }
}

#[test]
fn a_dump_has_no_context() {
    let files = Files::new();
    let small = files.write("small.yaml", SMALL);
    let cluster = format!("{DATA}/cluster.yaml");
    let source = ["-f", &cluster];
    assert!(said(&[&["explain", "web"], &source[..]].concat()).contains("default/web: "));
    assert!(said(&[&["explain", "-p", &small], &source[..]].concat()).contains("default/small: "));
    for command in [&["explain", "-p", &small][..], &["capacity", "-p", &small]] {
        let said = said(&[command, &source[..], &["-n", "park"]].concat());
        assert!(said.contains("park/small: "), "{said}");
    }
    // What the cluster's own manifests leave out is not up to the flag.
    let bare = files.write("bare.yaml", &SMALL.replace("small", "bare"));
    let both = [&["explain", "default/bare", "-f", &bare, "-n", "park"], &source[..]].concat();
    assert!(said(&both).contains("default/bare: fits"));
    let refused = run(&[&["queue", "-n", ""], &source[..]].concat());
    assert_eq!(refused.status.code(), Some(2));
}

/// Of a name, and of the current context, the first file counts, as for kubectl; files that are not there are passed over.
#[test]
fn the_files_of_the_variable_are_merged() {
    let running = LiveScheduler::start();
    let text = std::fs::read_to_string(&running.cluster.kubeconfig).unwrap();
    let whole: Value = serde_saphyr::from_str(&text).unwrap();
    let mut context = whole["contexts"][0]["context"].clone();
    context["namespace"] = "shop".into();
    let contexts = json!([{"name": "shop", "context": context}]);
    let first = json!({"apiVersion": "v1", "kind": "Config", "contexts": contexts, "current-context": "shop"});
    let mut others = whole.clone();
    others["contexts"][0]["name"] = "shop".into();
    others["current-context"] = "none".into();
    let first = running.files.write("first", &first.to_string());
    let others = running.files.write("others", &others.to_string());
    let said = |paths: [&str; 3]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kube-scheduler-rs"))
            .args(["explain", "none", "--local"])
            .env("KUBECONFIG", std::env::join_paths(paths).unwrap())
            .output()
            .unwrap();
        stderr(&output)
    };
    let missing = running.files.path("missing");
    assert!(said([&missing, &first, &others]).contains("there is no pod shop/none"));
    let alone = said([&missing, &first, ""]);
    assert!(alone.contains(&format!("kubeconfig {first}")), "{alone}");
    let wrong = said([&others, &first, &missing]);
    assert!(wrong.contains(&format!("kubeconfig {others}:{first}")), "{wrong}");
}
