//! OpenAPI as kubectl asks for it: version 3 describes the kinds for `kubectl explain` and for the patches of
//! `kubectl apply`, and says which query parameters the server supports; version 2 describes nothing.
//!
//! Invariants: what is described is the table of kinds and the fields in which they are read and written in protobuf; there
//! are no descriptions in words.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use bytes::Bytes;
use http::Response;
use serde_json::{Map, Value, json};

use super::{GIT_VERSION, kinds_of};
use crate::body::Body;
use crate::kinds::{Kind, KindId};
use crate::protobuf::encode::put_bytes;
use crate::protobuf::schema::{MessageField, Shape, Type, fields_of, message_of};
use crate::response::{json as json_response, rejection, to_bytes, typed, with_body};
use crate::status::StatusError;

/// The form in which kubectl and client-go ask for version 2.
const V2_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The same as a media type that can be parsed, which is how it is answered.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The documents of version 3, by the path below `/openapi/v3/`.
static DOCUMENTS: LazyLock<BTreeMap<String, Bytes>> = LazyLock::new(|| {
    let mut documents = BTreeMap::new();
    for kind in KindId::all().map(KindId::get) {
        let root = if kind.group.is_empty() { "api" } else { "apis" };
        if let Entry::Vacant(vacant) = documents.entry(format!("{root}/{}", kind.api_version())) {
            vacant.insert(to_bytes(&document(kind.group, kind.version)));
        }
    }
    documents
});

/// Answers a request below `/openapi`; `steps` is the rest of the path.
pub(super) fn answer(steps: &[&str], accept: &str) -> Response<Body> {
    match steps {
        // A document without schemas, so that clients which validate manifests themselves accept everything.
        ["v2"] if accept.contains(V2_ASKED) || accept.contains(V2_PROTOBUF) => {
            typed(200, V2_PROTOBUF, Body::whole(version_2_in_protobuf()))
        }
        ["v2"] => json_response(
            200,
            &json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": GIT_VERSION}, "paths": {}, "definitions": {}}),
        ),
        ["v3"] => json_response(200, &index()),
        ["v3", path @ ..] => match DOCUMENTS.get(&path.join("/")) {
            Some(document) => with_body(200, Body::whole(document.clone())),
            None => rejection(&StatusError::no_such_path()),
        },
        _ => rejection(&StatusError::no_such_path()),
    }
}

/// A document of gnostic's OpenAPIv2 message: the version of the format, title and version of the API, no paths.
fn version_2_in_protobuf() -> Vec<u8> {
    let (mut info, mut document) = (Vec::new(), Vec::new());
    put_bytes(&mut info, 1, b"Kubernetes");
    put_bytes(&mut info, 2, GIT_VERSION.as_bytes());
    put_bytes(&mut document, 1, b"2.0");
    put_bytes(&mut document, 2, &info);
    put_bytes(&mut document, 8, b"");
    document
}

fn index() -> Value {
    let mut paths = Map::new();
    for (path, document) in DOCUMENTS.iter() {
        let mut hasher = DefaultHasher::new();
        document.hash(&mut hasher);
        let url = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
        paths.insert(path.clone(), json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// The PATCH operations and the kinds of a group.
fn document(group: &'static str, version: &'static str) -> Value {
    let prefix = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for kind in kinds_of(group, version) {
        add_kind(kind, &mut schemas);
        if kind.review {
            continue;
        }
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        paths.insert(
            format!("{prefix}{scope}/{}/{{name}}", kind.plural),
            json!({"patch": patch_operation(kind)}),
        );
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": GIT_VERSION}, "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Where kubectl looks up which kind is meant, which patches there are, and which query parameters the server supports.
fn patch_operation(kind: &Kind) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let content: Map<String, Value> = [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ]
    .into_iter()
    .map(|media_type| (media_type.to_owned(), json!({"schema": {"type": "object"}})))
    .collect();
    json!({
        "operationId": format!("patch{}{}", kind.kind, kind.version),
        "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"), parameter("force")],
        "requestBody": {"content": content, "required": true},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": group_version_kind(kind),
    })
}

fn group_version_kind(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// Adds the schema of a kind, and those of everything in it.
fn add_kind(kind: &Kind, schemas: &mut Map<String, Value>) {
    let Some(message) = message_of(&kind.api_version(), kind.kind) else { return };
    add_message(message, schemas);
    let Some(schema) = schemas.get_mut(message) else { return };
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = json!({"type": "string"});
    }
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind)]);
}

fn add_message(message: &'static str, schemas: &mut Map<String, Value>) {
    if schemas.contains_key(message) {
        return;
    }
    // Before its fields, which may contain it.
    schemas.insert(message.to_owned(), Value::Null);
    let mut properties = Map::new();
    add_fields(message, &mut properties, schemas);
    schemas.insert(message.to_owned(), json!({"type": "object", "properties": properties}));
}

fn add_fields(
    message: &'static str,
    properties: &mut Map<String, Value>,
    schemas: &mut Map<String, Value>,
) {
    for field in fields_of(message) {
        if let (true, Type::Message(inner)) = (field.is_inline, field.of) {
            add_fields(inner, properties, schemas);
            continue;
        }
        properties.insert(field.name.to_owned(), property(field, schemas));
    }
}

fn property(field: &MessageField, schemas: &mut Map<String, Value>) -> Value {
    let value = match field.of {
        Type::Text => json!({"type": "string"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Int => json!({"type": "integer"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::IntOrString => json!({"type": "string", "format": "int-or-string"}),
        Type::Json => json!({"type": "object"}),
        Type::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Type::Quantity => {
            schemas.entry("Quantity").or_insert_with(|| json!({"type": "string"}));
            json!({"allOf": [{"$ref": "#/components/schemas/Quantity"}]})
        }
        Type::Message(message) => {
            add_message(message, schemas);
            json!({"allOf": [{"$ref": format!("#/components/schemas/{message}")}]})
        }
    };
    let mut property = match field.shape {
        Shape::One => value,
        Shape::List => json!({"type": "array", "items": value}),
        Shape::Map => json!({"type": "object", "additionalProperties": value}),
    };
    if let Some(merge) = field.merge {
        let (strategy, key) = merge.split_once(':').unwrap_or((merge, ""));
        property["x-kubernetes-patch-strategy"] = strategy.into();
        if !key.is_empty() {
            property["x-kubernetes-patch-merge-key"] = key.into();
        }
    }
    property
}
