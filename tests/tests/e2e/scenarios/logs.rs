//! What the log says at the highest verbosity.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::objects::{asking, nodes, priority_class, with};
use crate::scheduler::Program;
use crate::wait::until;

/// Kinds of lines of the reference: verbosity, message and keys, separated by `|`.
const RECORDED: &str = include_str!("../../../data/log-lines.txt");

/// Verbosity and keys of a line.
type Kind = (u64, BTreeSet<String>);

fn recorded() -> BTreeMap<String, BTreeSet<Kind>> {
    let mut kinds: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let [verbosity, message, keys] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line:?} is no kind of line");
        };
        let keys = keys.split(", ").map(str::to_owned).collect();
        kinds.entry(message.to_owned()).or_default().insert((verbosity.parse().unwrap(), keys));
    }
    kinds
}

fn kinds_of(log: &str) -> BTreeMap<String, BTreeSet<Kind>> {
    let mut kinds: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
    for line in log.lines() {
        let Ok(line) = serde_json::from_str::<Map<String, Value>>(line) else { continue };
        let message = line["msg"].as_str().unwrap_or_default().to_owned();
        let verbosity = line.get("v").and_then(Value::as_u64).unwrap_or_default();
        let frame = ["ts", "caller", "msg", "v", "logger"];
        let keys = line.keys().filter(|key| !frame.contains(&key.as_str())).cloned().collect();
        kinds.entry(message).or_default().insert((verbosity, keys));
    }
    kinds
}

/// Pods that fit, do not fit, make room, are updated and deleted: every recorded kind of line is there, with the recorded
/// verbosity and keys and no others.
pub(crate) async fn lines_are_of_the_recorded_kinds(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all([priority_class("low", 10), priority_class("high", 1000)]).await.unwrap();
    api.create_all(nodes(2)).await.unwrap();
    let of = |name: &str, class: &str, cpu: &str| {
        with(asking(name, cpu), json!({"spec": {"priorityClassName": class}}))
    };
    let args = ["-v=10", "--logging-format=json", "--secure-port=0", "--leader-elect=false"];
    let scheduler = Program::start(cluster, "lines", &args).unwrap();
    api.create_all((0..2).map(|i| of(&format!("low-{i}"), "low", "3"))).await.unwrap();
    cluster.until_bound(2).await;
    api.create(&of("huge", "low", "100")).await.unwrap();
    cluster.until_told("huge", "FailedScheduling").await;
    api.create(&of("high", "high", "3500m")).await.unwrap();
    cluster.node_of("high").await;
    let labels = json!({"metadata": {"labels": {"changed": "yes"}}});
    api.patch("Node", "node-0", "", &labels).await.unwrap();
    api.patch("Pod", "high", "", &labels).await.unwrap();
    api.patch("Pod", "huge", "", &labels).await.unwrap();
    for name in ["huge", "high"] {
        let path = format!("/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0");
        api.send("DELETE", &path, None, "").await.unwrap();
    }
    api.send("DELETE", "/api/v1/nodes/node-1", None, "").await.unwrap();
    let recorded = recorded();
    until("all recorded lines", async || {
        let seen = kinds_of(&scheduler.log());
        recorded.keys().all(|message| seen.contains_key(message))
    })
    .await;
    let seen = kinds_of(&scheduler.log());
    assert_eq!(scheduler.terminate().await.unwrap(), Some(0));
    for (message, kinds) in &recorded {
        assert_eq!(seen.get(message), Some(kinds), "{message}");
    }
}
