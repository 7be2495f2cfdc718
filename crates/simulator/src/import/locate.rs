//! Finds the line of a field in a text. Used for error messages only: it parses the whole text again.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::manifest::options;

/// The steps of a path such as `spec.containers[0].resources.requests[cpu]`.
pub(super) fn steps(path: &str) -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut is_key = false;
    for c in path.chars() {
        match c {
            '.' if !is_key => steps.push(String::new()),
            '[' if !is_key => {
                is_key = true;
                steps.push(String::new());
            }
            ']' if is_key => is_key = false,
            c => {
                if let Some(step) = steps.last_mut() {
                    step.push(c);
                }
            }
        }
    }
    steps.retain(|step| !step.is_empty());
    steps
}

/// The line of the deepest part of `path` that exists in a document; lines and documents count from 1. Works for JSON as
/// well, as far as it is YAML.
pub(super) fn line(text: &str, document: usize, path: &[&str]) -> Option<u64> {
    let documents: Vec<LocatedValue> =
        serde_saphyr::from_multiple_with_options(text, options()).ok()?;
    let mut at = documents.get(document.checked_sub(1)?)?;
    for step in path {
        let next = match &at.shape {
            Shape::Map(entries) => {
                entries.iter().find(|(key, _)| key == step).map(|(_, value)| value)
            }
            Shape::List(items) => step.parse().ok().and_then(|idx: usize| items.get(idx)),
            Shape::Scalar => None,
        };
        let Some(next) = next else { break };
        at = next;
    }
    (at.line > 0).then_some(at.line)
}

/// A value and the line it starts in.
struct LocatedValue {
    line: u64,
    shape: Shape,
}

enum Shape {
    Map(Vec<(String, LocatedValue)>),
    List(Vec<LocatedValue>),
    Scalar,
}

impl<'de> Deserialize<'de> for LocatedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Shape>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), shape: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Shape::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Shape::List(items))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Shape::Scalar)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_none<E: de::Error>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
}
