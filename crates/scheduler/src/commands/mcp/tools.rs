//! The tools: one for each kind of question, by the name of the command that asks the same.

use std::sync::Arc;

use kube_scheduler_answers::{QuestionKind, arguments_schema};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;

/// What an assistant is to know of all tools.
pub(super) const INSTRUCTIONS: &str = "\
These tools ask the Kubernetes scheduler about itself: why a pod is pending, what would make it fit, what would happen if the \
cluster were changed, how many more pods fit, what waits and for what. They use the scheduler's own filters, scores, queue and \
preemption. Nothing is changed by any of them. Each answer comes as JSON (apiVersion answers.kube-scheduler.rs/v1alpha1) and with \
one more text that says who answered, from which data and with which configuration. Start with explain for a pod that is pending. \
A pod that does not exist yet is given as an API server would store it, which kubectl create --dry-run=server -o json prints.";

/// The name of a kind's tool.
pub(super) const fn name(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Explanation => "explain",
        QuestionKind::Preemption => "preempt",
        QuestionKind::WhatIf => "what-if",
        QuestionKind::Drain => "drain",
        QuestionKind::Capacity => "capacity",
        QuestionKind::Queue => "queue",
        QuestionKind::Fragmentation => "fragmentation",
        // Kinds are not exhaustive outside of their crate; a test goes through all of them.
        _ => "",
    }
}

const fn description(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Explanation => {
            "Explain why a pod is pending, or where it would go: for every node all plugins that reject it and their reasons, \
             counted by equal reasons; for nodes that fit, every plugin's score; where the pod is in the scheduler's queue; how \
             its pod group fares, if it has one; and \
             what evicting other pods would do. With suggest, also the smallest changes of the pod or the cluster that have been \
             tried and make it fit."
        }
        QuestionKind::Preemption => {
            "Say which running pods would be evicted to make room for a pod, on which node and why there, which \
             PodDisruptionBudgets that would violate, and for the other nodes why evicting pods does not help. No pod is evicted."
        }
        QuestionKind::WhatIf => {
            "Say what would happen if the cluster were changed: pods, workloads or pod groups added, pods deleted or evicted, nodes added, \
             removed, cordoned, drained, tainted or labelled, in the given order. The scheduler runs on a copy until no pod can make progress; the answer \
             has where pods would go, who would be evicted, what would stay pending and why, and what differs on each node."
        }
        QuestionKind::Drain => {
            "Say where the pods of nodes would go if the nodes were drained together, in which rounds PodDisruptionBudgets allow \
             that, and which pods would find no place or could not be evicted. No node is drained."
        }
        QuestionKind::Capacity => {
            "Count how many more pods like the given one fit, on which nodes, how large one may be per resource, and why the next \
             one does not fit. With steps, also what limits the number as pods are added."
        }
        QuestionKind::Queue => {
            "List the pods that wait to be scheduled in the order of their turn, with what each waits for, and group those that \
             wait for the same."
        }
        QuestionKind::Fragmentation => {
            "Say which share of the free capacity no pod of the cluster's own mix could use, by resource and, with a label, by \
             pool of nodes, and which plugins are in the way."
        }
        _ => "",
    }
}

/// All tools.
pub(super) fn all() -> Vec<Tool> {
    let hints = ToolAnnotations::new().read_only(true).open_world(false);
    let tool = |kind| {
        let schema = match arguments_schema(kind) {
            Value::Object(schema) => schema,
            _ => serde_json::Map::new(),
        };
        Tool::new(name(kind), description(kind), Arc::new(schema)).with_annotations(hints.clone())
    };
    QuestionKind::ALL.into_iter().map(tool).collect()
}

/// The kind of question that a tool asks.
pub(super) fn kind(tool: &str) -> Option<QuestionKind> {
    QuestionKind::ALL.into_iter().find(|kind| name(*kind) == tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_question_has_a_tool_with_the_name_of_a_command() {
        let commands = crate::cli::commands();
        for kind in QuestionKind::ALL {
            assert!(commands.iter().any(|command| command == name(kind)), "{kind:?}");
            assert!(!description(kind).is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn what_tools_take_is_what_the_schema_of_questions_says() {
        let schema = kube_scheduler_answers::schema();
        for tool in all() {
            let own = tool.schema_as_json_value();
            let definitions = own["$defs"].as_object().unwrap();
            let spec = own["properties"]["spec"]["$ref"].as_str().unwrap();
            let spec = spec.strip_prefix("#/$defs/").unwrap();
            assert!(definitions.contains_key(spec), "{spec}");
            for (name, definition) in definitions {
                assert_eq!(schema["$defs"][name], *definition, "{name}");
            }
            assert_eq!(own["additionalProperties"], false);
        }
    }
}
