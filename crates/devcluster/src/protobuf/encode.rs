//! From JSON to protobuf, as an API server writes it: empty values are written too, except those of optional fields.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::schema::{MessageField, Shape, Type, fields_of};

/// What every protobuf body starts with.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// An object in its envelope.
pub(crate) fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut bytes = MAGIC.to_vec();
    put_bytes(&mut bytes, 1, &type_meta);
    put_bytes(&mut bytes, 2, message);
    // Content encoding and content type, which are always empty.
    put_bytes(&mut bytes, 3, b"");
    put_bytes(&mut bytes, 4, b"");
    bytes
}

/// The bytes of a message with the content of `value`. Fields that are not in the schema are left out.
pub(crate) fn message(name: &str, value: &Value) -> Vec<u8> {
    let empty = Map::new();
    let mut bytes = Vec::new();
    put_fields(&mut bytes, name, value.as_object().unwrap_or(&empty));
    bytes
}

/// Appends a field whose value is bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_fields(out: &mut Vec<u8>, message: &str, object: &Map<String, Value>) {
    for schema in fields_of(message) {
        if let (true, Type::Message(message)) = (schema.is_inline, schema.of) {
            let mut inner = Vec::new();
            put_fields(&mut inner, message, object);
            put_bytes(out, schema.number, &inner);
            continue;
        }
        let value = object.get(schema.name).unwrap_or(&Value::Null);
        match schema.shape {
            Shape::One if value.is_null() && schema.is_given => {}
            Shape::One => put(out, schema, value),
            Shape::List => {
                value.as_array().into_iter().flatten().for_each(|value| put(out, schema, value));
            }
            Shape::Map => {
                let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, 1, key.as_bytes());
                    put(
                        &mut entry,
                        &MessageField { number: 2, shape: Shape::One, ..*schema },
                        value,
                    );
                    put_bytes(out, schema.number, &entry);
                }
            }
        }
    }
}

fn put(out: &mut Vec<u8>, schema: &MessageField, value: &Value) {
    let mut inner = Vec::new();
    match schema.of {
        Type::Text => inner.extend_from_slice(value.as_str().unwrap_or_default().as_bytes()),
        Type::Int => {
            put_integer(out, schema.number, value.as_i64().unwrap_or_default());
            return;
        }
        Type::Bool => {
            put_integer(out, schema.number, value.as_bool().unwrap_or_default().into());
            return;
        }
        Type::Quantity => match value {
            Value::Null => put_bytes(&mut inner, 1, b"0"),
            Value::String(text) => put_bytes(&mut inner, 1, text.as_bytes()),
            other => put_bytes(&mut inner, 1, other.to_string().as_bytes()),
        },
        Type::Time | Type::MicroTime => {
            let at = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
            if let Some(at) = at {
                let nanos = at.as_nanosecond();
                let part = |part: i128| i64::try_from(part).unwrap_or_default();
                put_integer(&mut inner, 1, part(nanos.div_euclid(1_000_000_000)));
                let is_exact = schema.of == Type::MicroTime;
                let rest = if is_exact { nanos.rem_euclid(1_000_000_000) } else { 0 };
                put_integer(&mut inner, 2, part(rest));
            }
        }
        Type::IntOrString => {
            put_integer(&mut inner, 1, i64::from(value.is_string()));
            put_integer(&mut inner, 2, value.as_i64().unwrap_or_default());
            put_bytes(&mut inner, 3, value.as_str().unwrap_or_default().as_bytes());
        }
        Type::Json => put_bytes(&mut inner, 1, value.to_string().as_bytes()),
        Type::Bytes => {
            inner = BASE64.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
        }
        Type::Texts => {
            for text in value.as_array().into_iter().flatten() {
                put_bytes(&mut inner, 1, text.as_str().unwrap_or_default().as_bytes());
            }
        }
        Type::Message(message) => inner = self::message(message, value),
    }
    put_bytes(out, schema.number, &inner);
}

fn put_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value.cast_unsigned());
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
