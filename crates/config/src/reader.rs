//! Typed values out of a [`Node`] tree, strictly: what a type does not know is noted with its full path, not dropped.
//!
//! Invariants: reading goes on after an unknown or repeated field, so that all of them are reported together; it stops
//! at the first value of a wrong type, whose error names path and position. `null` counts as "not given", as in
//! upstream's decoder. YAML maps are visited in key order, because upstream converts them to sorted JSON first, and
//! JSON objects in document order.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};

use crate::tree::{Entry, Language, Node, Position, Value};

/// A value of the wrong type, or one that its type refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeError {
    /// The field, such as `profiles[0].schedulerName`; empty for the whole document.
    pub path: String,
    /// Where the value stands, if the document is YAML.
    pub position: Option<Position>,
    /// What is wrong and what is expected.
    pub message: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TypeError {}

impl de::Error for TypeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: String::new(), position: None, message: message.to_string() }
    }
}

/// Reads a `T` from `root`. Returned beside it: `unknown field "…"` and `duplicate field "…"`, in the order met.
pub(crate) fn read<T: DeserializeOwned>(
    root: &Node,
    language: Language,
) -> Result<(T, Vec<String>), TypeError> {
    let context = Context { language, complaints: RefCell::default() };
    let value = T::deserialize(Reader { node: root, path: Path::Root, context: &context })?;
    Ok((value, context.complaints.into_inner()))
}

struct Context {
    language: Language,
    complaints: RefCell<Vec<String>>,
}

/// Where the reader is, as a chain on the stack; printed only when something is wrong.
#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Which keys an object may have.
#[derive(Clone, Copy)]
enum Names<'n> {
    /// These, each once.
    Known(&'n [&'n str]),
    /// Any, each once.
    Any,
    /// Any; repeated keys are not reported.
    Raw,
}

#[derive(Clone, Copy)]
struct Reader<'de, 'p> {
    node: &'de Node,
    path: Path<'p>,
    context: &'p Context,
}

