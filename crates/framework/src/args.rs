//! A plugin's arguments, from the tree that configuration gives to a type: strictly, with the whole path in every error.
//!
//! Invariants: a field that the type does not know is an error, at any depth, all of them at once; `apiVersion` and `kind`
//! may stand beside the fields, as in the arguments of the in-tree plugins; no arguments are the same as empty ones.

use std::fmt;

use serde::de::value::Error as AnyError;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde_ignored::Path;
use serde_json::{Map, Value};

use crate::plugin_error::PluginError;

/// Fields that are allowed in arguments although the type does not have them.
const HEADER: [&str; 2] = ["apiVersion", "kind"];

/// The error for one field: `field` is its path relative to the arguments, such as `zones[0]` (empty for the arguments as a
/// whole), `what` says what is wrong with it.
pub(crate) fn invalid(args_path: &str, field: &str, what: impl fmt::Display) -> PluginError {
    let join = if field.is_empty() || field.starts_with('[') { "" } else { "." };
    format!("{args_path}{join}{field}: {what}").into()
}

/// Reads arguments as a `T`. `args_path` says in errors where they stand.
///
/// # Errors
/// If a value has the wrong type, or fields are missing or unknown.
pub(crate) fn decode_args<T: DeserializeOwned>(
    args: &Value,
    args_path: &str,
) -> Result<T, PluginError> {
    let empty = Value::Object(Map::new());
    let args = if args.is_null() { &empty } else { args };
    // A derived struct would take a list for its fields in order.
    if !args.is_object() {
        return Err(invalid(args_path, "", "must be a map of fields"));
    }
    let mut track = serde_path_to_error::Track::new();
    let mut unknown: Vec<String> = Vec::new();
    let tracked = serde_path_to_error::Deserializer::new(args, &mut track);
    let read = serde_ignored::deserialize(tracked, |path| {
        let path = written(&path);
        if !HEADER.contains(&path.as_str()) {
            unknown.push(path);
        }
    });
    let value: T = read.map_err(|error: serde_json::Error| {
        let path = track.path().to_string();
        invalid(args_path, if path == "." { "" } else { &path }, error)
    })?;
    if unknown.is_empty() {
        return Ok(value);
    }
    let known = known_fields::<T>().filter(|names| !names.is_empty());
    let complain = |path: String| {
        let (parent, field) = path.rsplit_once('.').unwrap_or(("", &path));
        let mut what = format!("unknown field {field:?}");
        if let Some(names) = known.filter(|_| parent.is_empty()) {
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            what.push_str(&format!(", known are {}", names.join(", ")));
        }
        invalid(args_path, parent, what).0.remove(0)
    };
    Err(PluginError(unknown.into_iter().map(complain).collect()))
}

/// A path the way configuration messages write it: `zones[0].name`.
fn written(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", written(parent)),
        Path::Map { parent, key } => match written(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => written(parent),
    }
}

/// The fields of a type that is read as a struct.
fn known_fields<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut names = None;
    // Always an error: the deserializer only listens to what is asked for.
    let _ = T::deserialize(Listener(&mut names));
    names
}

struct Listener<'n>(&'n mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Listener<'_> {
    type Error = AnyError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, AnyError> {
        Err(AnyError::custom("nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, AnyError> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, rename_all = "camelCase")]
    struct Args {
        group_label: String,
        zones: Vec<Zone>,
        limit: Option<Limit>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Zone {
        name: String,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Limit {
        n: u32,
    }

    const PATH: &str = "profiles[0].pluginConfig[1].args";

    fn error(args: Value) -> String {
        decode_args::<Args>(&args, PATH).unwrap_err().to_string()
    }

    #[test]
    fn good_arguments_are_read_and_none_are_empty_ones() {
        let args: Args =
            decode_args(&json!({"groupLabel": "g", "kind": "K", "apiVersion": "v"}), PATH).unwrap();
        assert_eq!(args.group_label, "g");
        assert_eq!(decode_args::<Args>(&Value::Null, PATH).unwrap(), Args::default());
    }

    #[test]
    fn wrong_types_name_the_field() {
        assert_eq!(
            error(json!({"zones": [{"name": "a"}, {"name": 7}]})),
            "profiles[0].pluginConfig[1].args.zones[1].name: invalid type: integer `7`, expected a string"
        );
        assert_eq!(error(json!([])), "profiles[0].pluginConfig[1].args: must be a map of fields");
    }

    #[test]
    fn missing_fields_name_their_parent() {
        assert_eq!(
            error(json!({"limit": {}})),
            "profiles[0].pluginConfig[1].args.limit: missing field `n`"
        );
    }

    #[test]
    fn unknown_fields_are_all_named_with_what_is_known() {
        assert_eq!(
            error(json!({"grouplabel": "g", "limit": {"n": 1, "m": 2}})),
            "profiles[0].pluginConfig[1].args: unknown field \"grouplabel\", known are \"groupLabel\", \"zones\", \
             \"limit\"; profiles[0].pluginConfig[1].args.limit: unknown field \"m\""
        );
    }
}
