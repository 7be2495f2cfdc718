//! Objects in protobuf: pods and nodes as the API server writes them, bindings and events as schedulers write them, and
//! the few bodies that kubectl insists on writing so.
//!
//! kubectl and client-go write namespaces and reviews in protobuf whatever the server offers. Read of those are type,
//! metadata, and what reviews ask. Invariant: malformed input is an error, never a panic.

mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod equality;
mod schema;

use serde_json::{Map, Value, json};

use crate::cluster::DevClusterBuilder;
use crate::object::map_mut;

/// What every protobuf body begins with.
const MAGIC: &[u8] = b"k8s\0";

impl DevClusterBuilder {
    /// Whether pods and nodes are listed and watched in protobuf by whoever asks for it; JSON for everybody by default, as
    /// that is how they are stored.
    pub fn protobuf(mut self, is_offered: bool) -> Self {
        self.protobuf = is_offered;
        self
    }
}

/// Reads an object; nothing when the bytes are not an object of a kind that is known in this form.
pub(crate) fn object(body: &[u8]) -> Option<Value> {
    let envelope = decode::envelope(body.strip_prefix(MAGIC)?)?;
    let message = match (envelope.api_version, envelope.kind) {
        ("v1", "Binding") => "Binding",
        ("events.k8s.io/v1", "Event") => "Event",
        _ => return simple_object(body),
    };
    let mut object = decode::message(message, envelope.raw)?;
    map_mut(&mut object).insert("apiVersion".into(), envelope.api_version.into());
    map_mut(&mut object).insert("kind".into(), envelope.kind.into());
    Some(object)
}

/// Reads the type and the metadata of an object; nothing when the bytes are not an object of a kind that is this simple.
fn simple_object(body: &[u8]) -> Option<Value> {
    let mut object = json!({});
    let mut raw: &[u8] = &[];
    for (number, content) in fields(body.strip_prefix(MAGIC)?)? {
        match number {
            1 => {
                for (number, text) in fields(content)? {
                    let key = if number == 1 { "apiVersion" } else { "kind" };
                    map_mut(&mut object).insert(key.into(), std::str::from_utf8(text).ok()?.into());
                }
            }
            2 => raw = content,
            _ => {}
        }
    }
    let kind = object.get("kind").and_then(Value::as_str)?;
    if kind != "Namespace" && !kind.ends_with("Review") {
        return None;
    }
    let kind = kind.to_owned();
    let mut meta = Map::new();
    for (number, content) in fields(raw)? {
        if number == 2 && kind.ends_with("Review") {
            map_mut(&mut object).insert("spec".into(), review_spec(&kind, content)?);
        }
        if number != 1 {
            continue;
        }
        for (number, content) in fields(content)? {
            let text = || std::str::from_utf8(content).ok().map(Value::from);
            match number {
                1 => drop(meta.insert("name".into(), text()?)),
                2 => drop(meta.insert("generateName".into(), text()?)),
                3 => drop(meta.insert("namespace".into(), text()?)),
                11 => insert_pair(&mut meta, "labels", content)?,
                12 => insert_pair(&mut meta, "annotations", content)?,
                _ => {}
            }
        }
    }
    // Empty strings are how protobuf of Go structs writes absent ones.
    meta.retain(|_, value| value != "");
    map_mut(&mut object).insert("metadata".into(), Value::Object(meta));
    Some(object)
}

