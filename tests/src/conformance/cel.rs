//! Selector expressions: what compiles, static types, estimated costs, results and costs for one device each.

use kube_scheduler_api_types::Quantity;
use kube_scheduler_cel::{
    AttributeValue, CompileError, DeviceInput, Environment, Options, Program, SELECTOR_COST_LIMIT,
    Version,
};
use serde_json::Value;

use super::{Report, text};

pub(super) fn judge(case: &Value, report: &mut Report) {
    let label = || format!("{} {}", text(&case["name"]), text(&case["expression"]));
    report.count(label, difference(case));
}

fn difference(case: &Value) -> Option<String> {
    let mut options = Options::default();
    options.list_type_attributes = case["listTypeAttributes"] == true;
    let wanted = case["compileError"].as_str();
    match (Environment::devices(options).compile(text(&case["expression"])), wanted) {
        (Ok(program), None) => of_program(&program, case),
        (Ok(_), Some(wanted)) => Some(format!("accepted, not refused: {wanted}")),
        (Err(error), None) => Some(format!("refused: {error}")),
        (Err(error), Some(wanted)) => {
            (!is_same_refusal(&error, wanted)).then(|| format!("refused: {error}, not {wanted}"))
        }
    }
}

/// The first words count; of a wrong result type, the whole text.
fn is_same_refusal(error: &CompileError, wanted: &str) -> bool {
    let first_words = match error {
        CompileError::Invalid { .. } => "compilation failed:",
        CompileError::Constant(_) => "program instantiation failed:",
        other => return other.to_string() == wanted,
    };
    wanted.starts_with(first_words)
}

fn of_program(program: &Program, case: &Value) -> Option<String> {
    let compare = |what: &str, is: String, wanted: String| {
        (is != wanted).then(|| format!("{what} is {is}, not {wanted}"))
    };
    let (result, cost) = match evaluate(program, &case["device"]) {
        Ok(answer) => answer,
        Err(error) => return Some(format!("device is not understood: {error}")),
    };
    let wanted_result = match &case["result"] {
        Value::Bool(result) => result.to_string(),
        _ => text(&case["runtimeError"]).to_owned(),
    };
    let wanted_cost = case["actualCost"].as_u64().unwrap_or(cost);
    compare("type", program.output_type().to_string(), text(&case["outputType"]).to_owned())
        .or_else(|| {
            let wanted = text(&case["estimatedCost"]).to_owned();
            compare("estimate", program.estimated_cost().to_string(), wanted)
        })
        .or_else(|| compare("result", result, wanted_result))
        .or_else(|| compare("cost", cost.to_string(), wanted_cost.to_string()))
}

/// An attribute as a caller keeps it.
enum Attribute {
    Int(i64),
    Bool(bool),
    String(String),
    Version(Version),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Strings(Vec<String>),
    Versions(Vec<Version>),
    Unusable(String),
}

impl Attribute {
    fn read(value: &Value) -> Self {
        let list = |key: &str| value[key].as_array();
        let version = |value: &Value| {
            Version::parse(text(value)).map_err(|error| format!("parse semantic version: {error}"))
        };
        if let Some(values) = list("ints") {
            Self::Ints(values.iter().filter_map(Value::as_i64).collect())
        } else if let Some(values) = list("bools") {
            Self::Bools(values.iter().filter_map(Value::as_bool).collect())
        } else if let Some(values) = list("strings") {
            Self::Strings(values.iter().map(|value| text(value).to_owned()).collect())
        } else if let Some(values) = list("versions") {
            match values.iter().map(version).collect() {
                Ok(versions) => Self::Versions(versions),
                Err(why) => Self::Unusable(why),
            }
        } else if let Some(value) = value["int"].as_i64() {
            Self::Int(value)
        } else if let Some(value) = value["bool"].as_bool() {
            Self::Bool(value)
        } else if let Some(value) = value["string"].as_str() {
            Self::String(value.to_owned())
        } else if value["version"].is_string() {
            version(&value["version"]).map_or_else(Self::Unusable, Self::Version)
        } else {
            Self::Unusable("unsupported attribute value".to_owned())
        }
    }

    fn lend(&self) -> AttributeValue<'_> {
        match self {
            Self::Int(value) => AttributeValue::Int(*value),
            Self::Bool(value) => AttributeValue::Bool(*value),
            Self::String(value) => AttributeValue::String(value),
            Self::Version(value) => AttributeValue::Version(value),
            Self::Ints(values) => AttributeValue::Ints(values),
            Self::Bools(values) => AttributeValue::Bools(values),
            Self::Strings(values) => AttributeValue::Strings(values),
            Self::Versions(values) => AttributeValue::Versions(values),
            Self::Unusable(why) => AttributeValue::Unusable(why),
        }
    }
}

/// The result or error as text, and the cost.
fn evaluate(program: &Program, device: &Value) -> anyhow::Result<(String, u64)> {
    let rows = |key: &str| device[key].as_object().into_iter().flatten();
    let attributes: Vec<_> =
        rows("attributes").map(|(name, value)| (name.as_str(), Attribute::read(value))).collect();
    let attributes: Vec<_> = attributes.iter().map(|(name, value)| (*name, value.lend())).collect();
    let capacity = rows("capacity")
        .map(|(name, value)| Ok((name.as_str(), Quantity::parse(text(&value["value"]))?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let capacity: Vec<_> = capacity.iter().map(|(name, value)| (*name, value)).collect();
    let device = DeviceInput {
        driver: text(&device["driver"]),
        allow_multiple_allocations: device["allowMultipleAllocations"] == true,
        attributes: &attributes,
        capacity: &capacity,
    };
    Ok(match program.evaluate(&device, SELECTOR_COST_LIMIT) {
        Ok(outcome) => (outcome.value.to_string(), outcome.cost),
        Err(error) => (error.to_string(), error.cost),
    })
}
