//! The verbs on objects and their subresources.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use serde_json::{Value, json};

use super::content::{parse_body, unknown_format};
use super::encode::Encoding;
use super::request::{ApiRequest, Verb};
use super::{review, watch};
use crate::access::User;
use crate::api::binding::bind;
use crate::api::create::{check_type, create, create_in};
use crate::api::delete::{DeleteOptions, Deletion, Propagation, delete, delete_collection};
use crate::api::eviction::evict;
use crate::api::update::{Part, Target, modify, modify_in, replacement};
use crate::api::{WriteOptions, scale};
use crate::body::Body;
use crate::clock::to_rfc3339;
use crate::faults::FaultEffect;
use crate::forms;
use crate::kinds::{BINDINGS, EVENTS, EVENTS_V1, PODS};
use crate::object::{StoredObject, list_at, text_at};
use crate::patch::apply::{Applier, applied};
use crate::patch::{PatchType, patched};
use crate::response::{json as json_response, typed, with_body};
use crate::server::Server;
use crate::status::{StatusError, success};
use crate::store::Page;
use crate::table::IncludeObject;

/// Carries out `request`.
pub(crate) fn answer(
    server: &Arc<Server>,
    user: &User,
    request: ApiRequest,
    body: &[u8],
    fault: Option<&FaultEffect>,
) -> Result<Response<Body>, StatusError> {
    let encoding = Encoding {
        kind: request.kind,
        form: request.form,
        include: IncludeObject::parse(request.query.get("includeObject"))?,
        now: server.store.now(),
    };
    match request.verb {
        Verb::Watch => {
            let close_after = match fault {
                Some(FaultEffect::CloseWatch { after_events }) => Some(*after_events),
                _ => None,
            };
            watch::open(server, &request, encoding, close_after)
                .map(|body| typed(200, encoding.watch_type(), body))
        }
        Verb::List => list(server, &request, encoding),
        Verb::Get => get(server, &request, encoding),
        Verb::Create if request.kind.get().review && request.kind != BINDINGS => {
            let review = parse_body(body, &request.content_type)?;
            Ok(json_response(201, &review::answer(server, user, &request, review)))
        }
        Verb::Create => post(server, &request, body, encoding),
        Verb::Update => put(server, &request, body, encoding),
        Verb::Patch => patch(server, &request, body, encoding),
        Verb::Delete => {
            let options = delete_options(&request, body)?;
            let kind = request.kind.storage();
            let deletion =
                delete(&server.store, kind, &request.namespace, &request.name, &options)?;
            // As Kubernetes: the object while it still exists, and of a pod also its last state; else only a status.
            Ok(match deletion {
                Deletion::Pending(object) => with_body(200, Body::whole(encoding.object(&object))),
                Deletion::Done(object) if kind == PODS => {
                    with_body(200, Body::whole(encoding.object(&object)))
                }
                Deletion::Done(object) => {
                    let mut details = json!({"name": object.name(), "kind": kind.get().plural, "uid": object.uid()});
                    if !kind.get().group.is_empty() {
                        details["group"] = kind.get().group.into();
                    }
                    json_response(200, &success(200, Some(details)))
                }
            })
        }
        Verb::DeleteCollection => {
            let options = delete_options(&request, body)?;
            let selection = request.selection()?;
            let items =
                delete_collection(&server.store, request.kind.storage(), &selection, &options)?;
            let resource_version = server.store.resource_version();
            let listing =
                crate::store::Listing { items, resource_version, next: None, remaining: None };
            Ok(with_body(200, encoding.list(listing, None)))
        }
    }
}

fn list(
    server: &Arc<Server>,
    request: &ApiRequest,
    encoding: Encoding,
) -> Result<Response<Body>, StatusError> {
    let selection = request.selection()?;
    let limit =
        request.query.number("limit")?.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let asked = request.query.number("resourceVersion")?.filter(|version| *version > 0);
    let mut page = Page { limit, ..Page::default() };
    if let Some(token) = request.query.text("continue") {
        let (version, after) = parse_token(token).ok_or_else(|| {
            StatusError::bad_request(
                "continue key is not valid: it is not a token that this server has issued",
            )
        })?;
        page.at_version = Some(version);
        page.after = Some(after);
    } else if request.query.text("resourceVersionMatch") == Some("Exact") {
        page.at_version = asked;
    } else if let Some(asked) = asked {
        let current = server.store.resource_version();
        if asked > current {
            return Err(StatusError::too_large(asked, current));
        }
    }
    let listing = server.store.list_page(request.kind, &selection, &page)?;
    let token = listing.next.as_deref().map(|after| token(listing.resource_version, after));
    Ok(typed(200, encoding.list_type(), encoding.list(listing, token)))
}

