//! The printed form: the v1 object as JSON or YAML, keys sorted.
//!
//! Invariants: what is printed decodes to the same configuration; the same configuration prints the same bytes.

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::v1::{API_VERSION, Configuration, KIND};

/// A configuration that has no printed form. Not reachable for one that was decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A value JSON cannot hold, such as an infinite `qps`.
    #[error("the configuration has no JSON form")]
    Json(#[from] serde_json::Error),
    /// A value that YAML cannot hold.
    #[error("the configuration has no YAML form")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(flatten)]
    configuration: &'a Configuration,
}

/// The configuration as a JSON tree with `apiVersion` and `kind`, keys sorted.
///
/// # Errors
/// If a value has no JSON form.
pub fn to_json_value(configuration: &Configuration) -> Result<Json, OutputError> {
    let document = Document { kind: KIND, api_version: API_VERSION, configuration };
    Ok(sorted(serde_json::to_value(document)?))
}

/// The configuration as YAML: the JSON form, block style.
///
/// # Errors
/// If a value has no JSON or YAML form.
pub fn to_yaml(configuration: &Configuration) -> Result<String, OutputError> {
    let options =
        serde_saphyr::ser_options! { compact_list_indent: true, prefer_block_scalars: false };
    Ok(serde_saphyr::to_string_with_options(&to_json_value(configuration)?, options)?)
}

/// Sorts the keys of every object. Whether a JSON map does so itself depends on features other crates turn on.
fn sorted(json: Json) -> Json {
    match json {
        Json::Object(map) => {
            let mut entries: Vec<(String, Json)> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(
                entries.into_iter().map(|(key, value)| (key, sorted(value))).collect::<Map<_, _>>(),
            )
        }
        Json::Array(items) => Json::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
