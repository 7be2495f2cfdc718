//! From protobuf to JSON, as the API server would have read it. Invariant: malformed input is nothing, never a panic.

use jiff::Timestamp;
use kube_scheduler_api_types::protobuf::{Reader, Value as Field};
use serde_json::{Map, Value};

use super::schema::{Known, Shape, Type, fields_of};

/// The object that the bytes of a message describe; nothing when they are no message.
pub(crate) fn message(name: &str, bytes: &[u8]) -> Option<Value> {
    let mut object = Map::new();
    take_fields(name, bytes, &mut object)?;
    Some(Value::Object(object))
}

/// What is around an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) raw: &'a [u8],
}

/// Reads the envelope behind the first four bytes.
pub(super) fn envelope(bytes: &[u8]) -> Option<Envelope<'_>> {
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(bytes);
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
    let known = fields_of(message);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next().ok()? {
        let Some(known) = known.iter().find(|known| known.number == field.number) else { continue };
        if let (true, Type::Message(message)) = (known.is_inline, known.of) {
            take_fields(message, bytes_of(field.value)?, object)?;
            continue;
        }
        match known.shape {
            Shape::One => {
                let value = value_of(known, field.value)?;
                let is_empty =
                    matches!(&value, Value::Null | Value::Bool(false)) || value == "" || value == 0;
                if !is_empty || known.is_given || known.is_always {
                    object.insert(known.name.to_owned(), value);
                }
            }
            Shape::List => {
                let value = value_of(known, field.value)?;
                let list = object.entry(known.name).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut()?.push(value);
            }
            Shape::Map => {
                let (mut key, mut value) = ("", None);
                let mut entry = Reader::new(bytes_of(field.value)?);
                while let Some(field) = entry.next().ok()? {
                    match field.number {
                        1 => key = text_of(field.value)?,
                        2 => value = Some(value_of(known, field.value)?),
                        _ => {}
                    }
                }
                let map = object.entry(known.name).or_insert_with(|| Value::Object(Map::new()));
                map.as_object_mut()?.insert(key.to_owned(), value.unwrap_or("".into()));
            }
        }
    }
    Some(())
}

fn value_of(known: &Known, field: Field<'_>) -> Option<Value> {
    Some(match known.of {
        Type::Text => text_of(field)?.into(),
        Type::Int => integer_of(field)?.into(),
        Type::Bool => (integer_of(field)? != 0).into(),
        Type::Quantity => part(field, 1).map_or("0".into(), |text| text_of(text).into()),
        Type::Time | Type::MicroTime => {
            let Some(seconds) = part(field, 1) else { return Some(Value::Null) };
            let nanos = part(field, 2).map_or(Some(0), integer_of)?;
            let at = Timestamp::new(integer_of(seconds)?, i32::try_from(nanos).ok()?).ok()?;
            let is_exact = known.of == Type::MicroTime;
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

/// A field of the message that is in a field.
fn part(field: Field<'_>, number: u32) -> Option<Field<'_>> {
    let mut found = None;
    let mut reader = Reader::new(bytes_of(field)?);
    while let Some(field) = reader.next().ok()? {
        if field.number == number {
            found = Some(field.value);
        }
    }
    found
}

fn bytes_of(field: Field<'_>) -> Option<&[u8]> {
    match field {
        Field::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn text_of(field: Field<'_>) -> Option<&str> {
    str::from_utf8(bytes_of(field)?).ok()
}

fn integer_of(field: Field<'_>) -> Option<i64> {
    match field {
        Field::Varint(number) => Some(number.cast_signed()),
        _ => None,
    }
}
