//! From text to [`Json`], from there to types, and back to text.

use std::fmt::{self, Formatter};

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, forward_to_deserialize_any};
use serde_json::Number;

use super::{Fields, Json};

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Json, E> {
        Ok(Json::Bool(is_true))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::String(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(Fields::new(fields)))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(is_true) => serializer.serialize_bool(*is_true),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(fields) => serializer.collect_map(fields.iter()),
        }
    }
}

/// Why a type cannot be read from a [`Json`]. Prints the reason alone: callers name the object and the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct JsonError {
    reason: String,
    /// From the value that is wrong up to the top: an error collects its way while it is passed on.
    steps: Vec<Step>,
}

/// One step from a value to what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A field whose name the type knows.
    Field(Box<str>),
    /// An entry of a map, whose keys are data.
    Entry(Box<str>),
    Item(usize),
}

impl JsonError {
    /// Path of the field that is wrong, in the words of the API, with entries of maps in brackets:
    /// `spec.containers[0].resources.requests[cpu]`. Empty if it is the value as a whole.
    pub fn path(&self) -> String {
        let mut text = String::new();
        for step in self.steps.iter().rev() {
            match step {
                Step::Item(at) => text.push_str(&format!("[{at}]")),
                Step::Entry(key) => text.push_str(&format!("[{key}]")),
                Step::Field(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
            }
        }
        text
    }

    fn within(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl serde::de::Error for JsonError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self { reason: reason.to_string(), steps: Vec::new() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // In the words of JSON.
        let found = if found == Unexpected::Unit { &"null" as &dyn fmt::Display } else { &found };
        Self::custom(format_args!("invalid type: {found}, expected {expected}"))
    }
}

/// The items of a list that are left, each with its place.
struct Items<'de>(std::iter::Enumerate<std::slice::Iter<'de, Json>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, JsonError> {
        let Some((at, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|error| error.within(Step::Item(at)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The fields of a map that are left.
struct Entries<'de> {
    left: std::slice::Iter<'de, (Box<str>, Json)>,
    value: Option<&'de (Box<str>, Json)>,
    /// Makes the step of a name.
    step: fn(Box<str>) -> Step,
}

impl<'de> Entries<'de> {
    fn new(fields: &'de Fields, step: fn(Box<str>) -> Step) -> Self {
        Self { left: fields.0.iter(), value: None, step }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, JsonError> {
        self.value = self.left.next();
        let Some((name, _)) = self.value else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        let Some((name, value)) = self.value.take() else {
            return Err(JsonError::custom("a value was asked for before its key"));
        };
        seed.deserialize(value).map_err(|error| error.within((self.step)(name.clone())))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

impl<'de> IntoDeserializer<'de, JsonError> for &'de Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Json {
    /// Shows the visitor what is there. `step` tells fields from entries of maps.
    fn show<'de, V: Visitor<'de>>(
        &'de self,
        visitor: V,
        step: fn(Box<str>) -> Step,
    ) -> Result<V::Value, JsonError> {
        match self {
            Json::Null => visitor.visit_unit(),
            Json::Bool(is_true) => visitor.visit_bool(*is_true),
            Json::Number(number) => {
                if let Some(number) = number.as_u64() {
                    visitor.visit_u64(number)
                } else if let Some(number) = number.as_i64() {
                    visitor.visit_i64(number)
                } else {
                    visitor.visit_f64(number.as_f64().unwrap_or_default())
                }
            }
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => {
                let mut left = Items(items.iter().enumerate());
                let read = visitor.visit_seq(&mut left)?;
                if left.0.len() > 0 {
                    return Err(JsonError::invalid_length(items.len(), &"fewer elements in array"));
                }
                Ok(read)
            }
            Json::Object(fields) => {
                let mut left = Entries::new(fields, step);
                let read = visitor.visit_map(&mut left)?;
                if left.left.len() > 0 {
                    return Err(JsonError::invalid_length(fields.len(), &"fewer elements in map"));
                }
                Ok(read)
            }
        }
    }
}

/// Reads a type from what is kept, as from text. The one way in which the types of this crate are read from JSON: text becomes a
/// [`Json`] first, so that each type is compiled once, and an error knows its path without a second reading.
impl<'de> Deserializer<'de> for &'de Json {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.show(visitor, Step::Field)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.show(visitor, Step::Entry)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self {
            Json::String(text) => {
                StrDeserializer::<JsonError>::new(text).deserialize_enum(name, variants, visitor)
            }
            Json::Object(fields) => {
                visitor.visit_enum(MapAccessDeserializer::new(Entries::new(fields, Step::Field)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct struct identifier
    }
}
