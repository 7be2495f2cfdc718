//! Command lines understood and refused, help, validation: against what kube-scheduler v1.36 does.

use kube_scheduler_api_types::validation::aggregate;
use kube_scheduler_config::{FeatureGates, Gate};

use super::value::FlagValue;
use super::*;

fn args(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn parsed(line: &str) -> Flags {
    match Flags::parse(&args(line)) {
        Ok(CommandLine::Flags(flags)) => *flags,
        other => panic!("{line}: {other:?}"),
    }
}

fn error(line: &str) -> String {
    Flags::parse(&args(line)).unwrap_err().to_string()
}

/// The names in kube-scheduler v1.36's help, by section, each with its type, its default and whether it may go without a
/// value.
const REFERENCE: &str = include_str!("reference.txt");

#[test]
fn every_flag_of_the_reference_is_there_with_type_and_default() {
    let mut ours = String::new();
    let mut flags = Flags::default();
    for (title, section) in flags.sections() {
        let mut lines = Vec::new();
        section.visit(&mut |flag| {
            let value = &flag.value;
            let type_name = if value.type_name().is_empty() { "bool" } else { value.type_name() };
            lines.push(format!("{} {} {}", flag.name, type_name, quoted(&value.text())));
        });
        lines.sort();
        ours.push_str(&format!("[{title}]\n{}\n", lines.join("\n")));
    }
    assert_eq!(ours, REFERENCE);
}

#[test]
fn names_are_unique() {
    let values = Flags::default().values();
    let mut names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
    names.dedup();
    assert_eq!(names.len(), values.len());
}

#[test]
fn kubeadms_command_line_is_understood() {
    let flags = parsed(
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf \
         --authorization-kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 \
         --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=true",
    );
    assert_eq!(flags.deprecated.kubeconfig, "/etc/kubernetes/scheduler.conf");
    assert_eq!(flags.serving.address().unwrap().to_string(), "127.0.0.1:10259");
    assert!(flags.leader_election.leader_elect && flags.is_given("leader-elect"));
    assert!(!flags.is_given("secure-port"));
    assert_eq!(flags.validate(&FeatureGates::default()), Vec::<String>::new());
}

#[test]
fn values_are_given_in_all_of_pflags_ways() {
    let flags =
        parsed("--secure_port=0 --master http://a_b -v 3 --leader_elect --profiling=F --seed=7");
    assert_eq!((flags.serving.secure_port, flags.logs.v.0, flags.ours.seed), (0, 3, 7));
    assert_eq!(&*flags.misc.master, "http://a_b");
    assert!(flags.leader_election.leader_elect && !flags.deprecated.profiling);
    for form in ["-v=4", "-v4", "--v=4", "--v 4"] {
        assert_eq!(parsed(form).logs.v.0, 4, "{form}");
    }
    // A value may look like a flag.
    assert_eq!(&*parsed("--config --master").misc.config, "--master");
    assert!(matches!(Flags::parse(&args("--leader-elect -h")), Ok(CommandLine::Help)));
    assert!(matches!(Flags::parse(&args("--help --seed=1")), Ok(CommandLine::Help)));
}

#[test]
fn lists_replace_their_default_once_and_then_grow() {
    let flags =
        parsed("--authorization-always-allow-paths=/a,/b --authorization-always-allow-paths=/c");
    assert_eq!(flags.authorization.always_allow_paths, ["/a", "/b", "/c"]);
    let flags = parsed("--authorization-always-allow-paths=");
    assert!(flags.authorization.always_allow_paths.is_empty());
    let flags = parsed("--allow-metric-labels m,l='a,b' --allow-metric-labels n,l=c");
    // One `=`: the pair is taken as it is, quotes and all.
    assert_eq!(flags.metrics.allow_metric_labels["m,l"], "'a,b'");
    assert_eq!(flags.metrics.allow_metric_labels["n,l"], "c");
    let flags = parsed(
        "--tls-curve-preferences=23,0x1d --tls-sni-cert-key=a,b:*.x,y --tls-sni-cert-key=c,d",
    );
    assert_eq!(flags.serving.tls_curve_preferences, [23, 29]);
    assert_eq!(flags.serving.tls_sni_cert_key[0].names, ["*.x", "y"]);
    assert_eq!(flags.serving.tls_sni_cert_key.text(), "[a,b:*.x,y;c,d]");
}

#[test]
fn what_pflag_refuses_is_refused_in_its_words() {
    let cases = [
        ("--nonsense", "unknown flag: --nonsense"),
        ("--non_sense=1", "unknown flag: --non_sense"),
        ("--=x", "bad flag syntax: --=x"),
        ("--config", "flag needs an argument: --config"),
        ("-v", "flag needs an argument: 'v' in -v"),
        ("-xv", "unknown shorthand flag: 'x' in -xv"),
        ("somewhere", "\"kube-scheduler\" does not take any arguments, got [\"somewhere\"]"),
        (
            "--secure-port=http",
            "invalid argument \"http\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"http\": invalid syntax",
        ),
        (
            "--leader-elect=maybe",
            "invalid argument \"maybe\" for \"--leader-elect\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            "-v=-1",
            "invalid argument \"-1\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
        ),
        (
            "--leader-elect-lease-duration=15",
            "invalid argument \"15\" for \"--leader-elect-lease-duration\" flag: time: missing unit in duration \"15\"",
        ),
        (
            "--bind-address=here",
            "invalid argument \"here\" for \"--bind-address\" flag: failed to parse IP: \"here\"",
        ),
        (
            "--allow-metric-labels=x",
            "invalid argument \"x\" for \"--allow-metric-labels\" flag: x must be formatted as key=value",
        ),
        (
            "--vmodule=a",
            "invalid argument \"a\" for \"--vmodule\" flag: \"a\" does not have the pattern=N format",
        ),
        (
            "--tls-sni-cert-key=a",
            "invalid argument \"a\" for \"--tls-sni-cert-key\" flag: expected comma separated certificate and key file \
             paths",
        ),
        (
            "--version=v1.2.3",
            "invalid argument \"v1.2.3\" for \"--version\" flag: version \"v1.2.3\" must match major/minor/patch of \
             default version \"v1.36.0\"",
        ),
    ];
    for (line, text) in cases {
        assert_eq!(error(line), text, "{line}");
    }
}

#[test]
fn options_are_validated_as_in_the_reference() {
    let gates = FeatureGates::default();
    let cases = [
        (
            "--secure-port=70000",
            "--secure-port 70000 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        ("--requestheader-allowed-names=a,,b", "empty value in \"requestheader-allowed-names\""),
        (
            "--requestheader-uid-headers=X-Uid",
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation \
             will not work",
        ),
        (
            "--show-hidden-metrics-for-version=1.30",
            "metrics.showHiddenMetricsForVersion: Invalid value: \"1.30\": must be omitted or have the value '1.35'; only \
             the previous minor version is allowed",
        ),
        (
            "--disabled-metrics=ok,2bad",
            "metrics.disabledMetrics: Invalid value: [\"ok\",\"2bad\"]: must be fully qualified metric names matching \
             \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got \"2bad\"",
        ),
        (
            "--allow-metric-labels=m=a",
            "metrics.allowListMapping: Invalid value: {\"m\":\"a\"}: must have keys with format `metricName,labelName` \
             where metricName matches \"[a-zA-Z_:][a-zA-Z0-9_:]*\" and labelName matches \"[a-zA-Z_][a-zA-Z0-9_]*\"",
        ),
        (
            "--allow-metric-labels-manifest=/no/such",
            "metrics.allowListMappingManifest: Invalid value: \"/no/such\": failed to read allow list manifest: open \
             /no/such: no such file or directory",
        ),
    ];
    for (line, text) in cases {
        assert_eq!(parsed(line).validate(&gates), [text], "{line}");
    }
    let both = parsed("--secure-port=-1 --disabled-metrics=?").validate(&gates);
    assert_eq!(both.len(), 2);
    let text = aggregate(&both);
    assert!(text.starts_with("[--secure-port -1 must") && text.ends_with("\"?\"]"), "{text}");
    let warnings = parsed("--requestheader-group-headers=Groups").authentication.warnings();
    assert_eq!(warnings.len(), 1);
}

#[test]
fn logging_options_are_validated_as_in_the_reference() {
    let gates = FeatureGates::default();
    let cases = [
        ("--logging-format=yaml", "format: Invalid value: \"yaml\": Unsupported log format"),
        (
            "--log-flush-frequency=0",
            "flushFrequency: Invalid value: \"0s\": Must be greater than zero",
        ),
        (
            "--logging-format=json --vmodule=a=1",
            "vmodule: Forbidden: Only supported for text log format",
        ),
        (
            "--log-text-split-stream",
            "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (
            "--log-json-info-buffer-size=1Ki",
            "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
    ];
    for (line, text) in cases {
        assert_eq!(parsed(line).logs.validate(&gates), [text], "{line}");
    }
}

#[test]
fn gates_follow_versions_and_report_mistakes() {
    let gates = |line: &str| parsed(line).feature_gates.apply();
    let older = gates("--emulated-version=kube=1.34 --min-compatibility-version=1.34").unwrap();
    assert_eq!((older.gates.minor(), older.gates.compatibility_minor()), (34, 34));
    assert!(older.errors.is_empty());
    let set = gates(
        "--feature-gates=kube:GenericWorkload=true --feature-gates kube:NativeHistograms=true",
    )
    .unwrap();
    // Features that do not exist here stay off.
    assert_eq!(set.gates.value("GenericWorkload"), Some(true));
    assert_eq!(set.gates.value("NativeHistograms"), Some(false));
    assert_eq!(set.without_effect, [Gate::NativeHistograms]);
    let all = gates("--feature-gates=AllAlpha=true").unwrap();
    assert!(all.without_effect.contains(&Gate::NativeHistograms), "{:?}", all.without_effect);
    let cases = [
        ("--emulated-version=1.28", "emulation version 1.28 is not between [1.33, 1.36.0]"),
        (
            "--min-compatibility-version=1.30",
            "minCompatibilityVersion version 1.30 is not between [1.33, 1.36]",
        ),
    ];
    for (line, text) in cases {
        assert_eq!(gates(line).unwrap().errors, [text], "{line}");
    }
    let cases = [
        ("--emulated-version=new", "could not parse \"new\" as version"),
        ("--emulated-version=1", "illegal version string \"1\""),
        ("--emulated-version=1.35.2", "patch version not allowed, got: kube=1.35.2"),
        ("--emulated-version=wardle=1.35", "component not registered: wardle"),
        ("--emulated-version=1.35,1.36", "duplicate version flag, kube=1.35 and kube=1.36"),
        ("--feature-gates=NoSuch=true", "unrecognized feature gate: NoSuch"),
        (
            "--feature-gates=GangScheduling=true,TopologyAwareWorkloadScheduling=true",
            "[GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload], \
             TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]]",
        ),
        (
            "--feature-gates=NoSuch=true --emulated-version=new",
            "could not parse \"new\" as version",
        ),
        ("--feature-gates=AllAlpha", "missing bool value for AllAlpha"),
        ("--feature-gates=wardle:A=true", "component not registered: wardle"),
        (
            "--feature-gates=AllAlpha=true,kube:AllBeta=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
        (
            "--feature-gates=SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
        (
            "--emulated-version=1.33 --feature-gates=GangScheduling=true",
            "cannot set feature gate GangScheduling to true, feature is PreAlpha at emulated version 1.33, min \
             compatibility version 1.33",
        ),
    ];
    for (line, text) in cases {
        assert_eq!(gates(line).unwrap_err(), text, "{line}");
    }
}

#[test]
fn the_help_is_laid_out_as_pflag_does() {
    let text = help("kube-scheduler-rs", &["demo".to_owned()], 0);
    assert!(text.contains("\nMisc flags:\n\n      --config string            The path to the configuration file.\n"), "{text}");
    assert!(
        text.contains("      --version version[=true]   --version, --version=raw prints"),
        "{text}"
    );
    assert!(text.contains("(default [/healthz,/readyz,/livez])"), "{text}");
    assert!(text.contains("kube:GangScheduling=true|false (ALPHA - default=false)"), "{text}");
    for line in usage("kube-scheduler-rs", &[], 160).lines() {
        assert!(line.chars().count() <= 165, "{line}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 300,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(36),
        ..proptest::test_runner::Config::default()
    })]

    #[test]
    fn no_command_line_panics(words in proptest::collection::vec("(-{0,3}[a-z_-]{0,8}(=[\\PC]{0,8})?)|[\\PC]{0,10}", 0..6)) {
        let _ = Flags::parse(&words);
    }

    #[test]
    fn no_value_panics(index in 0_usize..80, text in "[-+0-9a-zA-Z_.,:=\" \u{e9}\n]{0,16}") {
        let names: Vec<_> = Flags::default().values().iter().map(|(name, _)| *name).collect();
        let name = names[index % names.len()];
        let _ = Flags::parse(&[format!("--{name}={text}")]);
    }
}
