//! Which pods lead or wait to lead, found by the lease of the schedulers.
//!
//! Invariants: a pod is only ever a guess, because names and labels of pods can be had by others; who is asked is decided by the
//! certificate in the lease.

use kube::Client;
use kube_scheduler_api_types::Timestamp;
use serde_json::Value;

use super::AskError;
use crate::announcement::{Announcement, Standbys};
use crate::clock::Clock;
use crate::lookup::{escaped, read};
use crate::transport::PodPort;

/// Where a scheduler's secure port is unless it says otherwise.
const SECURE_PORT: u16 = 10259;
/// How many standbys are tried one after the other.
const MAX_STANDBYS: usize = 3;
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

/// Who is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    announcement: Announcement,
    /// What it is to the lease: its `holder`, or a `standby`.
    pub(super) role: &'static str,
}

/// The holder of a lease, if it has announced its certificate, then those who wait for it, the latest announcement first; none if
/// there is no lease.
pub(super) async fn candidates(
    client: &Client,
    lease: &LeaseName,
) -> Result<Vec<Candidate>, AskError> {
    let LeaseName { namespace, name } = lease;
    let place = format!("/apis/coordination.k8s.io/v1/namespaces/{}", escaped(namespace));
    let found = read(client, &format!("{place}/leases/{}", escaped(name))).await;
    let found = found.map_err(|message| not_reached(lease, &message))?;
    Ok(found.map(|lease| in_lease(&lease, Clock::wall())).unwrap_or_default())
}

fn in_lease(lease: &Value, now: Timestamp) -> Vec<Candidate> {
    let holder = Announcement::in_lease(lease);
    let role = "holder";
    let mut all: Vec<Candidate> =
        holder.into_iter().map(|announcement| Candidate { announcement, role }).collect();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let standbys = Standbys::in_lease(lease).into_latest(now);
    // One that has taken over is no standby any more, whatever it said before.
    let standbys = standbys.filter(|standby| standby.identity != *holder).take(MAX_STANDBYS);
    all.extend(standbys.map(|announcement| Candidate { announcement, role: "standby" }));
    all
}

/// The secure port of a candidate.
pub(super) async fn port_of(
    client: &Client,
    lease: &LeaseName,
    candidate: &Candidate,
) -> Result<PodPort, AskError> {
    let namespace = &lease.namespace;
    let Candidate { announcement: Announcement { identity, certificate }, role } = candidate;
    // An identity is `<host>_<random UUID>`, and a pod's host has its name, or that of the node if it shares its network.
    let host = identity.rsplit_once('_').map_or(identity.as_str(), |(host, _)| host);
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
            &format!("its {role} {identity:?} is no scheduler's pod of namespace {namespace}"),
        ));
    };
    Ok(PodPort {
        namespace: namespace.clone(),
        name: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        port: secure_port(&pod),
        certificate: *certificate,
    })
}

fn not_reached(lease: &LeaseName, message: &str) -> AskError {
    AskError::NotReached { url: format!("lease {lease}"), message: message.to_owned() }
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
    fn the_holder_comes_first_then_standbys_that_are_still_there() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let lease = |holder: &str| {
            let line =
                |who: &str, minute: u8| format!("{who} {digest} 2026-01-01T00:{minute:02}:00Z");
            let standbys = [line("a_1", 0), line("b_1", 20), line("c_1", 10), line("d_1", 30)];
            json!({
                "metadata": {"annotations": {
                    "answers.kube-scheduler.rs/serving-certificate": format!("a_1 {digest}"),
                    "answers.kube-scheduler.rs/standby-certificates": standbys.join("\n"),
                }},
                "spec": {"holderIdentity": holder},
            })
        };
        let found = |holder: &str, minute: i64| {
            let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap().as_nanos();
            let now = Timestamp::from_millis(now / 1_000_000 + minute * 60_000);
            let all = in_lease(&lease(holder), now).into_iter();
            all.map(|one| format!("{} {}", one.role, one.announcement.identity)).collect::<Vec<_>>()
        };
        assert_eq!(found("a_1", 15), ["holder a_1", "standby d_1", "standby b_1", "standby c_1"]);
        // Another one holds it that announces nothing, or none.
        assert_eq!(found("x_1", 31), ["standby d_1", "standby b_1", "standby c_1"]);
        assert_eq!(found("", 45), ["standby d_1", "standby b_1"]);
        assert_eq!(found("d_1", 45), ["standby b_1"]);
        assert_eq!(found("x_1", 60), [""; 0]);
    }

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
