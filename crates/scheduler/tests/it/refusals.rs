//! Bad input: exactly one line that says what is wrong where, in the form that the command has for that.

use std::net::TcpListener;

use crate::cluster::ReservedPort;
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

/// The scheduler must end with code 1 and log that it failed, once, with all of `needed`.
fn failed(args: &[&str], needed: &[&str]) {
    let output = run(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?} printed something before it failed");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with('E')).collect();
    let &[error] = errors.as_slice() else { panic!("{args:?}: {said}") };
    assert!(error.contains("] \"command failed\" err=\""), "{args:?}: {said}");
    for text in needed {
        let text = text.replace('"', "\\\"");
        assert!(error.contains(&text), "{args:?} does not say {text:?}: {said}");
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
    let output = run(&["--bogus"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.starts_with("Usage:\n") && said.ends_with("\nError: unknown flag: --bogus\n"),
        "{said}"
    );
    let output = run(&["bogus"]);
    let text = "Error: \"kube-scheduler\" does not take any arguments, got [\"bogus\"]\n\
                A command comes first, and is one of: demo, devcluster, simulate, explain, preempt, what-if, drain, capacity, \
                queue, fragmentation, mcp, answers-schema, config, completions, man, version\n";
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(1), text));
    let said = stderr(&run(&["simulat", "-f", "x"]));
    let text = "\nError: unknown shorthand flag: 'f' in -f\nDo you mean the command simulate? A command comes first.\n";
    assert!(said.ends_with(text), "the first error counts: {said}");
    let output = run(&["simulat"]);
    let text = "Error: \"kube-scheduler\" does not take any arguments, got [\"simulat\"]\nDo you mean the command simulate? A \
                command comes first.\n";
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(1), text));
    for (flag, needed) in [
        (
            "--policy-config-file=x",
            "unknown flag: --policy-config-file (gone since v1.23: use --config",
        ),
        ("--port=0", "unknown flag: --port (gone since v1.24: the scheduler serves HTTPS only"),
        (
            "--log-dir=x",
            "unknown flag: --log-dir (gone since v1.26: the log goes to standard error",
        ),
    ] {
        let said = stderr(&run(&[flag]));
        assert!(said.contains(needed), "{flag}: {said}");
    }
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
    failed(
        &["--config", &unknown, "--master", "http://127.0.0.1:1"],
        &["FilterPlugin \"Nope\" does not exist"],
    );
    let strict = files.write("strict.yaml", &config("filtre", "Nope"));
    failed(
        &["--config", &strict, "--master", "http://127.0.0.1:1"],
        &["profiles[0].plugins.filtre"],
    );
    let missing = "open /no/such/config.yaml: no such file or directory";
    failed(&["--config", "/no/such/config.yaml"], &[missing]);
}

#[test]
fn ports_in_use_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let files = Files::new();
    let kubeconfig = files.write("kubeconfig", KUBECONFIG);
    let args =
        ["--kubeconfig", &*kubeconfig, "--bind-address", "127.0.0.1", "--secure-port", &*port];
    let reported = format!(
        "failed to create listener: failed to listen on 127.0.0.1:{port}: listen tcp 127.0.0.1:{port}: bind: \
         address already in use"
    );
    failed(&args, &[&reported]);
    refused(&["devcluster", "--port", &port], 1, &[&*port, "in use"]);
}

#[test]
fn what_the_secure_port_cannot_use_is_named() {
    let files = Files::new();
    let kubeconfig = files.write("kubeconfig", KUBECONFIG);
    let rubbish = files.write("rubbish.pem", "rubbish");
    for (flags, reported) in [
        (
            ["--tls-cert-file", &rubbish],
            "missing filename for serving cert: --tls-private-key-file",
        ),
        (["--client-ca-file", &rubbish], "no certificate in PEM found"),
        (
            ["--client-ca-file", "/no/such/ca"],
            "unable to load client CA provider: open /no/such/ca: no such file or directory",
        ),
        (
            ["--requestheader-client-ca-file", "/no/such/ca"],
            "unable to create request header authentication config: open /no/such/ca: no such file or directory",
        ),
        (["--tls-cipher-suites", "TLS_FOO"], "Cipher suite TLS_FOO not supported or doesn't exist"),
        (["--tls-min-version", "TLS9"], "unknown tls version"),
        (["--tls-curve-preferences", "23,23"], "duplicate curve preference 23"),
        (["--authorization-always-allow-paths", "/a*b"], "only trailing * allowed in"),
        (["--authentication-kubeconfig", "/no/such/config"], "/no/such/config"),
        (
            ["--tls-sni-cert-key", "/no/such.crt,/no/such.key:a.example"],
            "failed to load SNI cert and key: open /no/such.crt: no such file or directory",
        ),
    ] {
        // Port 0 would turn it off, so any free port will do.
        let port = ReservedPort::new();
        let mut args = vec!["--kubeconfig", &kubeconfig];
        args.extend(port.flags());
        args.extend(flags);
        failed(&args, &[reported]);
    }
}

#[test]
fn kubeconfigs_that_lead_nowhere_are_named() {
    failed(
        &["--kubeconfig", "/no/such/kubeconfig", "--secure-port", "0"],
        &["kubeconfig /no/such/kubeconfig: no such file or directory"],
    );
    let files = Files::new();
    let empty = files.write("empty", "");
    failed(
        &["--kubeconfig", &empty, "--secure-port", "0"],
        &[&format!("kubeconfig {empty}: there is no current context")],
    );
}

#[test]
fn all_that_is_wrong_with_flags_is_reported_at_once() {
    failed(
        &["--secure-port=70000", "--disabled-metrics=1x", "--emulated-version=1.28"],
        &[
            "[emulation version 1.28 is not between [1.33, 1.36.0], --secure-port 70000 must be between 0 and 65535, \
             inclusive. 0 for turning off secure port, metrics.disabledMetrics: Invalid value: ",
        ],
    );
    failed(&["--feature-gates=NoSuch=true"], &["unrecognized feature gate: NoSuch"]);
    // Features that do not exist here do not keep the scheduler from starting: it gets as far as the API server.
    let gates = "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,\
                 CoordinatedLeaderElection=true";
    let nowhere = ["--master=http://127.0.0.1:1", "--tls-cert-file=/no/such", gates];
    let said = stderr(&run(&nowhere));
    assert!(
        said.contains(
            "these feature gates stay off, because their features do not exist here: CoordinatedLeaderElection"
        ) && said.contains("missing filename for serving cert"),
        "{said}"
    );
    assert!(
        !said.contains("No authentication-kubeconfig"),
        "the port comes before its callers: {said}"
    );
    failed(
        &["--leader-elect-resource-lock=foo", "--master=http://127.0.0.1:1"],
        &["couldn't create resource lock: Invalid lock-type foo"],
    );
    let output = run(&["--logging-format=yaml"]);
    let text = "format: Invalid value: \"yaml\": Unsupported log format\n";
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(1), text));
}

#[test]
fn versions_and_help_go_to_standard_output() {
    for (args, start) in [
        (&["--version"], "Kubernetes v1.36"),
        (&["--version=raw"], "version.Info{Major:\"1\", Minor:\"36\", "),
        (&["-h"], "Assigns pods to nodes"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with(start), "{args:?}: {said}");
        assert!(output.stderr.is_empty(), "{args:?}");
    }
}
