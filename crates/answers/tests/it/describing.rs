//! The schema is the one that is checked in, and real answers are as it says.

use kube_scheduler_answers::{
    CapacityOptions, Change, ExplainOptions, FragmentationOptions, Interrupt, QuestionLimits,
    QueueOptions, Subject, capacity, explain, fragmentation, preemption, queue, schema, what_if,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, NOW, pod};

#[test]
fn the_record_is_what_is_generated() {
    let generated = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    let recorded = include_str!("../../schema/v1alpha1.json");
    assert!(
        recorded == generated,
        "crates/answers/schema/v1alpha1.json is not what `kube-scheduler-rs answers-schema` prints"
    );
}

/// Judges values by a schema that uses few keywords; any other is a failed test. Unlike the schema it allows no field that is
/// not described, so that nothing is left out of it.
struct Judge {
    definitions: Map<String, Value>,
}

impl Judge {
    fn new() -> Self {
        Self { definitions: schema()["$defs"].as_object().unwrap().clone() }
    }

    fn accepts(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            other => other.as_object().ok_or("a schema is an object, or true")?,
        };
        for (keyword, rule) in schema {
            let holds = match keyword.as_str() {
                "$ref" => {
                    let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    self.accepts(&self.definitions[name], value)
                        .map_err(|error| format!("{name}: {error}"))?;
                    true
                }
                "type" => is_of_type(rule, value),
                "const" => rule == value,
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|n| n >= rule.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|n| n <= rule.as_f64().unwrap()),
                "oneOf" | "anyOf" => {
                    rule.as_array().unwrap().iter().any(|one| self.accepts(one, value).is_ok())
                }
                "required" => {
                    let mut names = rule.as_array().unwrap().iter();
                    names.all(|name| value.get(name.as_str().unwrap()).is_some())
                }
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.accepts(rule, item)?;
                    }
                    true
                }
                "properties" | "additionalProperties" => self.fields(schema, value)?,
                "description" | "format" | "default" | "title" => true,
                other => return Err(format!("unknown keyword {other}")),
            };
            if !holds {
                return Err(format!("{keyword} {rule}: {value}"));
            }
        }
        Ok(())
    }

    fn fields(&self, schema: &Map<String, Value>, value: &Value) -> Result<bool, String> {
        for (name, field) in value.as_object().into_iter().flatten() {
            let described = schema.get("properties").and_then(|fields| fields.get(name));
            let rule = described.or(schema.get("additionalProperties"));
            let rule = rule.ok_or_else(|| format!("{name} is not described"))?;
            self.accepts(rule, field).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(true)
    }

    fn check(&self, name: &str, value: &Value) {
        let reference = json!({"$ref": format!("#/$defs/{name}")});
        self.accepts(&reference, value).unwrap_or_else(|error| panic!("{error}\n{value:#}"));
    }
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    let is_one = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    match rule {
        Value::String(name) => is_one(name),
        names => names.as_array().unwrap().iter().any(|name| is_one(name.as_str().unwrap())),
    }
}

fn cluster() -> Cluster {
    let tainted = json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]});
    Cluster::new()
        .node("a", "4", json!({}))
        .node("b", "4", json!({}))
        .node("tainted", "8", tainted)
        .pod(pod("low-1", "3", json!({"nodeName": "a"})))
        .pod(pod("low-2", "3", json!({"nodeName": "b"})))
        .pod(pod("gated", "1", json!({"schedulingGates": [{"name": "x"}]})))
        .pod(pod("large", "4", json!({"priority": 7})))
}

#[test]
fn real_answers_are_as_described() {
    let judge = Judge::new();
    let mut cluster = cluster();
    let engine = &mut cluster.engine;
    let all = ExplainOptions::ALL;
    for subject in [
        Subject::Known("large".parse().unwrap()),
        Subject::Known("low-1".parse().unwrap()),
        Subject::Known("gated".parse().unwrap()),
        Subject::Manifest(pod("new", "500m", json!({}))),
    ] {
        let mut answer = explain(engine, &subject, all, NOW).unwrap();
        let pod = subject.pod_in(engine).unwrap();
        answer.suggest(engine, &pod, &Interrupt::default(), NOW);
        judge.check("Explanation", &json(&answer));
        judge.check("Preemption", &json(&preemption(engine, &subject, all, NOW).unwrap()));
    }
    let changes = [
        Change::AddPod(pod("urgent", "4", json!({"priority": 9}))),
        Change::Cordon("b".into()),
        Change::Drain("a".into()),
    ];
    let answer = what_if(engine, &changes, QuestionLimits::default(), NOW).unwrap();
    judge.check("WhatIf", &json(&answer));
    let options = CapacityOptions { steps: true, ..CapacityOptions::default() };
    let answer = capacity(engine, &pod("new", "500m", json!({})), options, NOW).unwrap();
    judge.check("Capacity", &json(&answer));
    let options = QueueOptions { from_objects: true, ..QueueOptions::default() };
    judge.check("Queue", &json(&queue(engine, options, NOW)));
    let by = Some("kubernetes.io/hostname".to_owned());
    let options = FragmentationOptions { by, ..FragmentationOptions::default() };
    judge.check("Fragmentation", &json(&fragmentation(engine, &options, NOW)));
    let question = json!({
        "apiVersion": "answers.kube-scheduler.rs/v1alpha1", "kind": "Explanation",
        "metadata": {"namespace": "default"}, "spec": {"podName": "large", "suggest": true},
    });
    judge.check("Question", &question);
}

/// An answer as it is printed.
fn json<T: Serialize>(answer: &T) -> Value {
    serde_json::to_value(answer).unwrap()
}

#[test]
fn what_is_not_described_is_refused() {
    let judge = Judge::new();
    let mut cluster = cluster();
    let subject = Subject::Manifest(pod("new", "1", json!({})));
    let answer = explain(&mut cluster.engine, &subject, ExplainOptions::ALL, NOW).unwrap();
    let right = serde_json::to_value(&answer).unwrap();
    let reference = json!({"$ref": "#/$defs/Explanation"});
    assert_eq!(judge.accepts(&reference, &right), Ok(()));
    for (field, value) in [
        ("kind", json!("Capacity")),
        ("verdict", json!("Perhaps")),
        ("nodes", json!("3")),
        ("nFeasible", json!(-1)),
        ("unheardOf", json!(1)),
    ] {
        let mut wrong = right.clone();
        wrong[field] = value;
        assert!(judge.accepts(&reference, &wrong).is_err(), "{field}");
    }
    let mut wrong = right;
    wrong.as_object_mut().unwrap().remove("pod");
    assert!(judge.accepts(&reference, &wrong).is_err());
}
