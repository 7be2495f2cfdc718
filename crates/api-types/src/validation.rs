//! What is wrong with a value, in the words users of Kubernetes know.
//!
//! Two halves: [`FieldError`] names the field of an object that is wrong and prints as upstream's `field.Error` does;
//! the name checks say what is wrong with a label key, a label value or a DNS name, one message per broken rule.
//!
//! Invariants: checks never stop at the first problem; the texts are part of the promise, tools and tests match on
//! them word for word; an empty list of messages means valid.

mod error;
mod name;
mod quote;

pub use error::{BadValue, ErrorKind, FieldError, FieldPath, aggregate};
pub use name::{
    dns1123_label_messages, dns1123_subdomain_messages, label_key_messages, label_value_messages,
};
pub use quote::{json_text, quoted};
