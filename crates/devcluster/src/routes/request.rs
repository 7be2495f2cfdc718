//! Reading a request: path, query and headers become one value.
//!
//! Invariant: parsing is total; a request that cannot be served becomes a [`StatusError`].

use std::borrow::Cow;

use http::request::Parts;
use http::{HeaderMap, Method, header};
use kube_scheduler_api_types::named_enum;
use percent_encoding::percent_decode_str;

use crate::access::Action;
use crate::api::update::Part;
use crate::kinds::{KindId, NAMESPACES, NODES, PODS};
use crate::selectors::Selection;
use crate::status::StatusError;

named_enum! {
    /// What a request does to objects, in the words of RBAC.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Verb {
        Get = "get",
        List = "list",
        Watch = "watch",
        Create = "create",
        Update = "update",
        Patch = "patch",
        Delete = "delete",
        DeleteCollection = "deletecollection",
    }
}

/// A request for objects of one kind.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    pub(crate) verb: Verb,
    /// The kind in the path, which for events may differ from the kind as stored.
    pub(crate) kind: KindId,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) content_type: String,
}

/// The form of the objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
    Table,
    Metadata,
}

impl ApiRequest {
    /// Parses a request below `/api` or `/apis` that names a resource; nothing for any other path.
    pub(crate) fn parse(parts: &Parts, has_protobuf: bool) -> Option<Result<Self, StatusError>> {
        let path = Path::parse(parts.uri.path())?;
        Some(Self::build(path, parts, has_protobuf))
    }

    /// The objects that namespace and selectors select.
    pub(crate) fn selection(&self) -> Result<Selection, StatusError> {
        let mut selection = Selection::all();
        if !self.namespace.is_empty() {
            selection = selection.namespace(self.namespace.clone());
        }
        selection = selection.labels(self.query.get("labelSelector").unwrap_or_default())?;
        let fields = self.query.get("fieldSelector").unwrap_or_default();
        if self.name.is_empty() || self.verb != Verb::Watch {
            return selection.fields(self.kind, fields);
        }
        // A watch of a single object is a watch of the collection by name.
        selection.fields(self.kind, &format!("metadata.name={},{fields}", self.name))
    }

