//! Reading a request: path, query and headers become one value.
//!
//! Invariant: parsing is total; whatever cannot be served becomes an [`ApiError`].

use http::request::Parts;
use http::{HeaderMap, Method, header};

use crate::access::Action;
use crate::api::update::Part;
use crate::kinds::{KindId, NAMESPACES, NODES, PODS};
use crate::selectors::Selection;
use crate::status::ApiError;

/// What a request does to objects, in the words that RBAC and audit use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A request for objects of one kind.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    pub(crate) verb: Verb,
    /// The kind as asked for, which for events may differ from the kind as stored.
    pub(crate) kind: KindId,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) content_type: String,
}

/// In which form objects are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
    Table,
    Metadata,
}

impl ApiRequest {
    /// Parses a request below `/api` or `/apis` that names a resource; nothing for any other path.
    pub(crate) fn parse(parts: &Parts, has_protobuf: bool) -> Option<Result<Self, ApiError>> {
        let path = Path::parse(parts.uri.path())?;
        Some(Self::build(path, parts, has_protobuf))
    }

    /// The objects meant by the namespace and the selectors.
    pub(crate) fn selection(&self) -> Result<Selection, ApiError> {
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

    /// The request in the words of rules. A list or watch of one name counts as asking for that name.
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
            // A namespace is asked for inside itself.
            namespace: if self.kind == NAMESPACES { name.clone() } else { self.namespace.clone() },
            name,
        }
    }

    pub(crate) fn part(&self) -> Result<Part, ApiError> {
        Part::parse(&self.subresource).ok_or_else(ApiError::method_not_allowed)
    }

    fn build(path: Path, parts: &Parts, has_protobuf: bool) -> Result<Self, ApiError> {
        let kind = KindId::by_plural(&path.group, &path.version, &path.plural)
            .ok_or_else(ApiError::no_such_path)?;
        let entry = kind.get();
        if entry.namespaced == path.namespace.is_empty()
            && !(entry.namespaced && path.name.is_empty())
        {
            return Err(ApiError::no_such_path());
        }
        if !path.subresource.is_empty() && !entry.subresources.contains(&path.subresource.as_str())
        {
            return Err(ApiError::no_such_path());
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
            _ => return Err(ApiError::method_not_allowed()),
        };
        if entry.review && verb != Verb::Create {
            return Err(ApiError::method_not_allowed());
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
            .map(|step| percent_decoded(step, false))
            .collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (group, version, rest) = match steps.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        // Below a namespace live its resources, except for the namespace's own subresources.
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
                (percent_decoded(key, true), percent_decoded(value, true))
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
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.text(key) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
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

fn form(headers: &HeaderMap, has_protobuf: bool) -> Result<Form, ApiError> {
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
    Err(ApiError::with_code(
        406,
        "only the following media types are accepted: application/json, application/json;stream=watch",
    ))
}

pub(crate) fn text_header(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn percent_decoded(text: &str, plus_is_space: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |offset: usize| {
            bytes.get(at + offset).and_then(|digit| char::from(*digit).to_digit(16))
        };
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', _, _) if plus_is_space => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}
