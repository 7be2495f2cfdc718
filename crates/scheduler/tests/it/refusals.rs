//! Bad input: exactly one line that begins with `error:`, naming what is wrong where.

use std::net::TcpListener;

use crate::{Files, run, stderr};

/// The command must end with `code` and say all of `needed` in one error.
fn refused(args: &[&str], code: i32, needed: &[&str]) {
    let output = run(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?} printed something before it failed");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{args:?}: {said}");
    for text in needed {
        assert!(said.contains(text), "{args:?} does not say {text:?}: {said}");
    }
}

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {}}]
";

fn config(point: &str, plugin: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: a\n  \
         plugins:\n    {point}:\n      enabled:\n      - name: {plugin}\n"
    )
}

#[test]
fn unknown_options_are_usage_errors() {
    refused(&["--bogus"], 2, &["--bogus"]);
    refused(&["simulate", "-o", "xml"], 2, &["xml"]);
    refused(&["demo", "--nodes", "many"], 2, &["many"]);
}

#[test]
fn malformed_manifests_name_file_and_line() {
    let files = Files::new();
    let path = files.write("bad.yaml", "apiVersion: v1\nkind: Pod\n  metadata: [\n");
    refused(&["simulate", "-f", &path], 1, &["bad.yaml", "line 3"]);
    refused(&["simulate", "-f", "/no/such/file.yaml"], 1, &["/no/such/file.yaml"]);
}

#[test]
fn impossible_quantities_name_object_and_field() {
    let files = Files::new();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: c\n    resources:\n      \
               requests:\n        cpu: 12z\n";
    let path = files.write("pod.yaml", pod);
    refused(
        &["simulate", "-f", &path],
        1,
        &["pod.yaml", "default/a", "spec.containers[0].resources.requests[cpu]"],
    );
}

#[test]
fn configurations_name_field_and_plugin() {
    let files = Files::new();
    let unknown = files.write("unknown.yaml", &config("filter", "Nope"));
    refused(
        &["--config", &unknown, "--master", "http://127.0.0.1:1"],
        1,
        &["FilterPlugin \"Nope\" does not exist"],
    );
    let strict = files.write("strict.yaml", &config("filtre", "Nope"));
    refused(
        &["--config", &strict, "--master", "http://127.0.0.1:1"],
        1,
        &["profiles[0].plugins.filtre"],
    );
    refused(&["--config", "/no/such/config.yaml"], 1, &["/no/such/config.yaml"]);
}

#[test]
fn ports_in_use_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let files = Files::new();
    let kubeconfig = files.write("kubeconfig", KUBECONFIG);
    let args =
        ["--kubeconfig", &*kubeconfig, "--bind-address", "127.0.0.1", "--secure-port", &*port];
    refused(&args, 1, &[&*port, "in use"]);
    refused(&["devcluster", "--port", &port], 1, &[&*port, "in use"]);
}

#[test]
fn kubeconfigs_that_lead_nowhere_are_named() {
    refused(
        &["--kubeconfig", "/no/such/kubeconfig", "--secure-port", "0"],
        1,
        &["/no/such/kubeconfig"],
    );
    let files = Files::new();
    let kubeconfig = files.write("kubeconfig", KUBECONFIG);
    refused(
        &["--kubeconfig", &kubeconfig, "--secure-port", "0"],
        1,
        &["http://127.0.0.1:1", "refused"],
    );
}
