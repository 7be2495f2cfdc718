//! Errors of an input, with their location.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::DecodeError;

/// The location of something in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, by the name that the caller has given it.
    pub file: Arc<str>,
    /// The number of the document in the file, from 1; empty documents are not counted. `None` in CSV.
    pub document: Option<usize>,
    /// The index in the document's `items`, from 0, if the document is a list.
    pub item: Option<usize>,
    /// The number of the line, from 1, if known.
    pub line: Option<u64>,
}

impl fmt::Display for SourceLocation {
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
        /// The file.
        file: String,
        /// The number of the line, from 1, if known.
        line: Option<u64>,
        /// The number of the column, from 1, if known.
        column: Option<u64>,
        /// What is wrong there.
        reason: String,
    },
    /// A document is not a Kubernetes object.
    #[error("{place}: {reason}")]
    NotAnObject {
        /// The document.
        place: SourceLocation,
        /// What was found, and what is expected.
        reason: String,
    },
    /// An object has no name.
    #[error("{place}: {kind}: metadata.name: required")]
    NoName {
        /// The object.
        place: SourceLocation,
        /// Its kind.
        kind: String,
    },
    /// A field of an object is invalid.
    #[error("{place}: {error}")]
    Object {
        /// The field.
        place: SourceLocation,
        /// The object, the field and what is wrong.
        error: Box<DecodeError>,
    },
    /// An object is in another namespace than the one that the question is confined to.
    #[error(
        "{place}: {object}: metadata.namespace: {namespace:?} does not match the namespace that was given, {given:?}"
    )]
    OtherNamespace {
        /// The field.
        place: Box<SourceLocation>,
        /// The object.
        object: String,
        /// The namespace that it names.
        namespace: String,
        /// The one that was given.
        given: String,
    },
    /// An object is given twice.
    #[error("{place}: {object} is given twice, first in {first}")]
    Repeated {
        /// The second occurrence.
        place: SourceLocation,
        /// The object.
        object: String,
        /// The first occurrence.
        first: Box<SourceLocation>,
    },
    /// Two pods have the same UID.
    #[error(
        "{place}: {object}: metadata.uid: {uid:?} is the uid of another pod already, in {first}; leave it out to get a new one"
    )]
    RepeatedUid {
        /// The second pod.
        place: SourceLocation,
        /// The name of the second pod.
        object: String,
        /// The UID.
        uid: String,
        /// The first pod.
        first: Box<SourceLocation>,
    },
    /// A pod or a group has a priority class but no priority, and the class is not in the input.
    #[error(
        "{place}: {object}: spec.priorityClassName: there is no PriorityClass {class:?} in the input; add it, or set spec.priority"
    )]
    UnknownPriorityClass {
        /// The name of the class.
        place: SourceLocation,
        /// The pod.
        object: String,
        /// The class.
        class: String,
    },
    /// Controllers would create too many objects.
    #[error(
        "{place}: {object}: with what its controller would create there would be more than {limit} such objects"
    )]
    TooManyCreated {
        /// The controller's object.
        place: SourceLocation,
        /// Its kind and name.
        object: String,
        /// How many objects are created for one input.
        limit: usize,
    },
    /// A field of a trace is invalid.
    #[error("{file}: {}{reason}", position(Some(*line), *column))]
    Csv {
        /// The file.
        file: String,
        /// The number of the line, from 1.
        line: u64,
        /// The number of the field in the line, from 1.
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
