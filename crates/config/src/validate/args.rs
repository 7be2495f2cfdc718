//! The rules of plugin arguments.
//!
//! Invariants: paths start at the path given, which is the arguments' place in the file, or [`FieldPath::root`] when a
//! plugin checks its own arguments; the gates decide which fields may be set at all.

use std::collections::BTreeSet;

use kube_scheduler_api_types::validation::{BadValue, FieldError, FieldPath, label_key_messages};
use kube_scheduler_api_types::{NodeAffinity as CompiledAffinity, SelectorError};

use crate::args::{
    ConfiguredArgs, CoschedulingArgs, DefaultPreemptionArgs, DynamicResourcesArgs,
    InterPodAffinityArgs, NodeAffinityJson, NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs, PodTopologySpreadArgs, ScoringStrategy, TopologySpreadConstraintJson,
    UtilizationShapePoint, VolumeBindingArgs,
};
use crate::duration::Duration;
use crate::gates::{FeatureGates, Gate};

const RATIO: &str = "RequestedToCapacityRatio";
const SCORING_STRATEGIES: [&str; 3] = ["LeastAllocated", "MostAllocated", RATIO];
const DEFAULTING_TYPES: [&str; 2] = ["System", "List"];
const UNSATISFIABLE_ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];

/// What is wrong with a plugin's arguments, below `path`; nothing if they are valid. Raw arguments always are.
#[must_use]
pub fn validate_args(
    args: &ConfiguredArgs,
    path: &FieldPath,
    gates: &FeatureGates,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match args {
        ConfiguredArgs::Coscheduling(args) => coscheduling(args, path, &mut errors),
        ConfiguredArgs::DefaultPreemption(args) => default_preemption(args, path, &mut errors),
        ConfiguredArgs::DynamicResources(args) => dynamic_resources(args, path, gates, &mut errors),
        ConfiguredArgs::InterPodAffinity(args) => inter_pod_affinity(args, path, &mut errors),
        ConfiguredArgs::NodeAffinity(args) => {
            if let Some(added) = &args.added_affinity {
                added_affinity(added, &path.child("addedAffinity"), &mut errors);
            }
        }
        ConfiguredArgs::NodeResourcesBalancedAllocation(args) => {
            balanced_allocation(args, path, &mut errors);
        }
        ConfiguredArgs::NodeResourcesFit(args) => fit(args, path, &mut errors),
        ConfiguredArgs::PodTopologySpread(args) => topology_spread(args, path, &mut errors),
        ConfiguredArgs::VolumeBinding(args) => volume_binding(args, path, gates, &mut errors),
        ConfiguredArgs::Raw(_) => {}
    }
    errors
}

/// In the words of scheduler-plugins, which accepts 0.
fn coscheduling(args: &CoschedulingArgs, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (name, seconds) in [
        ("permitWaitingTimeSeconds", args.permit_waiting_time_seconds),
        ("podGroupBackoffSeconds", args.pod_group_backoff_seconds),
    ] {
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 0) {
            errors.push(FieldError::invalid(path.child(name), seconds, "must be greater than 0"));
        }
    }
    if let Some(share) = args.pod_group_reject_percentage.filter(|share| !(0..=100).contains(share))
    {
        let path = path.child("podGroupRejectPercentage");
        errors.push(FieldError::invalid(path, share, "must be between 0 and 100"));
    }
}

fn default_preemption(
    args: &DefaultPreemptionArgs,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    const PERCENTAGE: &str = "minCandidateNodesPercentage";
    const ABSOLUTE: &str = "minCandidateNodesAbsolute";
    let percentage = args.min_candidate_nodes_percentage.unwrap_or_default();
    let absolute = args.min_candidate_nodes_absolute.unwrap_or_default();
    if !(0..=100).contains(&percentage) {
        let detail = "not in valid range [0, 100]";
        errors.push(FieldError::invalid(path.child(PERCENTAGE), percentage, detail));
    }
    if absolute < 0 {
        let detail = "not in valid range [0, inf)";
        errors.push(FieldError::invalid(path.child(ABSOLUTE), absolute, detail));
    }
    if percentage == 0 && absolute == 0 {
        for (name, other) in [(PERCENTAGE, ABSOLUTE), (ABSOLUTE, PERCENTAGE)] {
            let detail = format!("cannot be zero at the same time as {other}");
            errors.push(FieldError::invalid(path.child(name), 0, detail));
        }
    }
}