impl<'de> Reader<'de, '_> {
    fn wrong(&self, expected: &str) -> TypeError {
        self.placed(TypeError {
            path: String::new(),
            position: None,
            message: format!("expected {expected}, found {}", self.node.value.describe()),
        })
    }

    /// Adds the place of an error to it, unless a deeper reader has already done so.
    fn placed(&self, mut error: TypeError) -> TypeError {
        if error.path.is_empty() && error.position.is_none() {
            error.path = self.path.to_string();
            error.position = self.node.position;
        }
        error
    }

    fn integer(&self, min: i64, max: i64, expected: &str) -> Result<i64, TypeError> {
        match self.node.value {
            Value::Null => Ok(0),
            Value::Int(value) if (min..=max).contains(&value) => Ok(value),
            _ => Err(self.wrong(expected)),
        }
    }

    /// The entries to visit, in visiting order; unknown and repeated ones are marked, to be reported.
    fn fields(&self, names: Names<'_>) -> Result<Fields<'de, '_>, TypeError> {
        let entries = match &self.node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => return Err(self.wrong("an object")),
        };
        let mut ordered: Vec<&Entry> = entries.iter().collect();
        if self.context.language == Language::Yaml {
            ordered.sort_by(|a, b| a.key.cmp(&b.key));
        }
        let is_root = matches!(self.path, Path::Root);
        let mut seen = BTreeSet::new();
        let mut visits = Vec::with_capacity(ordered.len());
        // Backwards, because of several entries with one name the last counts.
        for entry in ordered.into_iter().rev() {
            let key = entry.key.as_str();
            let is_type_meta = is_root && matches!(key, "apiVersion" | "kind");
            let is_unknown =
                matches!(names, Names::Known(known) if !is_type_meta && !known.contains(&key));
            let is_repeat = !seen.insert(key);
            if is_unknown && !is_repeat {
                visits.push(Visit { entry, complaint: Some("unknown") });
            } else if is_repeat {
                // The converter from YAML to JSON has already reported repeated keys.
                if self.context.language == Language::Json && !matches!(names, Names::Raw) {
                    let complaint = if is_unknown { "unknown" } else { "duplicate" };
                    visits.push(Visit { entry, complaint: Some(complaint) });
                }
            } else {
                // A struct keeps its default for null; elsewhere null is a value.
                let is_absent =
                    matches!((names, &entry.node.value), (Names::Known(_), Value::Null));
                if !is_type_meta && !is_absent {
                    visits.push(Visit { entry, complaint: None });
                }
            }
        }
        visits.reverse();
        Ok(Fields { reader: *self, visits: visits.into_iter(), current: None })
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $type:ty, $expected:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
            let value = self.integer(<$type>::MIN.into(), <$type>::MAX.into(), $expected)?;
            // In range, so the fallback cannot be reached.
            visitor.$visit(<$type>::try_from(value).unwrap_or_default())
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = TypeError;

    integers! {
        deserialize_i8 visit_i8 i8, "an integer from -128 to 127";
        deserialize_i16 visit_i16 i16, "a 16-bit integer";
        deserialize_i32 visit_i32 i32, "a 32-bit integer";
        deserialize_i64 visit_i64 i64, "a 64-bit integer";
        deserialize_u8 visit_u8 u8, "an integer from 0 to 255";
        deserialize_u16 visit_u16 u16, "an integer from 0 to 65535";
        deserialize_u32 visit_u32 u32, "a 32-bit unsigned integer";
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if let Value::Uint(value) = self.node.value {
            return visitor.visit_u64(value);
        }
        let value = self.integer(0, i64::MAX, "a 64-bit unsigned integer")?;
        visitor.visit_u64(value.unsigned_abs())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.node.value {
            Value::Null => visitor.visit_bool(false),
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.wrong("a boolean")),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "the nearest float is what JSON numbers mean"
        )]
        match self.node.value {
            Value::Null => visitor.visit_f64(0.0),
            Value::Int(value) => visitor.visit_f64(value as f64),
            Value::Uint(value) => visitor.visit_f64(value as f64),
            Value::Float(value) => visitor.visit_f64(value),
            _ => Err(self.wrong("a number")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => visitor.visit_str(""),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            _ => Err(self.wrong("a string")),
        }
        .map_err(|error| self.placed(error))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if matches!(self.node.value, Value::Null) {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => visitor.visit_seq(Items { reader: self, items: &[], next: 0 }),
            Value::List(items) => visitor.visit_seq(Items { reader: self, items, next: 0 }),
            _ => Err(self.wrong("a list")),
        }
        .map_err(|error| self.placed(error))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        visitor.visit_map(self.fields(Names::Any)?).map_err(|error| self.placed(error))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        visitor.visit_map(self.fields(Names::Known(fields))?).map_err(|error| self.placed(error))
    }

    /// Everything below is taken as it is: nothing is unknown, and of repeats the last counts.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => visitor.visit_i64(*value),
            Value::Uint(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items { reader: self, items, next: 0 }),
            Value::Map(_) => visitor.visit_map(self.fields(Names::Raw)?),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 bytes byte_buf unit unit_struct tuple tuple_struct enum
    }
}

struct Items<'de, 'p> {
    reader: Reader<'de, 'p>,
    items: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = TypeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, TypeError> {
        let Some(node) = self.items.get(self.next) else { return Ok(None) };
        let path = Path::Item(&self.reader.path, self.next);
        self.next += 1;
        seed.deserialize(Reader { node, path, context: self.reader.context }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len().saturating_sub(self.next))
    }
}

struct Fields<'de, 'p> {
    reader: Reader<'de, 'p>,
    visits: std::vec::IntoIter<Visit<'de>>,
    current: Option<&'de Entry>,
}

/// An entry to read, or one to complain of when its turn comes.
struct Visit<'de> {
    entry: &'de Entry,
    complaint: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = TypeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, TypeError> {
        for Visit { entry, complaint } in self.visits.by_ref() {
            let Some(what) = complaint else {
                self.current = Some(entry);
                return seed.deserialize(StrDeserializer::new(&entry.key)).map(Some);
            };
            let path = Path::Field(&self.reader.path, &entry.key);
            let complaint = format!("{what} field \"{path}\"");
            self.reader.context.complaints.borrow_mut().push(complaint);
        }
        Ok(None)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, TypeError> {
        let Some(entry) = self.current else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let path = Path::Field(&self.reader.path, &entry.key);
        seed.deserialize(Reader { node: &entry.node, path, context: self.reader.context })
    }
}
