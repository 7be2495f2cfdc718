//! From JSON to compiled objects, with errors that say which object and which field.

use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::node::Node;
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
    /// Decodes and compiles a pod from JSON text.
    ///
    /// # Errors
    /// If the text is not JSON, is of another kind, or a field that matters has a wrong type or value.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, DecodeError> {
        let pod: wire::Pod = decode_text("pod", json.as_ref())?;
        check_kind("pod", "Pod", &pod.kind, &pod.metadata)?;
        Ok(Self::from_wire(&pod))
    }

    /// Compiles a pod from parsed JSON.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        let pod: wire::Pod = decode_value("pod", value)?;
        check_kind("pod", "Pod", &pod.kind, &pod.metadata)?;
        Ok(Self::from_wire(&pod))
    }
}

impl Node {
    /// Decodes and compiles a node from JSON text.
    ///
    /// # Errors
    /// As [`Pod::from_json`].
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, DecodeError> {
        let node: wire::Node = decode_text("node", json.as_ref())?;
        check_kind("node", "Node", &node.kind, &node.metadata)?;
        Ok(Self::from_wire(&node))
    }

    /// Compiles a node from parsed JSON.
    ///
    /// # Errors
    /// As [`Pod::from_json`].
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        let node: wire::Node = decode_value("node", value)?;
        check_kind("node", "Node", &node.kind, &node.metadata)?;
        Ok(Self::from_wire(&node))
    }
}

pub(crate) fn decode_text<T: DeserializeOwned>(noun: &str, json: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(json).map_err(|error| {
        // Second reading, for errors only: slower, but it knows where it is.
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let path = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
            Err(traced) if error.is_data() => path_text(traced.path()),
            _ => String::new(),
        };
        let identity = serde_json::from_slice(json).unwrap_or_default();
        DecodeError { object: object_text(noun, &identity), path, reason: reason_text(&error) }
    })
}

/// Reads a type from JSON that was parsed already.
pub(crate) fn decode_value<'de, T: DeserializeOwned>(
    noun: &str,
    value: impl Deserializer<'de, Error = serde_json::Error> + Copy,
) -> Result<T, DecodeError> {
    T::deserialize(value).map_err(|error| {
        let path = match serde_path_to_error::deserialize::<_, T>(value) {
            Err(traced) => path_text(traced.path()),
            Ok(_) => String::new(),
        };
        let identity = Identity::deserialize(value).unwrap_or_default();
        DecodeError { object: object_text(noun, &identity), path, reason: reason_text(&error) }
    })
}

fn check_kind(
    noun: &str,
    kind: &str,
    found: &str,
    metadata: &wire::ObjectMeta,
) -> Result<(), DecodeError> {
    if found.is_empty() || found == kind {
        return Ok(());
    }
    let identity = Identity {
        metadata: Lenient::Read(IdentityMeta {
            namespace: Lenient::Read(metadata.namespace.to_string()),
            name: Lenient::Read(metadata.name.to_string()),
        }),
    };
    let reason = format!("expected {kind:?}, found {found:?}");
    Err(DecodeError { object: object_text(noun, &identity), path: "kind".to_owned(), reason })
}

/// As much of an object's identity as can be read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    metadata: Lenient<IdentityMeta>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IdentityMeta {
    namespace: Lenient<String>,
    name: Lenient<String>,
}

/// A value of any other type counts as absent.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Lenient<T> {
    Read(T),
    Other(IgnoredAny),
    #[default]
    #[serde(skip)]
    Absent,
}

fn object_text(noun: &str, identity: &Identity) -> String {
    let Lenient::Read(metadata) = &identity.metadata else { return noun.to_owned() };
    match (&metadata.namespace, &metadata.name) {
        (Lenient::Read(namespace), Lenient::Read(name)) if !namespace.is_empty() => {
            format!("{noun} {namespace}/{name}")
        }
        (_, Lenient::Read(name)) if !name.is_empty() => format!("{noun} {name}"),
        _ => noun.to_owned(),
    }
}

/// The path in the words of the API: entries of maps in brackets.
fn path_text(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut text = String::new();
    let mut is_map = false;
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("[{index}]")),
            Segment::Map { key } if is_map => text.push_str(&format!("[{key}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Segment::Unknown => {}
        }
        is_map = match segment {
            Segment::Map { key } => !is_map && MAP_FIELDS.contains(&key.as_str()),
            _ => false,
        };
    }
    text
}

/// Fields whose keys are data, not field names.
const MAP_FIELDS: [&str; 9] = [
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "requests",
    "overhead",
    "allocatable",
    "allocatedResources",
    "capacity",
];

/// The message without the position in the text; the path is more useful.
fn reason_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) if error.is_data() => reason.to_owned(),
        _ => text,
    }
}
