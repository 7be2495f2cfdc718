//! Objects and lists as bytes, in the form that the client accepts.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::{Form, PROTOBUF};
use crate::body::Body;
use crate::forms;
use crate::kinds::KindId;
use crate::object::{StoredObject, metadata_only};
use crate::protobuf::encode as protobuf;
use crate::response::to_bytes;
use crate::status::StatusError;
use crate::store::Listing;
use crate::table::{self, IncludeObject};

/// Large lists are sent in pieces of about this many bytes.
const CHUNK: usize = 64 * 1024;

/// How the objects of a response are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    pub(crate) kind: KindId,
    pub(crate) form: Form,
    pub(crate) include: IncludeObject,
    pub(crate) now: Timestamp,
}

impl Encoding {
    /// One object.
    pub(crate) fn object(&self, object: &StoredObject) -> Bytes {
        match self.form {
            Form::Json if self.kind == self.kind.storage() => object.json().clone(),
            Form::Json => to_bytes(&forms::served(self.kind, object.value())),
            Form::Protobuf => self.enveloped(&object.value()),
            Form::Metadata => to_bytes(&metadata_only(&object.value())),
            Form::Table => {
                let table = table::render(self.kind, &[object], self.include, self.now);
                to_bytes(&with_list_meta(table, object.resource_version()))
            }
        }
    }

    /// A list.
    pub(crate) fn list(self, listing: Listing, continue_token: Option<String>) -> Body {
        let mut meta = json!({"resourceVersion": listing.resource_version.to_string()});
        if let Some(token) = continue_token {
            meta["continue"] = token.into();
        }
        if let Some(remaining) = listing.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        if self.form == Form::Table {
            let objects: Vec<&StoredObject> = listing.items.iter().map(AsRef::as_ref).collect();
            let mut table = table::render(self.kind, &objects, self.include, self.now);
            table["metadata"] = meta;
            return Body::whole(to_bytes(&table));
        }
        if self.form == Form::Protobuf {
            return self.protobuf_list(&listing, &meta);
        }
        let (kind, api_version) = match self.form {
            Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            _ => (format!("{}List", self.kind.get().kind), self.kind.get().api_version()),
        };
        let head = format!(
            r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{meta},"items":["#
        );
        // A short list is sent with its length; a long one in pieces, so that it is never in memory as a whole.
        if listing.items.len() < 16 {
            let mut buffer = BytesMut::from(head.as_bytes());
            for (index, item) in listing.items.iter().enumerate() {
                if index > 0 {
                    buffer.put_u8(b',');
                }
                buffer.extend_from_slice(&self.object(item));
            }
            buffer.extend_from_slice(b"]}\n");
            return Body::whole(buffer.freeze());
        }
        Body::Chunks(Box::new(ListChunks {
            encoding: self,
            items: listing.items,
            at: 0,
            head: Some(head),
            done: false,
        }))
    }

    /// The media type of a list.
    pub(crate) const fn list_type(&self) -> &'static str {
        match self.form {
            Form::Protobuf => PROTOBUF,
            _ => "application/json",
        }
    }

