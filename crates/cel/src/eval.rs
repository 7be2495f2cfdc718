//! Evaluation of a plan for one device (`docs/spec/cel.md` §5 and §6).

mod attribute;
mod fold;

pub(crate) use attribute::unusable_key;

use crate::cost;
use crate::declarations::Function;
use crate::device::DeviceInput;
use crate::error::Fault;
use crate::functions::{self, Context};
use crate::limits;
use crate::meter::Meter;
use crate::plan::{Call, Plan, PlannedElement, PlannedEntry};
use crate::value::{Entries, List, Value, equal_at_top};

/// A variable of a loop.
#[derive(Debug, Default)]
pub(crate) enum Slot<'a> {
    #[default]
    Unset,
    /// To be evaluated when it is first used.
    Lazy(&'a Plan),
    Value(Value<'a>),
    Failed(Fault),
}

pub(crate) struct Evaluation<'a> {
    pub(crate) device: &'a DeviceInput<'a>,
    pub(crate) meter: Meter,
    pub(crate) slots: Vec<Slot<'a>>,
}

type EvalResult<'a> = Result<Value<'a>, Fault>;

/// Most arguments a call has, receiver included.
const MAX_ARGUMENTS: usize = 4;

impl<'a> Evaluation<'a> {
    pub(crate) fn new(device: &'a DeviceInput<'a>, slots: usize, cost_limit: u64) -> Self {
        Self {
            device,
            meter: Meter::new(cost_limit),
            slots: (0..slots).map(|_| Slot::Unset).collect(),
        }
    }

