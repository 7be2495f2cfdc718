//! Jobs: pods that run until enough of them have succeeded.

use serde_json::Value;

use crate::controller::{Controller, PodNaming};
use crate::json::{annotations_mut, at, child_mut, int_at, labels_mut, list_at, meta_mut, text_at};

/// The annotation and label with the number of a pod of an indexed Job.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The label with the uid of a pod's Job, by which Jobs without a selector of their own select.
pub const UID: &str = "batch.kubernetes.io/controller-uid";

const NAME: &str = "batch.kubernetes.io/job-name";

/// Whether each pod of the Job has a number.
pub fn is_indexed(job: &Controller<'_>) -> bool {
    text_at(job.value, &["spec", "completionMode"]) == "Indexed"
}

/// Whether the Job is to have no pods for now.
pub fn is_suspended(job: &Controller<'_>) -> bool {
    at(job.value, &["spec", "suspend"]) == Some(&true.into())
}

/// Whether the Job has succeeded or failed.
pub fn has_ended(job: &Controller<'_>) -> bool {
    list_at(job.value, &["status", "conditions"]).iter().any(|condition| {
        matches!(text_at(condition, &["type"]), "Complete" | "Failed")
            && text_at(condition, &["status"]) == "True"
    })
}

/// How many pods run at the same time, if `succeeded` have succeeded and `active` run already.
pub fn parallelism(job: &Controller<'_>, succeeded: i64, active: i64) -> i64 {
    let left = match int_at(job.value, &["spec", "completions"]) {
        Some(completions) => completions.saturating_sub(succeeded).max(0),
        // A queue of work: the first success says that nothing is left to start.
        None if succeeded > 0 => active,
        None => i64::MAX,
    };
    if has_ended(job) || is_suspended(job) { 0 } else { job.count("parallelism", 1).min(left) }
}

/// Puts the labels of the Job's pods into a pod or into its template.
pub fn label(job: &Controller<'_>, object: &mut Value) {
    let labels = labels_mut(object);
    for (key, label) in
        [(UID, job.uid), (NAME, job.name), ("controller-uid", job.uid), ("job-name", job.name)]
    {
        labels.insert(key.into(), label.into());
    }
}

/// A pod; `index` is its number if the Job is indexed.
pub fn pod(job: &Controller<'_>, index: Option<i64>) -> Value {
    let mut pod = job.pod(PodNaming::Generated);
    let Some(index) = index else { return pod };
    annotations_mut(&mut pod).insert(INDEX.into(), index.to_string().into());
    labels_mut(&mut pod).insert(INDEX.into(), index.to_string().into());
    meta_mut(&mut pod).insert("generateName".into(), format!("{}-{index}-", job.name).into());
    child_mut(&mut pod, "spec").insert("hostname".into(), format!("{}-{index}", job.name).into());
    pod
}
