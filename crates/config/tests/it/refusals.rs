//! Files that are wrong, and the errors about them. Every message must name the field or the position.

use kube_scheduler_config::{ConfigDecodeError, FeatureGates, decode, load};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn refusal(body: &str) -> String {
    match decode(&format!("{HEAD}{body}")) {
        Ok(_) => panic!("accepted:\n{body}"),
        Err(error) => error.to_string(),
    }
}

fn json(fields: &str) -> String {
    format!(
        "{{\"apiVersion\":\"kubescheduler.config.k8s.io/v1\",\"kind\":\"KubeSchedulerConfiguration\",{fields}}}"
    )
}

#[test]
fn unknown_fields_are_all_named_with_their_paths_in_key_order() {
    assert_eq!(
        refusal(
            "zzz: 1\nprofiles:\n- plugins:\n    foo: {}\n  Bar: 1\nParallelism: 2\nleaderElection: {x: null}\n"
        ),
        "strict decoding error: unknown field \"Parallelism\", unknown field \"leaderElection.x\", \
         unknown field \"profiles[0].Bar\", unknown field \"profiles[0].plugins.foo\", unknown field \"zzz\""
    );
}

#[test]
fn unknown_fields_of_plugin_args_are_named_below_their_entry() {
    let body = "bogus: 1\nprofiles:\n- pluginConfig:\n  - name: Other\n    args: {anything: goes}\n  - name: NodeResourcesFit\n    \
                args:\n      scoringStrategy:\n        resources: [{Name: cpu, Weight: 1}]\n";
    assert_eq!(
        refusal(body),
        "strict decoding error: unknown field \"bogus\", decoding .profiles[0].pluginConfig[1]: strict decoding error: \
         decoding args for plugin NodeResourcesFit: strict decoding error: \
         unknown field \"scoringStrategy.resources[0].Name\", unknown field \"scoringStrategy.resources[0].Weight\""
    );
}

#[test]
fn repeated_keys_are_refused_in_both_languages() {
    assert_eq!(
        refusal("leaderElection:\n  leaderElect: true\n  leaderElect: false\nfoo: 1\nfoo: 2\n"),
        "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"leaderElect\" already set in map\n  \
         line 7: key \"foo\" already set in map, unknown field \"foo\""
    );
    let text =
        json("\"leaderElection\":{\"leaderElect\":true,\"leaderElect\":false},\"b\":1,\"a\":1");
    assert_eq!(
        decode(&text).unwrap_err().to_string(),
        "strict decoding error: duplicate field \"leaderElection.leaderElect\", unknown field \"b\", unknown field \"a\""
    );
    let text = json(
        "\"profiles\":[{\"pluginConfig\":[{\"name\":\"PodTopologySpread\",\"args\":{\"defaultConstraints\":[{\"labelSelector\":\
         {\"matchLabels\":{\"a\":\"b\",\"a\":\"c\"}}}]}}]}]",
    );
    let error = decode(&text).unwrap_err().to_string();
    assert!(
        error.ends_with("duplicate field \"defaultConstraints[0].labelSelector.matchLabels.a\""),
        "{error}"
    );
    let text = json(
        "\"profiles\":[{\"pluginConfig\":[{\"name\":\"X\",\"args\":{\"a\":1,\"a\":2}},\
         {\"name\":\"VolumeBinding\",\"args\":{\"bindTimeoutSeconds\":1,\"bindTimeoutSeconds\":2}}]}]",
    );
    let error = decode(&text).unwrap_err().to_string();
    assert!(
        error.ends_with("strict decoding error: duplicate field \"bindTimeoutSeconds\""),
        "{error}"
    );
    assert!(!error.contains("\"a\""), "raw arguments do not belong into a message: {error}");
}

#[test]
fn wrong_types_name_path_position_and_what_is_expected() {
    let cases = [
        (
            "parallelism: many\n",
            "parallelism: line 3, column 14: expected a 32-bit integer, found the string \"many\"",
        ),
        (
            "parallelism: 3000000000\n",
            "parallelism: line 3, column 14: expected a 32-bit integer, found the number 3000000000",
        ),
        (
            "parallelism: 1.5\n",
            "parallelism: line 3, column 14: expected a 32-bit integer, found the number 1.5",
        ),
        (
            "profiles:\n- schedulerName: 7\n",
            "profiles[0].schedulerName: line 4, column 18: expected a string, found the number 7",
        ),
        ("profiles: {}\n", "profiles: line 3, column 11: expected a list, found an object"),
        (
            "leaderElection: [1]\n",
            "leaderElection: line 3, column 17: expected an object, found a list",
        ),
        (
            "enableProfiling: 1\n",
            "enableProfiling: line 3, column 18: expected a boolean, found the number 1",
        ),
        (
            "clientConnection: {qps: fast}\n",
            "clientConnection.qps: line 3, column 25: expected a number, found the string \"fast\"",
        ),
        (
            "leaderElection:\n  leaseDuration: 15\n",
            "leaderElection.leaseDuration: line 4, column 18: expected a string, found the number 15",
        ),
        (
            "leaderElection:\n  leaseDuration: 15x\n",
            "leaderElection.leaseDuration: line 4, column 18: unknown unit \"x\" in duration \"15x\": use one of ns, us, ms, s, m, h",
        ),
        (
            "profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args: {hardPodAffinityWeight: heavy}\n",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin InterPodAffinity: hardPodAffinityWeight: line 6, \
             column 35: expected a 32-bit integer, found the string \"heavy\"",
        ),
        (
            "profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args: 5\n",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin InterPodAffinity: line 6, column 11: expected an \
             object, found the number 5",
        ),
    ];
    for (body, text) in cases {
        assert_eq!(refusal(body), text);
    }
    let error = decode(&json("\"parallelism\":\"x\"")).unwrap_err().to_string();
    assert_eq!(error, "parallelism: expected a 32-bit integer, found the string \"x\"");
}

