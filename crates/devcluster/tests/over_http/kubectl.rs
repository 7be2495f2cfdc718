//! What kubectl sends, as kubectl 1.32 has sent it: `data/kubectl.txt` has a path and a body in base64 per line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Request;
use serde_json::{Value, json};

use crate::served_cluster::{ServedCluster, refusal, still};

const BODIES: &str = include_str!("data/kubectl.txt");
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn post(served: &ServedCluster, path: &str, body: Vec<u8>) -> Result<Value, kube::Error> {
    let request = Request::post(path)
        .header("Content-Type", PROTOBUF)
        .header("Accept", format!("{PROTOBUF},application/json"))
        .body(body)
        .expect("a request");
    let text = served.client.request_text(request).await?;
    Ok(serde_json::from_str(&text).expect("json"))
}

fn recorded() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    BODIES.lines().map(|line| {
        let (path, body) = line.split_once(' ').expect("a path and a body");
        (path, BASE64.decode(body).expect("base64"))
    })
}

#[tokio::test]
async fn what_kubectl_creates_is_created() {
    let served = still().await;
    let expected = [
        ("namespaces/foo", "/metadata/name", json!("foo")),
        ("configmaps/c", "/data", json!({"a": "b"})),
        ("secrets/s", "/data", json!({"a": "Yg=="})),
        (
            "services/svc",
            "/spec/ports",
            json!([{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}]),
        ),
        ("serviceaccounts/robot", "/kind", json!("ServiceAccount")),
        ("deployments/web", "/spec/replicas", json!(3)),
        ("deployments/web", "/spec/template/spec/containers/0/image", json!("nginx")),
        ("deployments/web", "/spec/selector", json!({"matchLabels": {"app": "web"}})),
        ("jobs/j", "/spec/template/spec/containers/0/command", json!(["date"])),
        ("cronjobs/cj", "/spec/schedule", json!("* * * * *")),
        (
            "roles/r",
            "/rules/0",
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
        ),
        ("rolebindings/rb", "/subjects/0/name", json!("jane")),
        ("clusterroles/cr", "/rules/0/resources", json!(["nodes"])),
        ("clusterrolebindings/crb", "/roleRef/name", json!("cr")),
        ("resourcequotas/q", "/spec/hard", json!({"cpu": "1", "pods": "2"})),
        ("poddisruptionbudgets/pdb", "/spec/minAvailable", json!("50%")),
        ("priorityclasses/pc", "/value", json!(1000)),
        (
            "ingresses/ing",
            "/spec/rules/0/http/paths/0/backend/service",
            json!({"name": "svc1", "port": {"number": 8080}}),
        ),
        ("selfsubjectaccessreviews/", "/status/allowed", json!(true)),
    ];
    let mut created = Vec::new();
    for (path, body) in recorded() {
        let object =
            post(&served, path, body).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        let plural = path.rsplit('/').next().expect("a plural");
        created.push((
            format!("{plural}/{}", object["metadata"]["name"].as_str().unwrap_or("")),
            object,
        ));
    }
    for (name, pointer, value) in expected {
        let (_, object) = created.iter().find(|(one, _)| one == name).expect(name);
        assert_eq!(object.pointer(pointer), Some(&value), "{name} {pointer} {object}");
    }
}

#[tokio::test]
async fn what_is_not_known_is_refused_by_name_and_not_stored() {
    let served = still().await;
    let (path, mut body) =
        recorded().find(|(path, _)| path.ends_with("/configmaps")).expect("recorded");
    // A field more at the beginning of the config map, which is 27 bytes long.
    let at = body.windows(2).position(|pair| pair == [0x12, 27]).expect("the config map");
    body[at + 1] += 3;
    body.splice(at + 2..at + 2, [0x4a, 0x01, b'x']);
    let (code, _, message) = refusal(post(&served, path, body).await);
    assert_eq!(code, 400, "{message}");
    assert!(
        message.contains("has the field number 9, which this server does not know"),
        "{message}"
    );
    let maps = served.get("/api/v1/namespaces/default/configmaps").await;
    assert_eq!(maps["items"], json!([]));
}
