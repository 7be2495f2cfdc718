//! Values while an expression is evaluated. What comes from the device or the program is borrowed.

mod equality;
mod map;

use std::net::IpAddr;
use std::sync::Arc;

use kube_scheduler_api_types::{Quantity, float_text};

pub(crate) use equality::{compare, equal, equal_at_top};
pub(crate) use map::{Entries, Map};

use crate::device::{AttributeValue, Strings};
use crate::error::{EvalStop, Fault};
use crate::formats::NamedFormat;
use crate::semver::Version;
use crate::time::Timestamp;
use crate::types;
use crate::url::Url;

#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Owned(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text.into())
    }
}

impl<'a> Text<'a> {
    /// The text between two byte offsets.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::Borrowed(text) => Self::Borrowed(&text[range]),
            Self::Owned(text) => Self::Owned(text[range].into()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Items(Arc<Vec<Value<'a>>>),
    Ints(&'a [i64]),
    Bools(&'a [bool]),
    Strings(&'a dyn Strings),
    Versions(&'a [Version]),
}

impl<'a> List<'a> {
    pub(crate) fn new(items: Vec<Value<'a>>) -> Self {
        Self::Items(Arc::new(items))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Items(items) => items.len(),
            Self::Ints(items) => items.len(),
            Self::Bools(items) => items.len(),
            Self::Strings(items) => items.count(),
            Self::Versions(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Items(items) => items.get(index).cloned(),
            Self::Ints(items) => items.get(index).map(|item| Value::Int(*item)),
            Self::Bools(items) => items.get(index).map(|item| Value::Bool(*item)),
            Self::Strings(items) => items.at(index).map(|item| Value::String(Text::Borrowed(item))),
            Self::Versions(items) => {
                items.get(index).map(|item| Value::Semver(SharedRef::Borrowed(item)))
            }
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// Something borrowed or shared.
#[derive(Debug)]
pub(crate) enum SharedRef<'a, T> {
    Borrowed(&'a T),
    Owned(Arc<T>),
}

impl<T> Clone for SharedRef<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(value) => Self::Borrowed(value),
            Self::Owned(value) => Self::Owned(Arc::clone(value)),
        }
    }
}

impl<T> std::ops::Deref for SharedRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    List(List<'a>),
    Map(Map<'a>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    /// A type, by name.
    Type(&'static str),
    Optional(Option<Arc<Value<'a>>>),
    /// The flag: it came out of an addition or subtraction, and the reference cannot compare it as the right side.
    Quantity(SharedRef<'a, Quantity>, bool),
    Semver(SharedRef<'a, Version>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Format(&'static NamedFormat),
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::String(Text::from(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) const NONE: Self = Self::Optional(None);

    /// The same value without sharing what it is made of, where that is cheap.
    pub(crate) fn borrowed(value: &'a Value<'static>) -> Self {
        match value {
            Value::String(Text::Owned(text)) => Self::String(Text::Borrowed(text)),
            other => other.clone(),
        }
    }

    pub(crate) fn from_attribute(value: AttributeValue<'a>) -> Self {
        match value {
            AttributeValue::Int(value) => Self::Int(value),
            AttributeValue::Bool(value) => Self::Bool(value),
            AttributeValue::String(value) => Self::String(Text::Borrowed(value)),
            AttributeValue::Version(value) => Self::Semver(SharedRef::Borrowed(value)),
            AttributeValue::Ints(values) => Self::List(List::Ints(values)),
            AttributeValue::Bools(values) => Self::List(List::Bools(values)),
            AttributeValue::Strings(values) => Self::List(List::Strings(values)),
            AttributeValue::Versions(values) => Self::List(List::Versions(values)),
            // An evaluation does not begin for such a device.
            AttributeValue::Unusable(_) => Self::Null,
        }
    }

    /// Name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::Optional(_) => types::OPTIONAL,
            Self::Quantity(..) => types::QUANTITY,
            Self::Semver(_) => types::SEMVER,
            Self::Url(_) => types::URL,
            Self::Ip(_) => types::IP,
            Self::Cidr(_) => types::CIDR,
            Self::Format(_) => types::FORMAT,
        }
    }

    /// The Go type that the reference has such values in, for its messages.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::List(_) => "*types.baseList",
            Self::Map(Map::Domains(..)) => "cel.mapper",
            Self::Map(_) => "*types.baseMap",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Type(_) => "*types.Type",
            Self::Optional(_) => "*types.Optional",
            Self::Quantity(_, false) => "cel.Quantity",
            Self::Quantity(_, true) => "*cel.Quantity",
            Self::Semver(_) => "cel.Semver",
            Self::Url(_) => "cel.URL",
            Self::Ip(_) => "cel.IP",
            Self::Cidr(_) => "cel.CIDR",
            Self::Format(_) => "cel.Format",
        }
    }

    /// An error if Go cannot hash it, so that it can be no key of a map, and not be looked for in a set or map.
    pub(crate) fn check_hashable(&self) -> Result<(), Fault> {
        match self {
            Self::Bytes(_) | Self::Semver(_) | Self::Format(_) => {
                Err(Fault::Stop(EvalStop::Unhashable(self.go_type())))
            }
            _ => Ok(()),
        }
    }

    /// Whether its type is one that Kubernetes added to the language.
    pub(crate) fn is_of_kubernetes(&self) -> bool {
        matches!(
            self,
            Self::Quantity(..)
                | Self::Semver(_)
                | Self::Url(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Format(_)
        )
    }

    /// Whether its type has an order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(
            self,
            Self::Bool(_)
                | Self::Int(_)
                | Self::Uint(_)
                | Self::Double(_)
                | Self::String(_)
                | Self::Bytes(_)
                | Self::Duration(_)
                | Self::Timestamp(_)
        )
    }

    /// How messages about keys and indexes show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::String(text) => text.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => float_text(*value),
            Self::Bool(value) => value.to_string(),
            other => other.type_name().to_owned(),
        }
    }

    /// The size that costs are measured by: characters, bytes, elements; 1 for what has no size.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => char_count(text),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(value)) => return value.size(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => usize::from(cidr.bits.div_ceil(8)),
            _ => 1,
        };
        size as u64
    }

    /// What the reference says when such a value should be the answer of a selector.
    pub(crate) fn not_a_bool(&self) -> String {
        let why = self.not_convertible_to_bool();
        format!("CEL result of type {} could not be converted to bool: {why}", self.type_name())
    }

    fn not_convertible_to_bool(&self) -> String {
        let name = self.type_name();
        match self {
            Self::Int(_) | Self::Uint(_) => {
                format!("unsupported type conversion from '{name}' to bool")
            }
            Self::String(_) => "unsupported native conversion from string to 'bool'".to_owned(),
            Self::Double(_) => "type conversion error from Double to 'bool'".to_owned(),
            Self::Bytes(_) => "type conversion error from Bytes to 'bool'".to_owned(),
            Self::List(_) | Self::Map(_) => format!("type conversion error from {name} to 'bool'"),
            Self::Optional(None) => "optional.none() dereference".to_owned(),
            Self::Optional(Some(value)) => value.not_convertible_to_bool(),
            Self::Type(_) => "type conversion not supported for 'type'".to_owned(),
            Self::Format(_) => "type conversion error from 'Format' to 'bool'".to_owned(),
            _ => {
                let short = name.rsplit('.').next().unwrap_or(name);
                format!("type conversion error from '{short}' to 'bool'")
            }
        }
    }

    /// Whether it is the empty or zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Duration(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.len() == 0,
            Self::Timestamp(time) => time.is_zero(),
            _ => false,
        }
    }
}

pub(crate) fn char_count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}
