//! JSON for objects that are kept: like `serde_json::Value`, in a fraction of its memory.
//!
//! A tenant decides what its objects look like, and a map of `serde_json` takes more than 600 bytes however little is in
//! it. Here a value takes 24 bytes and its text, and a field 16 bytes more and its name: less than 16 bytes for each byte of
//! the text that it was read from, whatever that is.
//!
//! Invariant: the fields of a map are sorted by name, and no name is there twice.

mod decode;

pub use decode::JsonError;

use std::fmt::{self, Display, Formatter};
use std::ops::Index;

use serde_json::{Number, Value};

static NULL: Json = Json::Null;

/// A JSON value. Reading it is as reading a `serde_json::Value`: by name or position, with `null` for what is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    String(Box<str>),
    /// A list.
    Array(Box<[Json]>),
    /// A map.
    Object(Fields),
}

/// The fields of a map, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Box<[(Box<str>, Json)]>);

impl Fields {
    /// Of fields with the same name the last one counts.
    fn new(mut fields: Vec<(Box<str>, Json)>) -> Self {
        // Backwards, so that the last one stays. Texts from the API server are sorted except for the top.
        fields.reverse();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields.dedup_by(|later, first| later.0 == first.0);
        Self(fields.into())
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(self.find(name).ok()?).map(|(_, value)| value)
    }

    /// All fields with their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// How many fields there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fields.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// The field to be changed, made if there is none. O(fields).
    fn entry(&mut self, name: &str) -> &mut Json {
        let at = self.find(name).unwrap_or_else(|at| {
            let mut fields = std::mem::take(&mut self.0).into_vec();
            fields.insert(at, (name.into(), Json::Null));
            self.0 = fields.into();
            at
        });
        &mut self.0[at].1
    }
}

impl Json {
    /// A field of a map; nothing if there is none, or this is no map.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    /// The fields, if it is a map.
    pub const fn as_object(&self) -> Option<&Fields> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// The bytes that the value takes beside its own place. O(values).
    pub fn n_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => 0,
            Self::String(text) => text.len(),
            Self::Array(items) => items.iter().map(|item| size_of::<Self>() + item.n_bytes()).sum(),
            Self::Object(fields) => fields
                .iter()
                .map(|(name, value)| size_of::<(Box<str>, Self)>() + name.len() + value.n_bytes())
                .sum(),
        }
    }

    /// The items, if it is a list.
    pub const fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The text, if it is one.
    pub const fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The boolean, if it is one.
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(is_true) = self { Some(*is_true) } else { None }
    }

    /// The whole number, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    /// Whether it is `null`, as everything that is not there.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Sets a field, making the maps on the way to it.
    pub fn set(&mut self, path: &[&str], value: Self) {
        let mut place = self;
        for name in path {
            if !matches!(place, Self::Object(_)) {
                *place = Self::Object(Fields::default());
            }
            let Self::Object(fields) = place else { return };
            place = fields.entry(name);
        }
        *place = value;
    }

    /// Takes a field out of the map at the end of a path, if it is there.
    pub fn remove(&mut self, path: &[&str]) -> Option<Self> {
        let (name, way) = path.split_last()?;
        let mut place = self;
        for step in way {
            let Self::Object(fields) = place else { return None };
            let at = fields.find(step).ok()?;
            place = &mut fields.0[at].1;
        }
        let Self::Object(fields) = place else { return None };
        let at = fields.find(name).ok()?;
        let mut left = std::mem::take(&mut fields.0).into_vec();
        let (_, removed) = left.remove(at);
        fields.0 = left.into();
        Some(removed)
    }
}

impl Index<&str> for Json {
    type Output = Self;

    fn index(&self, name: &str) -> &Self {
        self.get(name).unwrap_or(&NULL)
    }
}

impl Index<usize> for Json {
    type Output = Self;

    fn index(&self, at: usize) -> &Self {
        self.as_array().and_then(|items| items.get(at)).unwrap_or(&NULL)
    }
}

/// As text.
impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl PartialEq<str> for Json {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<&str> for Json {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<bool> for Json {
    fn eq(&self, is_true: &bool) -> bool {
        self.as_bool() == Some(*is_true)
    }
}

impl PartialEq<Value> for Json {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(one), Value::Bool(other)) => one == other,
            (Self::Number(one), Value::Number(other)) => one == other,
            (Self::String(one), Value::String(other)) => **one == **other,
            (Self::Array(one), Value::Array(other)) => **one == **other,
            (Self::Object(one), Value::Object(other)) => {
                let same = |(name, value): (&str, &Self)| {
                    other.get(name).is_some_and(|other| value == other)
                };
                one.len() == other.len() && one.iter().all(same)
            }
            _ => false,
        }
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is_true) => Self::Bool(is_true),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text.into()),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => {
                let field = |(name, value): (String, Value)| (name.into(), Self::from(value));
                Self::Object(Fields::new(fields.into_iter().map(field).collect()))
            }
        }
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(is_true) => Self::Bool(*is_true),
            Json::Number(number) => Self::Number(number.clone()),
            Json::String(text) => Self::String((**text).to_owned()),
            Json::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Json::Object(fields) => {
                let field = |(name, value): (&str, &Json)| (name.to_owned(), Self::from(value));
                Self::Object(fields.iter().map(field).collect())
            }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Vec<Self>> for Json {
    fn from(items: Vec<Self>) -> Self {
        Self::Array(items.into())
    }
}

impl FromIterator<Self> for Json {
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self::Array(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
