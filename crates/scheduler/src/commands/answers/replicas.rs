//! Pods that are alike but for their names, as the replicas of a controller: a question has such a run as one entry.
//!
//! Invariant: what is made of the entries are the pods that went in, in their order and with their names.

use kube_scheduler_answers::generated_name;
use serde_json::{Value, json};

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
