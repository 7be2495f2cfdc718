//! Discovery, tables, metadata only, the two forms of events, reviews.

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Discovery, ResourceExt};
use kube_scheduler_devcluster::{DevCluster, EVENTS, KindId, NodeTemplate};
use serde_json::{Value, json};

use crate::served_cluster::{still, with};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn every_kind_is_discovered() {
    let served = still().await;
    let discovery = Discovery::new(served.client.clone()).run().await.expect("discovered");
    for kind in KindId::all().map(KindId::get) {
        let group = discovery.get(kind.group).expect("the group is announced");
        let found = group
            .versioned_resources(kind.version)
            .into_iter()
            .any(|(one, _)| one.plural == kind.plural);
        assert!(found, "{}/{} {}", kind.group, kind.version, kind.plural);
    }
    let version = served.client.apiserver_version().await.expect("a version");
    assert!(version.git_version.starts_with("v1.36."));
    assert_eq!(served.get("/readyz").await, "ok");
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let aggregated = served.raw("GET", "/apis", accept, &Value::Null).await.expect("answered");
    assert_eq!(aggregated["kind"], "APIGroupDiscoveryList");
}

fn row(table: &Value, index: usize) -> Vec<(String, Value)> {
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let cells = table["rows"][index]["cells"].as_array().expect("cells");
    assert_eq!(columns.len(), cells.len());
    columns
        .iter()
        .zip(cells)
        .map(|(column, cell)| (column["name"].as_str().unwrap_or_default().into(), cell.clone()))
        .collect()
}

#[tokio::test]
async fn tables_have_the_columns_of_kubectl() {
    let served = with(DevCluster::builder()).await;
    served.cluster.add_hollow_nodes(1, &NodeTemplate::default()).expect("added");
    served.create_pod("a").await;
    let table = served
        .raw("GET", "/api/v1/namespaces/default/pods", TABLE, &Value::Null)
        .await
        .expect("answered");
    let shown = row(&table, 0);
    let names: Vec<&str> = shown.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ];
    assert_eq!(names, expected);
    assert_eq!(shown[1].1, "0/1");
    assert_eq!(shown[2].1, "Pending");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");

    let table = served
        .raw("GET", "/api/v1/nodes/hollow-00000", TABLE, &Value::Null)
        .await
        .expect("answered");
    let shown = row(&table, 0);
    assert_eq!((shown[0].1.clone(), shown[1].1.clone()), (json!("hollow-00000"), json!("Ready")));
    let table = served
        .raw("GET", "/apis/scheduling.k8s.io/v1/priorityclasses", TABLE, &Value::Null)
        .await
        .expect("answered");
    assert_eq!(row(&table, 1)[1].1, 2_000_001_000);
}

#[tokio::test]
async fn every_kind_has_a_table_even_when_it_is_empty() {
    let served = still().await;
    for kind in KindId::all().map(KindId::get).filter(|kind| !kind.review) {
        let prefix =
            if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
        let path = format!("{prefix}/{}/{}", kind.version, kind.plural);
        let table = served.raw("GET", &path, TABLE, &Value::Null).await.expect("answered");
        assert_eq!(table["kind"], "Table", "{path}");
    }
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let served = still().await;
    served.create_pod("a").await;
    let list = served.pods().list_metadata(&ListParams::default()).await.expect("listed");
    assert_eq!(list.items[0].name_any(), "a");
}

#[tokio::test]
async fn events_have_two_forms() {
    let served = still().await;
    let events: Api<Event> = Api::namespaced(served.client.clone(), "default");
    let core: Api<CoreEvent> = Api::namespaced(served.client.clone(), "default");
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "a.1", "namespace": "default"}, "eventTime": "2030-01-01T00:00:00.000001Z",
        "reportingController": "default-scheduler", "reportingInstance": "default-scheduler-x", "action": "Binding",
        "reason": "Scheduled", "regarding": {"kind": "Pod", "namespace": "default", "name": "a"},
        "note": "Successfully assigned default/a to b", "type": "Normal",
    }))
    .expect("an event");
    let created = events.create(&PostParams::default(), &event).await.expect("created");
    assert_eq!(created.note, event.note);
    let listed = core
        .list(&ListParams::default().fields("involvedObject.name=a,reason=Scheduled"))
        .await
        .expect("listed");
    assert_eq!(listed.items.len(), 1);
    assert_eq!(listed.items[0].message, event.note);
    assert_eq!(listed.items[0].reporting_component, event.reporting_controller);
    let series = Patch::Strategic(
        json!({"series": {"count": 2, "lastObservedTime": "2030-01-01T00:01:00.000000Z"}}),
    );
    let patched = events.patch("a.1", &PatchParams::default(), &series).await.expect("patched");
    assert_eq!(patched.series.map(|series| series.count), Some(2));
    assert_eq!(patched.note, event.note);
    let listed =
        events.list(&ListParams::default().fields("regarding.name=a")).await.expect("listed");
    assert_eq!(listed.items.len(), 1);
}

