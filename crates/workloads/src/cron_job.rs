//! CronJobs: a Job for each run.

use serde_json::{Value, json};

use crate::controller::Controller;
use crate::json::{at, meta_mut};

/// The Job of one run. Kubernetes ends its name with the minute of the run; here `run` is the end.
pub(crate) fn job(cron_job: &Controller<'_>, run: &str) -> Value {
    let template = at(cron_job.value, &["spec", "jobTemplate"]).unwrap_or(&Value::Null);
    let mut job = job_of(template, &format!("{}-{run}", cron_job.name));
    cron_job.adopt(&mut job);
    job
}

/// A Job of a template of Jobs, without an owner.
pub(crate) fn job_of(template: &Value, name: &str) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": template.get("spec").cloned().unwrap_or_default(),
    });
    for field in ["labels", "annotations"] {
        if let Some(value) = at(template, &["metadata", field]) {
            meta_mut(&mut job).insert(field.into(), value.clone());
        }
    }
    job
}