    pub(crate) fn eval(&mut self, plan: &'a Plan) -> EvalResult<'a> {
        match plan {
            Plan::Constant(value) => Ok(Value::borrowed(value)),
            Plan::Attribute(attribute) => self.attribute_value(attribute),
            Plan::Test(attribute) => self.test(attribute),
            Plan::And(terms) => self.logical(terms, false),
            Plan::Or(terms) => self.logical(terms, true),
            Plan::Equal(sides) => self.equality(sides, false),
            Plan::NotEqual(sides) => self.equality(sides, true),
            Plan::InConstant(value, list) => self.in_constant(value, list),
            Plan::OptionalOr(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                other => Ok(other),
            },
            Plan::OptionalOrValue(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                Value::Optional(Some(value)) => Ok((*value).clone()),
                other => Ok(other),
            },
            Plan::ConstantCall(known) => {
                self.meter.charge(known.units)?;
                known.result.as_ref().map(Value::borrowed).map_err(Fault::clone)
            }
            Plan::Call(call) => self.call(call),
            Plan::List(elements) => {
                let list = self.list(elements);
                self.charged(cost::LIST, list)
            }
            Plan::Map(entries) => {
                let map = self.map(entries);
                self.charged(cost::MAP, map)
            }
            Plan::Fold(fold) => self.fold(fold),
        }
    }

    /// The result, after its cost was counted.
    fn charged(&self, units: u64, result: EvalResult<'a>) -> EvalResult<'a> {
        if let Err(Fault::Stop(_)) = result {
            return result;
        }
        self.meter.charge(units)?;
        result
    }

    /// `||` if `decides`, else `&&`: the first term with that value decides, errors only count if none does.
    fn logical(&mut self, terms: &'a [Plan], decides: bool) -> EvalResult<'a> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    failed.get_or_insert(Fault::NO_OVERLOAD);
                }
                Err(stop @ Fault::Stop(_)) => return Err(stop),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    /// Both sides' values; the first error if there is one. The arguments are those that have a value.
    fn equality(&mut self, sides: &'a [Plan; 2], is_negated: bool) -> EvalResult<'a> {
        let (left, left_fault) = self.argument(&sides[0])?;
        let (right, right_fault) = self.argument(&sides[1])?;
        let arguments = [left, right];
        let rule = if is_negated { cost::Rule::Shorter } else { cost::Rule::Equal };
        self.meter.charge(rule.units(&arguments, None))?;
        let fault = left_fault.or(right_fault);
        let ([Some(left), Some(right)], None) = (&arguments, fault.clone()) else {
            return Err(fault.unwrap_or(Fault::NO_OVERLOAD));
        };
        match equal_at_top(left, right, &self.meter) {
            Ok(is) => Ok(Value::Bool(is != is_negated)),
            // What cannot be compared is different, in the reference.
            Err(Fault::Error(_)) if is_negated => Ok(Value::Bool(true)),
            Err(fault) => Err(fault),
        }
    }

    /// An argument's value, or its error apart; only what ends the evaluation is an error here.
    fn argument(&mut self, plan: &'a Plan) -> Result<(Option<Value<'a>>, Option<Fault>), Fault> {
        match self.eval(plan) {
            Ok(value) => Ok((Some(value), None)),
            Err(stop @ Fault::Stop(_)) => Err(stop),
            Err(error) => Ok((None, Some(error))),
        }
    }

    fn in_constant(&mut self, value: &'a Plan, list: &'a List<'static>) -> EvalResult<'a> {
        let value = self.eval(value)?;
        value.check_hashable()?;
        for index in 0..list.len() {
            let item: Option<Value<'a>> = list.get(index);
            if let Some(item) = item
                && functions::is_equal(&value, &item, &self.meter)?
            {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }

    fn list(&mut self, elements: &'a [PlannedElement]) -> EvalResult<'a> {
        self.meter.allocate_elements(elements.len() as u64)?;
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            match self.eval(&element.value)? {
                value if !element.is_optional => values.push(value),
                Value::Optional(Some(value)) => values.push((*value).clone()),
                Value::Optional(None) => {}
                _ => {
                    return Err(
                        "cannot initialize optional list element from non-optional value".into()
                    );
                }
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [PlannedEntry]) -> EvalResult<'a> {
        self.meter.allocate_elements(2 * entries.len() as u64)?;
        let mut map = Entries::default();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            match self.eval(&entry.value)? {
                value if !entry.is_optional => map.insert(&key, value)?,
                Value::Optional(Some(value)) => map.insert(&key, (*value).clone())?,
                Value::Optional(None) => map.remove(&key)?,
                _ => return Err("cannot initialize optional entry from non-optional value".into()),
            }
        }
        Ok(map.into())
    }

    fn call(&mut self, call: &'a Call) -> EvalResult<'a> {
        if let Some(slot) = call.extends {
            return self.extend(call, slot);
        }
        let mut arguments: [Option<Value<'a>>; MAX_ARGUMENTS] = [const { None }; MAX_ARGUMENTS];
        let count = call.arguments.len().min(MAX_ARGUMENTS);
        let mut failed = None;
        for (index, plan) in call.arguments.iter().take(count).enumerate() {
            let (value, fault) = self.argument(plan)?;
            arguments[index] = value;
            let Some(fault) = fault else { continue };
            if call.stops_early && index + 1 < count {
                return Err(fault);
            }
            failed.get_or_insert(fault);
        }
        self.apply(call, &arguments[..count], failed)
    }

    /// Counts the cost and calls the function, unless an argument failed.
    fn apply(
        &self,
        call: &'a Call,
        arguments: &[Option<Value<'a>>],
        failed: Option<Fault>,
    ) -> EvalResult<'a> {
        let needs_result = call.rule.needs_result();
        if !needs_result {
            self.meter.charge(call.rule.units(arguments, None))?;
        }
        let result = match failed {
            Some(fault) => Err(fault),
            None => {
                let values: [Value<'a>; MAX_ARGUMENTS] = std::array::from_fn(|index| {
                    arguments.get(index).and_then(Option::clone).unwrap_or(Value::Null)
                });
                let context =
                    Context { meter: &self.meter, name: call.name, pattern: call.pattern.as_ref() };
                functions::call(call.function, &values[..arguments.len()], &context)
            }
        };
        if needs_result {
            if let Err(Fault::Stop(_)) = result {
                return result;
            }
            self.meter.charge(call.rule.units(arguments, result.as_ref().ok()))?;
        }
        result
    }

    /// Adds to the list or map that a macro builds, in place: the reference does the same.
    fn extend(&mut self, call: &'a Call, slot: usize) -> EvalResult<'a> {
        // The variable itself.
        self.meter.charge(1)?;
        let mut failed = self.force(slot).err();
        if let Some(Fault::Stop(_)) = failed {
            return Err(failed.unwrap_or(Fault::NO_OVERLOAD));
        }
        let mut values: [Option<Value<'a>>; MAX_ARGUMENTS] = [const { None }; MAX_ARGUMENTS];
        let count = call.arguments.len().min(MAX_ARGUMENTS);
        for (index, plan) in call.arguments.iter().enumerate().take(count).skip(1) {
            if call.stops_early && failed.is_some() {
                break;
            }
            let (value, fault) = self.argument(plan)?;
            values[index] = value;
            failed = failed.or(fault);
        }
        if let Some(fault) = failed {
            if !call.stops_early {
                self.meter.charge(1)?;
            }
            return Err(fault);
        }
        self.meter.charge(1)?;
        let Slot::Value(kept) = std::mem::take(&mut self.slots[slot]) else {
            return Err(Fault::NO_OVERLOAD);
        };
        match (call.function, kept, values) {
            (Function::Add, Value::List(kept), [_, Some(Value::List(added)), ..]) => {
                functions::lists::extended(kept, &added, &self.meter)
            }
            (Function::MapInsert, Value::Map(kept), [_, Some(key), Some(value), _]) => {
                functions::lists::inserted(kept, [(key, value)], &self.meter)
            }
            (Function::MapInsert, Value::Map(kept), [_, Some(Value::Map(added)), ..]) => {
                let entries = added.entries();
                functions::lists::inserted(kept, entries, &self.meter)
            }
            _ => Err(Fault::NO_OVERLOAD),
        }
    }
}

/// Evaluates; gives the value or why there is none, and what was used for it.
pub(crate) fn evaluate<'a>(
    plan: &'a Plan,
    slots: usize,
    device: &'a DeviceInput<'a>,
    budget: u64,
) -> (EvalResult<'a>, Meter) {
    let mut evaluation = Evaluation::new(device, slots, budget.min(limits::MAX_BUDGET));
    let result = evaluation.eval(plan);
    (result, evaluation.meter)
}
