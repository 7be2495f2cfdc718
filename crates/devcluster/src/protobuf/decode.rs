//! From protobuf to JSON, with the result that an API server would have.
//!
//! Invariants: malformed input is an error, never a panic; nothing is left out: a field that the schema does not have is an
//! error that names its place.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use kube_scheduler_api_types::protobuf::{Reader, Value as WireValue};
use serde_json::{Map, Value};

use super::encode::MAGIC;
use super::schema::{MessageField, Shape, Type, fields_of};

/// Why bytes are not read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DecodeError {
    #[error("{} is malformed", place(.path))]
    Malformed {
        /// The fields that lead to it, the innermost first.
        path: Vec<&'static str>,
    },
    #[error("{} has the field number {number}, which this server does not know", place(.path))]
    UnknownField {
        /// The fields that lead to the message with this field, the innermost first.
        path: Vec<&'static str>,
        number: u32,
    },
    #[error("{kind:?} in version {api_version:?} is not read in this form")]
    UnknownKind { kind: String, api_version: String },
}

impl DecodeError {
    fn malformed() -> Self {
        Self::Malformed { path: Vec::new() }
    }

    fn below(mut self, name: &'static str) -> Self {
        if let Self::Malformed { path } | Self::UnknownField { path, .. } = &mut self {
            path.push(name);
        }
        self
    }
}

fn place(path: &[&str]) -> String {
    if path.is_empty() {
        return "the object".to_owned();
    }
    path.iter().rev().copied().collect::<Vec<_>>().join(".")
}

/// The object in the bytes of a message.
pub(crate) fn message(name: &str, bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut object = Map::new();
    take_fields(name, bytes, &mut object)?;
    Ok(Value::Object(object))
}

/// An object's bytes with its type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) raw: &'a [u8],
}

/// Takes an object out of its envelope.
pub(super) fn envelope(body: &[u8]) -> Option<Envelope<'_>> {
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(body.strip_prefix(MAGIC)?);
    while let Some(field) = reader.next().ok()? {
        match field.number {
            1 => {
                let text = |number| part(field.value, number).map_or(Some(""), text_of);
                (envelope.api_version, envelope.kind) = (text(1)?, text(2)?);
            }
            2 => envelope.raw = bytes_of(field.value)?,
            _ => {}
        }
    }
    Some(envelope)
}

fn take_fields(
    message: &str,
    bytes: &[u8],
    object: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    let fields = fields_of(message);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next().map_err(|_| DecodeError::malformed())? {
        let Some(schema) = fields.iter().find(|schema| schema.number == field.number) else {
            return Err(DecodeError::UnknownField { path: Vec::new(), number: field.number });
        };
        if let (true, Type::Message(message)) = (schema.is_inline, schema.of) {
            let bytes = bytes_of(field.value).ok_or_else(DecodeError::malformed)?;
            take_fields(message, bytes, object)?;
            continue;
        }
        take_field(schema, field.value, object).map_err(|error| error.below(schema.name))?;
    }
    Ok(())
}

fn take_field(
    schema: &MessageField,
    field: WireValue<'_>,
    object: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    let malformed = DecodeError::malformed;
    match schema.shape {
        Shape::One => {
            let value = value_of(schema, field)?;
            let is_empty =
                matches!(&value, Value::Null | Value::Bool(false)) || value == "" || value == 0;
            if !is_empty || schema.is_given || schema.is_always {
                object.insert(schema.name.to_owned(), value);
            }
        }
        Shape::List => {
            let value = value_of(schema, field)?;
            let list = object.entry(schema.name).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().ok_or_else(malformed)?.push(value);
        }
        Shape::Map => {
            let (mut key, mut value) = ("", None);
            let mut entry = Reader::new(bytes_of(field).ok_or_else(malformed)?);
            while let Some(field) = entry.next().map_err(|_| malformed())? {
                match field.number {
                    1 => key = text_of(field.value).ok_or_else(malformed)?,
                    2 => value = Some(value_of(schema, field.value)?),
                    number => return Err(DecodeError::UnknownField { path: Vec::new(), number }),
                }
            }
            let map = object.entry(schema.name).or_insert_with(|| Value::Object(Map::new()));
            let map = map.as_object_mut().ok_or_else(malformed)?;
            map.insert(key.to_owned(), value.unwrap_or("".into()));
        }
    }
    Ok(())
}

fn value_of(schema: &MessageField, field: WireValue<'_>) -> Result<Value, DecodeError> {
    match schema.of {
        Type::Message(name) => message(name, bytes_of(field).ok_or_else(DecodeError::malformed)?),
        scalar => scalar_of(scalar, field).ok_or_else(DecodeError::malformed),
    }
}

fn scalar_of(of: Type, field: WireValue<'_>) -> Option<Value> {
    Some(match of {
        Type::Text => text_of(field)?.into(),
        Type::Bytes => BASE64.encode(bytes_of(field)?).into(),
        Type::Int => integer_of(field)?.into(),
        Type::Bool => (integer_of(field)? != 0).into(),
        Type::Quantity => part(field, 1).map_or("0".into(), |text| text_of(text).into()),
        Type::Time | Type::MicroTime => {
            let Some(seconds) = part(field, 1) else { return Some(Value::Null) };
            let nanos = part(field, 2).map_or(Some(0), integer_of)?;
            let at = Timestamp::new(integer_of(seconds)?, i32::try_from(nanos).ok()?).ok()?;
            let is_exact = of == Type::MicroTime;
            (if is_exact { format!("{at:.6}") } else { format!("{at:.0}") }).into()
        }
        Type::IntOrString => match part(field, 1).map_or(Some(0), integer_of)? {
            0 => part(field, 2).map_or(Some(0), integer_of)?.into(),
            _ => part(field, 3).map_or(Some(""), text_of)?.into(),
        },
        Type::Json => match part(field, 1).map_or(Some(&[][..]), bytes_of)? {
            [] => Value::Null,
            text => serde_json::from_slice(text).ok()?,
        },
        Type::Texts => {
            let (mut texts, mut reader) = (Vec::new(), Reader::new(bytes_of(field)?));
            while let Some(field) = reader.next().ok()? {
                texts.push(text_of(field.value)?.into());
            }
            Value::Array(texts)
        }
        Type::Message(_) => return None,
    })
}

/// The last field with this number in the message that is the value of `field`.
fn part(field: WireValue<'_>, number: u32) -> Option<WireValue<'_>> {
    let mut found = None;
    let mut reader = Reader::new(bytes_of(field)?);
    while let Some(field) = reader.next().ok()? {
        if field.number == number {
            found = Some(field.value);
        }
    }
    found
}

fn bytes_of(field: WireValue<'_>) -> Option<&[u8]> {
    match field {
        WireValue::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn text_of(field: WireValue<'_>) -> Option<&str> {
    str::from_utf8(bytes_of(field)?).ok()
}

fn integer_of(field: WireValue<'_>) -> Option<i64> {
    match field {
        WireValue::Varint(number) => Some(number.cast_signed()),
        _ => None,
    }
}
