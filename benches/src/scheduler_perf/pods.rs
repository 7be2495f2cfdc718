//! Which pods there are, how far each is, and who is notified when one gets a node.
//!
//! Invariant: a pod counts as scheduled once for each time that it is seen with a node after it was seen without one, or
//! after it was not known; so pods that are created again under an old name count again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result};
use kube_scheduler_api_types::lock;
use kube_scheduler_tests::control_plane::{Api, Change, WatchError, open_watch};
use serde::Deserialize;
use tokio::sync::watch;

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Unattempted,
    /// It has the condition PodScheduled, but no node.
    Attempted,
    Scheduled,
}

/// Pods that are asked about: of these namespaces, or of all if none is named, with these labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodFilter {
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl PodFilter {
    pub(crate) fn namespace(name: &str) -> Self {
        Self { namespaces: [name.to_owned()].into(), labels: BTreeMap::new() }
    }

    fn matches(&self, namespace: &str, pod: &Pod) -> bool {
        (self.namespaces.is_empty() || self.namespaces.contains(namespace))
            && self.labels.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
    }
}

#[derive(Clone, Debug)]
struct Pod {
    uid: String,
    labels: BTreeMap<String, String>,
    progress: Progress,
    /// The message of the condition PodScheduled.
    message: String,
}

/// Pods by namespace and name.
#[derive(Debug, Default)]
struct Table {
    pods: HashMap<String, HashMap<String, Pod>>,
    counters: Vec<Counter>,
    next_counter: usize,
}

#[derive(Debug)]
struct Counter {
    id: usize,
    filter: PodFilter,
    n_scheduled: usize,
}

/// What is known of pods, kept up to date by [`follow`].
#[derive(Clone, Debug)]
pub(crate) struct Pods {
    table: Arc<Mutex<Table>>,
    changes: watch::Sender<u64>,
}

/// How many pods are how far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) scheduled: usize,
    pub(crate) attempted: usize,
    pub(crate) unattempted: usize,
    /// One that is not scheduled, preferably one that was tried, and what its condition says.
    pub(crate) pending: Option<String>,
}

impl Pods {
    pub(crate) fn new() -> Self {
        Self { table: Arc::default(), changes: watch::channel(0).0 }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing that holds the lock can panic half way.
        lock(&self.table)
    }

    /// Counts pods.
    pub(crate) fn count(&self, filter: &PodFilter) -> Counts {
        let table = self.lock();
        let mut counts = Counts::default();
        let mut names = [None, None];
        // The order is random, but sums are not, and the first name in the alphabet is not either.
        #[expect(
            clippy::iter_over_hash_type,
            reason = "sums and minima do not depend on the order"
        )]
        for (namespace, pods) in &table.pods {
            #[expect(clippy::iter_over_hash_type, reason = "as above")]
            for (name, pod) in pods {
                if !filter.matches(namespace, pod) {
                    continue;
                }
                let slot = match pod.progress {
                    Progress::Scheduled => {
                        counts.scheduled += 1;
                        continue;
                    }
                    Progress::Attempted => {
                        counts.attempted += 1;
                        &mut names[0]
                    }
                    Progress::Unattempted => {
                        counts.unattempted += 1;
                        &mut names[1]
                    }
                };
                let key = (namespace, name, &pod.message);
                if slot.is_none_or(|old| key < old) {
                    *slot = Some(key);
                }
            }
        }
        counts.pending = names.into_iter().flatten().next().map(|(namespace, name, message)| {
            let message = if message.is_empty() { "not tried yet" } else { message };
            format!("{namespace}/{name}: {message}")
        });
        counts
    }

    /// Names of a namespace's pods with these labels, in alphabetical order.
    pub(crate) fn names(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<String> {
        let filter = PodFilter { namespaces: BTreeSet::new(), labels: labels.clone() };
        let table = self.lock();
        let pods = table.pods.get(namespace).into_iter().flatten();
        let mut names: Vec<String> = pods
            .filter(|(_, pod)| filter.matches(namespace, pod))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names
    }

    /// Begins to count pods that get a node; those that have one already count too.
    pub(crate) fn count_scheduled(&self, filter: PodFilter) -> ScheduledCounter {
        let n_scheduled = self.count(&filter).scheduled;
        let mut table = self.lock();
        let id = table.next_counter;
        table.next_counter += 1;
        table.counters.push(Counter { id, filter, n_scheduled });
        drop(table);
        ScheduledCounter { pods: self.clone(), id }
    }

    /// Changes whenever a pod did.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes over a list of all pods.
    fn replace(&self, objects: Vec<Object>) {
        let mut listed: HashMap<String, BTreeSet<String>> = HashMap::new();
        for object in &objects {
            let Metadata { namespace, name, .. } = &object.metadata;
            listed.entry(namespace.clone()).or_default().insert(name.clone());
        }
        self.lock().pods.retain(|namespace, pods| {
            let listed = listed.get(namespace);
            pods.retain(|name, _| listed.is_some_and(|names| names.contains(name)));
            listed.is_some()
        });
        for object in objects {
            self.apply(Change::Applied(object));
        }
    }

    fn apply(&self, change: Change<Object>) {
        let (object, is_gone) = match change {
            Change::Applied(object) => (object, false),
            Change::Deleted(object) => (object, true),
        };
        let Metadata { namespace, name, uid, labels } = object.metadata;
        let mut table = self.lock();
        let table = &mut *table;
        let pods = table.pods.entry(namespace.clone()).or_default();
        if is_gone {
            pods.remove(&name);
        } else {
            let condition =
                object.status.conditions.into_iter().find(|one| one.kind == "PodScheduled");
            let progress = match (&condition, object.spec.node_name.is_empty()) {
                (_, false) => Progress::Scheduled,
                (Some(_), true) => Progress::Attempted,
                (None, true) => Progress::Unattempted,
            };
            let message = condition.map(|one| one.message).unwrap_or_default();
            let pod = Pod { uid, labels, progress, message };
            let was_scheduled = pods
                .get(&name)
                .is_some_and(|old| old.uid == pod.uid && old.progress == Progress::Scheduled);
            if progress == Progress::Scheduled && !was_scheduled {
                for counter in &mut table.counters {
                    if counter.filter.matches(&namespace, &pod) {
                        counter.n_scheduled += 1;
                    }
                }
            }
            pods.insert(name, pod);
        }
        self.changes.send_modify(|n| *n += 1);
    }
}

