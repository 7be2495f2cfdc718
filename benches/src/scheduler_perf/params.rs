//! Parameters of a workload, and the record of which were used.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::go_template::{Fields, Number};

/// The parameters of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Params {
    values: BTreeMap<String, Value>,
    used: BTreeSet<String>,
}

/// A parameter that cannot be put in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParamError {
    #[error("{field}: {text:?} is not a parameter: expected is `$name`")]
    NoParam { field: &'static str, text: String },
    #[error("{field}: parameter {name} is undefined; the workload defines: {}", defined.join(", "))]
    Undefined { field: &'static str, name: String, defined: Vec<String> },
    #[error("{field}: parameter {name} is {found}: expected is {expected}")]
    WrongType { field: &'static str, name: String, found: String, expected: &'static str },
}

impl Params {
    pub(crate) fn new(values: BTreeMap<String, Value>) -> Self {
        Self { values, used: BTreeSet::new() }
    }

    /// A count: what `text`, such as `$initPods`, stands for. Fractions are cut off.
    pub(crate) fn count(&mut self, field: &'static str, text: &str) -> Result<usize, ParamError> {
        let (name, value) = self.value(field, text)?;
        match value.as_f64() {
            Some(number) if number >= 0.0 => Ok(number as usize),
            _ => Err(wrong_type(field, name, value, "a number of at least 0")),
        }
    }

    /// A count that a workload may leave out.
    pub(crate) fn count_if_given(&mut self, name: &str) -> Result<Option<usize>, ParamError> {
        if !self.values.contains_key(name) {
            return Ok(None);
        }
        self.count("params", &format!("${name}")).map(Some)
    }

    /// A text, such as a length of time.
    pub(crate) fn text(&mut self, field: &'static str, text: &str) -> Result<String, ParamError> {
        let (name, value) = self.value(field, text)?;
        match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(wrong_type(field, name, value, "a text in quotes")),
        }
    }

    /// A condition.
    pub(crate) fn flag(&mut self, field: &'static str, text: &str) -> Result<bool, ParamError> {
        let (name, value) = self.value(field, text)?;
        value.as_bool().ok_or_else(|| wrong_type(field, name, value, "true or false"))
    }

    /// What templates know: each value as it is, or what `$name` stands for.
    pub(crate) fn template(
        &mut self,
        written: &BTreeMap<String, Value>,
    ) -> Result<Fields, ParamError> {
        const FIELD: &str = "templateParams";
        let mut fields = Fields::new();
        for (field, value) in written {
            let (name, value) = match value.as_str() {
                Some(text) => self.value(FIELD, text)?,
                None => (field.as_str(), value),
            };
            let number = Number::of(value);
            let number = number.ok_or_else(|| wrong_type(FIELD, name, value, "a number"))?;
            fields.insert(field.clone(), number);
        }
        Ok(fields)
    }

    fn value<'a>(
        &'a mut self,
        field: &'static str,
        text: &'a str,
    ) -> Result<(&'a str, &'a Value), ParamError> {
        let Some(name) = text.strip_prefix('$').filter(|name| !name.is_empty()) else {
            return Err(ParamError::NoParam { field, text: text.to_owned() });
        };
        self.used.insert(name.to_owned());
        match self.values.get(name) {
            Some(value) => Ok((name, value)),
            None => {
                let defined = self.values.keys().cloned().collect();
                Err(ParamError::Undefined { field, name: name.to_owned(), defined })
            }
        }
    }

    /// Parameters that were never read.
    pub(crate) fn unused(&self) -> Vec<&str> {
        self.values.keys().filter(|name| !self.used.contains(*name)).map(String::as_str).collect()
    }
}

fn wrong_type(
    field: &'static str,
    name: &str,
    value: &Value,
    expected: &'static str,
) -> ParamError {
    ParamError::WrongType { field, name: name.to_owned(), found: value.to_string(), expected }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params() -> Params {
        let values = [("n", json!(5)), ("d", json!("2s")), ("b", json!(true)), ("m", json!(-1))];
        Params::new(values.map(|(name, value)| (name.to_owned(), value)).into())
    }

    #[test]
    fn values_have_their_types_and_use_is_recorded() {
        let mut params = params();
        assert_eq!(params.count("countParam", "$n"), Ok(5));
        assert_eq!(params.text("durationParam", "$d"), Ok("2s".to_owned()));
        assert_eq!(params.flag("steadyStateParam", "$b"), Ok(true));
        assert_eq!(params.unused(), ["m"]);
        let written = [("a".to_owned(), json!("$m")), ("b".to_owned(), json!(7))].into();
        let fields = params.template(&written).unwrap();
        assert_eq!(fields.into_values().map(|it| it.to_string()).collect::<Vec<_>>(), ["-1", "7"]);
        assert_eq!(params.unused(), Vec::<&str>::new());
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let mut params = params();
        let text = |error: ParamError| error.to_string();
        assert_eq!(
            text(params.count("countParam", "n").unwrap_err()),
            "countParam: \"n\" is not a parameter: expected is `$name`"
        );
        assert_eq!(
            text(params.count("countParam", "$x").unwrap_err()),
            "countParam: parameter x is undefined; the workload defines: b, d, m, n"
        );
        assert_eq!(
            text(params.count("countParam", "$m").unwrap_err()),
            "countParam: parameter m is -1: expected is a number of at least 0"
        );
        assert_eq!(
            text(params.count("countParam", "$d").unwrap_err()),
            "countParam: parameter d is \"2s\": expected is a number of at least 0"
        );
        let template = |params: &mut Params, value: Value| {
            text(params.template(&[("a".to_owned(), value)].into()).unwrap_err())
        };
        assert_eq!(
            template(&mut params, json!("$d")),
            "templateParams: parameter d is \"2s\": expected is a number"
        );
        assert_eq!(
            template(&mut params, json!([])),
            "templateParams: parameter a is []: expected is a number"
        );
        assert_eq!(
            template(&mut params, json!("rack")),
            "templateParams: \"rack\" is not a parameter: expected is `$name`"
        );
    }
}
