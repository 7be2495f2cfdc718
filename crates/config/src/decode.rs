//! From text to [`Configuration`]: strict, with the path of every offence.
//!
//! Invariants: text of any kind and size ends in a value or an error, never in a panic or unbounded work; unknown and
//! repeated fields are all reported together; arguments of plugins known to this crate come out typed, all others as
//! they were written. Nothing is defaulted or validated.
//!
//! Answers to upstream's `loadConfig` and `DecodeNestedObjects`. Errors that upstream words in terms of its own
//! implementation (its types, its source files) are worded for the reader of the file instead.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::args::{ConfiguredArgs, ReadArgs};
use crate::reader::{TypeError, read};
use crate::retired::{RetiredKind, retired};
use crate::tree::{self, Language, Node, Position, Value};
use crate::v1::{API_VERSION, Configuration, KIND, PluginConfig};

/// How much of a document is quoted in an error.
const QUOTED_CHARS: usize = 2_000;

/// Why a text is not a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigDecodeError {
    /// Not a YAML or JSON document.
    #[error("{language}: {}{message}", PositionPrefix(*position))]
    Syntax {
        /// `yaml` or `json`.
        language: &'static str,
        /// The message of the parser.
        message: String,
        /// Where, if known.
        position: Option<Position>,
    },
    /// The document is a list or a scalar.
    #[error("couldn't get version/kind: expected an object, found {found}")]
    NotAnObject {
        /// What the document is.
        found: String,
    },
    /// The document has no `kind`.
    #[error("Object 'Kind' is missing in '{document}'")]
    MissingKind {
        /// The beginning of the text.
        document: String,
    },
    /// The document has no `apiVersion`.
    #[error("Object 'apiVersion' is missing in '{document}'")]
    MissingApiVersion {
        /// The beginning of the text.
        document: String,
    },
    /// A version or kind that does not exist.
    #[error(
        "no kind \"{kind}\" is registered for version \"{api_version}\" (known: kind \"{KIND}\" in version \"{API_VERSION}\"){}",
        retired_identity(kind, api_version)
    )]
    UnknownKind {
        /// The kind found.
        kind: String,
        /// The version found.
        api_version: String,
    },
    /// An `apiVersion` with more than one `/`.
    #[error("unexpected GroupVersion string: {api_version}")]
    MalformedApiVersion {
        /// The version found.
        api_version: String,
    },
    /// Plugin arguments where a configuration should be.
    #[error("couldn't decode as {KIND}, got {API_VERSION}, Kind={kind}: ")]
    WrongKind {
        /// The kind found.
        kind: String,
    },
    /// A value of a wrong type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Unknown or repeated fields.
    #[error("strict decoding error: {}{}", .0.join(", "), retired_fields(.0))]
    Strict(Vec<String>),
    /// Plugin arguments that are wrong in themselves.
    #[error("decoding .profiles[{profile}].pluginConfig[{entry}]: {error}")]
    Args {
        /// Index of the profile.
        profile: usize,
        /// Index of the entry in `pluginConfig`.
        entry: usize,
        /// What is wrong.
        error: ArgsError,
    },
}

/// Why a plugin's arguments cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgsError {
    /// A version or kind that does not exist.
    #[error(
        "decoding args for plugin {plugin}: no kind \"{kind}\" is registered for version \"{api_version}\" (known: kind \"{plugin}Args\" in version \"{API_VERSION}\")"
    )]
    UnknownKind {
        /// The plugin.
        plugin: String,
        /// The kind found.
        kind: String,
        /// The version found.
        api_version: String,
    },
    /// Another plugin's arguments.
    #[error(
        "args for plugin {plugin} were not of type {plugin}Args.kubescheduler.config.k8s.io, got {kind}.kubescheduler.config.k8s.io"
    )]
    WrongKind {
        /// The plugin.
        plugin: String,
        /// The kind found.
        kind: String,
    },
    /// A value of a wrong type; the path starts at the arguments.
    #[error("decoding args for plugin {plugin}: {error}")]
    Type {
        /// The plugin.
        plugin: String,
        /// What is wrong.
        error: TypeError,
    },
}

/// What replaces a kind or version that is gone.
fn retired_identity(kind: &str, api_version: &str) -> String {
    let found = retired(RetiredKind::Kind, kind);
    let found = found.or_else(|| retired(RetiredKind::ApiVersion, api_version));
    found.map_or_else(String::new, |found| format!("; {} is {found}", found.name))
}

