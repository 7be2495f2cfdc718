//! Feature gates: which exist, what they default to at which version, and how `--feature-gates` sets them.
//!
//! Invariants: a set of gates knows a value for every gate of the table; a gate that does not exist yet at the emulated
//! version is off; setting gates either applies all of a map or changes nothing; the result depends on the map, not on
//! the order in which it was written.

mod table;

use std::collections::BTreeMap;
use std::fmt;

use kube_scheduler_api_types::{CompileOptions, named_enum};

use self::table::{TABLE, position};

/// The newest version that can be emulated, and the default: 1.36.
pub const CURRENT_MINOR: u16 = 36;
/// The oldest version that can be emulated.
pub const OLDEST_MINOR: u16 = 33;

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

macro_rules! gates {
    ($($name:ident)*) => {
        /// A gate the scheduler itself reads. Others exist and can be set, see [`FeatureGates::value`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "a gate's name is its documentation, upstream's pages say what it does")]
        #[non_exhaustive]
        pub enum Gate {
            $($name,)*
        }

        impl Gate {
            /// Every gate the scheduler reads.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The gate's name as users write it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

gates! {
    AllowParsingUserUIDFromCertAuth CBORServingAndStorage ComponentFlagz ComponentStatusz ContextualLogging
    CoordinatedLeaderElection
    DRAAdminAccess DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints
    DRAExtendedResource DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList
    DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DRAWorkloadResourceClaims DynamicResourceAllocation
    GangScheduling GenericWorkload InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
    LoggingAlphaOptions LoggingBetaOptions MatchLabelKeysInPodAffinity MatchLabelKeysInPodTopologySpread
    NativeHistograms NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NominatedNodeNameForExpectation
    OpportunisticBatching PodLevelResources PodObservedGenerationTracking RemoteRequestHeaderUID
    SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ SchedulerQueueingHints SidecarContainers
    StorageCapacityScoring TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling
    UnauthenticatedHTTP2DOSMitigation VolumeAttributesClass VolumeLimitScaling WatchListClient WorkloadAwarePreemption
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

named_enum! {
    /// How finished a feature is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Stage {
        /// Does not exist at the emulated version.
        PreAlpha = "PreAlpha",
        /// Off unless it is switched on.
        Alpha = "ALPHA",
        /// On by default in most cases.
        Beta = "BETA",
        /// Generally available.
        Ga = "",
        /// The gate will be removed.
        Deprecated = "DEPRECATED",
    }
}

/// What holds for a gate at one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateSpec {
    /// The stage of the feature at that version.
    pub stage: Stage,
    /// Whether it is on unless set.
    pub default: bool,
    /// Whether it cannot be set to anything else.
    pub(crate) is_locked: bool,
}

impl GateSpec {
    const PRE_ALPHA: Self = Self { stage: Stage::PreAlpha, default: false, is_locked: false };
}

/// What was set although it has little future.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateWarning {
    /// The name of the gate.
    pub gate: String,
    /// What it was set to.
    pub value: bool,
    /// The stage of the gate: [`Stage::Ga`] or [`Stage::Deprecated`].
    pub stage: Stage,
}

impl GateWarning {
    /// The log line upstream writes, beside the gate and its value.
    #[must_use]
    pub fn message(&self) -> String {
        let stage = if self.stage == Stage::Deprecated { "deprecated" } else { "GA" };
        format!("Warning: setting {stage} feature gate. It will be removed in a future release.")
    }
}

/// Why gates cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// There is no gate of this name.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// A gate is named without `=value`.
    #[error("missing bool value for {0}")]
    MissingValue(String),
    /// A value that is not a boolean.
    #[error(
        "invalid value of {gate}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
    )]
    InvalidValue {
        /// The gate.
        gate: String,
        /// The text after `=`.
        value: String,
    },
    /// A gate that cannot be changed any more.
    #[error("cannot set feature gate {gate} to {value}, feature is locked to {default}")]
    Locked {
        /// The gate.
        gate: String,
        /// The requested value or name.
        value: bool,
        /// What it is.
        default: bool,
    },
    /// A gate that did not exist yet at the emulated version.
    #[error(
        "cannot set feature gate {gate} to {value}, feature is PreAlpha at emulated version 1.{minor}, min compatibility version 1.{compatibility_minor}"
    )]
    PreAlpha {
        /// The gate.
        gate: String,
        /// The requested value or name.
        value: bool,
        /// The emulated minor version.
        minor: u16,
        /// The oldest minor version to be compatible with.
        compatibility_minor: u16,
    },
    /// A gate is on and one it needs is off.
    #[error("{gate} is enabled, but depends on features that are disabled: [{}]", .missing.join(" "))]
    Dependency {
        /// The gate that is on.
        gate: String,
        /// What it needs.
        missing: Vec<String>,
    },
    /// Several errors, sorted by gate.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<Self>),
    /// Some gates were given as `kube:Name` and some as `Name`.
    #[error(
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    )]
    MixedPrefixes,
    /// A version that cannot be emulated.
    #[error("emulation version {0} is not between [1.{OLDEST_MINOR}, 1.{CURRENT_MINOR}.0]")]
    VersionOutOfRange(String),
    /// A version that the emulated one cannot be compatible with.
    #[error(
        "minCompatibilityVersion version {version} is not between [1.{OLDEST_MINOR}, {emulated}]"
    )]
    CompatibilityOutOfRange {
        /// The requested value or name.
        version: String,
        /// The emulated version.
        emulated: String,
    },
}

