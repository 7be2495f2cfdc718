//! Maps: built by the expression, or views of the device.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Cidr, List, SharedRef, Text, Value};
use crate::device::{DeviceInput, Entry, Table};
use crate::error::Fault;
use crate::time::Timestamp;

/// The key of an entry. Numbers of different types are different keys; a lookup tries all of them.
#[derive(Clone, Debug)]
enum Key<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Duration(i64),
    Timestamp(Timestamp),
    Type(&'static str),
    String(Text<'a>),
    Ip(IpAddr),
    Cidr(Cidr),
    /// A value that only equals itself as a key, as the reference has it in a pointer.
    Object(Object<'a>),
}

#[derive(Clone, Debug)]
struct Object<'a> {
    value: Value<'a>,
    /// Where the value is, which says whether it is the same one. Their order follows from chance.
    address: usize,
    /// How many entries there were before it, for an order that is always the same.
    place: usize,
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
            Self::Ip(_) => 9,
            Self::Cidr(_) => 10,
            Self::Object(_) => 11,
        }
    }

    fn place(&self) -> usize {
        match self {
            Self::Object(object) => object.place,
            _ => 0,
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
            (Self::Ip(a), Self::Ip(b)) => a.cmp(b),
            (Self::Cidr(a), Self::Cidr(b)) => (a.address, a.bits).cmp(&(b.address, b.bits)),
            (Self::Object(a), Self::Object(b)) => a.address.cmp(&b.address),
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
    fn new(value: &Value<'a>, place: usize) -> Result<Self, Fault> {
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
            Value::Ip(address) => Self::Ip(*address),
            Value::Cidr(cidr) => Self::Cidr(*cidr),
            Value::Optional(None) => Self::object(value, 0, place),
            Value::Optional(Some(inner)) => Self::object(value, address_of(&**inner), place),
            Value::Quantity(quantity, _) => Self::object(value, address_of(&**quantity), place),
            Value::Url(url) => Self::object(value, address_of(&**url), place),
            Value::List(List::Items(items)) => Self::object(value, address_of(&**items), place),
            Value::Map(Map::Entries(entries)) => Self::object(value, address_of(&**entries), place),
            // Each view of an attribute is another object.
            Value::List(list) => Self::new(&Value::list(list.iter().collect()), place)?,
            Value::Bytes(_) | Value::Semver(_) | Value::Format(_) => {
                value.check_hashable()?;
                return Err(Fault::NO_OVERLOAD);
            }
            // Parity: the reference takes the maps of a device as keys.
            Value::Map(_) => return Err("unsupported map key of type map".into()),
        })
    }

    fn object(value: &Value<'a>, address: usize, place: usize) -> Self {
        Self::Object(Object { value: value.clone(), address, place })
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
            Self::Ip(address) => Value::Ip(*address),
            Self::Cidr(cidr) => Value::Cidr(*cidr),
            Self::Object(object) => object.value.clone(),
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

fn address_of<T>(value: &T) -> usize {
    std::ptr::from_ref(value).addr()
}

/// What an expression's map has in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries<'a>(BTreeMap<Key<'a>, Value<'a>>);

impl<'a> Entries<'a> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds an entry or replaces the value of the one that has the key.
    ///
    /// # Errors
    /// If the value can be no key.
    pub(crate) fn insert(&mut self, key: &Value<'a>, value: Value<'a>) -> Result<(), Fault> {
        self.0.insert(Key::new(key, self.len())?, value);
        Ok(())
    }

    /// Takes the entry with that key away.
    ///
    /// # Errors
    /// If the value can be no key.
    pub(crate) fn remove(&mut self, key: &Value<'a>) -> Result<(), Fault> {
        self.0.remove(&Key::new(key, 0)?);
        Ok(())
    }

    pub(crate) fn find(&self, key: &Value<'a>) -> Option<&Value<'a>> {
        let key = Key::new(key, 0).ok()?;
        let alternatives = || key.alternatives().into_iter().flatten();
        self.0.get(&key).or_else(|| alternatives().find_map(|key| self.0.get(&key)))
    }

    fn keys(&self) -> Vec<Value<'a>> {
        let mut keys: Vec<_> = self.0.keys().collect();
        // Objects are the last ones in the order of keys, and their addresses say nothing.
        keys.sort_by_key(|key| key.place());
        keys.into_iter().map(Key::value).collect()
    }
}

impl<'a> From<Entries<'a>> for Value<'a> {
    fn from(entries: Entries<'a>) -> Self {
        Self::Map(Map::Entries(Arc::new(entries)))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Entries(Arc<Entries<'a>>),
    Device(&'a DeviceInput<'a>),
    /// Domains of a table.
    Domains(&'a DeviceInput<'a>, Table),
    /// Identifiers of a domain.
    Ids(&'a DeviceInput<'a>, Table, Text<'a>),
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
            Self::Entries(entries) => entries.find(key).cloned(),
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
                Entry::Capacity(quantity) => Value::Quantity(SharedRef::Borrowed(quantity), false),
            }),
        }
    }

    /// Whether the key is in the map; domains that the device does not have are not.
    ///
    /// # Errors
    /// If Go cannot hash the key, and would have to.
    pub(crate) fn contains(&self, key: &Value<'a>) -> Result<bool, Fault> {
        match (self, key) {
            (Self::Domains(device, table), Value::String(domain)) => {
                return Ok(device.has_domain(*table, domain));
            }
            (Self::Domains(..), _) => return Ok(false),
            (Self::Entries(entries), key) if entries.len() > 0 => key.check_hashable()?,
            _ => {}
        }
        Ok(self.find(key).is_some())
    }

    /// Keys in a fixed order; the reference has none.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        let texts = |texts: Vec<&'a str>| {
            texts.into_iter().map(|text| Value::String(Text::Borrowed(text))).collect()
        };
        match self {
            Self::Entries(entries) => entries.keys(),
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
