//! Rules that the recorded cases do not cover.

use super::*;
use crate::args::{
    CoschedulingArgs, DynamicResourcesArgs, NodeResourcesFitArgs, ScoringStrategy,
    UtilizationShapePoint, VolumeBindingArgs,
};
use crate::decode::decode;
use crate::defaults::{default, default_args};
use crate::duration::Duration;
use crate::gates::Gate;

fn errors(body: &str) -> Vec<String> {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let gates = FeatureGates::default();
    let mut config = decode(&format!("{head}{body}")).unwrap();
    default(&mut config, &gates);
    validate(&config, &gates).iter().map(ToString::to_string).collect()
}

fn args_errors(args: &ConfiguredArgs, gates: &FeatureGates) -> Vec<String> {
    validate_args(args, &FieldPath::root(), gates).iter().map(ToString::to_string).collect()
}

#[test]
fn leader_election_rules_hold_only_when_electing() {
    let wrong = "leaseDuration: -1s\n  renewDeadline: -2s\n  retryPeriod: -3s\n  resourceLock: x\n";
    assert_eq!(
        errors(&format!("leaderElection:\n  {wrong}")),
        [
            "leaderElection.leaseDuration: Invalid value: \"-1s\": must be greater than zero",
            "leaderElection.renewDeadline: Invalid value: \"-2s\": must be greater than zero",
            "leaderElection.retryPeriod: Invalid value: \"-3s\": must be greater than zero",
            "leaderElection.resourceLock: Invalid value: \"x\": resourceLock value must be \"leases\"",
        ]
    );
    assert!(errors(&format!("leaderElection:\n  leaderElect: false\n  {wrong}")).is_empty());
    assert_eq!(
        errors("leaderElection: {leaseDuration: 10s, renewDeadline: 10s}\n"),
        [
            "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`"
        ]
    );
}

#[test]
fn an_undefaulted_configuration_is_reported_what_it_lacks() {
    let mut config = Configuration::default();
    config.leader_election.leader_elect = Some(true);
    let found = aggregate(validate(&config, &FeatureGates::default()));
    for text in [
        "leaderElection.resourceLock: Required value",
        "leaderElection.resourceNamespace: Required value",
        "leaderElection.resourceName: Required value",
        "profiles: Required value",
    ] {
        assert!(found.contains(text), "{text} is not in {found}");
    }
}

#[test]
fn queue_sort_must_be_the_same_everywhere() {
    assert_eq!(
        errors(
            "profiles:\n- schedulerName: a\n  plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}\n- schedulerName: b\n  \
             plugins: {queueSort: {enabled: [{name: A, weight: 2}]}}\n"
        ),
        [
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
            "profiles[1].plugins.queueSort: Invalid value: {\"Enabled\":[{\"Name\":\"A\",\"Weight\":2}],\"Disabled\":null}: \
             must be the same for all profiles",
        ]
    );
    let profile = |name: &str, value: i32| {
        format!(
            "- schedulerName: {name}\n  plugins: {{queueSort: {{enabled: [{{name: A}}], disabled: [{{name: '*'}}]}}}}\n  \
             pluginConfig: [{{name: A, args: {{x: {value}}}}}]\n"
        )
    };
    assert_eq!(
        errors(&format!("profiles:\n{}{}{}", profile("a", 1), profile("b", 1), profile("c", 2))),
        [
            "profiles[2].pluginConfig.args: Invalid value: {\"x\":2}: queueSort must be the same for all profiles"
        ]
    );
}

#[test]
fn three_profiles_of_one_name_are_two_duplicates() {
    let found = errors("profiles:\n- schedulerName: a\n- schedulerName: a\n- schedulerName: a\n");
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], "profiles[2].schedulerName: Duplicate value: {}");
}

#[test]
fn args_of_the_wrong_type_are_shown_as_json() {
    let gates = FeatureGates::default();
    let mut config = Configuration::default();
    config.profiles.push(KubeSchedulerProfile {
        plugin_config: vec![PluginConfig {
            name: "NodeAffinity".to_owned(),
            args: ConfiguredArgs::Raw(serde_json::json!({"a": 1})),
        }],
        ..KubeSchedulerProfile::default()
    });
    default(&mut config, &gates);
    assert_eq!(
        aggregate(validate(&config, &gates)),
        "profiles[0].pluginConfig[0].args: Invalid value: {\"a\":1}: has to match plugin args"
    );
}

#[test]
fn gates_decide_which_timeouts_may_be_set() {
    let args = ConfiguredArgs::DynamicResources(DynamicResourcesArgs {
        filter_timeout: Some(Duration::ZERO),
        binding_timeout: Some(Duration::from_nanos(500_000_000)),
    });
    let on = FeatureGates::default();
    assert_eq!(
        args_errors(&args, &on),
        ["bindingTimeout: Invalid value: \"500ms\": must be at least 1 second"]
    );
    let off = on
        .with(Gate::DRASchedulerFilterTimeout, false)
        .with(Gate::DRAResourceClaimDeviceStatus, false);
    assert_eq!(
        args_errors(&args, &off),
        [
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
            "bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled",
        ]
    );
    assert!(
        args_errors(&ConfiguredArgs::DynamicResources(DynamicResourcesArgs::default()), &off)
            .is_empty()
    );
}

