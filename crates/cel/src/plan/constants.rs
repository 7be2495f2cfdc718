//! What is computed when a program is built: lists and maps of constants, conversions of constants, `in` a constant list.

use super::{ConstantCall, Plan, PlanResult, PlannedElement, PlannedEntry};
use crate::cost::Rule;
use crate::declarations::Function;
use crate::error::{CompileError, EvalStop, Fault};
use crate::functions::{self, Context};
use crate::limits;
use crate::meter::Meter;
use crate::value::{Entries, List, Value};

fn message(fault: Fault) -> CompileError {
    CompileError::Constant(match fault {
        Fault::Error(message) => message.to_string(),
        // Parity: the reference panics while it compiles.
        Fault::Stop(EvalStop::Unhashable(go_type)) => format!("{go_type} can be no key of a map"),
        Fault::Stop(_) => "a constant is too large".to_owned(),
    })
}

fn as_constant(plan: &Plan) -> Option<&Value<'static>> {
    match plan {
        Plan::Constant(value) => Some(value),
        _ => None,
    }
}

pub(super) fn list(elements: Box<[PlannedElement]>) -> PlanResult {
    if elements.iter().any(|element| element.is_optional) {
        return Ok(Plan::List(elements));
    }
    let values: Option<Vec<_>> =
        elements.iter().map(|element| as_constant(&element.value).cloned()).collect();
    Ok(match values {
        Some(values) => Plan::Constant(Value::list(values)),
        None => Plan::List(elements),
    })
}

pub(super) fn map(entries: Box<[PlannedEntry]>) -> PlanResult {
    let is_constant = |entry: &PlannedEntry| {
        !entry.is_optional
            && as_constant(&entry.key).is_some()
            && as_constant(&entry.value).is_some()
    };
    if !entries.iter().all(is_constant) {
        return Ok(Plan::Map(entries));
    }
    let mut map = Entries::default();
    for entry in &entries {
        if let (Some(key), Some(value)) = (as_constant(&entry.key), as_constant(&entry.value)) {
            map.insert(key, value.clone()).map_err(message)?;
        }
    }
    Ok(Plan::Constant(map.into()))
}

pub(super) fn is_conversion(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::Bool
            | F::Bytes
            | F::Double
            | F::Duration
            | F::Dyn
            | F::Int
            | F::String
            | F::Timestamp
            | F::TypeOf
            | F::Uint
    )
}

pub(super) fn converted(
    function: Function,
    name: &'static str,
    value: &Value<'static>,
) -> PlanResult {
    let meter = Meter::new(limits::SELECTOR_COST_LIMIT);
    let context = Context { meter: &meter, name, pattern: None };
    functions::call(function, std::slice::from_ref(value), &context)
        .map(Plan::Constant)
        .map_err(message)
}

/// Whether the function reads a text, which takes time that is not spent twice.
pub(super) fn is_reader(function: Function) -> bool {
    use Function as F;
    matches!(function, F::Quantity | F::Semver | F::Url | F::Ip | F::Cidr)
}

/// The call's result, if all arguments are constants.
pub(super) fn known(
    function: Function,
    overload: Option<&str>,
    name: &'static str,
    arguments: &[Plan],
) -> Option<ConstantCall> {
    let values: Vec<_> = arguments.iter().map(as_constant).collect::<Option<_>>()?;
    let values: Vec<_> = values.into_iter().cloned().collect();
    let meter = Meter::new(limits::SELECTOR_COST_LIMIT);
    let result =
        functions::call(function, &values, &Context { meter: &meter, name, pattern: None });
    if let Err(Fault::Stop(_)) = result {
        return None;
    }
    let sized: Vec<_> = values.into_iter().map(Some).collect();
    Some(ConstantCall { units: Rule::of(function, overload).units(&sized, None), result })
}

/// `in` as a test against a constant list of simple values, or the arguments back.
pub(super) fn in_list(is_in_list: bool, arguments: Box<[Plan]>) -> Result<Plan, Box<[Plan]>> {
    if !is_in_list {
        return Err(arguments);
    }
    let [_, Plan::Constant(Value::List(list))] = &*arguments else { return Err(arguments) };
    let is_simple = |value: Value<'_>| {
        matches!(
            value,
            Value::Bool(_) | Value::Double(_) | Value::Int(_) | Value::String(_) | Value::Uint(_)
        )
    };
    if list.len() == 0 {
        return Ok(Plan::Constant(Value::Bool(false)));
    }
    if !list.iter().all(is_simple) {
        return Err(arguments);
    }
    let list: List<'static> = list.clone();
    match arguments.into_iter().next() {
        Some(value) => Ok(Plan::InConstant(Box::new(value), list)),
        None => Ok(Plan::Constant(Value::Bool(false))),
    }
}
