//! What comes from the API server.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_daemon::fuzzing;
use kube_scheduler_engine::Input;

use super::engine::SmallCluster;

/// The first byte chooses encoding and kind, the second the sizes of the chunks in which the rest arrives.
pub(super) fn watch(bytes: &[u8]) {
    if let [how, size, rest @ ..] = bytes {
        fuzzing::watch(*how, usize::from(*size), rest);
    }
}

/// As [`watch`], for a list.
pub(super) fn list(bytes: &[u8]) {
    if let [how, size, rest @ ..] = bytes {
        fuzzing::list(*how, usize::from(*size), rest);
    }
}

/// The first byte chooses the encoding. The pod comes, is tried, and goes, and leaves nothing behind.
pub(super) fn pod(bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    let decoded = if how % 2 == 0 { Pod::from_json(rest) } else { Pod::from_protobuf(rest) };
    let Ok(pod) = decoded else { return };
    SmallCluster::new().comes_and_goes(Input::PodApplied(Arc::new(pod)));
}

/// As [`pod`], for a node.
pub(super) fn node(bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    let decoded = if how % 2 == 0 { Node::from_json(rest) } else { Node::from_protobuf(rest) };
    let Ok(node) = decoded else { return };
    SmallCluster::new().comes_and_goes(Input::NodeApplied(Arc::new(node)));
}

/// As [`pod`], for an object of any other kind, or a list of objects that come together.
pub(super) fn object(bytes: &[u8]) {
    let mut cluster = SmallCluster::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(object) = Object::from_json(line) {
            cluster.apply(Input::ObjectApplied(Arc::new(object)));
        }
    }
    cluster.comes_and_goes(Input::TimePassed);
}
