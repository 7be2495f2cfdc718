//! What is wrong with a message, and where.

use super::ProtobufError;
use crate::compile::DecodeError;

/// A field that cannot be read. Boxed, because nearly all of them can.
#[derive(Debug)]
pub(super) struct Fault(Box<Place>);

#[derive(Debug)]
struct Place {
    /// From the inside out.
    path: Vec<String>,
    reason: String,
}

impl Fault {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(Box::new(Place { path: Vec::new(), reason: reason.into() }))
    }

    /// The error about the whole object, whose message `bytes` are.
    pub(super) fn in_object(self, noun: &str, bytes: &[u8]) -> DecodeError {
        let object = match super::identity(bytes) {
            (Some(namespace), Some(name)) if !namespace.is_empty() => {
                format!("{noun} {namespace}/{name}")
            }
            (_, Some(name)) if !name.is_empty() => format!("{noun} {name}"),
            _ => noun.to_owned(),
        };
        let mut path = String::new();
        for segment in self.0.path.iter().rev() {
            if !path.is_empty() && !segment.starts_with('[') {
                path.push('.');
            }
            path.push_str(segment);
        }
        DecodeError { object, path, reason: self.0.reason }
    }
}

impl From<ProtobufError> for Fault {
    fn from(invalid: ProtobufError) -> Self {
        Self::new(invalid.to_string())
    }
}

/// Adds to an error the field in which it occurred.
pub(super) trait FieldContext {
    /// In the field of this name.
    fn at(self, field: &str) -> Self;
    /// In an element of the list or map of this name.
    fn within(self, field: &str, element: impl std::fmt::Display) -> Self;
}

impl<T> FieldContext for Result<T, Fault> {
    #[inline]
    fn at(self, field: &str) -> Self {
        self.map_err(|mut fault| {
            fault.0.path.push(field.to_owned());
            fault
        })
    }

    #[inline]
    fn within(self, field: &str, element: impl std::fmt::Display) -> Self {
        self.map_err(|mut fault| {
            fault.0.path.push(format!("[{element}]"));
            fault.0.path.push(field.to_owned());
            fault
        })
    }
}
