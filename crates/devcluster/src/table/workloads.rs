//! Tables of workloads and disruption budgets.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Column, Layout, age, column, containers_and_images, name, number, or, selector_text, wide,
};
use crate::object::{at, int_at, list_at, text_at};

const DEPLOYMENT: &[Column] = &[
    column("Name"),
    column("Ready"),
    number("Up-to-date"),
    number("Available"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const REPLICA_SET: &[Column] = &[
    column("Name"),
    number("Desired"),
    number("Current"),
    number("Ready"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const STATEFUL_SET: &[Column] =
    &[column("Name"), column("Ready"), column("Age"), wide("Containers"), wide("Images")];
const DAEMON_SET: &[Column] = &[
    column("Name"),
    number("Desired"),
    number("Current"),
    number("Ready"),
    number("Up-to-date"),
    number("Available"),
    column("Node Selector"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const JOB: &[Column] = &[
    column("Name"),
    column("Status"),
    column("Completions"),
    column("Duration"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const CRON_JOB: &[Column] = &[
    column("Name"),
    column("Schedule"),
    column("Timezone"),
    column("Suspend"),
    number("Active"),
    column("Last Schedule"),
    column("Age"),
];
const BUDGET: &[Column] = &[
    column("Name"),
    column("Min Available"),
    column("Max Unavailable"),
    number("Allowed Disruptions"),
    column("Age"),
];

pub(super) fn layout(kind: &str) -> Option<Layout> {
    Some(match kind {
        "Deployment" => Layout { columns: DEPLOYMENT, cells: deployment },
        "ReplicaSet" | "ReplicationController" => {
            Layout { columns: REPLICA_SET, cells: replica_set }
        }
        "StatefulSet" => Layout { columns: STATEFUL_SET, cells: stateful_set },
        "DaemonSet" => Layout { columns: DAEMON_SET, cells: daemon_set },
        "Job" => Layout { columns: JOB, cells: job },
        "CronJob" => Layout { columns: CRON_JOB, cells: cron_job },
        "PodDisruptionBudget" => Layout { columns: BUDGET, cells: budget },
        _ => return None,
    })
}

fn status(value: &Value, field: &str) -> i64 {
    int_at(value, &["status", field]).unwrap_or(0)
}

fn desired(value: &Value) -> i64 {
    int_at(value, &["spec", "replicas"]).unwrap_or(0)
}

fn template(value: &Value) -> Option<&Value> {
    at(value, &["spec", "template", "spec"])
}

fn deployment(value: &Value, now: Timestamp) -> Vec<Value> {
    let (containers, images) = containers_and_images(template(value));
    vec![
        name(value),
        format!("{}/{}", status(value, "readyReplicas"), desired(value)).into(),
        status(value, "updatedReplicas").into(),
        status(value, "availableReplicas").into(),
        age(value, now),
        containers,
        images,
        selector_text(at(value, &["spec", "selector"])).into(),
    ]
}

fn replica_set(value: &Value, now: Timestamp) -> Vec<Value> {
    let (containers, images) = containers_and_images(template(value));
    vec![
        name(value),
        desired(value).into(),
        status(value, "replicas").into(),
        status(value, "readyReplicas").into(),
        age(value, now),
        containers,
        images,
        selector_text(at(value, &["spec", "selector"])).into(),
    ]
}

fn stateful_set(value: &Value, now: Timestamp) -> Vec<Value> {
    let (containers, images) = containers_and_images(template(value));
    vec![
        name(value),
        format!("{}/{}", status(value, "readyReplicas"), desired(value)).into(),
        age(value, now),
        containers,
        images,
    ]
}

fn daemon_set(value: &Value, now: Timestamp) -> Vec<Value> {
    let (containers, images) = containers_and_images(template(value));
    vec![
        name(value),
        status(value, "desiredNumberScheduled").into(),
        status(value, "currentNumberScheduled").into(),
        status(value, "numberReady").into(),
        status(value, "updatedNumberScheduled").into(),
        status(value, "numberAvailable").into(),
        super::labels_text(template(value).and_then(|spec| spec.get("nodeSelector"))).into(),
        age(value, now),
        containers,
        images,
        selector_text(at(value, &["spec", "selector"])).into(),
    ]
}

fn job(value: &Value, now: Timestamp) -> Vec<Value> {
    let (containers, images) = containers_and_images(template(value));
    let has = |wanted: &str| {
        list_at(value, &["status", "conditions"]).iter().any(|condition| {
            text_at(condition, &["type"]) == wanted && text_at(condition, &["status"]) == "True"
        })
    };
    let state = ["Complete", "Failed", "Suspended"]
        .into_iter()
        .find(|state| has(state))
        .unwrap_or("Running");
    let completions = int_at(value, &["spec", "completions"]).unwrap_or(1);
    let end = text_at(value, &["status", "completionTime"]).parse().unwrap_or(now);
    let duration = match text_at(value, &["status", "startTime"]).parse::<Timestamp>() {
        Ok(start) => age::human(end.as_second() - start.as_second()),
        Err(_) => String::new(),
    };
    vec![
        name(value),
        state.into(),
        format!("{}/{completions}", status(value, "succeeded")).into(),
        duration.into(),
        age(value, now),
        containers,
        images,
        selector_text(at(value, &["spec", "selector"])).into(),
    ]
}

fn cron_job(value: &Value, now: Timestamp) -> Vec<Value> {
    let suspended = at(value, &["spec", "suspend"]) == Some(&Value::Bool(true));
    let last = text_at(value, &["status", "lastScheduleTime"]);
    vec![
        name(value),
        text_at(value, &["spec", "schedule"]).into(),
        or(text_at(value, &["spec", "timeZone"]), "<none>"),
        if suspended { "True".into() } else { "False".into() },
        list_at(value, &["status", "active"]).len().into(),
        if last.is_empty() { "<none>".into() } else { age::since(last, now).into() },
        age(value, now),
    ]
}

fn budget(value: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |field: &str| match at(value, &["spec", field]) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(number) => number.to_string().into(),
        None => Value::from("N/A"),
    };
    vec![
        name(value),
        bound("minAvailable"),
        bound("maxUnavailable"),
        status(value, "disruptionsAllowed").into(),
        age(value, now),
    ]
}
