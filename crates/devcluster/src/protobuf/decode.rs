//! From protobuf to JSON, with the result that an API server would have. Invariant: malformed input gives `None`, never a
//! panic.

use jiff::Timestamp;
use kube_scheduler_api_types::protobuf::{Reader, Value as WireValue};
use serde_json::{Map, Value};

use super::encode::MAGIC;
use super::schema::{MessageField, Shape, Type, fields_of};

/// The object in the bytes of a message; `None` if they are malformed.
pub(crate) fn message(name: &str, bytes: &[u8]) -> Option<Value> {
    if fields_of(name).is_empty() {
        return None;
    }
    let mut object = Map::new();
    take_fields(name, bytes, &mut object)?;
    Some(Value::Object(object))
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

fn take_fields(message: &str, bytes: &[u8], object: &mut Map<String, Value>) -> Option<()> {
    let fields = fields_of(message);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next().ok()? {
        let schema = fields.iter().find(|schema| schema.number == field.number);
        let Some(schema) = schema else { continue };
        if let (true, Type::Message(message)) = (schema.is_inline, schema.of) {
            take_fields(message, bytes_of(field.value)?, object)?;
            continue;
        }
        match schema.shape {
            Shape::One => {
                let value = value_of(schema, field.value)?;
                let is_empty =
                    matches!(&value, Value::Null | Value::Bool(false)) || value == "" || value == 0;
                if !is_empty || schema.is_given || schema.is_always {
                    object.insert(schema.name.to_owned(), value);
                }
            }
            Shape::List => {
                let value = value_of(schema, field.value)?;
                let list = object.entry(schema.name).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut()?.push(value);
            }
            Shape::Map => {
                let (mut key, mut value) = ("", None);
                let mut entry = Reader::new(bytes_of(field.value)?);
                while let Some(field) = entry.next().ok()? {
                    match field.number {
                        1 => key = text_of(field.value)?,
                        2 => value = Some(value_of(schema, field.value)?),
                        _ => {}
                    }
                }
                let map = object.entry(schema.name).or_insert_with(|| Value::Object(Map::new()));
                map.as_object_mut()?.insert(key.to_owned(), value.unwrap_or("".into()));
            }
        }
    }
    Some(())
}

fn value_of(schema: &MessageField, field: WireValue<'_>) -> Option<Value> {
    Some(match schema.of {
        Type::Text => text_of(field)?.into(),
        Type::Int => integer_of(field)?.into(),
        Type::Bool => (integer_of(field)? != 0).into(),
        Type::Quantity => part(field, 1).map_or("0".into(), |text| text_of(text).into()),
        Type::Time | Type::MicroTime => {
            let Some(seconds) = part(field, 1) else { return Some(Value::Null) };
            let nanos = part(field, 2).map_or(Some(0), integer_of)?;
            let at = Timestamp::new(integer_of(seconds)?, i32::try_from(nanos).ok()?).ok()?;
            let is_exact = schema.of == Type::MicroTime;
            (if is_exact { format!("{at:.6}") } else { format!("{at:.0}") }).into()
        }
        Type::IntOrString => match part(field, 1).map_or(Some(0), integer_of)? {
            0 => part(field, 2).map_or(Some(0), integer_of)?.into(),
            _ => part(field, 3).map_or(Some(""), text_of)?.into(),
        },
        Type::FieldsV1 => serde_json::from_slice(bytes_of(part(field, 1)?)?).ok()?,
        Type::Message(name) => message(name, bytes_of(field)?)?,
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
