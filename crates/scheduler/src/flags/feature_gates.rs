//! Feature gates, and the version whose defaults they follow.

use std::collections::BTreeMap;

use kube_scheduler_config::{
    CURRENT_MINOR, FeatureGates, Gate, GateError, GateWarning, OLDEST_MINOR, Stage,
    parse_feature_gates,
};

use super::go;
use super::section::section;
use super::value::GatesByComponent;

section! {
    /// Which features are on.
    FeatureGateFlags {
        /// Versions by component, to behave like.
        emulated_version: Vec<String> = Vec::new(), "emulated-version",
            format!(
                "The versions different components emulate their capabilities (APIs, features, ...) of.\nIf set, the \
                 component will emulate the behavior of this version instead of the underlying binary version.\nVersion \
                 format could only be major.minor, for example: '--emulated-version=wardle=1.2,kube=1.31'.\nOptions are: \
                 kube=1.{OLDEST_MINOR}..1.{CURRENT_MINOR}(default:1.{CURRENT_MINOR})\nIf the component is not specified, \
                 defaults to \"kube\""
            );
        /// Versions by component, to be compatible with.
        min_compatibility_version: Vec<String> = Vec::new(), "min-compatibility-version",
            format!(
                "The min version of control plane components the server should be compatible with.\nMust be less or \
                 equal to the emulated-version. Version format could only be major.minor, for example: \
                 '--min-compatibility-version=wardle=1.2,kube=1.31'.\nOptions are: \
                 kube=1.{OLDEST_MINOR}..1.{CURRENT_MINOR}(default:1.{})\nIf the component is not specified, defaults to \
                 \"kube\"",
                CURRENT_MINOR - 1
            );
        /// Gates by component.
        feature_gates: GatesByComponent = GatesByComponent::default(), "feature-gates",
            format!(
                "Comma-separated list of component:key=value pairs that describe feature gates for alpha/experimental \
                 features of different components.\nIf the component is not specified, defaults to \"kube\". This flag \
                 can be repeatedly invoked. For example: --feature-gates 'wardle:featureA=true,wardle:featureB=false' \
                 --feature-gates 'kube:featureC=true'Options are:\n{}",
                known_gates().join("\n")
            );
    }
}

/// The feature gates that the flags set.
#[derive(Debug)]
pub(crate) struct Gates {
    /// The value of every gate.
    pub(crate) gates: FeatureGates,
    /// Warnings about gates that are deprecated or will be removed.
    pub(crate) warnings: Vec<GateWarning>,
    /// Gates that were turned on and stay off, because their features do not exist here.
    pub(crate) without_effect: Vec<Gate>,
    /// The errors of the reference's validation.
    pub(crate) errors: Vec<String>,
}

/// Gates of features that do not exist here, of those that the reference's scheduler reads and that are off by default.
const MISSING: &[Gate] =
    &[Gate::CBORServingAndStorage, Gate::CoordinatedLeaderElection, Gate::NativeHistograms];

