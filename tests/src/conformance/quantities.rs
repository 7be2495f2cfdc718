//! Quantities: parse, round, print.

use kube_scheduler_api_types::Quantity;
use serde_json::Value;

use super::{Report, text};

pub(super) fn judge(case: &Value, report: &mut Report) {
    let input = text(&case["input"]);
    report.count(|| format!("{input:?}"), difference(input, case));
}

fn difference(input: &str, case: &Value) -> Option<String> {
    let wants_error = case.get("error").is_some_and(|error| !error.is_null());
    match (Quantity::parse(input), wants_error) {
        (Err(_), true) => None,
        (Err(error), false) => Some(format!("refused: {error}")),
        (Ok(quantity), true) => Some(format!("accepted as {quantity}")),
        (Ok(quantity), false) => {
            let is = [
                ("value", quantity.value().to_string()),
                ("milliValue", quantity.milli_value().to_string()),
                ("canonical", quantity.to_string()),
                ("sign", quantity.sign().to_string()),
            ];
            is.into_iter().find_map(|(field, is)| {
                let wanted = match &case[field] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                (is != wanted).then(|| format!("{field} is {is}, not {wanted}"))
            })
        }
    }
}
