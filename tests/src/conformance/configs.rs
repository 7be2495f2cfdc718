//! Configuration files: what the reference reads, refuses, fills in, and cannot start with.

use kube_scheduler_config::{FeatureGates, decode, default, to_json_value, validate};
use kube_scheduler_engine::{Engine, EngineOptions};
use serde_json::Value;

use super::{Report, name_of, text};

pub(super) fn judge(case: &Value, report: &mut Report) {
    report.count(|| name_of(case).to_owned(), difference(case));
}

/// What of a recorded decode error must appear in ours: all of it, unless it names the reference's own types and
/// sources; then the part that names the field or the value.
fn needed(recorded: &str) -> &str {
    if let Some((before, _)) = recorded.split_once(" in scheme \"") {
        return before;
    }
    if let Some((_, after)) = recorded.split_once("Go struct field ") {
        let field = after.split(' ').next().unwrap_or(after);
        return field.split_once('.').map_or(field, |(_, path)| path);
    }
    if recorded.starts_with("yaml: line ") { "yaml: line " } else { recorded }
}

fn difference(case: &Value) -> Option<String> {
    let gates = FeatureGates::default();
    let recorded = case["decodeError"].as_str();
    let mut config = match (decode(text(&case["input"])), recorded) {
        (Ok(config), None) => config,
        (Ok(_), Some(error)) => return Some(format!("decodes, recorded is {error:?}")),
        (Err(error), None) => return Some(format!("does not decode: {error}")),
        (Err(error), Some(recorded)) => {
            let (is, needed) = (error.to_string(), needed(recorded));
            return (!is.contains(needed)).then(|| format!("says {is:?}, which lacks {needed:?}"));
        }
    };
    default(&mut config, &gates);
    let mut errors: Vec<String> =
        validate(&config, &gates).iter().map(ToString::to_string).collect();
    errors.sort();
    let recorded: Vec<&str> =
        case["validationErrors"].as_array().into_iter().flatten().map(text).collect();
    if errors != recorded {
        return Some(format!("validation says {errors:?}, recorded is {recorded:?}"));
    }
    match to_json_value(&config) {
        Ok(printed) if printed == case["defaulted"] => {}
        Ok(printed) => {
            return Some(format!("defaults to {printed}, recorded is {}", case["defaulted"]));
        }
        Err(error) => return Some(format!("cannot be printed: {error}")),
    }
    if !errors.is_empty() {
        return None;
    }
    // What was recorded is whether the profiles can be made, not whether the extenders can be reached.
    config.extenders.clear();
    start_difference(&config, case["startError"].as_str())
}

fn start_difference(
    config: &kube_scheduler_config::Configuration,
    recorded: Option<&str>,
) -> Option<String> {
    let options = EngineOptions::default();
    let started = Engine::new(config, &kube_scheduler_plugins_intree::registry(), options);
    match (started, recorded.map(|text| text.trim_start_matches("new scheduler: "))) {
        (Ok(_), None) => None,
        (Ok(_), Some(error)) => Some(format!("starts, recorded is {error:?}")),
        (Err(error), Some(recorded)) if error.to_string() == recorded => None,
        (Err(error), recorded) => {
            Some(format!("does not start: {error}; recorded is {recorded:?}"))
        }
    }
}