    /// The request in the words of RBAC. A list or watch that selects one name needs the right for that name only.
    pub(crate) fn action(&self) -> Action {
        let kind = self.kind.get();
        let mut name = self.name.clone();
        if name.is_empty() && matches!(self.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
        {
            let fields = self.query.get("fieldSelector").unwrap_or_default();
            let named = fields.split(',').find_map(|field| field.strip_prefix("metadata.name="));
            name = named.map(|name| name.trim_start_matches('=').to_owned()).unwrap_or_default();
        }
        Action {
            verb: self.verb.as_str().to_owned(),
            path: String::new(),
            group: kind.group.to_owned(),
            resource: kind.plural.to_owned(),
            subresource: self.subresource.clone(),
            // Rights on a namespace may be granted by a role in that namespace.
            namespace: if self.kind == NAMESPACES { name.clone() } else { self.namespace.clone() },
            name,
        }
    }

    pub(crate) fn part(&self) -> Result<Part, StatusError> {
        Part::parse(&self.subresource).ok_or_else(StatusError::method_not_allowed)
    }

    fn build(path: Path, parts: &Parts, has_protobuf: bool) -> Result<Self, StatusError> {
        let kind = KindId::by_plural(&path.group, &path.version, &path.plural)
            .ok_or_else(StatusError::no_such_path)?;
        let entry = kind.get();
        // A namespaced kind may be listed over all namespaces, but a single object needs its namespace.
        if entry.namespaced == path.namespace.is_empty()
            && !(entry.namespaced && path.name.is_empty())
        {
            return Err(StatusError::no_such_path());
        }
        if !path.subresource.is_empty() && !entry.subresources.contains(&path.subresource.as_str())
        {
            return Err(StatusError::no_such_path());
        }
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let named = !path.name.is_empty();
        let watching = query.flag("watch");
        let verb = match (&parts.method, named) {
            (&Method::GET, _) if watching => Verb::Watch,
            (&Method::GET, true) => Verb::Get,
            (&Method::GET, false) => Verb::List,
            (&Method::POST, false) => Verb::Create,
            (&Method::POST, true) if !path.subresource.is_empty() => Verb::Create,
            (&Method::PUT, true) => Verb::Update,
            (&Method::PATCH, true) => Verb::Patch,
            (&Method::DELETE, true) if path.subresource.is_empty() => Verb::Delete,
            (&Method::DELETE, false) => Verb::DeleteCollection,
            _ => return Err(StatusError::method_not_allowed()),
        };
        if entry.review && verb != Verb::Create {
            return Err(StatusError::method_not_allowed());
        }
        let has_protobuf = has_protobuf
            && matches!(verb, Verb::List | Verb::Watch)
            && matches!(kind, PODS | NODES);
        Ok(Self {
            verb,
            kind,
            namespace: path.namespace,
            name: path.name,
            subresource: path.subresource,
            query,
            form: form(&parts.headers, has_protobuf)?,
            content_type: text_header(&parts.headers, header::CONTENT_TYPE).to_owned(),
        })
    }
}

struct Path {
    group: String,
    version: String,
    namespace: String,
    plural: String,
    name: String,
    subresource: String,
}

impl Path {
    fn parse(path: &str) -> Option<Self> {
        let steps: Vec<String> = path
            .split('/')
            .filter(|step| !step.is_empty())
            .map(|step| percent_decode_str(step).decode_utf8_lossy().into_owned())
            .collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (group, version, rest) = match steps.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        // What follows a namespace is a resource in it, except for the namespace's own subresources.
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] if group.is_empty() => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            plural: plural.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

/// Decoded query parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                (form_decoded(key), form_decoded(value))
            })
            .collect();
        Self { pairs }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }

    /// A parameter that is present and not empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some("true" | "1" | ""))
    }

    /// A number; present and malformed is an error.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, StatusError> {
        match self.text(key) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                StatusError::bad_request(format!(
                    "query parameter {key}={text:?} is not a non-negative integer"
                ))
            }),
        }
    }

    pub(crate) fn dry_run(&self) -> bool {
        self.text("dryRun").is_some()
    }
}

/// The media type of objects in protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn form(headers: &HeaderMap, has_protobuf: bool) -> Result<Form, StatusError> {
    let accept = text_header(headers, header::ACCEPT);
    if accept.is_empty() {
        return Ok(Form::Json);
    }
    for offer in accept.split(',') {
        let mut parameters = offer.split(';').map(str::trim);
        let media_type = parameters.next().unwrap_or_default();
        if has_protobuf
            && media_type == PROTOBUF
            && !parameters.clone().any(|parameter| parameter.starts_with("as="))
        {
            return Ok(Form::Protobuf);
        }
        if !matches!(media_type, "application/json" | "*/*" | "application/*") {
            continue;
        }
        let mut form = Form::Json;
        let mut served = true;
        for parameter in parameters {
            match parameter.split_once('=') {
                Some(("as", "Table")) => form = Form::Table,
                Some(("as", "PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                    form = Form::Metadata
                }
                Some(("as", _)) => served = false,
                Some(("v", version)) => served &= version == "v1",
                _ => {}
            }
        }
        if served {
            return Ok(form);
        }
    }
    Err(StatusError::with_code(
        406,
        "only the following media types are accepted: application/json, application/json;stream=watch",
    ))
}

pub(crate) fn text_header(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Part of a query, where a plus sign stands for a space.
fn form_decoded(text: &str) -> String {
    let text = if text.contains('+') { text.replace('+', " ").into() } else { Cow::from(text) };
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_queries_and_paths_are_decoded() {
        let query = Query::parse("labelSelector=a%20in+(b%2Bc)&limit=5&x=%zz&limit=6&flag");
        assert_eq!(query.get("labelSelector"), Some("a in (b+c)"));
        assert_eq!(query.get("x"), Some("%zz"));
        assert!(query.flag("flag"));
        assert_eq!(query.number("limit").expect("a number"), Some(5));
        let path = Path::parse("/api/v1/namespaces/a%2Db/pods/c+d").expect("a path");
        assert_eq!((&*path.namespace, &*path.plural, &*path.name), ("a-b", "pods", "c+d"));
    }
}
