//! The gate table against what was recorded of the reference, and the rules for setting gates.

use super::*;

fn map(pairs: &[(&str, bool)]) -> BTreeMap<String, bool> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// What was recorded of the reference; see the file.
const RECORDED: &str = include_str!("../../tests/data/feature-gates-v1.36.2.txt");

#[test]
fn every_line_of_the_table_is_read() {
    let lines = include_str!("v1.36.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines.clone() {
        assert!(table::parse(line).is_some(), "{line}");
    }
    assert_eq!(TABLE.len(), lines.count());
    assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    for entry in TABLE.iter() {
        let since: Vec<u16> = entry.stages.iter().map(|(since, _)| *since).collect();
        assert!(!since.is_empty() && since.is_sorted(), "{entry:?}");
        assert!(since.iter().all(|since| *since <= CURRENT_MINOR), "{entry:?}");
        assert!(entry.needs.iter().all(|name| position(name).is_some()), "{entry:?}");
    }
}

#[test]
fn the_table_says_what_was_recorded_of_the_reference() {
    let by_version: Vec<FeatureGates> =
        (OLDEST_MINOR..=CURRENT_MINOR).map(FeatureGates::at_minor).collect();
    let state = |gates: &FeatureGates, name: &str| {
        let (_, spec, value) = gates.iter().find(|(other, ..)| *other == name)?;
        assert_eq!(spec.default, value);
        let stage = match spec.stage {
            Stage::PreAlpha => return Some("none".to_owned()),
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
            Stage::Ga => "ga",
            Stage::Deprecated => "deprecated",
        };
        let default = if value { "on" } else { "off" };
        Some(format!("{stage}:{default}{}", if spec.is_locked { ":locked" } else { "" }))
    };
    let mut n = 0;
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split('\t');
        let name = columns.next().unwrap();
        for gates in &by_version {
            let minor = gates.minor();
            assert_eq!(state(gates, name).as_deref(), columns.next(), "{name} at 1.{minor}");
        }
        let needs: Vec<&str> = columns.next().map_or_else(Vec::new, |it| it.split(' ').collect());
        assert_eq!(TABLE[position(name).unwrap()].needs, needs, "{name}");
        n += 1;
    }
    assert_eq!(n, TABLE.len(), "the table has gates that were not recorded");
}

#[test]
fn every_gate_the_scheduler_reads_exists() {
    for gate in Gate::ALL {
        assert!(position(gate.as_str()).is_some(), "{gate}");
    }
}

#[test]
fn defaults_of_the_current_version_are_consistent() {
    let gates = FeatureGates::default();
    assert_eq!(gates.unmet(), []);
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
    let mut refused = |pairs: &[(&str, bool)]| {
        let error = gates.set(&map(pairs)).unwrap_err().to_string();
        assert_eq!(gates, FeatureGates::default());
        error
    };
    assert_eq!(
        refused(&[("GangScheduling", true)]),
        "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"
    );
    assert_eq!(
        refused(&[
            ("WorkloadWithJob", true),
            ("DRAWorkloadResourceClaims", true),
            ("NodeDeclaredFeatures", false),
            ("PodLevelResources", false),
        ]),
        "[DRAWorkloadResourceClaims is enabled, but depends on features that are disabled: [GenericWorkload], \
         ExtendWebSocketsToKubelet is enabled, but depends on features that are disabled: [NodeDeclaredFeatures], \
         InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: [PodLevelResources \
         NodeDeclaredFeatures], InPlacePodVerticalScalingInitContainers is enabled, but depends on features that are \
         disabled: [NodeDeclaredFeatures], RestartAllContainersOnContainerExits is enabled, but depends on features that \
         are disabled: [NodeDeclaredFeatures], WorkloadWithJob is enabled, but depends on features that are disabled: \
         [GenericWorkload]]"
    );
    gates.set(&map(&[("GangScheduling", true), ("GenericWorkload", true)])).unwrap();
    assert!(gates.is_enabled(Gate::GangScheduling));
}

#[test]
fn all_values_that_cannot_be_set_are_reported_at_once() {
    let mut gates = FeatureGates::emulating("1.35").unwrap();
    let wanted = map(&[
        ("DynamicResourceAllocation", false),
        ("NativeHistograms", true),
        ("GangScheduling", true),
    ]);
    assert_eq!(
        gates.set(&wanted).unwrap_err().to_string(),
        "[cannot set feature gate DynamicResourceAllocation to false, feature is locked to true, cannot set feature gate \
         NativeHistograms to true, feature is PreAlpha at emulated version 1.35, min compatibility version 1.34]"
    );
}

#[test]
fn groups_set_what_is_not_named() {
    let mut gates = FeatureGates::default();
    gates
        .set(&map(&[
            ("AllAlpha", true),
            ("WorkloadAwarePreemption", false),
            ("GangScheduling", false),
        ]))
        .unwrap();
    assert!(gates.is_enabled(Gate::GenericWorkload) && !gates.is_enabled(Gate::GangScheduling));
    let mut gates = FeatureGates::default();
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
