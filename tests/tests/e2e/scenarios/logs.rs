//! What the log says at the highest verbosity.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::objects::{
    asking, claim, local_volume, nodes, pod_with, priority_class, storage_class, with,
};
use crate::scheduler::Program;
use crate::wait::until;

/// Kinds of lines of the reference.
const RECORDED: &str = include_str!("../../../data/log-lines.txt");

/// Verbosity and keys of a line.
type Seen = (u64, BTreeSet<String>);

/// The same, with keys that may be missing.
struct Kind {
    verbosity: u64,
    keys: BTreeSet<String>,
    optional: BTreeSet<String>,
}

impl Kind {
    fn is_of(&self, (verbosity, keys): &Seen) -> bool {
        *verbosity == self.verbosity
            && keys.is_superset(&self.keys)
            && keys.difference(&self.keys).all(|key| self.optional.contains(key))
    }
}

fn recorded() -> BTreeMap<String, Vec<Kind>> {
    let mut kinds: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let [verbosity, message, keys] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line:?} is no kind of line");
        };
        let (optional, keys): (Vec<&str>, Vec<&str>) =
            keys.split(", ").partition(|key| key.ends_with('?'));
        kinds.entry(message.to_owned()).or_default().push(Kind {
            verbosity: verbosity.parse().unwrap(),
            keys: keys.into_iter().map(str::to_owned).collect(),
            optional: optional.iter().map(|key| key.trim_end_matches('?').to_owned()).collect(),
        });
    }
    kinds
}

fn kinds_of(log: &str) -> BTreeMap<String, BTreeSet<Seen>> {
    let mut kinds: BTreeMap<String, BTreeSet<Seen>> = BTreeMap::new();
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

/// Pods that fit, do not fit, make room, have volumes, are updated and deleted: every recorded kind of line is there, with
/// the recorded verbosity and keys and no others.
pub(crate) async fn lines_are_of_the_recorded_kinds(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all([
        priority_class("low", 10),
        priority_class("high", 1000),
        storage_class("local", "kubernetes.io/no-provisioner"),
    ])
    .await
    .unwrap();
    api.create_all(nodes(2)).await.unwrap();
    let of = |name: &str, class: &str, cpu: &str| {
        with(asking(name, cpu), json!({"spec": {"priorityClassName": class}}))
    };
    let args = ["-v=10", "--logging-format=json", "--secure-port=0", "--leader-elect=false"];
    let scheduler = Program::start(cluster, "lines", &args).unwrap();
    let says = async |message: &str| {
        until(message, async || kinds_of(&scheduler.log()).contains_key(message)).await;
    };
    api.create_all([local_volume("disk", "local", "node-0"), claim("data", "local")])
        .await
        .unwrap();
    api.create(&pod_with("stateful", "data")).await.unwrap();
    cluster.until_bound(1).await;
    api.create_all((0..2).map(|i| of(&format!("low-{i}"), "low", "3"))).await.unwrap();
    cluster.until_bound(3).await;
    api.create(&of("huge", "low", "100")).await.unwrap();
    cluster.until_event("huge", "FailedScheduling").await;
    // A little more room is not enough.
    let larger = json!({"status": {"allocatable": {"cpu": "4100m"}}});
    api.patch("Node", "node-0", "status", &larger).await.unwrap();
    says("Event is not making pod schedulable").await;
    api.create(&of("high", "high", "3500m")).await.unwrap();
    cluster.node_of("high").await;
    let labels = json!({"metadata": {"labels": {"changed": "yes"}}});
    api.patch("Node", "node-0", "", &labels).await.unwrap();
    api.patch("Pod", "high", "", &labels).await.unwrap();
    api.patch("Pod", "huge", "", &labels).await.unwrap();
    api.delete("Pod", "high", Some(0)).await.unwrap();
    api.delete("Pod", "huge", Some(0)).await.unwrap();
    api.delete("Node", "node-1", None).await.unwrap();
    let recorded = recorded();
    for message in recorded.keys() {
        says(message).await;
    }
    let seen = kinds_of(&scheduler.log());
    // As the reference without leader election.
    assert_eq!(scheduler.terminate().await.unwrap(), Some(1));
    for (message, kinds) in &recorded {
        let seen = &seen[message];
        for one in seen {
            assert!(kinds.iter().any(|kind| kind.is_of(one)), "{message}: {one:?}");
        }
        for kind in kinds {
            let is_there = seen.iter().any(|one| kind.is_of(one));
            assert!(is_there, "{message}: {:?} is not in {seen:?}", kind.keys);
        }
    }
}
