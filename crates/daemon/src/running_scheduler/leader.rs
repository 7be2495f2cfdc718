//! Which pod leads, found by the lease of the schedulers.
//!
//! Invariants: a pod is only ever a guess, because names and labels of pods can be had by others; who is asked is decided by the
//! certificate in the lease.

use http::Request;
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::AskError;
use crate::announcement::Announcement;
use crate::transport::PodPort;

/// Where a scheduler's secure port is unless it says otherwise.
const SECURE_PORT: u16 = 10259;
/// The labels that pods of schedulers have: of kubeadm's manifest, and of the chart.
const LABELS: [&str; 2] = ["component=kube-scheduler", "app.kubernetes.io/component=scheduler"];

/// A lease that schedulers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace, which is also that of the schedulers' pods.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The secure port of the leader; `None` if there is no lease, or its holder has announced no certificate.
pub(super) async fn port_of_leader(
    client: &Client,
    lease: &LeaseName,
) -> Result<Option<PodPort>, AskError> {
    let LeaseName { namespace, name } = lease;
    let place = format!("/apis/coordination.k8s.io/v1/namespaces/{}", escaped(namespace));
    let found = read(client, &format!("{place}/leases/{}", escaped(name))).await;
    let Some(found) = found.map_err(|message| not_reached(lease, &message))? else {
        return Ok(None);
    };
    let Some(Announcement { identity, certificate }) = Announcement::in_lease(&found) else {
        return Ok(None);
    };
    // An identity is `<host>_<random UUID>`, and a pod's host has its name, or that of the node if it shares its network.
    let host = identity.rsplit_once('_').map_or(&*identity, |(host, _)| host);
    let pods = format!("/api/v1/namespaces/{}/pods", escaped(namespace));
    let named = read(client, &format!("{pods}/{}", escaped(host))).await;
    let named = named.map_err(|message| not_reached(lease, &message))?;
    let mut pod = named.filter(is_labelled);
    for label in LABELS {
        if pod.is_some() {
            break;
        }
        let selectors = format!(
            "labelSelector={}&fieldSelector={}",
            escaped(label),
            escaped(&format!("spec.nodeName={host}"))
        );
        let listed = read(client, &format!("{pods}?{selectors}")).await;
        let listed = listed.map_err(|message| not_reached(lease, &message))?.unwrap_or_default();
        let all = listed["items"].as_array().into_iter().flatten();
        pod = all.into_iter().find(|pod| is_running_on_host(pod)).cloned();
    }
    let Some(pod) = pod else {
        return Err(not_reached(
            lease,
            &format!("its holder {identity:?} is no scheduler's pod of namespace {namespace}"),
        ));
    };
    Ok(Some(PodPort {
        namespace: namespace.clone(),
        name: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        port: secure_port(&pod),
        certificate,
    }))
}

fn not_reached(lease: &LeaseName, message: &str) -> AskError {
    AskError::NotReached { url: format!("lease {lease}"), message: message.to_owned() }
}

/// What is at a path; `None` if there is nothing, and the API server's words if it may not be read.
async fn read(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    match client.request::<Value>(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(error.to_string()),
    }
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Whether a pod says that it is a scheduler.
fn is_labelled(pod: &Value) -> bool {
    LABELS
        .into_iter()
        .filter_map(|label| label.split_once('='))
        .any(|(key, value)| pod["metadata"]["labels"][key] == value)
}

fn is_running_on_host(pod: &Value) -> bool {
    pod["spec"]["hostNetwork"] == true && pod["status"]["phase"] == "Running"
}

/// What `--secure-port` says in a container's command line, else the usual one.
fn secure_port(pod: &Value) -> u16 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let words = containers.flat_map(|container| {
        ["command", "args"].into_iter().flat_map(|part| container[part].as_array()).flatten()
    });
    let mut words = words.filter_map(Value::as_str);
    let mut port = None;
    while let Some(word) = words.next() {
        match word.trim_start_matches('-').split_once('=') {
            Some(("secure-port", value)) => port = Some(value),
            None if word == "--secure-port" => port = words.next(),
            _ => {}
        }
    }
    port.and_then(|port| port.parse().ok()).unwrap_or(SECURE_PORT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_port_is_read_from_the_command_line() {
        let pod = |words: Value| json!({"spec": {"containers": [{"args": words}]}});
        for (words, expected) in [
            (json!(["--secure-port=1234"]), 1234),
            (json!(["-v=2", "--secure-port", "1235", "--x"]), 1235),
            (json!(["--secure-port"]), SECURE_PORT),
            (json!(["--secure-port=x", 7]), SECURE_PORT),
            (json!("none"), SECURE_PORT),
        ] {
            assert_eq!(secure_port(&pod(words.clone())), expected, "{words}");
        }
        let split = json!({"spec": {"containers": [
            {"name": "a"}, {"command": ["kube-scheduler-rs"], "args": ["--secure-port=1"]},
        ]}});
        assert_eq!(secure_port(&split), 1);
        assert_eq!(secure_port(&Value::Null), SECURE_PORT);
    }
}