/// What replaces those of some unknown fields that are gone.
fn retired_fields(complaints: &[String]) -> String {
    let fields = complaints.iter().filter_map(|complaint| {
        let name = complaint.strip_prefix("unknown field \"")?.strip_suffix('"')?;
        retired(RetiredKind::Field, name)
    });
    fields.map(|found| format!("; {} is {found}", found.name)).collect()
}

/// A prefix with the position, if there is one.
struct PositionPrefix(Option<Position>);

impl fmt::Display for PositionPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |position| write!(f, "{position}: "))
    }
}

/// Reads the text of a configuration file, strictly: unknown and repeated fields are errors. A text whose first character is
/// `{` is JSON, any other YAML. Nothing is defaulted or validated.
///
/// # Errors
/// What is wrong, with its path and, where it is known, its position in the text.
pub fn decode(text: &str) -> Result<Configuration, ConfigDecodeError> {
    let DecodeOutcome { configuration, errors } = decode_as_far_as_possible(text);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(configuration.unwrap_or_default()),
    }
}

/// What a text says, and what is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeOutcome {
    /// What could be read: without unknown fields, of repeated ones the last, and without the arguments that are wrong in
    /// themselves. `None` if nothing can be read.
    pub configuration: Option<Configuration>,
    /// Everything that is wrong; [`decode`] fails with the first.
    pub errors: Vec<ConfigDecodeError>,
}

/// As [`decode`], but goes on after an error as long as something can be read. For checks that report all errors at once.
#[must_use]
pub fn decode_as_far_as_possible(text: &str) -> DecodeOutcome {
    let mut errors = Vec::new();
    let configuration = read_text(text, &mut errors).unwrap_or_else(|error| {
        errors.push(error);
        None
    });
    DecodeOutcome { configuration, errors }
}

fn read_text(
    text: &str,
    errors: &mut Vec<ConfigDecodeError>,
) -> Result<Option<Configuration>, ConfigDecodeError> {
    let language = Language::of(text);
    let root = tree::parse(text, language).map_err(|error| ConfigDecodeError::Syntax {
        language: match language {
            Language::Yaml => "yaml",
            Language::Json => "json",
        },
        message: error.message,
        position: error.position,
    })?;
    check_identity(&root, text)?;

    let mut complaints = Vec::new();
    if language == Language::Yaml {
        complaints.extend(repeats_text(&root));
    }
    let (mut configuration, unknown) = read::<Configuration>(&root, language)?;
    complaints.extend(unknown);
    type_plugin_args(&mut configuration, &root, language, &mut complaints, errors);
    if !complaints.is_empty() {
        errors.push(ConfigDecodeError::Strict(complaints));
    }
    Ok(Some(configuration))
}

/// All repeated keys of a YAML document as one text, in the words of upstream's parser.
fn repeats_text(root: &Node) -> Option<String> {
    let repeated = tree::repeated_keys(root);
    if repeated.is_empty() {
        return None;
    }
    let mut text = "yaml: unmarshal errors:".to_owned();
    for (key, position) in repeated {
        let line = position.map_or(0, |position| position.line);
        text.push_str(&format!("\n  line {line}: key {key:?} already set in map"));
    }
    Some(text)
}

fn check_identity(root: &Node, text: &str) -> Result<(), ConfigDecodeError> {
    if !matches!(root.value, Value::Null | Value::Map(_)) {
        return Err(ConfigDecodeError::NotAnObject { found: root.value.describe() });
    }
    let kind = meta_field(root, "kind")?;
    let api_version = meta_field(root, "apiVersion")?;
    let document = || {
        let mut quoted: String = text.chars().take(QUOTED_CHARS).collect();
        if quoted.len() < text.len() {
            quoted.push('…');
        }
        quoted
    };
    if kind.is_empty() {
        return Err(ConfigDecodeError::MissingKind { document: document() });
    }
    if api_version.is_empty() {
        return Err(ConfigDecodeError::MissingApiVersion { document: document() });
    }
    if api_version.matches('/').count() > 1 {
        return Err(ConfigDecodeError::MalformedApiVersion { api_version: api_version.to_owned() });
    }
    if api_version == API_VERSION && ConfiguredArgs::KINDS.contains(&kind) {
        return Err(ConfigDecodeError::WrongKind { kind: kind.to_owned() });
    }
    if api_version != API_VERSION || kind != KIND {
        return Err(ConfigDecodeError::UnknownKind {
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
        });
    }
    Ok(())
}

