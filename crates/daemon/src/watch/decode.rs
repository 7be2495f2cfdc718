//! From bytes of lists and watches to objects: the seam behind which other encodings than JSON come in.
//!
//! Invariants: one bad object spoils neither its list nor its watch; nothing here panics on any input.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Source};
use kube_scheduler_engine::{Followed, FollowedKey as Key};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::kinds::{Form, Keep, WatchedKind};

/// Bytes that are no object, or not the expected one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Malformed {
    /// Which object, as far as that can be told.
    pub(crate) key: Option<Key>,
    /// What is wrong.
    pub(crate) text: String,
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Result<Followed, Malformed>>,
    pub(crate) resource_version: String,
    /// Where the next page begins; empty after the last.
    pub(crate) next: String,
}

/// One frame of a watch.
#[derive(Debug)]
pub(crate) enum Frame {
    /// The object exists in this state.
    Applied(Result<Followed, Malformed>),
    /// The object is gone.
    Deleted(Result<Followed, Malformed>),
    /// Everything up to this version was sent.
    Bookmark {
        resource_version: String,
        /// Whether what existed at the beginning was all sent.
        ends_initial_events: bool,
    },
    /// The watch failed.
    Error { code: u16, message: String },
}

/// Reads an encoding of lists and watches.
pub(crate) trait Decode: Send + Sync {
    /// What to ask for.
    fn accept(&self) -> &'static str;

    /// Reads one page of a list.
    fn page(&self, kind: &WatchedKind, body: &[u8]) -> Result<Page, Malformed>;

    /// Where the first frame of a watch's bytes ends and the next begins; `None` when it is incomplete. Of `bytes`, so
    /// many were `searched` before.
    fn frame_end(&self, bytes: &[u8], searched: usize) -> Option<usize>;

    /// Reads one frame; `None` for one without content.
    fn frame(&self, kind: &WatchedKind, bytes: &[u8]) -> Result<Option<Frame>, Malformed>;
}

/// JSON, a line per frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
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
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
}

impl Decode for Json {
    fn accept(&self) -> &'static str {
        "application/json"
    }

    fn page(&self, kind: &WatchedKind, body: &[u8]) -> Result<Page, Malformed> {
        let list: List<'_> =
            serde_json::from_slice(body).map_err(|error| unreadable("list", &error))?;
        Ok(Page {
            items: list
                .items
                .unwrap_or_default()
                .into_iter()
                .map(|item| object(kind, item.get()))
                .collect(),
            resource_version: list.metadata.resource_version,
            next: list.metadata.next.unwrap_or_default(),
        })
    }

    fn frame_end(&self, bytes: &[u8], searched: usize) -> Option<usize> {
        let at = bytes.get(searched..)?.iter().position(|&byte| byte == b'\n')?;
        Some(searched + at + 1)
    }

    fn frame(&self, kind: &WatchedKind, bytes: &[u8]) -> Result<Option<Frame>, Malformed> {
        if bytes.trim_ascii().is_empty() {
            return Ok(None);
        }
        let line: WatchLine<'_> =
            serde_json::from_slice(bytes).map_err(|error| unreadable("watch event", &error))?;
        let text = line.object.get();
        Ok(Some(match line.what {
            "ADDED" | "MODIFIED" => Frame::Applied(object(kind, text)),
            "DELETED" => Frame::Deleted(object(kind, text)),
            "BOOKMARK" => {
                let header: Header =
                    serde_json::from_str(text).map_err(|error| unreadable("bookmark", &error))?;
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
            // Types that do not exist yet are not ours to judge.
            _ => return Ok(None),
        }))
    }
}

fn unreadable(what: &str, error: &serde_json::Error) -> Malformed {
    Malformed { key: None, text: format!("{what} is not readable: {error}") }
}

