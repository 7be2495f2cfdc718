//! From the arguments a factory is handed to typed ones: read, defaults filled in, checked.
//!
//! Invariant: what a plugin gets from here obeys every rule of the configuration; the error names every field that does
//! not, in the reference's words and with paths that start at the arguments.

use kube_scheduler_config::{ConfiguredArgs, FeatureGates, default_args, validate_args};
use kube_scheduler_framework::PluginArgs;
use kube_scheduler_framework::api::validation::{FieldPath, aggregate};
use serde::de::DeserializeOwned;

/// The arguments as type `T`; `null` stands for none given.
pub(crate) fn read<T: DeserializeOwned + Default>(args: &PluginArgs) -> Result<T, String> {
    if args.is_null() {
        return Ok(T::default());
    }
    T::deserialize(args).map_err(|error| format!("decoding args: {error}"))
}

/// The arguments with defaults, or what is wrong with them. `wrap` is the variant of [`ConfiguredArgs`] for `T`. Which `gates` are
/// on may change defaults and checks.
pub(crate) fn checked<T: DeserializeOwned + Default>(
    args: &PluginArgs,
    wrap: fn(T) -> ConfiguredArgs,
    gates: &FeatureGates,
) -> Result<ConfiguredArgs, String> {
    let mut typed = wrap(read(args)?);
    default_args(&mut typed, gates);
    let errors = validate_args(&typed, &FieldPath::root(), gates);
    if errors.is_empty() { Ok(typed) } else { Err(aggregate(&errors)) }
}

/// The [`checked`] arguments in the type of a variant of [`ConfiguredArgs`].
macro_rules! checked_args {
    ($kind:ident, $args:expr) => {
        checked_args!($kind, $args, &kube_scheduler_config::FeatureGates::default())
    };
    ($kind:ident, $args:expr, $gates:expr) => {{
        use kube_scheduler_config::ConfiguredArgs;
        match $crate::plugin_args::checked($args, ConfiguredArgs::$kind, $gates) {
            Ok(ConfiguredArgs::$kind(args)) => Ok(args),
            // Checking does not change the type.
            Ok(_) => Err("args have the wrong type".to_owned()),
            Err(error) => Err(error),
        }
    }};
}

pub(crate) use checked_args;
