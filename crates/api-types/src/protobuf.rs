//! Pods and nodes from the binary form of the API: only what scheduling reads, everything else skipped by its length.
//!
//! The form is protocol buffers as the API server writes them (`application/vnd.kubernetes.protobuf`). [`Reader`] walks
//! over the fields of a message without copying; one `Message` implementation per type of [`wire`] says which
//! fields are kept. Both forms of an object end in the same wire types and are compiled by the same code.
//!
//! Invariants: no input panics, and none makes a reader go deeper than the types are nested, or keep more than a few
//! times its own length; of an object that the API server has accepted, both forms compile to equal results; field
//! numbers that are unknown are skipped, as fields of a newer server.

mod affinity;
mod container;
mod fault;
mod fields;
mod meta;
mod node;
mod pod;
mod reader;
mod status;
mod volume;
mod volume_json;

pub use reader::{Field, ProtobufError, Reader, Value};

use crate::compile::DecodeError;
use crate::node::Node;
use crate::options::CompileOptions;
use crate::pod::Pod;
use crate::wire;
use fields::Message;

impl Pod {
    /// Decodes and compiles a pod from the bytes of its message, without an envelope around it, under the default feature
    /// gates.
    ///
    /// # Errors
    /// If a field that matters is not what it should be; the error names pod and field as far as they can be read.
    pub fn from_protobuf(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::from_protobuf_with(bytes, &CompileOptions::default())
    }

    /// Decodes and compiles a pod from the bytes of its message, without an envelope around it.
    ///
    /// # Errors
    /// As [`from_protobuf`](Self::from_protobuf).
    pub fn from_protobuf_with(bytes: &[u8], options: &CompileOptions) -> Result<Self, DecodeError> {
        let mut pod = wire::Pod::default();
        pod.read(bytes).map_err(|fault| fault.in_object("pod", bytes))?;
        Ok(Self::from_wire_with(&pod, options))
    }
}

impl Node {
    /// Decodes and compiles a node from the bytes of its message, without an envelope around it.
    ///
    /// # Errors
    /// As [`Pod::from_protobuf`].
    pub fn from_protobuf(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut node = wire::Node::default();
        node.read(bytes).map_err(|fault| fault.in_object("node", bytes))?;
        Ok(Self::from_wire(&node))
    }
}

/// Namespace and name of the object whose message these bytes are, as far as they can be read.
pub fn identity(bytes: &[u8]) -> (Option<&str>, Option<&str>) {
    let (mut namespace, mut name) = (None, None);
    let mut object = Reader::new(bytes);
    while let Ok(Some(field)) = object.next() {
        let (1, Value::Bytes(metadata)) = (field.number, field.value) else { continue };
        let mut metadata = Reader::new(metadata);
        while let Ok(Some(field)) = metadata.next() {
            let Value::Bytes(text) = field.value else { continue };
            match field.number {
                1 => name = str::from_utf8(text).ok(),
                3 => namespace = str::from_utf8(text).ok(),
                _ => {}
            }
        }
    }
    (namespace, name)
}
