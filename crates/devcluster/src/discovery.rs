//! The paths outside of the resources: discovery, version, health, and OpenAPI.
//!
//! Invariant: discovery is computed from the table of kinds, so the kinds that are served are those that are listed.

mod openapi;

use std::collections::BTreeMap;

use http::{Response, header};
use serde_json::{Value, json};

use crate::body::Body;
use crate::kinds::{Kind, KindId};
use crate::response::{json as json_response, rejection, to_bytes, typed, with_body};
use crate::status::StatusError;

const MINOR: &str = "36";
const GIT_VERSION: &str = "v1.36.0";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a request for a path that names no resource; `accept` is the header of that name.
pub(crate) fn answer(path: &str, accept: &str) -> Response<Body> {
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    // kubectl accepts both forms and prefers the aggregated one, which saves a request per group.
    let aggregated = accept.contains("g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    match steps.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => {
            typed(200, "text/plain; charset=utf-8", Body::whole("ok"))
        }
        ["version"] => json_response(200, &version()),
        ["api"] if aggregated => aggregated_list(true),
        ["apis"] if aggregated => aggregated_list(false),
        ["api"] => json_response(200, &core_versions()),
        ["apis"] => json_response(200, &groups()),
        ["api", "v1"] => json_response(200, &resources("", "v1")),
        ["apis", name] => match groups_by_name().get(*name) {
            Some(versions) => {
                json_response(200, &with_type("APIGroup", "v1", group(name, versions)))
            }
            None => rejection(&StatusError::no_such_path()),
        },
        ["apis", name, api_version] if served(name, api_version) => {
            json_response(200, &resources(name, api_version))
        }
        ["openapi", rest @ ..] => openapi::answer(rest, accept),
        [] => json_response(
            200,
            &json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/readyz", "/version"]}),
        ),
        _ => rejection(&StatusError::no_such_path()),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
    })
}

fn core_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    })
}

fn served(group: &str, version: &str) -> bool {
    KindId::all().any(|id| id.get().group == group && id.get().version == version)
}

/// Group name to its versions, preferred one first.
fn groups_by_name() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut groups: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
    for kind in KindId::all().map(KindId::get).filter(|kind| !kind.group.is_empty()) {
        let versions = groups.entry(kind.group).or_default();
        if !versions.contains(&kind.version) {
            versions.push(kind.version);
        }
    }
    groups
}

fn groups() -> Value {
    let groups: Vec<Value> =
        groups_by_name().iter().map(|(name, versions)| group(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group(name: &str, versions: &[&str]) -> Value {
    let entry =
        |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn with_type(kind: &str, api_version: &str, mut value: Value) -> Value {
    value["kind"] = kind.into();
    value["apiVersion"] = api_version.into();
    value
}

fn resources(group: &str, version: &str) -> Value {
    let mut list = Vec::new();
    for kind in kinds_of(group, version) {
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular(), "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": verbs(kind),
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        list.push(resource);
        for subresource in kind.subresources {
            let (group, version, name) = subresource_kind(kind, subresource);
            let mut entry = json!({
                "name": format!("{}/{subresource}", kind.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": name, "verbs": subresource_verbs(subresource),
            });
            if (group, version) != (kind.group, kind.version) {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            list.push(entry);
        }
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list})
}

fn kinds_of(group: &str, version: &str) -> impl Iterator<Item = &'static Kind> {
    KindId::all()
        .map(KindId::get)
        .filter(move |kind| kind.group == group && kind.version == version)
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    if kind.review {
        return &["create"];
    }
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
}

fn subresource_verbs(subresource: &str) -> &'static [&'static str] {
    match subresource {
        "binding" | "eviction" => &["create"],
        "portforward" => &["create", "get"],
        "finalize" => &["update"],
        _ => &["get", "patch", "update"],
    }
}

fn subresource_kind(
    kind: &'static Kind,
    subresource: &str,
) -> (&'static str, &'static str, &'static str) {
    match subresource {
        "binding" => ("", "v1", "Binding"),
        "eviction" => ("policy", "v1", "Eviction"),
        "scale" => ("autoscaling", "v1", "Scale"),
        "portforward" => ("", "v1", "PodPortForwardOptions"),
        _ => (kind.group, kind.version, kind.kind),
    }
}

fn aggregated_list(core: bool) -> Response<Body> {
    let groups: Vec<(&str, Vec<&str>)> =
        if core { vec![("", vec!["v1"])] } else { groups_by_name().into_iter().collect() };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        kinds_of(group, version).map(aggregated_resource).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let mut meta = json!({"creationTimestamp": null});
            if !group.is_empty() {
                meta["name"] = (*group).into();
            }
            json!({"metadata": meta, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let mut response = with_body(200, Body::whole(to_bytes(&list)));
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(AGGREGATED));
    response
}

fn aggregated_resource(kind: &'static Kind) -> Value {
    let response_kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|subresource| {
            let (group, version, name) = subresource_kind(kind, subresource);
            json!({
                "subresource": subresource, "responseKind": response_kind(group, version, name),
                "verbs": subresource_verbs(subresource),
            })
        })
        .collect();
    let mut resource = json!({
        "resource": kind.plural, "responseKind": response_kind(kind.group, kind.version, kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular(), "verbs": verbs(kind),
    });
    let optional: [(&str, Value, bool); 3] = [
        ("shortNames", json!(kind.short_names), kind.short_names.is_empty()),
        ("categories", json!(kind.categories), kind.categories.is_empty()),
        ("subresources", Value::Array(subresources), kind.subresources.is_empty()),
    ];
    for (name, value, empty) in optional {
        if !empty {
            resource[name] = value;
        }
    }
    resource
}