/// For every gate, whether it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGates {
    minor: u16,
    compatibility: u16,
    /// In the order of the table.
    values: Vec<bool>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self::at_minor(CURRENT_MINOR)
    }
}

impl FeatureGates {
    /// The defaults of an emulated version, given as `1.35` or `kube=1.35`.
    ///
    /// # Errors
    /// If the text is not a version, or one that cannot be emulated.
    pub fn emulating(version: &str) -> Result<Self, GateError> {
        let text = version.strip_prefix("kube=").unwrap_or(version);
        let minor = text.trim_start_matches('v').strip_prefix("1.").and_then(|rest| {
            let minor = rest.split('.').next().unwrap_or(rest);
            minor.parse().ok()
        });
        match minor {
            Some(minor) if (OLDEST_MINOR..=CURRENT_MINOR).contains(&minor) => {
                Ok(Self::at_minor(minor))
            }
            _ => Err(GateError::VersionOutOfRange(text.to_owned())),
        }
    }

    /// The same gates, compatible with components as old as `1.<minor>`. Without it, that is one version before the
    /// emulated one. No gate of the table depends on it so far.
    ///
    /// # Errors
    /// If the version is older than any that can be emulated, or newer than the emulated one.
    pub fn compatible_with(mut self, minor: u16) -> Result<Self, GateError> {
        if !(OLDEST_MINOR..=self.minor).contains(&minor) {
            let (version, emulated) = (format!("1.{minor}"), format!("1.{}", self.minor));
            return Err(GateError::CompatibilityOutOfRange { version, emulated });
        }
        self.compatibility = minor;
        Ok(self)
    }

    fn at_minor(minor: u16) -> Self {
        Self {
            minor,
            compatibility: (minor - 1).max(OLDEST_MINOR),
            values: TABLE.iter().map(|entry| entry.at(minor).default).collect(),
        }
    }

    /// Whether a gate is on.
    #[must_use]
    pub fn is_enabled(&self, gate: Gate) -> bool {
        self.value(gate.as_str()).unwrap_or(false)
    }

