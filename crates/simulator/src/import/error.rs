//! What can be wrong with an input, and where.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::DecodeError;

/// Where in the input something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// The document in the file, counted from 1; empty documents do not count. Absent in CSV.
    pub document: Option<usize>,
    /// The element of the document's `items`, counted from 0, if the document is a list.
    pub item: Option<usize>,
    /// The line, counted from 1, if known.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        let mut separator = ": ";
        if let Some(document) = self.document {
            write!(f, "{separator}document {document}")?;
            separator = ", ";
        }
        if let Some(item) = self.item {
            write!(f, "{separator}items[{item}]")?;
            separator = ", ";
        }
        if let Some(line) = self.line {
            write!(f, "{separator}line {line}")?;
        }
        Ok(())
    }
}

/// Why an input cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A text is neither YAML nor JSON.
    #[error("{file}: {}{reason}", position(*line, *column))]
    Syntax {
        /// Which text.
        file: String,
        /// Line, counted from 1, if known.
        line: Option<u64>,
        /// Column, counted from 1, if known.
        column: Option<u64>,
        /// What is wrong there.
        reason: String,
    },
    /// A document is no Kubernetes object.
    #[error("{place}: {reason}")]
    NotAnObject {
        /// Which document.
        place: Place,
        /// What it is, and what is expected.
        reason: String,
    },
    /// An object has no name.
    #[error("{place}: {kind}: metadata.name: required")]
    NoName {
        /// Where the object stands.
        place: Place,
        /// Its kind.
        kind: String,
    },
    /// A field of an object cannot be used.
    #[error("{place}: {error}")]
    Object {
        /// Where the field stands.
        place: Place,
        /// Which object, which field, what is wrong.
        error: Box<DecodeError>,
    },
    /// An object is given twice.
    #[error("{place}: {object} is given twice, first in {first}")]
    Repeated {
        /// Where it stands again.
        place: Place,
        /// Which object.
        object: String,
        /// Where it stands first.
        first: Box<Place>,
    },
    /// Two pods share an identity.
    #[error(
        "{place}: {object}: metadata.uid: {uid:?} is the uid of another pod already, in {first}; leave it out to get a new one"
    )]
    RepeatedUid {
        /// Where the second pod stands.
        place: Place,
        /// Which pod.
        object: String,
        /// The identity.
        uid: String,
        /// Where the first pod stands.
        first: Box<Place>,
    },
    /// A pod has no priority, and the class that would give it one is not in the input.
    #[error(
        "{place}: {object}: spec.priorityClassName: there is no PriorityClass {class:?} in the input; add it, or set spec.priority"
    )]
    UnknownPriorityClass {
        /// Where the name stands.
        place: Place,
        /// Which pod.
        object: String,
        /// The class.
        class: String,
    },
    /// A field of a trace cannot be used.
    #[error("{file}: {}{reason}", position(Some(*line), *column))]
    Csv {
        /// Which text.
        file: String,
        /// Line, counted from 1.
        line: u64,
        /// Position of the field in the line, counted from 1.
        column: Option<u64>,
        /// What is wrong there.
        reason: String,
    },
}

fn position(line: Option<u64>, column: Option<u64>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: "),
        (Some(line), None) => format!("line {line}: "),
        (None, _) => String::new(),
    }
}