#[test]
fn the_storage_curve_needs_its_gate() {
    let off = FeatureGates::default();
    let on = off.clone().with(Gate::StorageCapacityScoring, true);
    let with_shape = |shape| {
        ConfiguredArgs::VolumeBinding(VolumeBindingArgs { bind_timeout_seconds: Some(1), shape })
    };
    let empty = with_shape(Some(Vec::new()));
    assert_eq!(
        args_errors(&empty, &off),
        [
            "shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        ]
    );
    assert_eq!(
        args_errors(&empty, &on),
        ["shape: Required value: at least one point must be specified"]
    );
    let mut defaulted = with_shape(None);
    default_args(&mut defaulted, &on);
    assert!(args_errors(&defaulted, &on).is_empty());
    let points = [(10, 0), (10, 5), (5, 11)];
    let points = points.map(|(utilization, score)| UtilizationShapePoint { utilization, score });
    assert_eq!(
        args_errors(&with_shape(Some(points.to_vec())), &on),
        [
            "shape[1].utilization: Invalid value: 10: values must be sorted in increasing order",
            "shape[2].score: Invalid value: 11: not in valid range [0, 10]",
        ]
    );
}

#[test]
fn fit_without_a_strategy_and_with_a_useless_curve() {
    let gates = FeatureGates::default();
    let fit = |scoring_strategy| {
        ConfiguredArgs::NodeResourcesFit(NodeResourcesFitArgs {
            scoring_strategy,
            ..NodeResourcesFitArgs::default()
        })
    };
    assert_eq!(
        args_errors(&fit(None), &gates),
        ["scoringStrategy: Required value: ScoringStrategy field is required"]
    );
    let strategy = ScoringStrategy {
        requested_to_capacity_ratio: Some(crate::args::RequestedToCapacityRatio::default()),
        ..ScoringStrategy::default()
    };
    assert_eq!(
        args_errors(&fit(Some(strategy)), &gates),
        [
            "scoringStrategy.type: Unsupported value: \"\": supported values: \"LeastAllocated\", \"MostAllocated\", \
             \"RequestedToCapacityRatio\"",
            "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
        ]
    );
}

#[test]
fn affinity_rules() {
    let term = |requirement: &str| {
        format!(
            "profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: {{addedAffinity: \
             {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{}}, {{{requirement}}}]}}}}}}\n"
        )
    };
    let path = "profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].";
    let cases = [
        (
            "matchExpressions: [{key: a, operator: Exists, values: [x]}]",
            "matchExpressions[0].values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist",
        ),
        (
            "matchExpressions: [{key: a, operator: In, values: []}]",
            "matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "matchExpressions: [{key: a, operator: Gt, values: ['1', '2']}]",
            "matchExpressions[0].values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            "matchExpressions: [{key: a, operator: Lt, values: [x]}]",
            "matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "matchExpressions: [{key: a, operator: is}]",
            "matchExpressions[0].operator: Unsupported value: \"is\": supported values: \"In\", \"NotIn\", \"Exists\", \
             \"DoesNotExist\", \"Gt\", \"Lt\"",
        ),
        (
            "matchFields: [{key: metadata.name, operator: In, values: [a, b]}]",
            "matchFields[0].values: Invalid value: [\"a\",\"b\"]: must have one element",
        ),
        (
            "matchFields: [{key: metadata.name, operator: Exists}]",
            "matchFields[0].operator: Unsupported value: \"Exists\": supported values: \"In\", \"NotIn\"",
        ),
    ];
    for (requirement, text) in cases {
        assert_eq!(errors(&term(requirement)), [format!("{path}{text}")]);
    }
    let found = errors(&term("matchExpressions: [{key: a, operator: In, values: [-x]}]"));
    assert!(found[0].starts_with(&format!(
        "{path}matchExpressions[0].values[0][a]: Invalid value: \"-x\": a valid label"
    )));
    let found = errors(&term("matchExpressions: [{key: '', operator: Exists}]"));
    assert!(found[0].contains(
        "key: Invalid value: \"\": name part must be non-empty; name part must consist of"
    ));
}

#[test]
fn a_resource_repeated_within_one_extender() {
    let found = errors(
        "extenders:\n- managedResources: [{name: a.io/b}, {name: a.io/b}, {name: requests.a.io/b}]\n",
    );
    assert_eq!(
        found,
        [
            "extenders[0].managedResources[1].name: Invalid value: \"a.io/b\": duplicate extender managed resource name",
            "extenders[0].managedResources[2].name: Invalid value: \"requests.a.io/b\": is an invalid extended resource name",
        ]
    );
}

#[test]
fn times_of_groups_are_not_negative_and_shares_are_percentages() {
    let args = CoschedulingArgs {
        permit_waiting_time_seconds: Some(-1),
        pod_group_backoff_seconds: Some(-2),
        pod_group_reject_percentage: Some(101),
    };
    let found = |args: CoschedulingArgs| -> Vec<String> {
        args_errors(&ConfiguredArgs::Coscheduling(args), &FeatureGates::default())
    };
    assert_eq!(
        found(args),
        [
            "permitWaitingTimeSeconds: Invalid value: -1: must be greater than 0",
            "podGroupBackoffSeconds: Invalid value: -2: must be greater than 0",
            "podGroupRejectPercentage: Invalid value: 101: must be between 0 and 100",
        ]
    );
    let mut none = ConfiguredArgs::Coscheduling(CoschedulingArgs::default());
    default_args(&mut none, &FeatureGates::default());
    let ConfiguredArgs::Coscheduling(defaults) = none else { panic!() };
    assert_eq!(
        (defaults.permit_waiting_time_seconds, defaults.pod_group_reject_percentage),
        (Some(60), Some(10))
    );
    assert_eq!(found(defaults), Vec::<String>::new());
}
