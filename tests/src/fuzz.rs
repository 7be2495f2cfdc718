//! Fuzz targets: functions that take any bytes and panic if something that must hold does not.
//!
//! `cargo xtask fuzz` lets a coverage-guided fuzzer look for such bytes; the package in `fuzz/` is the program that it
//! runs. What it kept, and every input that once failed, is in `tests/data/fuzz`, a folder per target, and is replayed as
//! an ordinary test.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic is how a target reports a finding")]

mod engine;
mod http;
mod objects;
mod questions;
mod texts;

/// Something to be fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name on the command line, and of the folder with its inputs.
    pub name: &'static str,
    /// What is read or run.
    pub about: &'static str,
    /// Panics if the bytes break something. Each call must be a function of the bytes alone.
    pub run: fn(&[u8]),
}

/// All targets, cheap ones first.
pub const TARGETS: [Target; 15] = [
    Target { name: "quantity", about: "quantities as text", run: texts::quantity },
    Target { name: "selector", about: "label and field selectors", run: texts::selector },
    Target { name: "cel", about: "expressions that select devices", run: texts::cel },
    Target { name: "config", about: "KubeSchedulerConfiguration", run: texts::config },
    Target { name: "manifests", about: "manifests to simulate", run: texts::manifests },
    Target { name: "trace", about: "traces of nodes and pods in CSV", run: texts::trace },
    Target { name: "watch", about: "frames of watches in both encodings", run: objects::watch },
    Target { name: "list", about: "lists in both encodings", run: objects::list },
    Target { name: "pod", about: "pods in both encodings, scheduled", run: objects::pod },
    Target { name: "node", about: "nodes in both encodings, used", run: objects::node },
    Target { name: "object", about: "objects of all other kinds, used", run: objects::object },
    Target {
        name: "question",
        about: "questions of all kinds, answered",
        run: questions::question,
    },
    Target {
        name: "devcluster",
        about: "requests to the embedded API server",
        run: http::devcluster,
    },
    Target { name: "secure-port", about: "requests to the secure port", run: http::secure_port },
    Target { name: "history", about: "histories of the engine", run: engine::history },
];

/// The target of this name. A program that looks it up at compile time contains that target alone.
pub const fn target(name: &str) -> Option<Target> {
    let mut at = 0;
    while at < TARGETS.len() {
        if is_same(TARGETS[at].name, name) {
            return Some(TARGETS[at]);
        }
        at += 1;
    }
    None
}

/// `==`, which cannot be evaluated at compile time.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