fn dynamic_resources(
    args: &DynamicResourcesArgs,
    path: &FieldPath,
    gates: &FeatureGates,
    errors: &mut Vec<FieldError>,
) {
    let shown = |duration: Duration| BadValue::from(&duration.to_string());
    if let Some(timeout) = args.filter_timeout {
        let path = path.child("filterTimeout");
        if !gates.is_enabled(Gate::DRASchedulerFilterTimeout) {
            // Quirk: the gate's name is misspelt upstream.
            let detail = "DRASchedulingFilterTimeout feature gate is disabled";
            errors.push(FieldError::forbidden(path, detail));
        } else if timeout < Duration::ZERO {
            errors.push(FieldError::invalid(path, shown(timeout), "must be zero or positive"));
        }
    }
    if let Some(timeout) = args.binding_timeout {
        let path = path.child("bindingTimeout");
        let is_allowed = gates.is_enabled(Gate::DRADeviceBindingConditions)
            && gates.is_enabled(Gate::DRAResourceClaimDeviceStatus);
        if !is_allowed {
            let detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled";
            errors.push(FieldError::forbidden(path, detail));
        } else if timeout < Duration::from_secs(1) {
            errors.push(FieldError::invalid(path, shown(timeout), "must be at least 1 second"));
        }
    }
}

fn inter_pod_affinity(args: &InterPodAffinityArgs, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let weight = args.hard_pod_affinity_weight.unwrap_or_default();
    if !(0..=100).contains(&weight) {
        let path = path.child("hardPodAffinityWeight");
        errors.push(FieldError::invalid(path, weight, "not in valid range [0, 100]"));
    }
}

fn added_affinity(affinity: &NodeAffinityJson, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match CompiledAffinity::compile_strict(&affinity.to_wire(), path) {
        Ok(_) => {}
        Err(SelectorError::Fields(found)) => errors.extend(found),
        // Not a complaint node selectors can raise; shown rather than lost if that ever changes.
        Err(other) => errors.push(FieldError::invalid(
            path.clone(),
            BadValue::json(affinity),
            other.to_string(),
        )),
    }
}

fn balanced_allocation(
    args: &NodeResourcesBalancedAllocationArgs,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let mut seen = BTreeSet::new();
    for (index, resource) in args.resources.iter().enumerate() {
        let path = path.child("resources").index(index);
        if !seen.insert(resource.name.as_str()) {
            errors.push(FieldError::duplicate(path.child("name"), &resource.name));
        }
        if resource.weight != 1 {
            errors.push(FieldError::invalid(path.child("weight"), resource.weight, "must be 1"));
        }
    }
}

fn fit(args: &NodeResourcesFitArgs, path: &FieldPath, errors: &mut Vec<FieldError>) {
    label_keys(&args.ignored_resources, &path.child("ignoredResources"), errors);
    for (index, group) in args.ignored_resource_groups.iter().enumerate() {
        let path = path.child("ignoredResourceGroups").index(index);
        if group.contains('/') {
            let detail = "resource group name can't contain '/'";
            errors.push(FieldError::invalid(path.clone(), group, detail));
        }
        label_key(group, &path, errors);
    }
    let path = path.child("scoringStrategy");
    match &args.scoring_strategy {
        Some(strategy) => scoring_strategy(strategy, &path, errors),
        None => errors.push(FieldError::required(path, "ScoringStrategy field is required")),
    }
}

fn scoring_strategy(strategy: &ScoringStrategy, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if !SCORING_STRATEGIES.contains(&strategy.kind.as_str()) {
        let path = path.child("type");
        errors.push(FieldError::unsupported(path, &strategy.kind, &SCORING_STRATEGIES));
    }
    for (index, resource) in strategy.resources.iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            let path = path.child("resources").index(index).child("weight");
            let detail =
                format!("resource weight of {} not in valid range (0, 100]", resource.name);
            errors.push(FieldError::invalid(path, resource.weight, detail));
        }
    }
    let path = path.child("requestedToCapacityRatio");
    match &strategy.requested_to_capacity_ratio {
        Some(ratio) if strategy.kind == RATIO => {
            shape(&ratio.shape, &path.child("shape"), errors);
        }
        Some(_) => {
            let detail = "must be nil when type is not RequestedToCapacityRatio";
            errors.push(FieldError::forbidden(path, detail));
        }
        None if strategy.kind == RATIO => {
            let detail = "must be specified when type is RequestedToCapacityRatio";
            errors.push(FieldError::required(path, detail));
        }
        None => {}
    }
}