/// Counts pods of a filter that get a node, until it is dropped.
#[derive(Debug)]
pub(crate) struct ScheduledCounter {
    pods: Pods,
    id: usize,
}

impl ScheduledCounter {
    pub(crate) fn n_scheduled(&self) -> usize {
        let table = self.pods.lock();
        let counter = table.counters.iter().find(|counter| counter.id == self.id);
        counter.map_or(0, |counter| counter.n_scheduled)
    }
}

impl Drop for ScheduledCounter {
    fn drop(&mut self) {
        self.pods.lock().counters.retain(|counter| counter.id != self.id);
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

#[derive(Deserialize)]
struct List {
    metadata: ListMetadata,
    items: Vec<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

/// Follows all pods. `standing` is notified when the first watch is established.
pub(crate) async fn follow(
    api: Api,
    pods: Pods,
    standing: tokio::sync::oneshot::Sender<()>,
) -> Result<()> {
    let mut standing = Some(standing);
    loop {
        // Servers end watches whose readers fall behind; then everything is listed again.
        let list = api.text("/api/v1/pods").await.context("list pods")?;
        let list: List = serde_json::from_str(&list).context("list pods")?;
        pods.replace(list.items);
        let path = format!(
            "/api/v1/pods?watch=1&timeoutSeconds=86400&resourceVersion={}",
            list.metadata.resource_version
        );
        let mut watch = open_watch(&api, &path).await?;
        if let Some(standing) = standing.take() {
            // The waiting task may be gone.
            let _ = standing.send(());
        }
        // A watch that breaks off is one that has ended; if the server is gone, listing says so.
        loop {
            match watch.next().await {
                Ok(Some(change)) => pods.apply(change),
                Err(error @ WatchError::Malformed(_)) => return Err(error.into()),
                Ok(None) | Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(
        pods: &Pods,
        change: fn(Object) -> Change<Object>,
        name: &str,
        uid: &str,
        node: &str,
        condition: bool,
    ) {
        let conditions = if condition {
            json!([{"type": "PodScheduled", "status": "False", "message": "no room"}])
        } else {
            json!([])
        };
        let object = json!({"metadata": {"namespace": "a", "name": name, "uid": uid,
            "labels": {"type": name}}, "spec": {"nodeName": node}, "status": {"conditions": conditions}});
        pods.apply(change(serde_json::from_value(object).unwrap()));
    }

    #[test]
    fn pods_are_counted_by_how_far_they_are() {
        let pods = Pods::new();
        apply(&pods, Change::Applied, "x", "1", "", false);
        apply(&pods, Change::Applied, "y", "2", "", true);
        apply(&pods, Change::Applied, "z", "3", "n", false);
        let counts = pods.count(&PodFilter::namespace("a"));
        assert_eq!((counts.scheduled, counts.attempted, counts.unattempted), (1, 1, 1));
        assert_eq!(counts.pending.unwrap(), "a/y: no room");
        let x = PodFilter { labels: [("type".into(), "x".into())].into(), ..PodFilter::default() };
        assert_eq!(pods.count(&x).pending.unwrap(), "a/x: not tried yet");
        assert_eq!(pods.count(&PodFilter::namespace("b")), Counts::default());
        assert_eq!(pods.names("a", &BTreeMap::new()), ["x", "y", "z"]);
        apply(&pods, Change::Deleted, "z", "3", "n", false);
        assert_eq!(pods.count(&PodFilter::default()).scheduled, 0);
    }

    #[test]
    fn a_pod_counts_once_for_each_time_it_gets_a_node() {
        let pods = Pods::new();
        apply(&pods, Change::Applied, "x", "1", "n", false);
        let counter = pods.count_scheduled(PodFilter::namespace("a"));
        assert_eq!(counter.n_scheduled(), 1);
        apply(&pods, Change::Applied, "x", "1", "n", false);
        assert_eq!(counter.n_scheduled(), 1);
        apply(&pods, Change::Deleted, "x", "1", "n", false);
        apply(&pods, Change::Applied, "x", "2", "", false);
        apply(&pods, Change::Applied, "x", "2", "n", false);
        assert_eq!(counter.n_scheduled(), 2);
        drop(counter);
        assert!(pods.lock().counters.is_empty());
    }

    #[test]
    fn a_list_replaces_what_was_known() {
        let pods = Pods::new();
        apply(&pods, Change::Applied, "gone", "1", "n", false);
        apply(&pods, Change::Applied, "bound", "2", "", false);
        let counter = pods.count_scheduled(PodFilter::namespace("a"));
        let listed = json!([{"metadata": {"namespace": "a", "name": "bound", "uid": "2"},
            "spec": {"nodeName": "n"}}]);
        pods.replace(serde_json::from_value(listed).unwrap());
        assert_eq!(pods.names("a", &BTreeMap::new()), ["bound"]);
        assert_eq!(counter.n_scheduled(), 2);
    }
}
