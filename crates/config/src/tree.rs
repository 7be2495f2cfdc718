//! A document as a tree whose nodes know where they stand: what YAML and JSON have in common before any field is typed.
//!
//! Invariants: parsing is bounded in depth, nodes, aliases and bytes, whatever the text; maps keep every entry in
//! document order, repeated keys included; numbers from YAML that are whole are integers, as after upstream's
//! conversion to JSON.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// More than any configuration needs, little enough to refuse a mistaken file at once.
const MAX_BYTES: usize = 8 << 20;
const MAX_NODES: usize = 200_000;
const MAX_DEPTH: usize = 64;

/// Line and column, counted from 1; absent in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, counted from 1.
    pub line: u64,
    /// The column, counted from 1.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The language a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Yaml,
    Json,
}

impl Language {
    /// A document whose first character is `{` is JSON, everything else YAML.
    pub(crate) fn of(text: &str) -> Self {
        if text.trim_start().starts_with('{') { Self::Json } else { Self::Yaml }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) position: Option<Position>,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// Only above `i64::MAX`.
    Uint(u64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) position: Option<Position>,
    pub(crate) node: Node,
}

/// A text that is not a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) position: Option<Position>,
}

pub(crate) fn parse(text: &str, language: Language) -> Result<Node, SyntaxError> {
    if text.len() > MAX_BYTES {
        return Err(SyntaxError {
            message: format!("the document has {} bytes, the limit is {MAX_BYTES}", text.len()),
            position: None,
        });
    }
    match language {
        Language::Json => {
            serde_json::from_str::<JsonNode>(text).map(|plain| plain.0).map_err(|error| {
                let (line, column) = (error.line() as u64, error.column() as u64);
                // The position is kept apart, so it is cut off the text.
                let mut message = error.to_string();
                if let Some(cut) = message.rfind(" at line ") {
                    message.truncate(cut);
                }
                SyntaxError { message, position: (line > 0).then_some(Position { line, column }) }
            })
        }
        Language::Yaml => {
            // Only the first document counts, as upstream has it.
            let documents: Vec<YamlNode> = serde_saphyr::from_multiple_with_options(
                text,
                yaml_options(),
            )
            .map_err(|error| {
                let position =
                    error.location().map(|at| Position { line: at.line(), column: at.column() });
                let message = error.without_snippet().to_string();
                SyntaxError { message: without_position(message), position }
            })?;
            Ok(documents
                .into_iter()
                .next()
                .map_or(Node { value: Value::Null, position: None }, |placed| placed.0))
        }
    }
}

/// Keys that occur twice in one map, anywhere in the document, with the position of the later one.
pub(crate) fn repeated_keys(root: &Node) -> Vec<(&str, Option<Position>)> {
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(node) = pending.pop() {
        match &node.value {
            Value::List(items) => pending.extend(items),
            Value::Map(entries) => {
                let mut seen = BTreeSet::new();
                for entry in entries {
                    if !seen.insert(entry.key.as_str()) {
                        found.push((entry.key.as_str(), entry.position));
                    }
                    pending.push(&entry.node);
                }
            }
            _ => {}
        }
    }
    found.sort_by_key(|(_, position)| *position);
    found
}

impl Value {
    /// What this is, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Int(value) => format!("the number {value}"),
            Self::Uint(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {value}"),
            Self::Text(text) if text.chars().count() > 64 => "a long string".to_owned(),
            Self::Text(text) => format!("the string {text:?}"),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "an object".to_owned(),
        }
    }
}

impl Node {
    /// The last value under `key`, when this is a map that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().rev().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    pub(crate) fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
            max_aliases: 10_000,
            max_total_scalar_bytes: MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        // Repeats are reported by this crate, all of them and with upstream's text.
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// The parser repeats the position inside its text; it is shown once.
fn without_position(mut message: String) -> String {
    if let Some(rest) = message.strip_prefix("error: ") {
        message = rest.to_owned();
    }
    if let Some(cut) = message.rfind(" at line ") {
        message.truncate(cut);
    }
    message
}

/// A node read from JSON.
struct JsonNode(Node);

impl<'de> Deserialize<'de> for JsonNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(ValueVisitor::<Self, String>(PhantomData))?;
        Ok(Self(Node { value, position: None }))
    }
}

/// A node read from YAML.
struct YamlNode(Node);

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<PlacedValue>::deserialize(deserializer)?;
        let value = match spanned.value.0 {
            Value::Float(float) => whole(float),
            value => value,
        };
        Ok(Self(Node { value, position: position(&spanned.referenced) }))
    }
}

struct PlacedValue(Value);

impl<'de> Deserialize<'de> for PlacedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(ValueVisitor::<YamlNode, Spanned<String>>(PhantomData))
            .map(Self)
    }
}

/// The integer a float is equal to, if there is one that a float holds exactly.
fn whole(float: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.trunc() == float && float.abs() < EXACT {
        // In range by the check above.
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        return Value::Int(float as i64);
    }
    Value::Float(float)
}

fn position(location: &serde_saphyr::Location) -> Option<Position> {
    (location.line() > 0).then(|| Position { line: location.line(), column: location.column() })
}

trait IntoNode {
    fn into_node(self) -> Node;
}

impl IntoNode for JsonNode {
    fn into_node(self) -> Node {
        self.0
    }
}

impl IntoNode for YamlNode {
    fn into_node(self) -> Node {
        self.0
    }
}

trait IntoKey {
    fn into_key(self) -> (String, Option<Position>);
}

impl IntoKey for String {
    fn into_key(self) -> (String, Option<Position>) {
        (self, None)
    }
}

impl IntoKey for Spanned<String> {
    fn into_key(self) -> (String, Option<Position>) {
        let at = position(&self.referenced);
        (self.value, at)
    }
}

/// Builds a value whose children are read as `N` and whose keys are read as `K`.
struct ValueVisitor<N, K>(PhantomData<(N, K)>);

impl<'de, N, K> Visitor<'de> for ValueVisitor<N, K>
where
    N: Deserialize<'de> + IntoNode,
    K: Deserialize<'de> + IntoKey,
{
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Uint(value), Value::Int))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<N>()? {
            items.push(item.into_node());
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = map.next_entry::<K, N>()? {
            let (key, position) = key.into_key();
            entries.push(Entry { key, position, node: node.into_node() });
        }
        Ok(Value::Map(entries))
    }
}
