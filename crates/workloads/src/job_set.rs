//! JobSets (`jobset.x-k8s.io`): several Jobs that run together.

use serde_json::{Map, Value};

use crate::controller::Controller;
use crate::cron_job::job_of;
use crate::json::{at, child_mut, int_at, labels_mut, text_at};

/// How many Jobs the entry `replicated` of `spec.replicatedJobs` asks for.
pub(crate) fn replicas(replicated: &Value) -> i64 {
    int_at(replicated, &["replicas"]).unwrap_or(1).max(0)
}

/// The Job number `index` of an entry of `spec.replicatedJobs`. It and its pods have labels with the names of
/// the JobSet and of the entry, and the number.
pub(crate) fn job(job_set: &Controller<'_>, replicated: &Value, index: i64) -> Value {
    let group = text_at(replicated, &["name"]);
    let template = replicated.get("template").unwrap_or(&Value::Null);
    let mut job = job_of(template, &format!("{}-{group}-{index}", job_set.name));
    let labels = |labels: &mut Map<String, Value>| {
        let index = index.to_string();
        for (key, value) in [
            ("jobset.sigs.k8s.io/jobset-name", job_set.name),
            ("jobset.sigs.k8s.io/replicatedjob-name", group),
            ("jobset.sigs.k8s.io/job-index", &index),
        ] {
            labels.insert(key.into(), value.into());
        }
    };
    labels(labels_mut(&mut job));
    let spec = child_mut(&mut job, "spec");
    if at(job_set.value, &["spec", "suspend"]) == Some(&true.into()) {
        spec.insert("suspend".into(), true.into());
    }
    labels(labels_mut(spec.entry("template").or_insert(Value::Null)));
    job_set.adopt(&mut job);
    job
}
