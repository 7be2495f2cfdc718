//! The gate table against what the documentation of 1.36 says, and the rules for setting gates.

use super::*;

fn map(pairs: &[(&str, bool)]) -> BTreeMap<String, bool> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn table_is_sorted_and_every_stage_parses() {
    for pair in TABLE.windows(2) {
        assert!(pair[0].0 < pair[1].0, "{} before {}", pair[0].0, pair[1].0);
    }
    for (name, stages) in TABLE {
        let parsed: Vec<_> = stages.split(' ').map(parse_stage).collect();
        assert!(!parsed.is_empty() && parsed.iter().all(Option::is_some), "{name}: {stages}");
        let since: Vec<u16> = parsed.iter().flatten().map(|(since, _)| *since).collect();
        assert!(since.is_sorted() && since.iter().all(|s| *s <= CURRENT_MINOR), "{name}: {stages}");
    }
}

#[test]
fn every_gate_the_scheduler_reads_exists() {
    for gate in Gate::ALL {
        assert!(position(gate.as_str()).is_some(), "{gate}");
    }
    for (gate, needed) in DEPENDENCIES {
        for name in [gate].into_iter().chain(*needed) {
            assert!(position(name).is_some(), "{name}");
        }
    }
}

#[test]
fn defaults_of_the_current_version_are_consistent() {
    let gates = FeatureGates::default();
    assert_eq!(gates.validate(), []);
    let off: Vec<&str> = Gate::ALL
        .iter()
        .filter(|gate| !gates.is_enabled(**gate))
        .map(|gate| gate.as_str())
        .collect();
    assert_eq!(
        off,
        [
            "CBORServingAndStorage",
            "CoordinatedLeaderElection",
            "DRADeviceTaintRules",
            "DRAListTypeAttributes",
            "DRANodeAllocatableResources",
            "DRAWorkloadResourceClaims",
            "GangScheduling",
            "GenericWorkload",
            "LoggingAlphaOptions",
            "NativeHistograms",
            "SchedulerAsyncAPICalls",
            "StorageCapacityScoring",
            "TaintTolerationComparisonOperators",
            "TopologyAwareWorkloadScheduling",
            "VolumeLimitScaling",
            "WorkloadAwarePreemption",
        ]
    );
}

#[test]
fn older_versions_have_older_defaults() {
    let gates = FeatureGates::emulating("kube=1.35").unwrap();
    assert!(!gates.is_enabled(Gate::NodeDeclaredFeatures));
    assert_eq!(gates.value("AtomicFIFO"), Some(false));
    assert!(FeatureGates::emulating("1.36.0").is_ok());
    for version in ["1.28", "1.37", "2.0", "", "1.", "x"] {
        let error = FeatureGates::emulating(version).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("emulation version {version} is not between [1.33, 1.36.0]")
        );
    }
}

#[test]
fn wrong_settings_are_refused_whole() {
    let cases = [
        (map(&[("X", true), ("GenericWorkload", true)]), "unrecognized feature gate: X"),
        (
            map(&[("DynamicResourceAllocation", false)]),
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
    ];
    for (wanted, text) in cases {
        let mut gates = FeatureGates::default();
        assert_eq!(gates.set(&wanted).unwrap_err().to_string(), text);
        assert_eq!(gates, FeatureGates::default());
    }
    let error = FeatureGates::emulating("1.34")
        .unwrap()
        .set(&map(&[("GangScheduling", true)]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot set feature gate GangScheduling to true, feature is PreAlpha at emulated version 1.34, min compatibility \
         version 1.33"
    );
}

#[test]
fn setting_finished_gates_warns() {
    let mut gates = FeatureGates::default();
    let warnings =
        gates.set(&map(&[("DynamicResourceAllocation", true), ("KMSv1", true)])).unwrap();
    let texts: Vec<String> = warnings.iter().map(GateWarning::message).collect();
    assert_eq!(
        texts,
        [
            "Warning: setting GA feature gate. It will be removed in a future release.",
            "Warning: setting deprecated feature gate. It will be removed in a future release.",
        ]
    );
}

#[test]
fn dependencies_are_checked_over_the_whole_set() {
    let mut gates = FeatureGates::default();
    gates.set(&map(&[("GangScheduling", true)])).unwrap();
    let texts: Vec<String> = gates.validate().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"]
    );
    gates.set(&map(&[("GenericWorkload", true)])).unwrap();
    assert_eq!(gates.validate(), []);
}

#[test]
fn groups_set_what_is_not_named() {
    let mut gates = FeatureGates::default();
    gates.set(&map(&[("AllAlpha", true), ("GangScheduling", false)])).unwrap();
    assert!(gates.is_enabled(Gate::GenericWorkload) && !gates.is_enabled(Gate::GangScheduling));
    gates.set(&map(&[("AllBeta", false)])).unwrap();
    assert!(!gates.is_enabled(Gate::SchedulerPopFromBackoffQ));
    assert!(gates.is_enabled(Gate::DynamicResourceAllocation), "finished gates stay on");
}

#[test]
fn flags_parse_as_upstream_parses_them() {
    assert_eq!(
        parse_feature_gates(["A=true, B=f", "", "A=0,"]).unwrap(),
        map(&[("A", false), ("B", false)])
    );
    assert_eq!(parse_feature_gates(["kube:A=1"]).unwrap(), map(&[("A", true)]));
    let cases = [
        ("A", "missing bool value for A"),
        (
            "A=yes",
            "invalid value of A=yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax",
        ),
        (
            "kube:A=true,B=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
    ];
    for (flag, text) in cases {
        assert_eq!(parse_feature_gates([flag]).unwrap_err().to_string(), text);
    }
}
