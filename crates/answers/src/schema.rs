//! The JSON Schema of answers and questions, derived from the types that are printed and read.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::request::{Envelope, QuestionKind};
use crate::{API_VERSION, Capacity, Explanation, Fragmentation, Preemption, Queue, WhatIf};

/// The schema (draft 2020-12): a value is one of the answers, or a question over HTTP. Objects may have further fields: later
/// versions of the program may say more.
pub fn schema() -> Value {
    let mut answers = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let kinds = [
        kind::<Explanation>(&mut answers, "Explanation"),
        kind::<Preemption>(&mut answers, "Preemption"),
        kind::<WhatIf>(&mut answers, "WhatIf"),
        kind::<Capacity>(&mut answers, "Capacity"),
        kind::<Queue>(&mut answers, "Queue"),
        kind::<Fragmentation>(&mut answers, "Fragmentation"),
    ];
    let mut questions = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let question = one_of_kinds::<Envelope>(
        &mut questions,
        json!({"enum": QuestionKind::ALL.map(QuestionKind::kind)}),
    );
    let any_of: Vec<Value> = kinds.into_iter().chain([question]).collect();
    let mut definitions: Map<String, Value> = answers.take_definitions(true);
    definitions.extend(questions.take_definitions(true));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": API_VERSION,
        "description": "Answers of kube-scheduler-rs, and questions to it over HTTP.",
        "anyOf": any_of,
        "$defs": definitions,
    })
}

/// The schema (draft 2020-12) of a question as the arguments of a call, complete in itself: `namespace`, unless the question is
/// about the whole cluster, and `spec`, as in [`schema`].
pub fn arguments_schema(kind: QuestionKind) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut arguments = kind.arguments_schema(&mut generator).to_value();
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.insert("$defs".to_owned(), generator.take_definitions(true).into());
    }
    arguments
}

/// A reference to the schema of a type, whose version and kind are always the same.
fn kind<T: JsonSchema>(generator: &mut SchemaGenerator, kind: &str) -> Value {
    one_of_kinds::<T>(generator, json!({"const": kind}))
}

/// A reference to the schema of a type, whose version is always the same, and whose kinds are `kinds`.
fn one_of_kinds<T: JsonSchema>(generator: &mut SchemaGenerator, kinds: Value) -> Value {
    let reference = generator.subschema_for::<T>().to_value();
    let definition = generator.definitions_mut().get_mut(&*T::schema_name());
    let properties = definition.and_then(|definition| definition.get_mut("properties"));
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        properties.insert("apiVersion".to_owned(), json!({"const": API_VERSION}));
        properties.insert("kind".to_owned(), kinds);
    }
    reference
}
