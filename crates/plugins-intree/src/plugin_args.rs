//! From the arguments a factory is handed to typed ones: read, defaults filled in, checked.
//!
//! Invariant: what a plugin gets from here obeys every rule of the configuration; the error names every field that does
//! not, in the reference's words and with paths that start at the arguments.

use kube_scheduler_config::{ConfiguredArgs, FeatureGates, default_args, validate_args};
use kube_scheduler_framework::PluginArgs;
use kube_scheduler_framework::api::validation::{FieldPath, aggregate};
use serde::de::DeserializeOwned;

/// The error text in case checking arguments changed their type, which does not happen.
pub(crate) const WRONG_ARGS: &str = "args have the wrong type";

/// The arguments as type `T`; `null` stands for none given.
pub(crate) fn read<T: DeserializeOwned + Default>(args: &PluginArgs) -> Result<T, String> {
    if args.is_null() {
        return Ok(T::default());
    }
    T::deserialize(args).map_err(|error| format!("decoding args: {error}"))
}

/// The arguments with defaults, or what is wrong with them. `wrap` is the variant of [`ConfiguredArgs`] for `T`.
///
/// Which gates are on makes no difference to the arguments that are read this way.
pub(crate) fn checked<T: DeserializeOwned + Default>(
    args: &PluginArgs,
    wrap: fn(T) -> ConfiguredArgs,
) -> Result<ConfiguredArgs, String> {
    checked_with(args, wrap, &FeatureGates::default())
}

/// As [`checked`], for arguments to which it makes a difference which gates are on.
pub(crate) fn checked_with<T: DeserializeOwned + Default>(
    args: &PluginArgs,
    wrap: fn(T) -> ConfiguredArgs,
    gates: &FeatureGates,
) -> Result<ConfiguredArgs, String> {
    let mut typed = wrap(read(args)?);
    default_args(&mut typed, gates);
    let errors = validate_args(&typed, &FieldPath::root(), gates);
    if errors.is_empty() { Ok(typed) } else { Err(aggregate(&errors)) }
}