fn object(kind: &WatchedKind, text: &str) -> Result<Followed, Malformed> {
    let read = match kind.form {
        Form::Pod => pod(kind, text).map(|pod| Followed::Pod(Arc::new(pod))),
        Form::Node => node(kind, text).map(|node| Followed::Node(Arc::new(node))),
        Form::Generic => generic(kind, text).map(|object| Followed::Other(Arc::new(object))),
    };
    let refused = |text: String, header: &str| {
        let header: Header = serde_json::from_str(header).unwrap_or_default();
        let key = header
            .metadata
            .name
            .map(|name| (header.metadata.namespace.unwrap_or_default().into(), name.into()));
        Malformed { key, text }
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
    let mut pod = Pod::from_json(text).map_err(|error| error.to_string())?;
    if kind.keep == Keep::All || (kind.keep == Keep::Pending && !pod.is_assigned()) {
        let source = Source::of_pod(text).map_err(|error| error.to_string())?;
        pod.source = Some(Arc::new(source));
    }
    Ok(pod)
}

fn node(kind: &WatchedKind, text: &str) -> Result<Node, String> {
    let mut node = Node::from_json(text).map_err(|error| error.to_string())?;
    if kind.keep == Keep::All {
        let source = Source::of_node(text).map_err(|error| error.to_string())?;
        node.source = Some(Arc::new(source));
    }
    Ok(node)
}

/// Items of lists may leave out what the list says already.
fn generic(kind: &WatchedKind, text: &str) -> Result<Object, String> {
    let mut value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Some(members) = value.as_object_mut() else {
        return Err("an object is expected".to_owned());
    };
    members.entry("apiVersion").or_insert_with(|| kind.api_version.as_str().into());
    if !kind.kind.is_empty() {
        members.entry("kind").or_insert_with(|| kind.kind.into());
    }
    if let Some(metadata) = members.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Object::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_item_spoils_no_list() {
        let body = br#"{"metadata":{"resourceVersion":"7","continue":"abc"},"items":[
            {"metadata":{"name":"a","namespace":"x","uid":"1","resourceVersion":"5"}},
            {"metadata":{"name":"b","namespace":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1Q"}}}]}}]}"#;
        let page = Json.page(&WatchedKind::pods(), body).unwrap();
        assert_eq!((page.resource_version.as_str(), page.next.as_str()), ("7", "abc"));
        assert_eq!(page.items[0].as_ref().unwrap().key(), ("x".into(), "a".into()));
        let bad = page.items[1].as_ref().unwrap_err();
        assert_eq!(bad.key, Some(("x".into(), "b".into())));
        assert!(bad.text.contains("cpu"), "{}", bad.text);
    }

    #[test]
    fn objects_are_kept_in_full_where_they_are_asked_for() {
        let pods = [
            r#"{"metadata":{"name":"a","uid":"1"},"spec":{"containers":[{"env":[{"name":"X"}]}]}}"#,
            r#"{"metadata":{"name":"b","uid":"2"},"spec":{"nodeName":"n"}}"#,
        ];
        let body = format!(r#"{{"metadata":{{}},"items":[{}]}}"#, pods.join(","));
        let kept = |keep| {
            let page = Json.page(&WatchedKind::pods().keeping(keep, Keep::All), body.as_bytes());
            let is_kept = |item: Result<Followed, Malformed>| match item {
                Ok(Followed::Pod(pod)) => pod.source.is_some(),
                _ => panic!(),
            };
            page.unwrap().items.into_iter().map(is_kept).collect::<Vec<_>>()
        };
        assert_eq!(kept(Keep::Nothing), [false, false]);
        assert_eq!(kept(Keep::Pending), [true, false]);
        assert_eq!(kept(Keep::All), [true, true]);
        let nodes = WatchedKind::nodes().keeping(Keep::Nothing, Keep::All);
        let body = br#"{"metadata":{},"items":[{"metadata":{"name":"n"},"spec":{"podCIDR":"x"}}]}"#;
        let page = Json.page(&nodes, body).unwrap();
        let Ok(Followed::Node(node)) = &page.items[0] else { panic!() };
        let source = node.source.as_ref().unwrap().json();
        assert_eq!(source, r#"{"metadata":{"name":"n"},"spec":{"podCIDR":"x"},"status":{}}"#);
    }

    #[test]
    fn lists_without_items_are_empty() {
        for body in
            [&br#"{"metadata":{"resourceVersion":"1"},"items":null}"#[..], br#"{"metadata":{}}"#]
        {
            assert!(Json.page(&WatchedKind::nodes(), body).unwrap().items.is_empty());
        }
        assert!(Json.page(&WatchedKind::nodes(), b"<html>").is_err());
    }

    #[test]
    fn frames_are_told_apart() {
        let kind = WatchedKind::nodes();
        let read = |text: &str| Json.frame(&kind, text.as_bytes());
        let node = r#"{"type":"ADDED","object":{"metadata":{"name":"n","uid":"1","resourceVersion":"5"}}}"#;
        assert!(matches!(read(node), Ok(Some(Frame::Applied(Ok(Followed::Node(_)))))));
        assert!(matches!(read(&node.replace("ADDED", "DELETED")), Ok(Some(Frame::Deleted(Ok(_))))));
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9",
            "annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let Ok(Some(Frame::Bookmark { resource_version, ends_initial_events })) = read(bookmark)
        else {
            panic!()
        };
        assert_eq!((resource_version.as_str(), ends_initial_events), ("9", true));
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        assert!(matches!(read(gone), Ok(Some(Frame::Error { code: 410, .. }))));
        assert!(matches!(read(" \n"), Ok(None)));
        assert!(read("{\"type\":").is_err());
        assert!(matches!(
            read(r#"{"type":"ADDED","object":{}}"#),
            Ok(Some(Frame::Applied(Err(_))))
        ));
    }

    #[test]
    fn items_of_generic_lists_learn_their_kind() {
        let kind = WatchedKind::all_for(["storage.k8s.io/CSINode"]).pop().unwrap();
        let page =
            Json.page(&kind, br#"{"metadata":{},"items":[{"metadata":{"name":"n"}}]}"#).unwrap();
        let Ok(Followed::Other(object)) = &page.items[0] else { panic!() };
        assert_eq!(
            (&*object.kind, &*object.group, &*object.version),
            ("CSINode", "storage.k8s.io", "v1")
        );
    }
}
