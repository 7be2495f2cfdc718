//! Pods that are alike but for their names, as the replicas of a controller: a question has such a run as one entry.
//!
//! Invariant: what is made of the entries are the pods that went in, in their order and with their names.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use kube_scheduler_answers::generated_name;
use kube_scheduler_api_types::well_known::is_numbering_label;
use serde_json::{Value, json};

use super::no_pod;
use crate::commands::sources::print_remark;

/// How many pods that differ are asked about one by one.
const MAX_DIFFERENT: usize = 1_000;

/// Which pods to ask about one by one: the first of each run of replicas that are alike, which is said.
///
/// # Errors
/// If there are too many.
pub(super) fn first_of_each(pods: &[&Value]) -> Result<Vec<usize>> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut last = None;
    for (at, pod) in pods.iter().enumerate() {
        let this = likeness(pod);
        match runs.last_mut() {
            Some((_, count)) if this.is_some() && this == last => *count += 1,
            _ => runs.push((at, 1)),
        }
        last = this;
    }
    if runs.len() > MAX_DIFFERENT {
        let n = runs.len();
        bail!(
            "the manifests stand for {n} pods that differ, and at most {MAX_DIFFERENT} are asked about one by one: `what-if --add` places them together"
        );
    }
    for (at, count) in runs.iter().filter(|(_, count)| *count > 1) {
        print_remark(format!(
            "{} stands for {count} replicas, each by itself as things are now: `what-if --add` places them together",
            key(pods[*at])
        ));
    }
    Ok(runs.into_iter().map(|(at, _)| at).collect())
}

/// Which of the pods is the template whose copies are counted: the first, if one controller would create all of them.
///
/// # Errors
/// If there is none, or more than one.
pub(super) fn template(pods: &[&Value], stands_for_none: bool) -> Result<usize> {
    if pods.len() == 1 {
        return Ok(0);
    }
    if pods.is_empty() && stands_for_none {
        bail!(no_pod(true));
    }
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods {
        let by_itself = || format!("pod {}", key(pod));
        *owners.entry(owner(pod).unwrap_or_else(by_itself)).or_default() += 1;
    }
    match owners.first_key_value() {
        // Its pods are for one node each.
        Some((owner, _)) if owners.len() == 1 && !owner.starts_with("DaemonSet ") => Ok(0),
        None => bail!("expected one pod, found none"),
        _ => {
            let found: Vec<String> = owners
                .into_iter()
                .map(|(owner, n)| if n == 1 { owner } else { format!("{n} pods of {owner}") })
                .collect();
            bail!("expected one pod, or replicas of one template; found {}", found.join(", "))
        }
    }
}

/// `namespace/name`.
fn key(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// The controller of a pod in words, if it has one.
fn owner(pod: &Value) -> Option<String> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    let text = |field: &str| controller[field].as_str().unwrap_or_default();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    Some(format!("{} {namespace}/{}", text("kind"), text("name")))
}

/// A pod of a controller without what differs between replicas that are alike; `None` for one without a controller.
fn likeness(pod: &Value) -> Option<Value> {
    owner(pod)?;
    let mut pod = pod.clone();
    let metadata = pod.get_mut("metadata")?.as_object_mut()?;
    for field in ["name", "uid", "generateName"] {
        metadata.remove(field);
    }
    for field in ["labels", "annotations"] {
        if let Some(pairs) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            pairs.retain(|key, _| !is_numbering_label(key));
        }
    }
    pod.get_mut("spec")?.as_object_mut()?.remove("hostname");
    Some(pod)
}

/// Pods in a row whose names are the numbers from `first` on behind one `generateName`.
struct Run<'a> {
    head: &'a Value,
    /// The first pod without its name and UID.
    template: Value,
    first: usize,
    count: usize,
}

/// Pods as entries of `addPods`, alike ones in a row as one.
pub(super) fn of<'a>(pods: impl Iterator<Item = &'a Value>) -> impl Iterator<Item = Value> {
    let mut entries: Vec<Value> = Vec::new();
    let mut run: Option<Run<'a>> = None;
    for pod in pods {
        let Some(next) = Run::begin(pod) else {
            entries.extend(run.take().map(Run::entry));
            entries.push(json!({"pod": pod}));
            continue;
        };
        match &mut run {
            Some(run) if run.is_followed_by(&next) => run.count += 1,
            _ => entries.extend(run.replace(next).map(Run::entry)),
        }
    }
    entries.extend(run.map(Run::entry));
    entries.into_iter()
}

impl<'a> Run<'a> {
    /// A run of one pod; `None` if its name is not one that was generated.
    fn begin(pod: &'a Value) -> Option<Self> {
        let text = |field: &str| pod["metadata"][field].as_str().filter(|text| !text.is_empty());
        let (prefix, name) = (text("generateName")?, text("name")?);
        let first: usize = name.strip_prefix(prefix)?.parse().ok()?;
        if generated_name(prefix, first) != name {
            return None;
        }
        let mut template = pod.clone();
        let metadata = template.get_mut("metadata")?.as_object_mut()?;
        metadata.remove("name");
        metadata.remove("uid");
        Some(Self { head: pod, template, first, count: 1 })
    }

