//! From bytes of lists and watches to objects, in either encoding.
//!
//! Invariants: one bad object does not fail its list or its watch; nothing here panics on any input; an object is the
//! same in whichever encoding it came.

mod json;
mod protobuf;

use kube_scheduler_api_types::Pod;
use kube_scheduler_engine::WatchedKey as Key;
use kube_scheduler_framework::EventObject;

use crate::kinds::{Retention, WatchedKind};
use crate::transport::Encoding;

/// Bytes that are no object, or not the expected one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct MalformedObject {
    /// Which object, as far as it can be read.
    pub(crate) key: Option<Key>,
    /// What is wrong.
    pub(crate) text: String,
}

impl MalformedObject {
    /// Something that is no single object.
    pub(super) fn whole(what: &str, error: impl std::fmt::Display) -> Self {
        Self { key: None, text: format!("{what} is not readable: {error}") }
    }
}

/// What a list says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListEnd {
    pub(crate) resource_version: String,
    /// Where the next page begins; empty after the last.
    pub(crate) next: String,
}

/// One frame of a watch.
#[derive(Debug)]
pub(crate) enum Frame {
    /// The object exists in this state.
    Applied(Result<EventObject, MalformedObject>),
    /// The object is gone.
    Deleted(Result<EventObject, MalformedObject>),
    /// Everything up to this version was sent.
    Bookmark {
        resource_version: String,
        /// Whether what existed at the beginning was all sent.
        ends_initial_events: bool,
    },
    /// The watch failed.
    Error { code: u16, message: String },
}

/// Marks the bookmark behind the last initial event.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Reads one item of a list.
pub(super) fn item(
    encoding: Encoding,
    kind: &WatchedKind,
    bytes: &[u8],
) -> Result<EventObject, MalformedObject> {
    match encoding {
        Encoding::Json => json::object(kind, bytes),
        Encoding::Protobuf => protobuf::object(kind, bytes),
    }
}

/// Reads one frame of a watch; `None` for one without content.
pub(super) fn frame(
    encoding: Encoding,
    kind: &WatchedKind,
    bytes: &[u8],
) -> Result<Option<Frame>, MalformedObject> {
    match encoding {
        Encoding::Json => json::frame(kind, bytes),
        Encoding::Protobuf => protobuf::frame(kind, bytes),
    }
}

/// Reads what is left of a list in JSON without its items.
pub(super) fn json_list_end(bytes: &[u8]) -> Result<ListEnd, MalformedObject> {
    json::list_end(bytes)
}

/// Reads the metadata of a list in protobuf.
pub(super) fn protobuf_list_end(bytes: &[u8]) -> Result<ListEnd, MalformedObject> {
    protobuf::list_end(bytes)
}

