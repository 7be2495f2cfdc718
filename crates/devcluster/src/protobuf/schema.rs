//! The fields of all built-in kinds, by message: for reading and writing them in protobuf, and for describing them.
//!
//! A line of `schema.txt` is one message: its name, then `field=number:type` for each field in the order of the JSON form.
//! Before the type may be `[]` for lists and `{}` for maps, `?` for optional fields, which are written only if they are
//! set, `!` for fields that JSON has even if they are empty, and `^` for a message whose fields are inlined in JSON. After
//! it may be `~STRATEGY` or `~STRATEGY:KEY`: how a strategic merge patch merges the field, and by which key.
//!
//! A message is named like its type; where several groups have the name, those outside of the core group begin with the
//! first word of their group, as in `events.Event`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One field of a message.
#[derive(Debug)]
pub(crate) struct MessageField {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) shape: Shape,
    /// The type of the value, or of the elements.
    pub(crate) of: Type,
    /// Whether it is optional: absent and empty differ.
    pub(crate) is_given: bool,
    /// Whether JSON has it even if it is empty.
    pub(crate) is_always: bool,
    /// Whether in JSON its fields are fields of the message around it.
    pub(crate) is_inline: bool,
    /// How a strategic merge patch merges it: the strategy, and after a colon the key.
    pub(crate) merge: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    List,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Int,
    Bool,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// Any JSON, as a text.
    Json,
    /// Bytes, which in JSON are a text in base64.
    Bytes,
    /// A list as the value of a map.
    Texts,
    Message(&'static str),
}

static MESSAGES: LazyLock<BTreeMap<&str, Vec<MessageField>>> =
    LazyLock::new(|| include_str!("schema.txt").lines().filter_map(message).collect());

/// The fields of a message; none if there is no such message.
pub(crate) fn fields_of(message: &str) -> &'static [MessageField] {
    MESSAGES.get(message).map_or(&[], Vec::as_slice)
}

/// The name of a kind's message; `None` if the kind is not known.
pub(crate) fn message_of(api_version: &str, kind: &str) -> Option<&'static str> {
    // Kinds that are the same in every group.
    let group = match kind {
        "DeleteOptions" => "",
        _ => api_version.split_once('/').map_or("", |(group, _)| group),
    };
    let first_word = group.split('.').next().unwrap_or_default();
    let own = format!("{first_word}.{kind}");
    let found = MESSAGES.get_key_value(own.as_str()).or_else(|| MESSAGES.get_key_value(kind));
    found.map(|(name, _)| *name)
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
    let (rest, merge) = match rest.split_once('~') {
        Some((rest, merge)) => (rest, Some(merge)),
        None => (rest, None),
    };
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
        "FieldsV1" | "Raw" => Type::Json,
        "bytes" => Type::Bytes,
        "Texts" => Type::Texts,
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
        merge,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_is_named_exists() {
        assert!(MESSAGES.len() > 100);
        for (name, fields) in MESSAGES.iter() {
            // A choice without parameters.
            assert!(!fields.is_empty() || *name == "BasicSchedulingPolicy", "{name}");
            for field in fields {
                if let Type::Message(message) = field.of {
                    assert!(MESSAGES.contains_key(message), "{name} {}", field.name);
                }
            }
        }
    }
}