    /// Whether the gate of this name is on; nothing if there is none.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<bool> {
        position(name).and_then(|index| self.values.get(index).copied())
    }

    /// What the gates change about how pods are read.
    #[must_use]
    pub fn compile_options(&self) -> CompileOptions {
        let mut options = CompileOptions::default();
        options.pod_level_resources = self.is_enabled(Gate::PodLevelResources);
        options.pod_level_in_place_scaling =
            self.is_enabled(Gate::InPlacePodLevelResourcesVerticalScaling);
        options.spread_match_label_keys = self.is_enabled(Gate::MatchLabelKeysInPodTopologySpread);
        options
    }

    /// The same gates with one the scheduler reads turned on or off, without any check. For tests and simulation.
    #[must_use]
    pub fn with(mut self, gate: Gate, value: bool) -> Self {
        if let Some(slot) = position(gate.as_str()).and_then(|index| self.values.get_mut(index)) {
            *slot = value;
        }
        self
    }

    /// Every gate with its name, its state at the emulated version and its value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, GateSpec, bool)> + '_ {
        TABLE
            .iter()
            .zip(&self.values)
            .map(|(entry, &value)| (entry.name, entry.at(self.minor), value))
    }

    /// Sets gates and returns what is worth a warning. `AllAlpha` and `AllBeta` set every gate of their stage that is
    /// not set by name.
    ///
    /// # Errors
    /// If a gate is unknown; else all gates that are locked to another value or not available in the emulated version; else
    /// all gates that would be on while one that they need is off. Nothing changes then.
    pub fn set(&mut self, wanted: &BTreeMap<String, bool>) -> Result<Vec<GateWarning>, GateError> {
        if let Some(unknown) = wanted.keys().find(|name| position(name).is_none()) {
            return Err(GateError::Unknown(unknown.clone()));
        }
        let mut set = self.clone();
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        for (name, &value) in wanted {
            let Some(index) = position(name) else { continue };
            let spec = TABLE[index].at(self.minor);
            let gate = name.clone();
            if spec.is_locked && spec.default != value {
                errors.push(GateError::Locked { gate, value, default: spec.default });
            } else if spec.stage == Stage::PreAlpha {
                let (minor, compatibility_minor) = (self.minor, self.compatibility);
                errors.push(GateError::PreAlpha { gate, value, minor, compatibility_minor });
            } else {
                set.values[index] = value;
                if matches!(spec.stage, Stage::Ga | Stage::Deprecated) {
                    warnings.push(GateWarning { gate, value, stage: spec.stage });
                }
            }
        }
        for (all, stage) in [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)] {
            let Some(&value) = wanted.get(all) else { continue };
            for (entry, slot) in TABLE.iter().zip(&mut set.values) {
                let is_group = entry.name == ALL_ALPHA || entry.name == ALL_BETA;
                if !is_group
                    && !wanted.contains_key(entry.name)
                    && entry.at(self.minor).stage == stage
                {
                    *slot = value;
                }
            }
        }
        if errors.is_empty() {
            errors = set.unmet();
        }
        if errors.len() > 1 {
            return Err(GateError::Several(errors));
        }
        if let Some(error) = errors.pop() {
            return Err(error);
        }
        *self = set;
        Ok(warnings)
    }

    /// The gates that are on while one that they need is off, by name.
    fn unmet(&self) -> Vec<GateError> {
        let on = TABLE.iter().zip(&self.values).filter(|(_, is_on)| **is_on);
        let unmet = on.filter_map(|(entry, _)| {
            let off = entry.needs.iter().filter(|name| self.value(name) != Some(true));
            let missing: Vec<String> = off.map(|name| (*name).to_owned()).collect();
            let gate = entry.name.to_owned();
            (!missing.is_empty()).then_some(GateError::Dependency { gate, missing })
        });
        unmet.collect()
    }

    /// The minor version whose behaviour is emulated: 36 for v1.36.
    #[must_use]
    pub fn minor(&self) -> u16 {
        self.minor
    }

    /// The oldest minor version to be compatible with.
    #[must_use]
    pub fn compatibility_minor(&self) -> u16 {
        self.compatibility
    }
}

/// Reads one or more `--feature-gates` values: `Name=bool,…`, each name optionally with the prefix `kube:`. A gate given
/// twice takes the later value.
///
/// # Errors
/// If a name has no value or one that is no boolean, or names with and without the prefix are mixed. Whether gates exist is not
/// checked here.
pub fn parse_feature_gates<'a>(
    flags: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, bool>, GateError> {
    let mut wanted = BTreeMap::new();
    let (mut has_prefixed, mut has_plain) = (false, false);
    let pairs = flags.into_iter().flat_map(|flag| flag.split(','));
    for pair in pairs.map(str::trim).filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or(pair).trim();
        let name = match name.strip_prefix("kube:") {
            Some(name) => {
                has_prefixed = true;
                name
            }
            None => {
                has_plain = true;
                name
            }
        };
        let Some((_, value)) = pair.split_once('=') else {
            return Err(GateError::MissingValue(name.to_owned()));
        };
        let value = value.trim();
        let value = match value {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            _ => {
                let (gate, value) = (name.to_owned(), value.to_owned());
                return Err(GateError::InvalidValue { gate, value });
            }
        };
        wanted.insert(name.to_owned(), value);
    }
    if has_prefixed && has_plain {
        return Err(GateError::MixedPrefixes);
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests;