/// Whether a pod is to be kept in full.
fn is_kept(keep: Retention, pod: &Pod) -> bool {
    keep == Retention::All || (keep == Retention::Pending && !pod.is_assigned())
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::CompileOptions;

    use super::super::items::{Items, NextItem};
    use super::*;
    use crate::transport::envelope::Message;

    fn list(
        kind: &WatchedKind,
        body: &[u8],
    ) -> (Vec<Result<EventObject, MalformedObject>>, ListEnd) {
        let mut items = Items::new(Encoding::Json, kind.kind);
        items.push(body);
        let mut found = Vec::new();
        while let NextItem::Item(bytes) = items.next().unwrap() {
            found.push(item(Encoding::Json, kind, bytes));
        }
        (found, items.finish().unwrap())
    }

    #[test]
    fn one_bad_item_spoils_no_list() {
        let body = br#"{"metadata":{"resourceVersion":"7","continue":"abc"},"items":[
            {"metadata":{"name":"a","namespace":"x","uid":"1","resourceVersion":"5"}},
            {"metadata":{"name":"b","namespace":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1Q"}}}]}}]}"#;
        let (items, end) = list(&WatchedKind::pods(), body);
        assert_eq!((end.resource_version.as_str(), end.next.as_str()), ("7", "abc"));
        assert_eq!(items[0].as_ref().unwrap().key(), ("x".into(), "a".into()));
        let bad = items[1].as_ref().unwrap_err();
        assert_eq!(bad.key, Some(("x".into(), "b".into())));
        assert!(bad.text.contains("cpu"), "{}", bad.text);
    }

    #[test]
    fn pods_are_read_under_the_gates_of_their_kind() {
        let json = br#"{"metadata":{"name":"p"},"spec":{"resources":{"requests":{"cpu":"2"}}}}"#;
        let entry = Message::default().text(1, "cpu").message(2, &Message::default().text(1, "2"));
        let spec = Message::default().message(40, &Message::default().message(2, &entry));
        let metadata = Message::default().text(1, "p");
        let protobuf = Message::default().message(1, &metadata).message(2, &spec).into_bytes();
        let cpu = |options: CompileOptions, encoding, bytes: &[u8]| {
            let kind = WatchedKind::pods().reading_pods(options);
            match item(encoding, &kind, bytes) {
                Ok(EventObject::Pod(pod)) => pod.requests.fit.milli_cpu,
                other => panic!("{other:?}"),
            }
        };
        let mut options = CompileOptions::default();
        assert_eq!(cpu(options, Encoding::Json, json), 2000);
        assert_eq!(cpu(options, Encoding::Protobuf, &protobuf), 2000);
        options.pod_level_resources = false;
        assert_eq!(cpu(options, Encoding::Json, json), 0);
        assert_eq!(cpu(options, Encoding::Protobuf, &protobuf), 0);
    }

    #[test]
    fn objects_are_kept_in_full_where_they_are_asked_for() {
        let pods = [
            r#"{"metadata":{"name":"a","uid":"1"},"spec":{"containers":[{"env":[{"name":"X"}]}]}}"#,
            r#"{"metadata":{"name":"b","uid":"2"},"spec":{"nodeName":"n"}}"#,
        ];
        let body = format!(r#"{{"metadata":{{}},"items":[{}]}}"#, pods.join(","));
        let kept = |keep| {
            let (items, _) =
                list(&WatchedKind::pods().keeping(keep, Retention::All), body.as_bytes());
            let is_kept = |item: Result<EventObject, MalformedObject>| match item {
                Ok(EventObject::Pod(pod)) => pod.source.is_some(),
                _ => panic!(),
            };
            items.into_iter().map(is_kept).collect::<Vec<_>>()
        };
        assert_eq!(kept(Retention::Nothing), [false, false]);
        assert_eq!(kept(Retention::Pending), [true, false]);
        assert_eq!(kept(Retention::All), [true, true]);
        let nodes = WatchedKind::nodes().keeping(Retention::Nothing, Retention::All);
        let body = br#"{"metadata":{},"items":[{"metadata":{"name":"n"},"spec":{"podCIDR":"x"}}]}"#;
        let (items, _) = list(&nodes, body);
        let Ok(EventObject::Node(node)) = &items[0] else { panic!() };
        let source = node.source.as_ref().unwrap().json();
        assert_eq!(source, r#"{"metadata":{"name":"n"},"spec":{"podCIDR":"x"},"status":{}}"#);
    }

    #[test]
    fn frames_are_distinguished() {
        let kind = WatchedKind::nodes();
        let read = |text: &str| frame(Encoding::Json, &kind, text.as_bytes());
        let node = r#"{"type":"ADDED","object":{"metadata":{"name":"n","uid":"1","resourceVersion":"5"}}}"#;
        assert!(matches!(read(node), Ok(Some(Frame::Applied(Ok(EventObject::Node(_)))))));
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
        let (items, _) = list(&kind, br#"{"metadata":{},"items":[{"metadata":{"name":"n"}}]}"#);
        let Ok(EventObject::Other(object)) = &items[0] else { panic!() };
        assert_eq!(
            (&*object.kind, &*object.group, &*object.version),
            ("CSINode", "storage.k8s.io", "v1")
        );
    }

    /// A watch event in protobuf.
    fn event(what: &str, object: Message, kind: &str) -> Vec<u8> {
        let raw = Message::from(object.seal("v1", kind));
        let extension = Message::default().message(1, &raw);
        Message::default().text(1, what).message(2, &extension).into_bytes()
    }

    #[test]
    fn frames_in_protobuf_are_distinguished() {
        let kind = WatchedKind::nodes();
        let read = |bytes: &[u8]| frame(Encoding::Protobuf, &kind, bytes);
        let node = |name: &str| {
            Message::default().message(1, &Message::default().text(1, name).text(6, "5"))
        };
        let added = event("ADDED", node("n"), "Node");
        let Ok(Some(Frame::Applied(Ok(EventObject::Node(read_node))))) = read(&added) else {
            panic!()
        };
        assert_eq!((&*read_node.name, &*read_node.resource_version), ("n", "5"));
        let deleted = event("DELETED", node("n"), "Node");
        assert!(matches!(read(&deleted), Ok(Some(Frame::Deleted(Ok(_))))));
        assert!(matches!(read(&event("NEWS", node("n"), "Node")), Ok(None)));

        let entry = Message::default().text(1, "k8s.io/initial-events-end").text(2, "true");
        let metadata = Message::default().text(6, "9").message(12, &entry);
        let bookmark = event("BOOKMARK", Message::default().message(1, &metadata), "Node");
        let Ok(Some(Frame::Bookmark { resource_version, ends_initial_events })) = read(&bookmark)
        else {
            panic!()
        };
        assert_eq!((resource_version.as_str(), ends_initial_events), ("9", true));

        let status = Message::default().text(3, "too old").integer(6, 410);
        let gone = read(&event("ERROR", status, "Status"));
        let Ok(Some(Frame::Error { code: 410, message })) = gone else { panic!("{gone:?}") };
        assert_eq!(message, "too old");

        let Ok(Some(Frame::Applied(Err(bad)))) = read(&event("ADDED", node(""), "Node")) else {
            panic!()
        };
        assert_eq!(bad.text, "the object has no name");
        let Ok(Some(Frame::Applied(Err(bad)))) = read(&event("ADDED", node("n"), "Pod")) else {
            panic!()
        };
        assert_eq!(bad.text, r#"expected "Node", found "Pod""#);
        assert!(read(b"\x0a\x7f").is_err());
        assert!(read(&Message::default().text(1, "ADDED").into_bytes()).is_err());
    }

    #[test]
    fn a_bad_object_in_protobuf_is_named() {
        let quantity = Message::default().text(1, "1Q");
        let entry = Message::default().text(1, "cpu").message(2, &quantity);
        let resources = Message::default().message(2, &entry);
        let container = Message::default().message(8, &resources);
        let metadata = Message::default().text(1, "b").text(3, "x");
        let spec = Message::default().message(2, &container);
        let pod = Message::default().message(1, &metadata).message(2, &spec).into_bytes();
        let bad = item(Encoding::Protobuf, &WatchedKind::pods(), &pod).unwrap_err();
        assert_eq!(bad.key, Some(("x".into(), "b".into())));
        assert!(
            bad.text.starts_with("pod x/b: spec.containers[0].resources.requests[cpu]: "),
            "{}",
            bad.text
        );
    }
}
