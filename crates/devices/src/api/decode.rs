//! Decoding that names what is wrong, and the pieces that all objects are made of.

use std::sync::Arc;

use kube_scheduler_api_types::wire::{ObjectMeta, Text};
use kube_scheduler_api_types::{Json, Quantity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name}: {field}: {reason}")]
pub struct ObjectError {
    /// Kind of the object.
    pub kind: &'static str,
    /// `namespace/name`, or the name alone.
    pub name: String,
    /// Path of the field.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What objects without a status are made of.
#[derive(Default, Deserialize)]
#[serde(default, bound = "T: Deserialize<'de> + Default")]
pub(super) struct Parts<T> {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: T,
}

/// Reads one object.
pub(super) fn decode<T: DeserializeOwned>(
    kind: &'static str,
    json: &Json,
) -> Result<T, ObjectError> {
    T::deserialize(json).map_err(|error| error_in(kind, json, error.path(), error.to_string()))
}

/// What is wrong with a field of an object.
pub(super) fn error_in(
    kind: &'static str,
    json: &Json,
    field: String,
    reason: String,
) -> ObjectError {
    let part = |name: &str| json["metadata"][name].as_str().unwrap_or_default();
    let name = match part("namespace") {
        "" => part("name").to_owned(),
        namespace => format!("{namespace}/{}", part("name")),
    };
    ObjectError { kind, name, field, reason }
}

/// A map with names for keys, in the order of the names. Absent and `null` are empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map<V>(Box<[(Arc<str>, V)]>);

impl<V> Map<V> {
    /// The value that `key` has, if it has one.
    pub fn get(&self, key: &str) -> Option<&V> {
        let at = self.0.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// All entries in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

/// Of entries with the same name the last one counts.
impl<V> FromIterator<(Arc<str>, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, V)>>(entries: I) -> Self {
        let sorted: std::collections::BTreeMap<Arc<str>, V> = entries.into_iter().collect();
        Self(sorted.into_iter().collect())
    }
}

impl<'de, V: Deserialize<'de> + Default> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries: Option<std::collections::BTreeMap<Text, Option<V>>> =
            Option::deserialize(deserializer)?;
        let entries = entries.unwrap_or_default().into_iter();
        Ok(Self(entries.map(|(name, value)| (name.0, value.unwrap_or_default())).collect()))
    }
}

/// A quantity as it stands in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonQuantity(pub(super) Quantity);

impl<'de> Deserialize<'de> for JsonQuantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Quantity::from_json(&value).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A quantity; absent and `null` are zero.
pub(super) fn quantity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    JsonQuantity::deserialize(deserializer).map(|quantity| quantity.0)
}

/// A quantity that may be absent.
pub(super) fn optional_quantity<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Quantity>, D::Error> {
    let quantity: Option<JsonQuantity> = Option::deserialize(deserializer)?;
    Ok(quantity.map(|quantity| quantity.0))
}

/// Quantities by name; absent and `null` are none.
pub(super) fn optional_quantities<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<Quantity>>, D::Error> {
    let map: Option<Map<JsonQuantity>> = Option::deserialize(deserializer)?;
    Ok(map.map(|map| map.0.into_iter().map(|(name, quantity)| (name, quantity.0)).collect()))
}

/// A list; absent and `null` are empty.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list: Option<Vec<T>> = Option::deserialize(deserializer)?;
    Ok(list.unwrap_or_default())
}

/// A list of strings; absent and `null` are empty.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<str>>, D::Error> {
    Ok(list::<_, Text>(deserializer)?.into_iter().map(|text| text.0).collect())
}

/// A list of strings for which absent differs from empty.
pub(super) fn optional_texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Arc<str>>>, D::Error> {
    let list: Option<Vec<Text>> = Option::deserialize(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|text| text.0).collect()))
}

/// A string; absent and `null` are empty.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    Text::deserialize(deserializer).map(|text| text.0)
}

/// A value of any type whose `null` counts as absent.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
