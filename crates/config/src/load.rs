//! All steps from the text of a file to a configuration that can be used.
//!
//! Invariants: what comes out is decoded strictly, defaulted and valid; with an error nothing comes out.

use crate::decode::{ConfigDecodeError, decode};
use crate::defaults::default;
use crate::gates::FeatureGates;
use crate::v1::Configuration;
use crate::validate::{ConfigurationError, validate};

/// Why a text cannot be used as a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text cannot be decoded.
    #[error(transparent)]
    Decode(#[from] ConfigDecodeError),
    /// The configuration was decoded, and breaks rules of validation.
    #[error(transparent)]
    Invalid(#[from] ConfigurationError),
}

/// Decodes, defaults and validates the text of a configuration file, in YAML or JSON.
///
/// # Errors
/// The first error of decoding, or all broken rules at once.
pub fn load(text: &str, gates: &FeatureGates) -> Result<Configuration, LoadError> {
    let mut configuration = decode(text)?;
    default(&mut configuration, gates);
    let errors = validate(&configuration, gates);
    if errors.is_empty() { Ok(configuration) } else { Err(ConfigurationError(errors).into()) }
}