fn shape(points: &[UtilizationShapePoint], path: &FieldPath, errors: &mut Vec<FieldError>) {
    if points.is_empty() {
        errors.push(FieldError::required(path.clone(), "at least one point must be specified"));
        return;
    }
    let descent = points.windows(2).position(|pair| pair[1].utilization <= pair[0].utilization);
    if let Some(index) = descent.map(|index| index + 1) {
        let path = path.index(index).child("utilization");
        let detail = "values must be sorted in increasing order";
        errors.push(FieldError::invalid(path, points[index].utilization, detail));
    }
    for (index, point) in points.iter().enumerate() {
        let path = path.index(index);
        if !(0..=100).contains(&point.utilization) {
            let detail = "not in valid range [0, 100]";
            errors.push(FieldError::invalid(path.child("utilization"), point.utilization, detail));
        }
        if !(0..=10).contains(&point.score) {
            let detail = "not in valid range [0, 10]";
            errors.push(FieldError::invalid(path.child("score"), point.score, detail));
        }
    }
}

fn topology_spread(args: &PodTopologySpreadArgs, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = args.defaulting_type.as_str();
    let kind_path = path.child("defaultingType");
    if !DEFAULTING_TYPES.contains(&kind) {
        errors.push(FieldError::unsupported(kind_path, kind, &DEFAULTING_TYPES));
    } else if kind == "System" && !args.default_constraints.is_empty() {
        let detail = "when .defaultConstraints are not empty";
        errors.push(FieldError::invalid(kind_path, kind, detail));
    }
    let mut seen = BTreeSet::new();
    for (index, constraint) in args.default_constraints.iter().enumerate() {
        let path = path.child("defaultConstraints").index(index);
        spread_constraint(constraint, &path, errors);
        let pair = (constraint.topology_key.as_str(), constraint.when_unsatisfiable.as_str());
        if !seen.insert(pair) {
            let value = BadValue::from(&format!("{{{}, {}}}", pair.0, pair.1));
            errors.push(FieldError::duplicate(path, value));
        }
    }
}

fn spread_constraint(
    constraint: &TopologySpreadConstraintJson,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if constraint.max_skew <= 0 {
        let detail = "not in valid range (0, inf)";
        errors.push(FieldError::invalid(path.child("maxSkew"), constraint.max_skew, detail));
    }
    let key_path = path.child("topologyKey");
    if constraint.topology_key.is_empty() {
        errors.push(FieldError::required(key_path, "can not be empty"));
    } else {
        label_key(&constraint.topology_key, &key_path, errors);
    }
    let action = constraint.when_unsatisfiable.as_str();
    let action_path = path.child("whenUnsatisfiable");
    if action.is_empty() {
        errors.push(FieldError::required(action_path, "can not be empty"));
    } else if !UNSATISFIABLE_ACTIONS.contains(&action) {
        errors.push(FieldError::unsupported(action_path, action, &UNSATISFIABLE_ACTIONS));
    }
    if constraint.label_selector.is_some() {
        let detail = "constraint must not define a selector, as they deduced for each pod";
        errors.push(FieldError::forbidden(path.child("labelSelector"), detail));
    }
}

fn volume_binding(
    args: &VolumeBindingArgs,
    path: &FieldPath,
    gates: &FeatureGates,
    errors: &mut Vec<FieldError>,
) {
    let timeout = args.bind_timeout_seconds.unwrap_or_default();
    if timeout < 0 {
        let path = path.child("bindTimeoutSeconds");
        let detail = "invalid BindTimeoutSeconds, should not be a negative value";
        errors.push(FieldError::invalid(path, timeout, detail));
    }
    let path = path.child("shape");
    let points = args.shape.as_deref();
    if gates.is_enabled(Gate::StorageCapacityScoring) {
        shape(points.unwrap_or_default(), &path, errors);
    } else if let Some(points) = points {
        let detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
        errors.push(FieldError::invalid(path, internal_shape(points), detail));
    }
}

/// A curve as upstream shows it inside an error: with its internal field names.
fn internal_shape(points: &[UtilizationShapePoint]) -> BadValue {
    let shown: Vec<String> = points
        .iter()
        .map(|point| format!("{{\"Utilization\":{},\"Score\":{}}}", point.utilization, point.score))
        .collect();
    BadValue::verbatim(format!("[{}]", shown.join(",")))
}

fn label_keys(keys: &[String], path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, key) in keys.iter().enumerate() {
        label_key(key, &path.index(index), errors);
    }
}

fn label_key(key: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for message in label_key_messages(key) {
        errors.push(FieldError::invalid(path.clone(), key, message));
    }
}