    /// The media type of a watch.
    pub(crate) const fn watch_type(&self) -> &'static str {
        match self.form {
            Form::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => "application/json",
        }
    }

    fn enveloped(&self, object: &Value) -> Bytes {
        let kind = self.kind.get();
        let message = protobuf::message(kind.kind, object);
        protobuf::enveloped(&kind.api_version(), kind.kind, &message).into()
    }

    fn protobuf_list(&self, listing: &Listing, meta: &Value) -> Body {
        let kind = self.kind.get();
        let mut list = Vec::new();
        protobuf::put_bytes(&mut list, 1, &protobuf::message("ListMeta", meta));
        for item in &listing.items {
            protobuf::put_bytes(&mut list, 2, &protobuf::message(kind.kind, &item.value()));
        }
        let list_kind = format!("{}List", kind.kind);
        let whole: Bytes = protobuf::enveloped(&kind.api_version(), &list_kind, &list).into();
        let mut at = 0;
        Body::Chunks(Box::new(std::iter::from_fn(move || {
            let chunk = whole.slice(at..(at + CHUNK).min(whole.len()));
            at += chunk.len();
            (!chunk.is_empty()).then_some(chunk)
        })))
    }

    /// One message of a watch, preceded by its length.
    fn protobuf_event(buffer: &mut BytesMut, event_type: &str, enveloped: &[u8]) {
        let (mut extension, mut event) = (Vec::new(), Vec::new());
        protobuf::put_bytes(&mut extension, 1, enveloped);
        protobuf::put_bytes(&mut event, 1, event_type.as_bytes());
        protobuf::put_bytes(&mut event, 2, &extension);
        buffer.put_u32(u32::try_from(event.len()).unwrap_or(u32::MAX));
        buffer.extend_from_slice(&event);
    }

    /// The error that ends a watch.
    pub(crate) fn error(&self, buffer: &mut BytesMut, error: &StatusError) {
        let status = error.to_value();
        if self.form == Form::Protobuf {
            let message = protobuf::message("Status", &status);
            let enveloped = protobuf::enveloped("v1", "Status", &message);
            return Self::protobuf_event(buffer, "ERROR", &enveloped);
        }
        buffer.extend_from_slice(b"{\"type\":\"ERROR\",\"object\":");
        buffer.extend_from_slice(&to_bytes(&status));
        buffer.put_slice(b"}\n");
    }

    /// One line of a watch.
    pub(crate) fn event(&self, buffer: &mut BytesMut, event_type: &str, object: &StoredObject) {
        if self.form == Form::Protobuf {
            return Self::protobuf_event(buffer, event_type, &self.object(object));
        }
        buffer.extend_from_slice(b"{\"type\":\"");
        buffer.extend_from_slice(event_type.as_bytes());
        buffer.extend_from_slice(b"\",\"object\":");
        buffer.extend_from_slice(&self.object(object));
        buffer.extend_from_slice(b"}\n");
    }

    /// A bookmark; `initial_end` marks the end of the initial events.
    pub(crate) fn bookmark(&self, buffer: &mut BytesMut, version: u64, initial_end: bool) {
        let mut meta = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if initial_end {
            meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let entry = self.kind.get();
        let object = match self.form {
            Form::Protobuf => {
                let object = self.enveloped(&json!({"metadata": meta}));
                return Self::protobuf_event(buffer, "BOOKMARK", &object);
            }
            Form::Json => {
                json!({"kind": entry.kind, "apiVersion": entry.api_version(), "metadata": meta})
            }
            Form::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
            }),
            Form::Table => {
                let row = json!({
                    "cells": [],
                    "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta},
                });
                json!({
                    "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": version.to_string()}, "columnDefinitions": [], "rows": [row],
                })
            }
        };
        let line = json!({"type": "BOOKMARK", "object": object});
        buffer.extend_from_slice(&to_bytes(&line));
        buffer.put_u8(b'\n');
    }
}

struct ListChunks {
    encoding: Encoding,
    items: Vec<Arc<StoredObject>>,
    at: usize,
    head: Option<String>,
    done: bool,
}

impl Iterator for ListChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut buffer = BytesMut::with_capacity(CHUNK + CHUNK / 8);
        if let Some(head) = self.head.take() {
            buffer.extend_from_slice(head.as_bytes());
        }
        while let Some(item) = self.items.get(self.at) {
            if self.at > 0 {
                buffer.put_u8(b',');
            }
            buffer.extend_from_slice(&self.encoding.object(item));
            self.at += 1;
            if buffer.len() >= CHUNK {
                return Some(buffer.freeze());
            }
        }
        self.done = true;
        buffer.extend_from_slice(b"]}\n");
        Some(buffer.freeze())
    }
}

fn with_list_meta(mut table: Value, version: u64) -> Value {
    table["metadata"] = json!({"resourceVersion": version.to_string()});
    table
}