/// What a review asks.
fn review_spec(kind: &str, spec: &[u8]) -> Option<Value> {
    let mut asked = json!({});
    for (number, content) in fields(spec)? {
        let text = || std::str::from_utf8(content).ok().map(Value::from);
        let (key, value, is_list) = match (kind, number) {
            ("TokenReview", 1) => ("token", text()?, false),
            ("TokenReview", 2) => ("audiences", text()?, true),
            ("SelfSubjectRulesReview", 1) => ("namespace", text()?, false),
            ("TokenReview" | "SelfSubjectRulesReview" | "SelfSubjectReview", _) => continue,
            (_, 1) => ("resourceAttributes", attributes(content, &RESOURCE)?, false),
            (_, 2) => ("nonResourceAttributes", attributes(content, &["path", "verb"])?, false),
            ("SelfSubjectAccessReview", _) => continue,
            (_, 3) => ("user", text()?, false),
            (_, 4) => ("groups", text()?, true),
            (_, 6) => ("uid", text()?, false),
            _ => continue,
        };
        let members = map_mut(&mut asked);
        if !is_list {
            members.insert(key.into(), value);
        } else if let Some(list) = members.entry(key).or_insert_with(|| json!([])).as_array_mut() {
            list.push(value);
        }
    }
    Some(asked)
}

/// The attributes of a resource in the order of their field numbers.
const RESOURCE: [&str; 7] =
    ["namespace", "verb", "group", "version", "resource", "subresource", "name"];

fn attributes(message: &[u8], names: &[&str]) -> Option<Value> {
    let mut attributes = json!({});
    for (number, content) in fields(message)? {
        let position = usize::try_from(number).ok()?.checked_sub(1)?;
        if let Some(name) = names.get(position) {
            let text = std::str::from_utf8(content).ok()?;
            map_mut(&mut attributes).insert((*name).to_owned(), text.into());
        }
    }
    Some(attributes)
}

fn insert_pair(meta: &mut Map<String, Value>, map: &str, entry: &[u8]) -> Option<()> {
    let (mut key, mut value) = ("", "");
    for (number, content) in fields(entry)? {
        let text = std::str::from_utf8(content).ok()?;
        if number == 1 { key = text } else { value = text }
    }
    map_mut(meta.entry(map).or_insert(Value::Null)).insert(key.to_owned(), value.into());
    Some(())
}

/// The length-delimited fields of a message; other wire types are skipped.
fn fields(mut rest: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let skip = match tag & 7 {
            0 => {
                varint(&mut rest)?;
                0
            }
            1 => 8,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                found.push((tag >> 3, rest.get(..length)?));
                length
            }
            5 => 4,
            _ => return None,
        };
        rest = rest.get(skip..)?;
    }
    Some(found)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).expect("short")], content].concat()
    }

    fn namespace() -> Vec<u8> {
        let label = field(11, &[field(1, b"team"), field(2, b"a")].concat());
        let meta = field(1, &[field(1, b"foo"), field(2, b""), label].concat());
        let types = field(1, &[field(1, b"v1"), field(2, b"Namespace")].concat());
        [MAGIC, &types, &field(2, &meta), &field(3, b""), &field(4, b"")].concat()
    }

    #[test]
    fn a_namespace_is_read() {
        let expected = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo", "labels": {"team": "a"}},
        });
        assert_eq!(simple_object(&namespace()), Some(expected));
    }

    #[test]
    fn a_review_keeps_its_question() {
        let of_pods = field(1, &[field(2, b"list"), field(5, b"pods"), field(8, b"x")].concat());
        let spec = [of_pods, field(3, b"joe"), field(4, b"a"), field(4, b"b")].concat();
        let types = field(
            1,
            &[field(1, b"authorization.k8s.io/v1"), field(2, b"SubjectAccessReview")].concat(),
        );
        let raw = field(2, &[field(1, b""), field(2, &spec)].concat());
        let review = simple_object(&[MAGIC, &types, &raw].concat()).expect("a review");
        assert_eq!(
            review["spec"],
            json!({"resourceAttributes": {"verb": "list", "resource": "pods"}, "user": "joe",
                "groups": ["a", "b"]})
        );
    }

    #[test]
    fn truncated_bodies_are_no_objects_and_no_panics() {
        let body = namespace();
        for length in 0..body.len() - 5 {
            let _ = simple_object(&body[..length]);
        }
        assert_eq!(simple_object(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(simple_object(b"{}"), None);
    }
}