impl FeatureGateFlags {
    /// Applies the versions, then the gates.
    ///
    /// # Errors
    /// Those that the reference reports before validation: malformed versions and gates, and gates that do not exist,
    /// cannot have the value, or need others that are off.
    pub(crate) fn apply(&self) -> Result<Gates, String> {
        let emulated = kube_version(&self.emulated_version)?;
        let compatible = kube_version(&self.min_compatibility_version)?;
        let mut errors = Vec::new();
        let mut gates = FeatureGates::default();
        if let Some((major, minor)) = emulated {
            match FeatureGates::emulating(&format!("{major}.{minor}")) {
                Ok(emulating) => gates = emulating,
                Err(error) => errors.push(error.to_string()),
            }
        }
        if let Some((major, minor)) = compatible {
            let minor_if_1 = if major == 1 { u16::try_from(minor).unwrap_or(u16::MAX) } else { 0 };
            match gates.clone().compatible_with(minor_if_1) {
                Ok(compatible) => gates = compatible,
                Err(GateError::CompatibilityOutOfRange { emulated, .. }) => {
                    let version = format!("{major}.{minor}");
                    errors
                        .push(GateError::CompatibilityOutOfRange { version, emulated }.to_string());
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        let by_component = &self.feature_gates.0;
        if by_component.contains_key("") && by_component.contains_key("kube") {
            return Err(GateError::MixedPrefixes.to_string());
        }
        if let Some(component) = by_component.keys().find(|name| !matches!(&***name, "" | "kube")) {
            return Err(format!("component not registered: {component}"));
        }
        let wanted: BTreeMap<String, bool> =
            parse_feature_gates(by_component.values().flatten().map(String::as_str))
                .map_err(|error| error.to_string())?;
        let warnings = gates.set(&wanted).map_err(|error| error.to_string())?;
        let mut without_effect = Vec::new();
        for &gate in MISSING {
            if gates.is_enabled(gate) {
                gates = gates.with(gate, false);
                without_effect.push(gate);
            }
        }
        Ok(Gates { gates, warnings, without_effect, errors })
    }
}

/// The version of the only component there is, among `kube=1.35` and `1.35`.
fn kube_version(versions: &[String]) -> Result<Option<(u64, u64)>, String> {
    let mut found: Option<(u64, u64)> = None;
    for text in versions {
        let (component, version) = text
            .split_once('=')
            .map_or(("kube", text.as_str()), |(name, version)| (name.trim(), version.trim()));
        let (major, minor, patch) = parse_version(version)?;
        if patch != 0 {
            return Err(format!(
                "patch version not allowed, got: {component}={major}.{minor}.{patch}"
            ));
        }
        if component != "kube" {
            return Err(format!("component not registered: {component}"));
        }
        if let Some((old_major, old_minor)) = found {
            return Err(format!(
                "duplicate version flag, kube={old_major}.{old_minor} and kube={major}.{minor}"
            ));
        }
        found = Some((major, minor));
    }
    Ok(found)
}

/// Major, minor and patch version of a text such as `v1.35` or `1.35.0-beta`.
fn parse_version(text: &str) -> Result<(u64, u64, u64), String> {
    let bare = text.trim();
    let bare = bare.strip_prefix('v').unwrap_or(bare);
    // What follows the numbers is ignored.
    let numbers =
        bare.find(|c: char| c != '.' && !c.is_ascii_digit()).map_or(bare, |end| &bare[..end]);
    let parts: Vec<&str> = numbers.split('.').take_while(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Err(format!("could not parse {} as version", go::quoted(text)));
    }
    if parts.len() < 2 {
        return Err(format!("illegal version string {}", go::quoted(text)));
    }
    if let [first, ..] = parts.as_slice()
        && first.len() > 1
        && first.starts_with('0')
    {
        return Err(format!(
            "illegal zero-prefixed version component {} in {}",
            go::quoted(first),
            go::quoted(text)
        ));
    }
    let mut numbers = [0_u64; 3];
    for (number, part) in numbers.iter_mut().zip(&parts) {
        *number = part.parse().map_err(|_| {
            format!(
                "illegal non-numeric version component {} in {}: {}",
                go::quoted(part),
                go::quoted(text),
                go::conversion("ParseUint", part, "value out of range")
            )
        })?;
    }
    Ok(numbers.into())
}

/// The values of single gates that can still be set, for completion.
pub(crate) fn gate_values() -> Vec<String> {
    let gates = FeatureGates::default();
    let open = gates.iter().filter(|(_, spec, _)| matches!(spec.stage, Stage::Alpha | Stage::Beta));
    open.flat_map(|(name, _, _)| [format!("{name}=true"), format!("{name}=false")]).collect()
}

/// The gates that can still be set, as the help lists them.
fn known_gates() -> Vec<String> {
    let gates = FeatureGates::default();
    let open = gates.iter().filter(|(_, spec, _)| matches!(spec.stage, Stage::Alpha | Stage::Beta));
    open.map(|(name, spec, _)| {
        format!("kube:{name}=true|false ({} - default={})", spec.stage.as_str(), spec.default)
    })
    .collect()
}