    fn is_followed_by(&self, next: &Self) -> bool {
        next.first.checked_sub(self.first) == Some(self.count) && next.template == self.template
    }

    fn entry(self) -> Value {
        match self {
            Self { head, count: 1, .. } => json!({"pod": head}),
            Self { template, first, count, .. } => {
                json!({"pod": template, "count": count, "first": first})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(set: &str, number: usize, cpu: &str) -> Value {
        let prefix = format!("{set}-");
        json!({
            "metadata": {"name": generated_name(&prefix, number), "generateName": prefix, "uid": format!("{set}{number}")},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        })
    }

    /// What stands for each entry: the name of a single pod, or prefix, first number and count.
    fn entries(pods: &[Value]) -> Vec<(String, usize, usize)> {
        let number = |entry: &Value, field: &str| entry[field].as_u64().unwrap_or(0) as usize;
        let entries = of(pods.iter()).map(|entry| {
            let meta = &entry["pod"]["metadata"];
            let name = meta["name"].as_str().or(meta["generateName"].as_str()).unwrap_or_default();
            (name.to_owned(), number(&entry, "first"), number(&entry, "count"))
        });
        entries.collect()
    }

    fn entry(name: &str, first: usize, count: usize) -> (String, usize, usize) {
        (name.to_owned(), first, count)
    }

    fn refs(pods: &[Value]) -> Vec<&Value> {
        pods.iter().collect()
    }

    fn owned(name: &str, kind: &str, spec: &Value) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": name, "labels": {"apps.kubernetes.io/pod-index": name},
                "ownerReferences": [{"kind": kind, "name": "web", "controller": true}]},
            "spec": spec,
        })
    }

    #[test]
    fn replicas_that_are_alike_are_asked_about_once() {
        let (small, large) = (json!({"hostname": "a"}), json!({"priority": 1}));
        let named = json!({"metadata": {"name": "x"}, "spec": {}});
        let pods = [
            owned("web-0", "StatefulSet", &small),
            owned("web-1", "StatefulSet", &json!({})),
            owned("web-2", "StatefulSet", &large),
            // Who names two pods wants to know of both.
            named.clone(),
            named,
        ];
        assert_eq!(first_of_each(&refs(&pods)).unwrap(), [0, 2, 3, 4]);
        let many: Vec<Value> = (0..=MAX_DIFFERENT)
            .map(|n| owned("web", "DaemonSet", &json!({"nodeName": n.to_string()})))
            .collect();
        let refused = first_of_each(&refs(&many)).unwrap_err().to_string();
        assert!(refused.contains("1001 pods that differ, and at most 1000"), "{refused}");
    }

    #[test]
    fn a_template_is_one_pod_or_those_of_one_controller() {
        let set =
            [owned("web-0", "ReplicaSet", &json!({})), owned("web-1", "ReplicaSet", &json!({}))];
        let refused = |pods: &[Value], stands_for_none: bool| {
            template(&refs(pods), stands_for_none).unwrap_err().to_string()
        };
        assert_eq!(template(&refs(&set), false).unwrap(), 0);
        assert_eq!(template(&refs(&set[..1]), false).unwrap(), 0);
        let mut mixed = set.to_vec();
        mixed.push(json!({"metadata": {"namespace": "shop", "name": "x"}}));
        assert_eq!(
            refused(&mixed, false),
            "expected one pod, or replicas of one template; found 2 pods of ReplicaSet shop/web, pod shop/x"
        );
        let agents = ["a", "b"].map(|name| owned(name, "DaemonSet", &json!({})));
        assert!(refused(&agents, false).contains("2 pods of DaemonSet shop/web"));
        assert!(refused(&[], true).contains("stand for no pod (replicas 0"));
        assert_eq!(refused(&[], false), "expected one pod, found none");
    }

    #[test]
    fn replicas_in_a_row_are_one_entry() {
        let run = |numbers: std::ops::Range<usize>| numbers.map(|n| replica("web", n, "1"));
        let pods: Vec<Value> = run(99_990..100_010).collect();
        assert_eq!(entries(&pods), [entry("web-", 99_990, 20)]);
        let entry_of_all = of(pods.iter()).next().unwrap();
        assert_eq!(entry_of_all["pod"]["metadata"], json!({"generateName": "web-"}));
        assert_eq!(entry_of_all["pod"]["spec"], pods[0]["spec"]);
    }

    #[test]
    fn the_order_of_pods_stays_and_what_differs_stands_by_itself() {
        let mut named = replica("web", 4, "1");
        named["metadata"]["name"] = json!("web-4");
        let pods = [
            replica("web", 1, "1"),
            replica("web", 2, "1"),
            replica("api", 3, "1"),
            // A gap, another size, and a name that was not generated.
            replica("web", 5, "1"),
            replica("web", 7, "1"),
            replica("web", 8, "2"),
            named,
            replica("web", 9, "2"),
        ];
        assert_eq!(
            entries(&pods),
            [
                entry("web-", 1, 2),
                entry("api-00003", 0, 0),
                entry("web-00005", 0, 0),
                entry("web-00007", 0, 0),
                entry("web-00008", 0, 0),
                entry("web-4", 0, 0),
                entry("web-00009", 0, 0),
            ]
        );
    }
}
