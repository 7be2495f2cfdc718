//! The recorded configuration files: what the reference reads, refuses, defaults and complains of.
//!
//! A case conforms when there is an error exactly where the reference has one, decode errors name the same field or
//! value, validation errors are word for word the same, and the defaulted object is equal as JSON. Errors of the start
//! (`startError`) belong to building profiles; where they come from a plugin's arguments, `validate_args` must already
//! give them word for word.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use kube_scheduler_api_types::validation::{FieldPath, aggregate};
use kube_scheduler_config::{
    FeatureGates, decode, default, to_json_value, to_yaml, validate, validate_args,
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    input: String,
    decode_error: Option<String>,
    validation_errors: Option<Vec<String>>,
    start_error: Option<String>,
    defaulted: Option<Value>,
}

#[expect(clippy::disallowed_methods, reason = "recorded cases are read from a file")]
fn cases() -> Vec<Case> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/conformance/config.jsonl.gz");
    let file =
        std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    BufReader::new(GzDecoder::new(file))
        .lines()
        .map(|line| {
            line.map_err(|error| error.to_string())
                .and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()))
        })
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What of a recorded decode error must appear in ours: all of it, unless it names the reference's own types and
/// sources; then the part that names the field or the value.
fn required_text(recorded: &str) -> String {
    if let Some((before, _)) = recorded.split_once(" in scheme \"") {
        return before.to_owned();
    }
    if let Some((_, after)) = recorded.split_once("Go struct field ") {
        let field = after.split(' ').next().unwrap_or(after);
        return field.split_once('.').map_or(field, |(_, path)| path).to_owned();
    }
    // Text of the reference's YAML parser: the line is what counts, and that may differ by one.
    if recorded.starts_with("yaml: line ") {
        return "yaml: line ".to_owned();
    }
    recorded.to_owned()
}

fn check(case: &Case) -> Result<(), String> {
    let gates = FeatureGates::default();
    let mut config = match (decode(&case.input), &case.decode_error) {
        (Ok(config), None) => config,
        (Ok(_), Some(error)) => return Err(format!("decoded, expected {error:?}")),
        (Err(error), None) => return Err(format!("does not decode: {error}")),
        (Err(error), Some(recorded)) => {
            let (ours, needed) = (error.to_string(), required_text(recorded));
            return if ours.contains(&needed) {
                Ok(())
            } else {
                Err(format!("says {ours:?}, which lacks {needed:?}"))
            };
        }
    };
    default(&mut config, &gates);

    let mut errors: Vec<String> =
        validate(&config, &gates).iter().map(ToString::to_string).collect();
    errors.sort();
    let expected = case.validation_errors.clone().unwrap_or_default();
    if errors != expected {
        return Err(format!("validation says {errors:#?}, expected {expected:#?}"));
    }

    let printed = to_json_value(&config).map_err(|error| error.to_string())?;
    let expected =
        case.defaulted.as_ref().ok_or("no recorded defaults, but validation was reached")?;
    let differences = differences("", &printed, expected);
    if !differences.is_empty() {
        return Err(format!("defaults differ:\n{}", differences.join("\n")));
    }
    let yaml = to_yaml(&config).map_err(|error| error.to_string())?;
    let again = decode(&yaml).map_err(|error| format!("{error} in the printed form\n{yaml}"))?;
    let again = to_json_value(&again).map_err(|error| error.to_string())?;
    if again != printed {
        return Err(format!("the printed form reads back as\n{again}\nnot\n{printed}"));
    }

    if let Some((_, expected)) = case
        .start_error
        .as_deref()
        .and_then(|text| text.split_once("initializing plugin \"NodeResourcesFit\": "))
    {
        let entries = config.profiles.iter().flat_map(|profile| &profile.plugin_config);
        let fit = entries.filter(|entry| entry.name == "NodeResourcesFit");
        let found =
            aggregate(fit.flat_map(|entry| validate_args(&entry.args, &FieldPath::root(), &gates)));
        if found != expected {
            return Err(format!("NodeResourcesFit would say {found:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

/// Where two JSON values differ, with both values.
fn differences(path: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let of = |map: &serde_json::Map<String, Value>, key: &str| {
                map.get(key).cloned().unwrap_or_else(|| "<absent>".into())
            };
            keys.into_iter()
                .flat_map(|key| differences(&format!("{path}.{key}"), &of(a, key), &of(b, key)))
                .collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => (a.iter().zip(b).enumerate())
            .flat_map(|(index, (a, b))| differences(&format!("{path}[{index}]"), a, b))
            .collect(),
        _ if ours == theirs => Vec::new(),
        _ => vec![format!("{path}: {ours}, expected {theirs}")],
    }
}

#[test]
fn every_recorded_configuration_conforms() {
    let cases = cases();
    assert!(cases.len() >= 108, "the data set has only {} cases", cases.len());
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|error| format!("{}: {error}", case.name)))
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases do not conform:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}

#[test]
fn a_changed_expectation_is_noticed() {
    let mut cases = cases();
    let case = cases.iter_mut().find(|case| case.name == "parallelism-0").unwrap();
    case.validation_errors = None;
    assert!(check(case).is_err());
    let case = cases.iter_mut().find(|case| case.name == "empty").unwrap();
    case.defaulted.as_mut().unwrap()["parallelism"] = 17.into();
    assert!(check(case).is_err());
    let case = cases.iter_mut().find(|case| case.name == "unknown-field").unwrap();
    case.decode_error = Some("strict decoding error: unknown field \"bogus2\"".to_owned());
    assert!(check(case).is_err());
}