fn get(
    server: &Arc<Server>,
    request: &ApiRequest,
    encoding: Encoding,
) -> Result<Response<Body>, StatusError> {
    let object = server
        .store
        .get(request.kind, &request.namespace, &request.name)
        .ok_or_else(|| StatusError::not_found(request.kind.get(), &request.name))?;
    match request.subresource.as_str() {
        "" | "status" => Ok(with_body(200, Body::whole(encoding.object(&object)))),
        "scale" => Ok(json_response(200, &scale::read(&object.value()))),
        _ => Err(StatusError::method_not_allowed()),
    }
}

fn post(
    server: &Arc<Server>,
    request: &ApiRequest,
    body: &[u8],
    encoding: Encoding,
) -> Result<Response<Body>, StatusError> {
    // What schedulers write; kubectl sends protobuf whatever the server accepts.
    let is_schedulers =
        request.subresource == "binding" || matches!(request.kind, BINDINGS | EVENTS | EVENTS_V1);
    let is_protobuf = request.content_type.contains("protobuf");
    if is_protobuf && is_schedulers && !server.options.protobuf {
        return Err(unknown_format(&request.content_type));
    }
    let value = parse_body(body, &request.content_type)?;
    let dry_run = request.query.dry_run();
    let store = &server.store;
    match (request.kind, request.subresource.as_str()) {
        (PODS, "binding") => {
            bind(store, &request.namespace, &request.name, &value, dry_run)?;
            Ok(json_response(201, &success(201, None)))
        }
        (BINDINGS, "") => {
            bind(
                store,
                &request.namespace,
                text_at(&value, &["metadata", "name"]),
                &value,
                dry_run,
            )?;
            Ok(json_response(201, &success(201, None)))
        }
        (PODS, "eviction") => {
            evict(store, &request.namespace, &request.name, &value, dry_run)?;
            Ok(json_response(201, &success(201, None)))
        }
        (kind, "") => {
            let value = stored_form(request, value)?;
            let options = WriteOptions { dry_run, ..WriteOptions::default() };
            let object = create(store, kind.storage(), &request.namespace, value, &options)?;
            Ok(with_body(201, Body::whole(encoding.object(&object))))
        }
        _ => Err(StatusError::method_not_allowed()),
    }
}

fn put(
    server: &Arc<Server>,
    request: &ApiRequest,
    body: &[u8],
    encoding: Encoding,
) -> Result<Response<Body>, StatusError> {
    let value = parse_body(body, &request.content_type)?;
    let options = write_options(request);
    if request.subresource == "scale" {
        let object = scale::write(&server.store, scaled(request), &options, |_| Ok(value))?;
        return Ok(json_response(200, &scale::read(&object.value())));
    }
    let value = stored_form(request, value)?;
    let target = target(request)?;
    let object = modify(&server.store, target, &options, |_| replacement(target, value))?;
    Ok(with_body(200, Body::whole(encoding.object(&object))))
}

fn patch(
    server: &Arc<Server>,
    request: &ApiRequest,
    body: &[u8],
    encoding: Encoding,
) -> Result<Response<Body>, StatusError> {
    let patch_type = PatchType::parse(&request.content_type)?;
    let content_type = if patch_type == PatchType::Apply { "yaml" } else { "json" };
    let body = parse_body(body, content_type)?;
    let options = write_options(request);
    if request.subresource == "scale" {
        let change = |old: &Value| patched(request.kind, patch_type, old, &body);
        let object = scale::write(&server.store, scaled(request), &options, change)?;
        return Ok(json_response(200, &scale::read(&object.value())));
    }
    let target = target(request)?;
    if patch_type == PatchType::Apply {
        let body = stored_form(request, body)?;
        let applied = apply(server, request, target, &body, &options)?;
        let code = if applied.is_new { 201 } else { 200 };
        return Ok(with_body(code, Body::whole(encoding.object(&applied.object))));
    }
    let object = modify(&server.store, target, &options, |old| {
        if request.kind == request.kind.storage() {
            return patched(request.kind, patch_type, old, &body);
        }
        let old = forms::served(request.kind, old.clone());
        patched(request.kind, patch_type, &old, &body)
            .map(|patched| forms::stored(request.kind, patched))
    })?;
    Ok(with_body(200, Body::whole(encoding.object(&object))))
}