#[tokio::test]
async fn events_are_bounded_in_number() {
    let served =
        with(DevCluster::builder().hollow(None).events(10, std::time::Duration::from_secs(60)))
            .await;
    for index in 0..25 {
        served
            .cluster
            .create(json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{index}")},
                "involvedObject": {"kind": "Pod", "name": "a"}, "reason": "Test",
            }))
            .expect("created");
    }
    assert_eq!(served.cluster.store().count(EVENTS), 10);
    assert!(served.cluster.get(EVENTS, "default", "e24").is_some());
}

#[tokio::test]
async fn everything_is_allowed() {
    let served = still().await;
    let reviews: Api<SelfSubjectAccessReview> = Api::all(served.client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectAccessReview::default())
        .await
        .expect("answered");
    assert!(review.status.is_some_and(|status| status.allowed));
}

#[tokio::test]
async fn every_kind_is_described() {
    let served = still().await;
    let index = served.get("/openapi/v3").await;
    for kind in KindId::all().map(KindId::get) {
        let path = match kind.group {
            "" => format!("api/{}", kind.version),
            group => format!("apis/{group}/{}", kind.version),
        };
        let url = index["paths"][&path]["serverRelativeURL"].as_str().expect("indexed");
        let document = served.get(url).await;
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let wanted = json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
        let own =
            schemas.values().find(|schema| schema["x-kubernetes-group-version-kind"] == wanted);
        let own = own.unwrap_or_else(|| panic!("{} is not described", kind.kind));
        assert_eq!(own["properties"]["kind"], json!({"type": "string"}));
        for reference in references(&document) {
            let name = reference.strip_prefix("#/components/schemas/").expect("a reference");
            assert!(schemas[name].is_object(), "{name}");
        }
    }
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value) {
                ("$ref", Value::String(name)) => vec![name.clone()],
                _ => references(value),
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn a_pod_is_described_with_its_types_and_its_merging() {
    let served = still().await;
    let schemas = served.get("/openapi/v3/api/v1").await["components"]["schemas"].clone();
    assert_eq!(
        schemas["Pod"]["properties"]["spec"],
        json!({"allOf": [{"$ref": "#/components/schemas/PodSpec"}]})
    );
    let spec = &schemas["PodSpec"]["properties"];
    assert_eq!(
        spec["containers"],
        json!({
            "type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/Container"}]},
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
        })
    );
    assert_eq!(spec["nodeSelector"]["additionalProperties"], json!({"type": "string"}));
    // The fields of a volume's source are fields of the volume.
    let volume = &schemas["Volume"]["properties"];
    assert!(volume["emptyDir"].is_object() && volume["name"].is_object());
}

