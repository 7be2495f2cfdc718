//! From JSON to compiled objects, with errors that say which object and which field.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Json;
use crate::node::Node;
use crate::options::CompileOptions;
use crate::pod::Pod;
use crate::wire;

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Kind and, as far as known, namespace and name: `pod default/web`.
    pub object: String,
    /// Path of the field, empty when the text is no JSON at all.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for DecodeError {}

impl Pod {
    /// Decodes and compiles a pod from JSON text, under the default feature gates.
    ///
    /// # Errors
    /// If the text is not JSON, is of another kind, or a field that matters has a wrong type or value.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, DecodeError> {
        Self::from_json_with(json, &CompileOptions::default())
    }

    /// Decodes and compiles a pod from JSON text.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_json_with(
        json: impl AsRef<[u8]>,
        options: &CompileOptions,
    ) -> Result<Self, DecodeError> {
        parse("pod", json.as_ref()).and_then(|json| Self::read(&json, options))
    }

    /// Compiles a pod from parsed JSON, under the default feature gates.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::from_value_with(value, &CompileOptions::default())
    }

    /// Compiles a pod from parsed JSON.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_value_with(value: &Value, options: &CompileOptions) -> Result<Self, DecodeError> {
        Self::read(&value.clone().into(), options)
    }

    fn read(json: &Json, options: &CompileOptions) -> Result<Self, DecodeError> {
        let pod: wire::Pod = decode("pod", json)?;
        check_kind("pod", "Pod", &pod.kind, json)?;
        Ok(Self::from_wire_with(&pod, options))
    }
}

impl Node {
    /// Decodes and compiles a node from JSON text.
    ///
    /// # Errors
    /// As [`Pod::from_json`].
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, DecodeError> {
        parse("node", json.as_ref()).and_then(|json| Self::read(&json))
    }

    /// Compiles a node from parsed JSON.
    ///
    /// # Errors
    /// As [`Pod::from_json`].
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::read(&value.clone().into())
    }

    fn read(json: &Json) -> Result<Self, DecodeError> {
        let node: wire::Node = decode("node", json)?;
        check_kind("node", "Node", &node.kind, json)?;
        Ok(Self::from_wire(&node))
    }
}

/// From text to JSON, whatever it is of.
pub(crate) fn parse(noun: &str, text: &[u8]) -> Result<Json, DecodeError> {
    serde_json::from_slice(text).map_err(|error| DecodeError {
        object: noun.to_owned(),
        path: String::new(),
        reason: error.to_string(),
    })
}

/// Reads a type of the API from JSON.
pub(crate) fn decode<T: DeserializeOwned>(noun: &str, json: &Json) -> Result<T, DecodeError> {
    T::deserialize(json).map_err(|error| DecodeError {
        object: object_text(noun, json),
        path: error.path(),
        reason: error.to_string(),
    })
}

fn check_kind(noun: &str, kind: &str, found: &str, json: &Json) -> Result<(), DecodeError> {
    if found.is_empty() || found == kind {
        return Ok(());
    }
    let reason = format!("expected {kind:?}, found {found:?}");
    Err(DecodeError { object: object_text(noun, json), path: "kind".to_owned(), reason })
}

/// As much of an object's identity as can be read.
fn object_text(noun: &str, json: &Json) -> String {
    let part = |name: &str| json["metadata"][name].as_str().unwrap_or_default();
    match (part("namespace"), part("name")) {
        (_, "") => noun.to_owned(),
        ("", name) => format!("{noun} {name}"),
        (namespace, name) => format!("{noun} {namespace}/{name}"),
    }
}
