//! JSON values read as what they have to be, with the place of the first mistake.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A part of a value that cannot be.
#[derive(Debug)]
pub(crate) struct Mistake {
    /// Where in the value it is, such as `.spec.resources`; empty for the whole.
    pub(crate) path: String,
    pub(crate) problem: String,
}

/// The value with its type.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Mistake> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = match error.path().to_string() {
            whole if whole == "." => String::new(),
            item if item.starts_with('[') => item,
            field => format!(".{field}"),
        };
        Mistake { path, problem: error.into_inner().to_string() }
    })
}
