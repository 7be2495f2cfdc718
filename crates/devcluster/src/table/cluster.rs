//! Tables of leases, priority classes and pod groups.

use super::{Layout, age, column, name, number, or, wide};
use crate::object::{at, int_at, text_at};

pub(super) fn layout(kind: &str) -> Option<Layout> {
    Some(match kind {
        "Lease" => Layout {
            columns: const { &[column("Name"), column("Holder"), column("Age")] },
            cells: |value, now| {
                vec![
                    name(value),
                    text_at(value, &["spec", "holderIdentity"]).into(),
                    age(value, now),
                ]
            },
        },
        "PriorityClass" => Layout {
            columns: const {
                &[
                    column("Name"),
                    number("Value"),
                    column("Global-Default"),
                    column("Age"),
                    column("PreemptionPolicy"),
                ]
            },
            cells: |value, now| {
                let global = at(value, &["globalDefault"])
                    .and_then(serde_json::Value::as_bool)
                    .unwrap_or(false);
                vec![
                    name(value),
                    int_at(value, &["value"]).unwrap_or(0).into(),
                    global.into(),
                    age(value, now),
                    or(text_at(value, &["preemptionPolicy"]), "PreemptLowerPriority"),
                ]
            },
        },
        "PodGroup" => Layout {
            columns: const { &[column("Name"), column("Workload"), column("Age"), wide("Min Count")] },
            cells: |value, now| {
                let policy = &["spec", "schedulingPolicy", "gang", "minCount"];
                vec![
                    name(value),
                    or(
                        text_at(
                            value,
                            &["spec", "podGroupTemplateRef", "workload", "workloadName"],
                        ),
                        "<none>",
                    ),
                    age(value, now),
                    int_at(value, policy)
                        .map_or_else(|| "<none>".into(), |count| count.to_string().into()),
                ]
            },
        },
        _ => return None,
    })
}
