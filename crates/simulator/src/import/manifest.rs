//! Parses manifests: documents of YAML or JSON, with lists expanded.
//!
//! A text whose first character is `{` is JSON, any other text is YAML. Invariant: for every text, parsing is bounded in
//! depth, aliases and replays. It is not bounded in size, because a dump of a large cluster is large.

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_workloads::json::group_and_kind;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::error::{ImportError, SourceLocation};

const MAX_DEPTH: usize = 128;
const MAX_ALIASES: usize = 50_000;

/// One object of the input.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) place: SourceLocation,
    /// The number of its text, if lines can be looked up in it.
    pub(super) text: Option<usize>,
    /// Where in the object at `place` this one's template is, if a controller would create it; empty if it is there itself.
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    /// Whether it is part of the question, not of the cluster.
    pub(super) is_asked: bool,
    /// When a pod of a trace is deleted.
    pub(super) ends: Option<Timestamp>,
}

impl Document {
    /// The API group, empty for the core group, and the kind.
    pub(super) fn group_and_kind(&self) -> (String, String) {
        let (group, kind) = group_and_kind(&self.value);
        (group.to_owned(), kind.to_owned())
    }

    /// Whether the object is of this API group and kind.
    pub(super) fn is_of(&self, group: &str, kind: &str) -> bool {
        self.group_and_kind() == (group.to_owned(), kind.to_owned())
    }

    /// The namespace, empty for cluster-wide kinds, and the name.
    pub(super) fn namespace_and_name(&self) -> (String, String) {
        (self.text_at("/metadata/namespace").to_owned(), self.text_at("/metadata/name").to_owned())
    }

    pub(super) fn is_node_or_pod(&self) -> bool {
        self.is_of("", "Node") || self.is_of("", "Pod")
    }

    /// What no two objects of one cluster have in common.
    pub(super) fn identity(&self) -> impl Ord + use<> {
        (self.group_and_kind(), self.namespace_and_name())
    }

    /// `pod default/web`, for messages.
    pub(super) fn title(&self) -> String {
        let kind = match self.group_and_kind().1 {
            kind if matches!(kind.as_str(), "Pod" | "Node") => kind.to_lowercase(),
            kind => kind,
        };
        match self.namespace_and_name() {
            (namespace, name) if namespace.is_empty() => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        }
    }

    fn text_at(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// All objects of a text.
pub(super) fn documents(
    file: &str,
    text: &str,
    number: usize,
    is_asked: bool,
) -> Result<Vec<Document>, ImportError> {
    let is_json = text.trim_start().starts_with('{');
    let roots = if is_json { json(file, text)? } else { yaml(file, text)? };
    let mut found = Vec::new();
    for (idx, (line, value)) in roots.into_iter().enumerate() {
        let place = SourceLocation { file: file.into(), document: Some(idx + 1), item: None, line };
        flatten(
            Document { place, text: Some(number), path: Vec::new(), value, is_asked, ends: None },
            &mut found,
        )?;
    }
    Ok(found)
}

fn json(file: &str, text: &str) -> Result<Vec<(Option<u64>, Value)>, ImportError> {
    let values: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(text).into_iter().collect();
    let values = values.map_err(|error| ImportError::Syntax {
        file: file.to_owned(),
        line: Some(error.line() as u64),
        column: Some(error.column() as u64),
        reason: without_position(error.to_string()),
    })?;
    Ok(values.into_iter().filter(|value| !value.is_null()).map(|value| (None, value)).collect())
}

fn yaml(file: &str, text: &str) -> Result<Vec<(Option<u64>, Value)>, ImportError> {
    let values: Vec<Spanned<Value>> = serde_saphyr::from_multiple_with_options(text, options())
        .map_err(|error| {
            let at = error.location().filter(|at| at.line() > 0);
            ImportError::Syntax {
                file: file.to_owned(),
                line: at.map(|at| at.line()),
                column: at.map(|at| at.column()),
                reason: without_position(error.without_snippet().to_string()),
            }
        })?;
    let placed = |spanned: Spanned<Value>| {
        let line = spanned.referenced.line();
        ((line > 0).then_some(line), spanned.value)
    };
    Ok(values.into_iter().map(placed).filter(|(_, value)| !value.is_null()).collect())
}

pub(super) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: usize::MAX,
            max_nodes: usize::MAX,
            max_events: usize::MAX,
            max_aliases: MAX_ALIASES,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 1_000_000,
            max_replay_stack_depth: MAX_DEPTH,
        },
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// A parser's message without the position, which is printed once in front of it.
fn without_position(mut message: String) -> String {
    if let Some(rest) = message.strip_prefix("error: ") {
        message = rest.to_owned();
    }
    if let Some(cut) = message.rfind(" at line ") {
        message.truncate(cut);
    }
    message
}

/// Adds a document to `found`, or the elements of a list. Checks that they are objects of some kind.
fn flatten(document: Document, found: &mut Vec<Document>) -> Result<(), ImportError> {
    let Document { place, text, mut value, is_asked, .. } = document;
    let refuse =
        |place, reason: &str| Err(ImportError::NotAnObject { place, reason: reason.to_owned() });
    let Some(object) = value.as_object_mut() else {
        return refuse(
            place,
            "expected a Kubernetes object: a map with apiVersion, kind and metadata",
        );
    };
    let kind = match object.get("kind") {
        Some(Value::String(kind)) if !kind.is_empty() => kind.clone(),
        Some(Value::String(_) | Value::Null) | None => return refuse(place, "kind: required"),
        Some(_) => return refuse(place, "kind: expected a string"),
    };
    let api_version = match object.get("apiVersion") {
        Some(Value::String(version)) if !version.is_empty() => version.clone(),
        Some(Value::String(_) | Value::Null) | None => {
            return refuse(place, "apiVersion: required");
        }
        Some(_) => return refuse(place, "apiVersion: expected a string"),
    };
    if kind == "KubeSchedulerConfiguration" {
        return refuse(
            place,
            "this is a scheduler configuration, not an object of a cluster: use --config",
        );
    }
    let Some(element_kind) = kind.strip_suffix("List").filter(|_| place.item.is_none()) else {
        found.push(Document { place, text, path: Vec::new(), value, is_asked, ends: None });
        return Ok(());
    };
    let items = match object.remove("items") {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return refuse(place, "items: expected a list"),
    };
    for (idx, mut item) in items.into_iter().enumerate() {
        // The elements of a typed list need not repeat kind and version.
        if let Some(item) = item.as_object_mut().filter(|_| !element_kind.is_empty()) {
            item.entry("kind").or_insert_with(|| element_kind.into());
            item.entry("apiVersion").or_insert_with(|| api_version.as_str().into());
        }
        let place = SourceLocation { item: Some(idx), line: None, ..place.clone() };
        flatten(
            Document { place, text, path: Vec::new(), value: item, is_asked, ends: None },
            found,
        )?;
    }
    Ok(())
}