/// The result of a server-side apply.
struct ApplyResult {
    object: Arc<StoredObject>,
    is_new: bool,
}

fn apply(
    server: &Arc<Server>,
    request: &ApiRequest,
    target: Target<'_>,
    configuration: &Value,
    options: &WriteOptions,
) -> Result<ApplyResult, StatusError> {
    let checked = configuration_for(target, configuration)?;
    // One write for looking and changing, so that two applies at once cannot both create the object.
    server.store.write(|state| {
        let now = to_rfc3339(state.now);
        let applier = Applier {
            manager: &options.field_manager,
            subresource: &request.subresource,
            force: options.force,
            now: &now,
        };
        let kind = target.kind.get();
        if state.get(target.kind, target.namespace, target.name).is_some() {
            let object = modify_in(state, target, options, |live| {
                applied(kind, Some(live), &checked, applier)
            })?;
            return Ok(ApplyResult { object, is_new: false });
        }
        if !request.subresource.is_empty() {
            return Err(StatusError::not_found(kind, target.name));
        }
        if !text_at(&checked, &["metadata", "uid"]).is_empty() {
            return Err(StatusError::conflict(
                kind,
                kind.plural,
                target.name,
                "uid mismatch: the object does not exist",
            ));
        }
        let mut fresh = applied(kind, None, &checked, applier)?;
        crate::object::meta_mut(&mut fresh).insert("name".into(), target.name.into());
        let object = create_in(state, target.kind, target.namespace, fresh, options)?;
        Ok(ApplyResult { object, is_new: true })
    })
}

fn configuration_for(target: Target<'_>, configuration: &Value) -> Result<Value, StatusError> {
    if text_at(configuration, &["apiVersion"]).is_empty()
        || text_at(configuration, &["kind"]).is_empty()
    {
        return Err(StatusError::bad_request("apply needs apiVersion and kind in the body"));
    }
    let mut configuration = configuration.clone();
    crate::object::strip_nulls(&mut configuration);
    crate::validation::check_shape(&configuration)?;
    check_type(target.kind, &configuration)?;
    let name = text_at(&configuration, &["metadata", "name"]);
    if !name.is_empty() && name != target.name {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(configuration)
}

fn target(request: &ApiRequest) -> Result<Target<'_>, StatusError> {
    Ok(Target {
        kind: request.kind.storage(),
        namespace: &request.namespace,
        name: &request.name,
        part: request.part()?,
    })
}

fn scaled(request: &ApiRequest) -> Target<'_> {
    Target {
        kind: request.kind,
        namespace: &request.namespace,
        name: &request.name,
        part: Part::Main,
    }
}

fn write_options(request: &ApiRequest) -> WriteOptions {
    WriteOptions {
        dry_run: request.query.dry_run(),
        keep_status: false,
        field_manager: request.query.get("fieldManager").unwrap_or_default().to_owned(),
        force: request.query.flag("force"),
    }
}

fn delete_options(request: &ApiRequest, body: &[u8]) -> Result<DeleteOptions, StatusError> {
    let body = parse_body(body, &request.content_type)?;
    let mut options = DeleteOptions::from_body(&body)?;
    if let Some(policy) = request.query.text("propagationPolicy") {
        options.propagation = Propagation::parse(policy)?;
    }
    if let Some(seconds) = request.query.number("gracePeriodSeconds")? {
        options.grace_seconds = i64::try_from(seconds).ok();
    }
    options.dry_run |= request.query.dry_run() || !list_at(&body, &["dryRun"]).is_empty();
    Ok(options)
}

/// What a client sent as an object of the kind in the path, in the form in which it is stored.
fn stored_form(request: &ApiRequest, value: Value) -> Result<Value, StatusError> {
    check_type(request.kind, &value)?;
    Ok(forms::stored(request.kind, value))
}

/// A continue token: the version of the list and the last key that was sent.
fn token(version: u64, after: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{version} {after}"))
}

fn parse_token(token: &str) -> Option<(u64, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (version, after) = text.split_once(' ')?;
    Some((version.parse().ok()?, after.to_owned()))
}
