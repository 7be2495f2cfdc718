//! Tables of pod groups and workloads.

use serde_json::Value;

use super::{Layout, age, column, name, number, wide};
use crate::object::{at, int_at, list_at, text_at};

/// The layout of `kind`, if it is one of these.
pub(super) fn layout(kind: &str) -> Option<Layout> {
    Some(match kind {
        "PodGroup" => Layout {
            columns: const {
                &[
                    column("Name"),
                    column("Policy"),
                    number("Min-count"),
                    column("Scheduled"),
                    column("Age"),
                    wide("Topology"),
                    wide("Disruption-mode"),
                    wide("Message"),
                ]
            },
            cells: |value, now| {
                let gang = at(value, &["spec", "schedulingPolicy", "gang"]);
                let min_count = gang.and_then(|gang| int_at(gang, &["minCount"]));
                let condition = scheduled(value);
                let said = |field: &str| {
                    condition.map_or("", |condition| text_at(condition, &[field])).to_owned()
                };
                let topology: Vec<&str> =
                    list_at(value, &["spec", "schedulingConstraints", "topology"])
                        .iter()
                        .map(|constraint| text_at(constraint, &["key"]))
                        .collect();
                vec![
                    name(value),
                    if gang.is_some() { "Gang" } else { "Basic" }.into(),
                    min_count.unwrap_or_default().into(),
                    said("status").into(),
                    age(value, now),
                    topology.join(",").into(),
                    text_at(value, &["spec", "disruptionMode"]).into(),
                    said("message").into(),
                ]
            },
        },
        "Workload" => Layout {
            columns: const { &[column("Name"), number("Templates"), column("Age")] },
            cells: |value, now| {
                let n_templates = list_at(value, &["spec", "podGroupTemplates"]).len();
                vec![name(value), n_templates.into(), age(value, now)]
            },
        },
        _ => return None,
    })
}

/// The condition in which a scheduler reports about a group.
fn scheduled(group: &Value) -> Option<&Value> {
    list_at(group, &["status", "conditions"]).iter().find(|condition| {
        matches!(text_at(condition, &["type"]), "PodGroupScheduled" | "PodGroupInitiallyScheduled")
    })
}
