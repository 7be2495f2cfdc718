//! Names that older versions of the reference knew, and what to use instead.
//!
//! Used wherever such a name can turn up: by the decoder, by the checks of a file, and by the flags.

use std::fmt;

/// What a retired name was the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetiredKind {
    /// A version of the configuration API, as `apiVersion` gives it.
    ApiVersion,
    /// A `kind` of configuration file.
    Kind,
    /// A field of the configuration, by its path.
    Field,
    /// A plugin of the scheduling framework.
    Plugin,
    /// A predicate of a `Policy`.
    Predicate,
    /// A priority of a `Policy`.
    Priority,
    /// A flag, without its hyphens.
    Flag,
}

/// A name that the reference had in older versions and has no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetiredName {
    /// What it was the name of.
    pub kind: RetiredKind,
    /// The name that older versions know.
    pub name: &'static str,
    /// The first version of the reference without it.
    pub since: &'static str,
    /// What to use instead, in words.
    pub instead: &'static str,
    /// The plugins that do its work now. Empty if there is none, or if it is no plugin, predicate or priority.
    pub plugins: &'static [&'static str],
}

impl fmt::Display for RetiredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gone since {}: {}", self.since, self.instead)
    }
}

/// The entry of a name that was removed; `None` if no older version had it.
#[must_use]
pub fn retired(kind: RetiredKind, name: &str) -> Option<&'static RetiredName> {
    RETIRED.iter().find(|retired| retired.kind == kind && retired.name == name)
}

use RetiredKind::{ApiVersion, Field, Flag, Kind, Plugin, Predicate, Priority};

const fn gone(
    kind: RetiredKind,
    name: &'static str,
    since: &'static str,
    instead: &'static str,
) -> RetiredName {
    RetiredName { kind, name, since, instead, plugins: &[] }
}

const fn now(
    kind: RetiredKind,
    name: &'static str,
    since: &'static str,
    instead: &'static str,
    plugins: &'static [&'static str],
) -> RetiredName {
    RetiredName { kind, name, since, instead, plugins }
}

const USE_V1: &str = "use kubescheduler.config.k8s.io/v1; `config migrate` writes it";
const USE_FILE: &str = "use --config with profiles; `config migrate` writes them from the policy";
const USE_PORT: &str = "the scheduler serves HTTPS only: use --secure-port and --bind-address";
const USE_LEASE: &str = "use --leader-elect-resource-name and --leader-elect-resource-namespace";
const USE_STDERR: &str = "the log goes to standard error: redirect it";
const USE_FIT_ARGS: &str = "use NodeResourcesFit with scoringStrategy in its args";
const USE_LIMITS: &str = "NodeVolumeLimits counts these volumes through their CSI driver";
const BY_DEFAULT: &str = "PodTopologySpread spreads by default";
const SERVING_FIELD: &str = "use the flags --secure-port and --bind-address";
const PROFILE_FIELD: &str = "put it into profiles";
const LABELS: &str = "use node affinity of pods, or a plugin of your own";

