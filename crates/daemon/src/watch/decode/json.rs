//! JSON, a line per frame of a watch.

use std::sync::Arc;

use kube_scheduler_api_types::{Json, Node, Object, Pod, Source};
use kube_scheduler_framework::EventObject;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Frame, ListEnd, MalformedObject, is_kept};
use crate::kinds::{Form, Retention, WatchedKind};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
}

#[derive(Deserialize)]
struct WatchLine<'a> {
    #[serde(rename = "type")]
    what: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Header {
    metadata: Meta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    namespace: Option<String>,
    name: Option<String>,
    resource_version: String,
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    // The same text as INITIAL_EVENTS_END.
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
}

/// What a list says about itself; its items may be left out.
pub(super) fn list_end(bytes: &[u8]) -> Result<ListEnd, MalformedObject> {
    let list: List =
        serde_json::from_slice(bytes).map_err(|error| MalformedObject::whole("list", error))?;
    let ListMeta { resource_version, next } = list.metadata;
    Ok(ListEnd { resource_version, next: next.unwrap_or_default() })
}

/// Reads one line.
pub(super) fn frame(kind: &WatchedKind, bytes: &[u8]) -> Result<Option<Frame>, MalformedObject> {
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    let line: WatchLine<'_> = serde_json::from_slice(bytes)
        .map_err(|error| MalformedObject::whole("watch event", error))?;
    let text = line.object.get();
    Ok(Some(match line.what {
        "ADDED" | "MODIFIED" => Frame::Applied(object(kind, text.as_bytes())),
        "DELETED" => Frame::Deleted(object(kind, text.as_bytes())),
        "BOOKMARK" => {
            let header: Header = serde_json::from_str(text)
                .map_err(|error| MalformedObject::whole("bookmark", error))?;
            let annotations = header.metadata.annotations.unwrap_or_default();
            Frame::Bookmark {
                resource_version: header.metadata.resource_version,
                ends_initial_events: annotations.initial_events_end.as_deref() == Some("true"),
            }
        }
        "ERROR" => {
            let status: Status = serde_json::from_str(text).unwrap_or_default();
            Frame::Error { code: status.code, message: status.message }
        }
        // Types of events that later versions may add are ignored.
        _ => return Ok(None),
    }))
}

/// Reads one object.
pub(super) fn object(kind: &WatchedKind, bytes: &[u8]) -> Result<EventObject, MalformedObject> {
    let text = str::from_utf8(bytes).map_err(|error| MalformedObject::whole("object", error))?;
    let read = match kind.form {
        Form::Pod => pod(kind, text).map(|pod| EventObject::Pod(Arc::new(pod))),
        Form::Node => node(kind, text).map(|node| EventObject::Node(Arc::new(node))),
        Form::Generic => generic(kind, text).map(|object| EventObject::Other(Arc::new(object))),
    };
    let refused = |text: String, header: &str| {
        let header: Header = serde_json::from_str(header).unwrap_or_default();
        let key = header
            .metadata
            .name
            .map(|name| (header.metadata.namespace.unwrap_or_default().into(), name.into()));
        MalformedObject { key, text }
    };
    match read {
        Ok(object) if object.key().1.is_empty() => {
            Err(refused("the object has no name".to_owned(), text))
        }
        Ok(object) => Ok(object),
        Err(error) => Err(refused(error, text)),
    }
}

fn pod(kind: &WatchedKind, text: &str) -> Result<Pod, String> {
    let mut pod =
        Pod::from_json_with(text, &kind.pod_options).map_err(|error| error.to_string())?;
    if is_kept(kind.keep, &pod) {
        let source = Source::of_pod(text).map_err(|error| error.to_string())?;
        pod.source = Some(Arc::new(source));
    }
    Ok(pod)
}

fn node(kind: &WatchedKind, text: &str) -> Result<Node, String> {
    let mut node = Node::from_json(text).map_err(|error| error.to_string())?;
    if kind.keep == Retention::All {
        let source = Source::of_node(text).map_err(|error| error.to_string())?;
        node.source = Some(Arc::new(source));
    }
    Ok(node)
}

/// Items of lists may leave out what the list says already.
fn generic(kind: &WatchedKind, text: &str) -> Result<Object, String> {
    let mut json: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Some(fields) = json.as_object() else {
        return Err("an object is expected".to_owned());
    };
    let lacks = |name: &str| fields.get(name).is_none();
    let (lacks_version, lacks_kind) = (lacks("apiVersion"), lacks("kind"));
    if lacks_version {
        json.set(&["apiVersion"], kind.api_version.as_str().into());
    }
    if lacks_kind && !kind.kind.is_empty() {
        json.set(&["kind"], kind.kind.into());
    }
    json.remove(&["metadata", "managedFields"]);
    Object::from_value(json).map_err(|error| error.to_string())
}
