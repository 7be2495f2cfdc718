//! Refusals in the exact form in which clients expect them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::served_cluster::{pod, pod_value, refusal, still};

#[tokio::test]
async fn messages_are_those_of_kubernetes() {
    let served = still().await;
    served.create_pod("a").await;
    let create = async |value: Value| {
        let body = value;
        refusal(
            served.raw("POST", "/api/v1/namespaces/default/pods", "application/json", &body).await,
        )
    };
    let not_found = refusal(served.pods().get("x").await);
    assert_eq!(not_found, (404, "NotFound".into(), "pods \"x\" not found".into()));
    let missing = refusal(
        served.raw("GET", "/apis/apps/v1/namespaces/default/deployments/x", "", &Value::Null).await,
    );
    assert_eq!(missing.2, "deployments.apps \"x\" not found");
    assert_eq!(
        create(pod_value("a")).await,
        (409, "AlreadyExists".into(), "pods \"a\" already exists".into())
    );

    let empty = create(json!({"metadata": {"name": "b"}, "spec": {}})).await;
    assert_eq!(
        empty,
        (422, "Invalid".into(), "Pod \"b\" is invalid: spec.containers: Required value".into())
    );
    let (code, _, message) = create(pod_value("Not_A_Name")).await;
    assert_eq!(code, 422);
    assert!(message.starts_with("Pod \"Not_A_Name\" is invalid: metadata.name: Invalid value: \"Not_A_Name\": a lowercase RFC 1123 subdomain"), "{message}");
    let mut value = pod_value("b");
    value["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1x");
    let (code, _, message) = create(value).await;
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.containers[0].resources.requests[cpu]: Invalid value: \"1x\""),
        "{message}"
    );
    let mut value = pod_value("b");
    value["metadata"]["labels"] = json!({"a b": "c"});
    assert_eq!(create(value).await.0, 422);
    let mut value = pod_value("b");
    value["metadata"]["labels"] = json!({"a": 1});
    assert_eq!(create(value).await.0, 400);
    let mut value = pod_value("b");
    value["spec"]["priorityClassName"] = json!("nobody");
    let (code, _, message) = create(value).await;
    assert_eq!(
        (code, message.as_str()),
        (403, "pods \"b\" is forbidden: no PriorityClass with name nobody was found")
    );
    assert_eq!(
        create(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "b"}})).await.0,
        400
    );

    let nowhere: Api<Pod> = Api::namespaced(served.client.clone(), "nowhere");
    let mut stray = pod("b");
    stray.metadata.namespace = Some("nowhere".into());
    let refused = refusal(nowhere.create(&PostParams::default(), &stray).await);
    assert_eq!(refused, (404, "NotFound".into(), "namespaces \"nowhere\" not found".into()));
}

#[tokio::test]
async fn details_name_the_object_and_the_fields() {
    let served = still().await;
    let body = json!({"metadata": {"name": "b"}, "spec": {"containers": [{"name": "x"}, {"name": "x", "image": "i"}]}});
    let result =
        served.raw("POST", "/api/v1/namespaces/default/pods", "application/json", &body).await;
    let Err(kube::Error::Api(status)) = result else {
        panic!("expected a refusal, got {result:?}")
    };
    let details = status.details.expect("details");
    assert_eq!((details.name.as_str(), details.kind.as_str()), ("b", "Pod"));
    let causes: Vec<(String, String)> =
        details.causes.into_iter().map(|cause| (cause.field, cause.reason)).collect();
    let expected = [
        ("spec.containers[0].image".into(), "FieldValueRequired".into()),
        ("spec.containers[1].name".into(), "FieldValueDuplicate".into()),
    ];
    assert_eq!(causes, expected);
}

#[tokio::test]
async fn malformed_requests_are_refused_not_fatal() {
    let served = still().await;
    for (method, path, expected) in [
        ("GET", "/api/v1/sheep", 404),
        ("GET", "/apis/none.example/v1/things", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/b/c", 404),
        ("GET", "/api/v1/namespaces/default/pods?limit=many", 400),
        ("GET", "/api/v1/namespaces/default/pods?watch=1&resourceVersion=x", 400),
        ("GET", "/api/v1/namespaces/default/pods?watch=1&sendInitialEvents=true", 422),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/api/v1/nodes/a", 405),
        ("GET", "/nothing", 404),
    ] {
        let result = served.raw(method, path, "application/json", &json!({})).await;
        assert_eq!(refusal(result).0, expected, "{method} {path}");
    }
    let request = http::Request::post("/api/v1/namespaces/default/pods")
        .body(b"{\"metadata\":".to_vec())
        .expect("a request");
    assert_eq!(refusal(served.client.request_text(request).await).0, 400);
    assert_eq!(
        refusal(
            served
                .raw("GET", "/api/v1/pods", "application/vnd.kubernetes.protobuf", &Value::Null)
                .await
        )
        .0,
        406
    );
}

#[tokio::test]
async fn generated_names_differ_and_follow_the_seed() {
    let served = still().await;
    let mut value = pod_value("x");
    value["metadata"] = json!({"generateName": "job-"});
    let one = served.cluster.create(value.clone()).expect("created");
    let other = served.cluster.create(value.clone()).expect("created");
    assert!(one.name().starts_with("job-") && one.name().len() == 9);
    assert_ne!(one.name(), other.name());
    let again = still().await.cluster.create(value).expect("created").name().to_owned();
    assert_eq!(again, one.name());
}

#[tokio::test]
async fn a_generated_name_that_is_taken_is_generated_again() {
    // Of so many random suffixes several are equal.
    const N_OBJECTS: usize = 20_000;
    let served = still().await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"generateName": "a-", "namespace": "default"}});
    let objects = std::iter::repeat_n(object, N_OBJECTS);
    assert_eq!(
        served.cluster.bulk_create(objects).map_err(|error| error.to_string()),
        Ok(N_OBJECTS)
    );
}

#[tokio::test]
async fn leases_are_replaced_only_with_their_version() {
    let served = still().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let lease = json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": "one"}});
    let created = served.raw("POST", path, "", &lease).await.expect("created");
    let one = format!("{path}/leader");
    assert_eq!(refusal(served.raw("PUT", &one, "", &lease).await).0, 422);
    let mut mine = created.clone();
    mine["spec"]["holderIdentity"] = json!("two");
    served.raw("PUT", &one, "", &mine).await.expect("replaced");
    let mut late = created;
    late["spec"]["holderIdentity"] = json!("three");
    assert_eq!(refusal(served.raw("PUT", &one, "", &late).await).1, "Conflict");
    assert_eq!(served.get(&one).await["spec"]["holderIdentity"], "two");
}

#[tokio::test]
async fn bindings_can_be_posted_to_their_own_collection() {
    let served = still().await;
    served.create_pod("a").await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    served.raw("POST", "/api/v1/namespaces/default/bindings", "", &binding).await.expect("bound");
    assert_eq!(refusal(served.bind("a", "n").await).0, 409);
    assert_eq!(
        refusal(served.raw("GET", "/api/v1/namespaces/default/bindings", "", &Value::Null).await).0,
        405
    );
}