/// `kind` or `apiVersion`; empty when absent.
fn meta_field<'a>(node: &'a Node, name: &str) -> Result<&'a str, TypeError> {
    match node.get(name) {
        None => Ok(""),
        Some(Node { value: Value::Null, .. }) => Ok(""),
        Some(Node { value: Value::Text(text), .. }) => Ok(text),
        Some(other) => Err(TypeError {
            path: name.to_owned(),
            position: other.position,
            message: format!("expected a string, found {}", other.value.describe()),
        }),
    }
}

/// Replaces raw arguments by typed ones where the plugin has a type.
fn type_plugin_args(
    configuration: &mut Configuration,
    root: &Node,
    language: Language,
    complaints: &mut Vec<String>,
    errors: &mut Vec<ConfigDecodeError>,
) {
    let profile_nodes = root.get("profiles").map_or(&[][..], Node::items);
    for (profile_idx, (profile, node)) in
        configuration.profiles.iter_mut().zip(profile_nodes).enumerate()
    {
        let entry_nodes = node.get("pluginConfig").map_or(&[][..], Node::items);
        for (entry_idx, (entry, node)) in
            profile.plugin_config.iter_mut().zip(entry_nodes).enumerate()
        {
            let found = type_args(entry, node.get("args"), language).unwrap_or_else(|error| {
                if let Some(empty) = ConfiguredArgs::empty_for(&entry.name) {
                    entry.args = empty;
                }
                errors.push(ConfigDecodeError::Args {
                    profile: profile_idx,
                    entry: entry_idx,
                    error,
                });
                Vec::new()
            });
            if !found.is_empty() {
                complaints.push(format!(
                    "decoding .profiles[{profile_idx}].pluginConfig[{entry_idx}]: strict decoding error: decoding args for \
                     plugin {}: strict decoding error: {}",
                    entry.name,
                    found.join(", ")
                ));
            }
        }
    }
}

/// Types the arguments of one entry; returns what is unknown or repeated in them.
fn type_args(
    entry: &mut PluginConfig,
    node: Option<&Node>,
    language: Language,
) -> Result<Vec<String>, ArgsError> {
    let plugin = entry.name.as_str();
    let Some(empty) = ConfiguredArgs::empty_for(plugin) else { return Ok(Vec::new()) };
    let Some(node) = node.filter(|node| !matches!(node.value, Value::Null)) else {
        entry.args = empty;
        return Ok(Vec::new());
    };
    let type_error = |error| ArgsError::Type { plugin: plugin.to_owned(), error };
    let expected = empty.kind().unwrap_or_default();
    let kind = Some(meta_field(node, "kind").map_err(type_error)?).filter(|kind| !kind.is_empty());
    let api_version = Some(meta_field(node, "apiVersion").map_err(type_error)?)
        .filter(|api_version| !api_version.is_empty());
    let (kind, api_version) = (kind.unwrap_or(expected), api_version.unwrap_or(API_VERSION));
    let is_known = kind == KIND || ConfiguredArgs::KINDS.contains(&kind);
    if api_version != API_VERSION || !is_known {
        return Err(ArgsError::UnknownKind {
            plugin: plugin.to_owned(),
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
        });
    }
    if kind != expected {
        return Err(ArgsError::WrongKind { plugin: plugin.to_owned(), kind: kind.to_owned() });
    }
    let mut complaints = Vec::new();
    let reader = ArgsReader { node, language, complaints: &mut complaints };
    if let Some(args) = ConfiguredArgs::read_for(plugin, reader).map_err(type_error)? {
        entry.args = args;
    }
    Ok(complaints)
}

struct ArgsReader<'a> {
    node: &'a Node,
    language: Language,
    complaints: &'a mut Vec<String>,
}

impl ReadArgs for ArgsReader<'_> {
    type Error = TypeError;

    fn read<T: DeserializeOwned>(self) -> Result<T, TypeError> {
        let (args, complaints) = read(self.node, self.language)?;
        self.complaints.extend(complaints);
        Ok(args)
    }
}