#[test]
fn texts_that_are_no_document_say_where() {
    for (text, start) in [
        ("a: [1,2\n b", "yaml: line "),
        ("a:\n\tb: 1\n", "yaml: line 2"),
        ("{\"kind\": }", "json: line 1, column 10: "),
        ("{\"kind\": 1} x", "json: line 1, column 13: "),
        ("kind: \"", "yaml: line "),
    ] {
        let error = decode(text).unwrap_err();
        assert!(matches!(error, ConfigDecodeError::Syntax { .. }), "{text}: {error:?}");
        assert!(error.to_string().starts_with(start), "{text}: {error}");
    }
}

#[test]
fn documents_of_other_kinds_are_distinguished() {
    let cases = [
        ("", "Object 'Kind' is missing in ''"),
        ("# nothing\n", "Object 'Kind' is missing in '# nothing\n'"),
        ("{}", "Object 'Kind' is missing in '{}'"),
        ("- a\n", "couldn't get version/kind: expected an object, found a list"),
        ("hello\n", "couldn't get version/kind: expected an object, found the string \"hello\""),
        ("kind: 5\n", "kind: line 1, column 7: expected a string, found the number 5"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: DefaultPreemptionArgs\n",
            "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, Kind=DefaultPreemptionArgs: ",
        ),
        ("apiVersion: a/b/c\nkind: X\n", "unexpected GroupVersion string: a/b/c"),
    ];
    for (text, message) in cases {
        assert_eq!(decode(text).unwrap_err().to_string(), message);
    }
    let long = format!("x: {}\n", "y".repeat(100_000));
    assert!(decode(&long).unwrap_err().to_string().len() < 9_000);
}

#[test]
fn hostile_documents_end_in_an_error() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..12 {
        let previous = vec![format!("*a{}", i - 1); 10].join(",");
        bomb.push_str(&format!("a{i}: &a{i} [{previous}]\n"));
    }
    let documents = [
        ("alias bomb", bomb),
        ("self reference", "a: &a [*a]\n".to_owned()),
        ("deep flow list", "[".repeat(100_000)),
        ("deep flow map", "{a: ".repeat(100_000)),
        ("deep block", (0..5_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect()),
        ("deep JSON", format!("{{\"a\":{}", "[".repeat(100_000))),
        ("many nodes", format!("a: [{}]\n", "1,".repeat(300_000))),
        ("huge", format!("a: {}\n", "x".repeat(9 << 20))),
        ("control characters", "a: \u{1}\u{0}\n".to_owned()),
    ];
    for (what, text) in documents {
        let error = decode(&text).err().unwrap_or_else(|| panic!("{what} was accepted"));
        assert!(
            error.to_string().len() < 10_000,
            "{what}: a message of {} bytes",
            error.to_string().len()
        );
    }
}

#[test]
fn null_counts_as_absent() {
    let text = format!(
        "{HEAD}parallelism: null\nleaderElection: ~\nprofiles:\n- schedulerName:\n  plugins: null\n  pluginConfig:\n  - name: \
         VolumeBinding\n    args: null\n"
    );
    let config = load(&text, &FeatureGates::default()).unwrap();
    assert_eq!(config.parallelism, Some(16));
    assert_eq!(config.leader_election.leader_elect, Some(true));
    assert_eq!(config.profiles[0].scheduler_name.as_deref(), Some("default-scheduler"));
    assert_eq!(config.profiles[0].plugin_config[0].args.kind(), Some("VolumeBindingArgs"));
    let error = refusal("profiles:\n- nonsense: null\n");
    assert_eq!(error, "strict decoding error: unknown field \"profiles[0].nonsense\"");
}

#[test]
fn yaml_means_what_it_means_upstream() {
    let text = format!(
        "---\n{HEAD}parallelism: 010\nenableProfiling: off\npodInitialBackoffSeconds: 2.0\nx-base: &base {{name: VolumeBinding}}\n"
    );
    let error = decode(&text).unwrap_err().to_string();
    assert_eq!(error, "strict decoding error: unknown field \"x-base\"");
    let config = decode(&text.replace("x-base: &base {name: VolumeBinding}\n", "")).unwrap();
    assert_eq!(config.parallelism, Some(8), "a leading zero means octal");
    assert_eq!(config.enable_profiling, Some(false));
    assert_eq!(config.pod_initial_backoff_seconds, Some(2));
    let first_only = format!("{HEAD}parallelism: 3\n---\nparallelism: 4\n");
    assert_eq!(decode(&first_only).unwrap().parallelism, Some(3));
}

#[test]
fn load_reports_all_rules_at_once() {
    let text = format!(
        "{HEAD}parallelism: 0\nprofiles:\n- percentageOfNodesToScore: 101\n  schedulerName: ''\n"
    );
    let error = load(&text, &FeatureGates::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "[parallelism: Invalid value: 0: should be an integer value greater than zero, profiles[0].schedulerName: Required \
         value, profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]]"
    );
}
