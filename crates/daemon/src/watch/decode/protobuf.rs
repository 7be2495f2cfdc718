//! Pods and nodes in protobuf.
//!
//! Other kinds are asked for in JSON, because what plugins read of them is JSON.

use std::sync::Arc;

use kube_scheduler_api_types::protobuf::{ProtobufError, Reader, Value, identity};
use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_framework::EventObject;

use super::{Frame, INITIAL_EVENTS_END, ListEnd, MalformedObject};
use crate::kinds::{Form, WatchedKind};
use crate::transport::envelope::{self, NoObject};

/// What a list says about itself, from the message of its metadata.
pub(super) fn list_end(bytes: &[u8]) -> Result<ListEnd, MalformedObject> {
    let mut end = ListEnd::default();
    let mut metadata = Reader::new(bytes);
    while let Some(field) =
        metadata.next().map_err(|error| MalformedObject::whole("metadata of the list", error))?
    {
        let Value::Bytes(bytes) = field.value else { continue };
        let text = || String::from_utf8_lossy(bytes).into_owned();
        match field.number {
            2 => end.resource_version = text(),
            3 => end.next = text(),
            _ => {}
        }
    }
    Ok(end)
}

/// Reads one object, without an envelope.
pub(super) fn object(kind: &WatchedKind, bytes: &[u8]) -> Result<EventObject, MalformedObject> {
    let read = match kind.form {
        Form::Pod => Pod::from_protobuf_with(bytes, &kind.pod_options)
            .map(|pod| EventObject::Pod(Arc::new(pod))),
        Form::Node => Node::from_protobuf(bytes).map(|node| EventObject::Node(Arc::new(node))),
        Form::Generic => {
            let text = format!("objects of kind {} are not read in protobuf", kind.name);
            return Err(MalformedObject { key: None, text });
        }
    };
    let refused = |text: String| {
        let (namespace, name) = identity(bytes);
        let key = name
            .filter(|name| !name.is_empty())
            .map(|name| (namespace.unwrap_or_default().into(), name.into()));
        MalformedObject { key, text }
    };
    match read {
        Ok(object) if object.key().1.is_empty() => {
            Err(refused("the object has no name".to_owned()))
        }
        Ok(object) => Ok(object),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Reads one frame, without the length before it.
pub(super) fn frame(kind: &WatchedKind, bytes: &[u8]) -> Result<Option<Frame>, MalformedObject> {
    let (what, object_bytes) =
        event(bytes).map_err(|error| MalformedObject::whole("watch event", error))?;
    let is_known = matches!(what, "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR");
    if !is_known {
        // Types of events that later versions may add are ignored.
        return Ok(None);
    }
    let unreadable = |error: NoObject| MalformedObject::whole("object of a watch event", error);
    let enveloped = envelope::open(object_bytes).map_err(unreadable)?;
    let raw = enveloped.raw;
    let followed = || {
        let expected = kind.kind;
        if enveloped.kind.is_empty() || enveloped.kind == expected {
            return object(kind, raw);
        }
        let text = format!("expected {expected:?}, found {:?}", enveloped.kind);
        Err(MalformedObject { key: None, text })
    };
    Ok(Some(match what {
        "ADDED" | "MODIFIED" => Frame::Applied(followed()),
        "DELETED" => Frame::Deleted(followed()),
        "BOOKMARK" => bookmark(raw).map_err(|error| MalformedObject::whole("bookmark", error))?,
        _ => {
            let (message, _, code) = envelope::status(raw);
            Frame::Error { code, message: message.to_owned() }
        }
    }))
}

/// The type of an event, and its object in its envelope: a message (2) whose only field holds bytes (1).
fn event(bytes: &[u8]) -> Result<(&str, &[u8]), ProtobufError> {
    let (mut what, mut object): (&str, &[u8]) = ("", &[]);
    let mut event = Reader::new(bytes);
    while let Some(field) = event.next()? {
        match (field.number, field.value) {
            (1, Value::Bytes(text)) => what = str::from_utf8(text).unwrap_or_default(),
            (2, Value::Bytes(extension)) => {
                let mut extension = Reader::new(extension);
                while let Some(field) = extension.next()? {
                    if let (1, Value::Bytes(raw)) = (field.number, field.value) {
                        object = raw;
                    }
                }
            }
            _ => {}
        }
    }
    Ok((what, object))
}

/// Reads a bookmark: an object that has only a version and perhaps an annotation.
fn bookmark(raw: &[u8]) -> Result<Frame, ProtobufError> {
    let (mut resource_version, mut ends_initial_events) = (String::new(), false);
    let mut object = Reader::new(raw);
    while let Some(field) = object.next()? {
        let (1, Value::Bytes(metadata)) = (field.number, field.value) else { continue };
        let mut metadata = Reader::new(metadata);
        while let Some(field) = metadata.next()? {
            match (field.number, field.value) {
                (6, Value::Bytes(text)) => {
                    resource_version = String::from_utf8_lossy(text).into_owned();
                }
                (12, Value::Bytes(entry)) => ends_initial_events |= is_end_of_initial(entry)?,
                _ => {}
            }
        }
    }
    Ok(Frame::Bookmark { resource_version, ends_initial_events })
}

fn is_end_of_initial(entry: &[u8]) -> Result<bool, ProtobufError> {
    let (mut is_key, mut is_true) = (false, false);
    let mut entry = Reader::new(entry);
    while let Some(field) = entry.next()? {
        match (field.number, field.value) {
            (1, Value::Bytes(key)) => is_key = key == INITIAL_EVENTS_END.as_bytes(),
            (2, Value::Bytes(value)) => is_true = value == b"true",
            _ => {}
        }
    }
    Ok(is_key && is_true)
}