/// The predicates and priorities have the plugins that the reference ran for them while it still read policies.
const RETIRED: &[RetiredName] = &[
    gone(ApiVersion, "componentconfig/v1alpha1", "v1.19", USE_V1),
    gone(ApiVersion, "kubescheduler.config.k8s.io/v1alpha1", "v1.19", USE_V1),
    gone(ApiVersion, "kubescheduler.config.k8s.io/v1alpha2", "v1.19", USE_V1),
    gone(ApiVersion, "kubescheduler.config.k8s.io/v1beta1", "v1.23", USE_V1),
    gone(ApiVersion, "kubescheduler.config.k8s.io/v1beta2", "v1.28", USE_V1),
    gone(ApiVersion, "kubescheduler.config.k8s.io/v1beta3", "v1.29", USE_V1),
    gone(Kind, "Policy", "v1.23", "use a KubeSchedulerConfiguration; `config migrate` writes it"),
    gone(Field, "algorithmSource", "v1alpha2", "use profiles; --config takes no policy any more"),
    gone(
        Field,
        "bindTimeoutSeconds",
        "v1beta1",
        "use bindTimeoutSeconds in the args of VolumeBinding",
    ),
    gone(
        Field,
        "disablePreemption",
        "v1beta1",
        "disable the plugin DefaultPreemption at postFilter",
    ),
    gone(
        Field,
        "hardPodAffinitySymmetricWeight",
        "v1alpha2",
        "use hardPodAffinityWeight in the args of InterPodAffinity",
    ),
    gone(Field, "healthzBindAddress", "v1beta3", SERVING_FIELD),
    gone(Field, "metricsBindAddress", "v1beta3", SERVING_FIELD),
    gone(Field, "pluginConfig", "v1alpha2", PROFILE_FIELD),
    gone(Field, "plugins", "v1alpha2", PROFILE_FIELD),
    gone(Field, "schedulerName", "v1alpha2", PROFILE_FIELD),
    now(Plugin, "AzureDiskLimits", "v1.32", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Plugin, "CinderLimits", "v1.32", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Plugin, "EBSLimits", "v1.32", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Plugin, "GCEPDLimits", "v1.32", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Plugin, "DefaultPodTopologySpread", "v1beta1", BY_DEFAULT, &["PodTopologySpread"]),
    now(
        Plugin,
        "SelectorSpread",
        "kubescheduler.config.k8s.io/v1",
        BY_DEFAULT,
        &["PodTopologySpread"],
    ),
    gone(Plugin, "NodeLabel", "v1.23", LABELS),
    gone(
        Plugin,
        "ServiceAffinity",
        "v1.23",
        "use inter-pod affinity of pods, or a plugin of your own",
    ),
    gone(Plugin, "NodePreferAvoidPods", "v1beta2", "use a taint with the effect PreferNoSchedule"),
    now(Plugin, "NodeResourcesLeastAllocated", "v1beta2", USE_FIT_ARGS, &["NodeResourcesFit"]),
    now(Plugin, "NodeResourcesMostAllocated", "v1beta2", USE_FIT_ARGS, &["NodeResourcesFit"]),
    now(Plugin, "RequestedToCapacityRatio", "v1beta2", USE_FIT_ARGS, &["NodeResourcesFit"]),
    now(
        Plugin,
        "CheckVolumeBinding",
        "v1.23",
        "the plugin is called VolumeBinding",
        &["VolumeBinding"],
    ),
    now(
        Plugin,
        "CSILimits",
        "v1.23",
        "the plugin is called NodeVolumeLimits",
        &["NodeVolumeLimits"],
    ),
    now(Predicate, "CheckNodeUnschedulable", "v1.23", USE_FILE, &["NodeUnschedulable"]),
    now(Predicate, "CheckVolumeBinding", "v1.23", USE_FILE, &["VolumeBinding"]),
    gone(Predicate, "CheckNodeLabelPresence", "v1.23", LABELS),
    gone(
        Predicate,
        "CheckServiceAffinity",
        "v1.23",
        "use inter-pod affinity of pods, or a plugin of your own",
    ),
    now(Predicate, "EvenPodsSpread", "v1.23", USE_FILE, &["PodTopologySpread"]),
    now(
        Predicate,
        "GeneralPredicates",
        "v1.23",
        USE_FILE,
        &["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"],
    ),
    now(Predicate, "HostName", "v1.23", USE_FILE, &["NodeName"]),
    now(Predicate, "MatchInterPodAffinity", "v1.23", USE_FILE, &["InterPodAffinity"]),
    now(Predicate, "MatchNodeSelector", "v1.23", USE_FILE, &["NodeAffinity"]),
    now(Predicate, "MaxAzureDiskVolumeCount", "v1.23", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Predicate, "MaxCSIVolumeCountPred", "v1.23", USE_FILE, &["NodeVolumeLimits"]),
    now(Predicate, "MaxCinderVolumeCount", "v1.23", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Predicate, "MaxEBSVolumeCount", "v1.23", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Predicate, "MaxGCEPDVolumeCount", "v1.23", USE_LIMITS, &["NodeVolumeLimits"]),
    now(Predicate, "NoDiskConflict", "v1.23", USE_FILE, &["VolumeRestrictions"]),
    now(Predicate, "NoVolumeZoneConflict", "v1.23", USE_FILE, &["VolumeZone"]),
    now(Predicate, "PodFitsHostPorts", "v1.23", USE_FILE, &["NodePorts"]),
    now(Predicate, "PodFitsPorts", "v1.23", USE_FILE, &["NodePorts"]),
    now(Predicate, "PodFitsResources", "v1.23", USE_FILE, &["NodeResourcesFit"]),
    now(Predicate, "PodToleratesNodeTaints", "v1.23", USE_FILE, &["TaintToleration"]),
    now(
        Priority,
        "BalancedResourceAllocation",
        "v1.23",
        USE_FILE,
        &["NodeResourcesBalancedAllocation"],
    ),
    now(Priority, "EvenPodsSpreadPriority", "v1.23", USE_FILE, &["PodTopologySpread"]),
    now(Priority, "ImageLocalityPriority", "v1.23", USE_FILE, &["ImageLocality"]),
    now(Priority, "InterPodAffinityPriority", "v1.23", USE_FILE, &["InterPodAffinity"]),
    now(Priority, "LeastRequestedPriority", "v1.23", USE_FILE, &["NodeResourcesFit"]),
    now(Priority, "MostRequestedPriority", "v1.23", USE_FIT_ARGS, &["NodeResourcesFit"]),
    now(Priority, "NodeAffinityPriority", "v1.23", USE_FILE, &["NodeAffinity"]),
    gone(Priority, "EqualPriority", "v1.23", "all nodes are equally good without it"),
    gone(
        Priority,
        "NodePreferAvoidPodsPriority",
        "v1.23",
        "use a taint with the effect PreferNoSchedule",
    ),
    gone(Priority, "NodeLabelPriority", "v1.23", LABELS),
    gone(Priority, "ServiceAntiAffinityPriority", "v1.23", BY_DEFAULT),
    now(Priority, "RequestedToCapacityRatioPriority", "v1.23", USE_FIT_ARGS, &["NodeResourcesFit"]),
    now(Priority, "SelectorSpreadPriority", "v1.23", BY_DEFAULT, &["PodTopologySpread"]),
    now(Priority, "ServiceSpreadingPriority", "v1.23", BY_DEFAULT, &["PodTopologySpread"]),
    now(Priority, "TaintTolerationPriority", "v1.23", USE_FILE, &["TaintToleration"]),
    gone(Flag, "address", "v1.24", USE_PORT),
    gone(Flag, "port", "v1.24", USE_PORT),
    gone(Flag, "algorithm-provider", "v1.22", "use --config with profiles"),
    gone(Flag, "policy-config-file", "v1.23", USE_FILE),
    gone(Flag, "policy-configmap", "v1.23", USE_FILE),
    gone(Flag, "policy-configmap-namespace", "v1.23", USE_FILE),
    gone(Flag, "use-legacy-policy-config", "v1.23", USE_FILE),
    gone(Flag, "scheduler-name", "v1.23", "use schedulerName of a profile in --config"),
    gone(
        Flag,
        "hard-pod-affinity-symmetric-weight",
        "v1.23",
        "use hardPodAffinityWeight in the args of InterPodAffinity",
    ),
    gone(Flag, "lock-object-name", "v1.25", USE_LEASE),
    gone(Flag, "lock-object-namespace", "v1.25", USE_LEASE),
    gone(Flag, "experimental-logging-sanitization", "v1.24", "nothing replaces it"),
    gone(Flag, "add-dir-header", "v1.26", "nothing replaces it"),
    gone(Flag, "alsologtostderr", "v1.26", USE_STDERR),
    gone(Flag, "log-backtrace-at", "v1.26", "nothing replaces it"),
    gone(Flag, "log-dir", "v1.26", USE_STDERR),
    gone(Flag, "log-file", "v1.26", USE_STDERR),
    gone(Flag, "log-file-max-size", "v1.26", USE_STDERR),
    gone(Flag, "logtostderr", "v1.26", USE_STDERR),
    gone(Flag, "one-output", "v1.26", USE_STDERR),
    gone(Flag, "skip-headers", "v1.26", "nothing replaces it"),
    gone(Flag, "skip-log-headers", "v1.26", "nothing replaces it"),
    gone(Flag, "stderrthreshold", "v1.26", USE_STDERR),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::FeatureGates;
    use crate::merge::default_plugins;

    #[test]
    fn what_replaces_a_name_exists_and_is_not_gone_itself() {
        let defaults = default_plugins(&FeatureGates::default());
        let known: Vec<&str> =
            defaults.multi_point.enabled.iter().map(|plugin| &*plugin.name).collect();
        for retired in RETIRED {
            assert!(retired.plugins.iter().all(|plugin| known.contains(plugin)), "{retired:?}");
            assert!(retired.kind != Plugin || !known.contains(&retired.name), "{retired:?}");
        }
    }

    #[test]
    fn every_name_is_there_once_and_says_what_to_do() {
        for (at, one) in RETIRED.iter().enumerate() {
            let same = |it: &&RetiredName| it.kind == one.kind && it.name == one.name;
            assert_eq!(RETIRED.iter().position(|it| same(&it)), Some(at), "{one:?}");
            assert!(one.since.contains("v1") && !one.instead.is_empty(), "{one:?}");
        }
        let one = retired(ApiVersion, "kubescheduler.config.k8s.io/v1beta3").unwrap();
        assert_eq!(
            one.to_string(),
            "gone since v1.29: use kubescheduler.config.k8s.io/v1; `config migrate` writes it"
        );
    }
}
