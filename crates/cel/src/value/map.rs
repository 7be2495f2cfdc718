//! Maps: built by the expression, or views of the device.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Shared, Text, Value};
use crate::device::{Device, Entry, Table};
use crate::error::Fault;
use crate::time::Timestamp;

/// The key of an entry. Numbers of different types are different keys; a lookup tries all of them.
#[derive(Clone, Debug)]
pub(crate) enum Key<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Duration(i64),
    Timestamp(Timestamp),
    Type(&'static str),
    String(Text<'a>),
}

impl Key<'_> {
    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::Uint(_) => 3,
            Self::Double(_) => 4,
            Self::Duration(_) => 5,
            Self::Timestamp(_) => 6,
            Self::Type(_) => 7,
            Self::String(_) => 8,
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) | (Self::Duration(a), Self::Duration(b)) => a.cmp(b),
            (Self::Uint(a), Self::Uint(b)) => a.cmp(b),
            // Zero has two signs and is one key.
            (Self::Double(a), Self::Double(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Self::Timestamp(a), Self::Timestamp(b)) => a.instant().cmp(&b.instant()),
            (Self::Type(a), Self::Type(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => (**a).cmp(&**b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

impl<'a> Key<'a> {
    /// Parity: the reference panics on keys that it cannot hash, such as bytes.
    pub(crate) fn new(value: &Value<'a>) -> Result<Self, Fault> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) => Self::Double(*value),
            Value::Duration(value) => Self::Duration(*value),
            Value::Timestamp(value) => Self::Timestamp(*value),
            Value::Type(name) => Self::Type(name),
            Value::String(text) => Self::String(text.clone()),
            other => {
                return Err(Fault::text(format!(
                    "unsupported map key of type {}",
                    other.type_name()
                )));
            }
        })
    }

    fn value(&self) -> Value<'a> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Duration(value) => Value::Duration(*value),
            Self::Timestamp(value) => Value::Timestamp(*value),
            Self::Type(name) => Value::Type(name),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    /// The same number as keys of other types, where they can hold it.
    fn alternatives(&self) -> [Option<Self>; 2] {
        match self {
            Self::Int(value) => [u64::try_from(*value).ok().map(Self::Uint), None],
            Self::Uint(value) => [i64::try_from(*value).ok().map(Self::Int), None],
            Self::Double(value) => {
                let as_int = *value as i64;
                let as_uint = *value as u64;
                [
                    (as_int as f64 == *value && as_int != i64::MAX).then_some(Self::Int(as_int)),
                    (as_uint as f64 == *value && as_uint != u64::MAX)
                        .then_some(Self::Uint(as_uint)),
                ]
            }
            _ => [None, None],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Entries(Arc<BTreeMap<Key<'a>, Value<'a>>>),
    Device(&'a Device<'a>),
    /// Domains of a table.
    Domains(&'a Device<'a>, Table),
    /// Identifiers of a domain.
    Ids(&'a Device<'a>, Table, Text<'a>),
}

const FIELDS: [&str; 4] = ["allowMultipleAllocations", "attributes", "capacity", "driver"];

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Entries(entries) => entries.len(),
            Self::Device(_) => FIELDS.len(),
            Self::Domains(device, table) => device.domains(*table).len(),
            Self::Ids(device, table, domain) => device.ids(*table, domain).len(),
        }
    }

    /// The value of a key. A domain that the device does not have is an empty map.
    pub(crate) fn find(&self, key: &Value<'a>) -> Option<Value<'a>> {
        let text = match key {
            Value::String(text) => Some(text),
            _ => None,
        };
        match self {
            Self::Entries(entries) => {
                let key = Key::new(key).ok()?;
                let alternatives = || key.alternatives().into_iter().flatten();
                entries
                    .get(&key)
                    .or_else(|| alternatives().find_map(|key| entries.get(&key)))
                    .cloned()
            }
            Self::Device(device) => match &**text? {
                "driver" => Some(Value::String(Text::Borrowed(device.driver))),
                "allowMultipleAllocations" => Some(Value::Bool(device.allow_multiple_allocations)),
                "attributes" => Some(Value::Map(Self::Domains(device, Table::Attributes))),
                "capacity" => Some(Value::Map(Self::Domains(device, Table::Capacity))),
                _ => None,
            },
            Self::Domains(device, table) => {
                let domain = text.cloned().unwrap_or(Text::Borrowed("\u{0}"));
                Some(Value::Map(Self::Ids(device, *table, domain)))
            }
            Self::Ids(device, table, domain) => Some(match device.find(*table, domain, text?)? {
                Entry::Attribute(value) => Value::from_attribute(value),
                Entry::Capacity(quantity) => Value::Quantity(Shared::Borrowed(quantity), false),
            }),
        }
    }

    /// Whether the key is in the map; domains that the device does not have are not.
    pub(crate) fn contains(&self, key: &Value<'a>) -> bool {
        match (self, key) {
            (Self::Domains(device, table), Value::String(domain)) => {
                device.has_domain(*table, domain)
            }
            (Self::Domains(..), _) => false,
            _ => self.find(key).is_some(),
        }
    }

    /// Keys in a fixed order; the reference has none.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        let texts = |texts: Vec<&'a str>| {
            texts.into_iter().map(|text| Value::String(Text::Borrowed(text))).collect()
        };
        match self {
            Self::Entries(entries) => entries.keys().map(Key::value).collect(),
            Self::Device(_) => texts(FIELDS.to_vec()),
            Self::Domains(device, table) => texts(device.domains(*table)),
            Self::Ids(device, table, domain) => texts(device.ids(*table, domain)),
        }
    }

    pub(crate) fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        let keys = self.keys().into_iter();
        keys.filter_map(|key| self.find(&key).map(|value| (key, value))).collect()
    }
}

/// A map of entries with keys that have been checked.
pub(crate) fn map_of<'a>(entries: BTreeMap<Key<'a>, Value<'a>>) -> Value<'a> {
    Value::Map(Map::Entries(Arc::new(entries)))
}