#[tokio::test]
async fn the_second_version_of_openapi_is_readable_as_kubectl_asks_for_it() {
    let served = still().await;
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let document = served.raw("GET", "/openapi/v2", accept, &Value::Null).await.expect("answered");
    // The version of the format, then title and version of the API, then no paths.
    let text = document.as_str().expect("protobuf that is a text, too");
    assert!(
        text.starts_with("\n\u{3}2.0\u{12}\u{15}\n\nKubernetes\u{12}\u{7}v1.36.0B\0"),
        "{text:?}"
    );
    // With the @ of the request it would not be a media type.
    let request = http::Request::get("/openapi/v2").header("Accept", accept);
    let request = request.body(kube::client::Body::empty()).expect("a request");
    let answer = served.client.send(request).await.expect("answered");
    assert_eq!(
        answer.headers()["content-type"],
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
    let json = served.get("/openapi/v2").await;
    assert_eq!(json["swagger"], "2.0");
}

/// A device class in `v1beta2` is the same object as in `v1`, whichever way it was created, read, changed and watched.
#[tokio::test]
async fn objects_are_the_same_in_every_version() {
    let served = still().await;
    let path = |version: &str| format!("/apis/resource.k8s.io/{version}/deviceclasses");
    let class = |version: &str, name: &str| {
        json!({
            "apiVersion": format!("resource.k8s.io/{version}"), "kind": "DeviceClass",
            "metadata": {"name": name}, "spec": {"extendedResourceName": "example.com/gpu"},
        })
    };
    let json = "application/json";
    for (name, version) in [("new", "v1"), ("old", "v1beta2")] {
        let body = class(version, name);
        let created = served.raw("POST", &path(version), json, &body).await.expect("created");
        assert_eq!(created["apiVersion"], body["apiVersion"]);
    }
    for version in ["v1", "v1beta2"] {
        let list = served.get(&path(version)).await;
        assert_eq!(list["apiVersion"], format!("resource.k8s.io/{version}"));
        let items = list["items"].as_array().expect("items");
        let of_items: Vec<_> =
            items.iter().map(|item| (&item["apiVersion"], &item["metadata"]["name"])).collect();
        let own = json!(format!("resource.k8s.io/{version}"));
        assert_eq!(of_items, [(&own, &json!("new")), (&own, &json!("old"))]);
    }

    let mut old = served.get(&format!("{}/new", path("v1beta2"))).await;
    old["spec"]["extendedResourceName"] = "example.com/other".into();
    let one = format!("{}/new", path("v1beta2"));
    let stored = served.raw("PUT", &one, json, &old).await.expect("replaced");
    assert_eq!(stored["apiVersion"], "resource.k8s.io/v1beta2");
    let new = served.get(&format!("{}/new", path("v1"))).await;
    assert_eq!(new["apiVersion"], "resource.k8s.io/v1");
    assert_eq!(new["spec"], stored["spec"]);
    assert_eq!(new["metadata"], stored["metadata"]);

    let watched = served
        .get(&format!("{}?watch=1&resourceVersion=0&timeoutSeconds=1", path("v1beta2")))
        .await;
    let lines: Vec<Value> = watched
        .as_str()
        .expect("events")
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    let versions: Vec<_> = lines.iter().map(|line| &line["object"]["apiVersion"]).collect();
    assert!(versions.len() >= 2, "{lines:?}");
    assert!(versions.iter().all(|version| *version == "resource.k8s.io/v1beta2"), "{lines:?}");

    // An object of another version than that in the path is refused.
    let refused = served.raw("POST", &path("v1beta2"), json, &class("v1", "x")).await;
    let kube::Error::Api(status) = refused.expect_err("refused") else { panic!() };
    assert_eq!(status.code, 400);

    served
        .raw("DELETE", &format!("{}/new", path("v1beta2")), json, &Value::Null)
        .await
        .expect("gone");
    let list = served.get(&path("v1")).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn an_apply_in_one_version_is_seen_in_another() {
    let served = still().await;
    let rule = json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule",
        "metadata": {"name": "all"},
        "spec": {"taint": {"key": "example.com/taint", "effect": "NoSchedule"}},
    });
    let path = |version: &str| format!("/apis/resource.k8s.io/{version}/devicetaintrules/all");
    let request = |content_type: &str, version: &str, body: &Value| {
        http::Request::builder()
            .method("PATCH")
            .uri(format!("{}?fieldManager=test", path(version)))
            .header("Content-Type", content_type)
            .body(serde_json::to_vec(body).expect("json"))
            .expect("a request")
    };
    let applied = request("application/apply-patch+yaml", "v1alpha3", &rule);
    let applied: Value = served.client.request(applied).await.expect("applied");
    assert_eq!(applied["apiVersion"], "resource.k8s.io/v1alpha3");
    let seen = served.get(&path("v1beta2")).await;
    assert_eq!(seen["apiVersion"], "resource.k8s.io/v1beta2");
    assert_eq!(seen["spec"], applied["spec"]);

    let patch = json!({"spec": {"taint": {"value": "changed"}}});
    let patched = request("application/merge-patch+json", "v1alpha3", &patch);
    let patched: Value = served.client.request(patched).await.expect("patched");
    assert_eq!(patched["apiVersion"], "resource.k8s.io/v1alpha3");
    assert_eq!(served.get(&path("v1beta2")).await["spec"]["taint"]["value"], "changed");
}
