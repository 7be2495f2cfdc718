//! The fields of the objects that are read and written in protobuf, by message.
//!
//! A line of `schema.txt` is one message: its name, then `field=number:type` for each field in the order of the JSON form.
//! Before the type may be `[]` for lists and `{}` for maps, `?` for optional fields, which are written only if they are
//! set, `!` for fields that JSON has even if they are empty, and `^` for a message whose fields are inlined in JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One field of a message.
#[derive(Debug)]
pub(super) struct MessageField {
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) shape: Shape,
    /// The type of the value, or of the elements.
    pub(super) of: Type,
    /// Whether it is optional: absent and empty differ.
    pub(super) is_given: bool,
    /// Whether JSON has it even if it is empty.
    pub(super) is_always: bool,
    /// Whether in JSON its fields are fields of the message around it.
    pub(super) is_inline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Int,
    Bool,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// JSON, as a text.
    FieldsV1,
    Message(&'static str),
}

static MESSAGES: LazyLock<BTreeMap<&str, Vec<MessageField>>> =
    LazyLock::new(|| include_str!("schema.txt").lines().filter_map(message).collect());

/// The fields of a message; none if there is no such message.
pub(super) fn fields_of(message: &str) -> &'static [MessageField] {
    MESSAGES.get(message).map_or(&[], Vec::as_slice)
}

fn message(line: &'static str) -> Option<(&'static str, Vec<MessageField>)> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let mut fields: Vec<MessageField> = words.filter_map(field).collect();
    // In the order in which an API server writes them.
    fields.sort_by_key(|field| field.number);
    Some((name, fields))
}

fn field(word: &'static str) -> Option<MessageField> {
    let (name, rest) = word.split_once('=')?;
    let (number, mut of) = rest.split_once(':')?;
    let mut shape = Shape::One;
    for (mark, marked) in [("[]", Shape::List), ("{}", Shape::Map)] {
        if let Some(rest) = of.strip_prefix(mark) {
            (shape, of) = (marked, rest);
        }
    }
    let mut has_mark = |mark| match of.strip_prefix(mark) {
        Some(rest) => {
            of = rest;
            true
        }
        None => false,
    };
    let (is_given, is_always, is_inline) = (has_mark('?'), has_mark('!'), has_mark('^'));
    let of = match of {
        "text" => Type::Text,
        "int" => Type::Int,
        "bool" => Type::Bool,
        "Quantity" => Type::Quantity,
        "Time" => Type::Time,
        "MicroTime" => Type::MicroTime,
        "IntOrString" => Type::IntOrString,
        "FieldsV1" => Type::FieldsV1,
        message => Type::Message(message),
    };
    Some(MessageField {
        name,
        number: number.parse().ok()?,
        shape,
        of,
        is_given,
        is_always,
        is_inline,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_is_named_exists() {
        assert!(MESSAGES.len() > 100);
        for (name, fields) in MESSAGES.iter() {
            assert!(!fields.is_empty(), "{name}");
            for field in fields {
                if let Type::Message(message) = field.of {
                    assert!(MESSAGES.contains_key(message), "{name} {}", field.name);
                }
            }
        }
    }
}
