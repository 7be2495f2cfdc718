//! Variables and what is selected from them.

use super::{EvalResult, Evaluation, Slot};
use crate::error::Fault;
use crate::plan::{Attribute, Qualifier, QualifierKey, Root};
use crate::value::{Map, Value};

/// What a selection found.
enum SelectionResult<'a> {
    Value(Value<'a>),
    Absent,
}

impl<'a> Evaluation<'a> {
    /// An attribute as an expression of its own: costs one unit, unless it is a conditional.
    pub(super) fn attribute_value(&mut self, attribute: &'a Attribute) -> EvalResult<'a> {
        let result = self.resolve(attribute);
        let units = u64::from(!matches!(attribute.root, Root::Conditional(_)));
        self.charged(units, result)
    }

    pub(super) fn test(&mut self, attribute: &'a Attribute) -> EvalResult<'a> {
        match self.resolve(attribute)? {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            other => Ok(other),
        }
    }

    /// Evaluates a slot if it waits for that.
    pub(super) fn force(&mut self, slot: usize) -> Result<(), Fault> {
        if let Slot::Lazy(plan) = self.slots[slot] {
            // Meanwhile unset: a value cannot depend on itself.
            self.slots[slot] = Slot::Unset;
            self.slots[slot] = match self.eval(plan) {
                Ok(value) => Slot::Value(value),
                Err(stop @ Fault::Stop(_)) => return Err(stop),
                Err(error) => Slot::Failed(error),
            };
        }
        match &self.slots[slot] {
            Slot::Failed(fault) => Err(fault.clone()),
            Slot::Unset => Err("no such attribute(s)".into()),
            _ => Ok(()),
        }
    }

    fn root(&mut self, root: &'a Root) -> EvalResult<'a> {
        match root {
            Root::Device => Ok(Value::Map(Map::Device(self.device))),
            Root::Slot(slot) => {
                self.force(*slot)?;
                match &self.slots[*slot] {
                    Slot::Value(value) => Ok(value.clone()),
                    _ => Err(Fault::NO_OVERLOAD),
                }
            }
            Root::Value(plan) => self.eval(plan),
            Root::Conditional(conditional) => {
                let (condition, if_true, if_false) = &**conditional;
                match self.eval(condition)? {
                    Value::Bool(true) => self.resolve(if_true),
                    Value::Bool(false) => self.resolve(if_false),
                    _ => Err(Fault::NO_OVERLOAD),
                }
            }
        }
    }

    /// The attribute's value, without its own unit.
    pub(super) fn resolve(&mut self, attribute: &'a Attribute) -> EvalResult<'a> {
        let mut value = self.root(&attribute.root)?;
        if attribute.qualifiers.is_empty() {
            return Ok(value);
        }
        let mut is_optional = false;
        if let Value::Optional(inner) = &value {
            let Some(inner) = inner.clone() else { return Ok(Value::NONE) };
            is_optional = true;
            value = (*inner).clone();
        }
        for qualifier in &attribute.qualifiers {
            is_optional |= qualifier.is_optional;
            match self.select(&value, qualifier, is_optional)? {
                SelectionResult::Value(found) => value = found,
                SelectionResult::Absent => return Ok(Value::NONE),
            }
        }
        Ok(if is_optional { Value::some(value) } else { value })
    }

    /// One selection. It costs one unit, unless it may be absent and is, or fails where it may be absent.
    fn select(
        &mut self,
        from: &Value<'a>,
        qualifier: &'a Qualifier,
        may_be_absent: bool,
    ) -> Result<SelectionResult<'a>, Fault> {
        let found = match self.key(&qualifier.key) {
            Ok(key) => lookup(from, &key, may_be_absent || qualifier.is_test),
            Err(fault) => Err(fault),
        };
        match found {
            Err(stop @ Fault::Stop(_)) => Err(stop),
            Err(error) => {
                if !may_be_absent {
                    self.meter.charge(1)?;
                }
                Err(error)
            }
            Ok(SelectionResult::Absent) if may_be_absent => Ok(SelectionResult::Absent),
            Ok(found) => {
                self.meter.charge(1)?;
                Ok(match found {
                    found if may_be_absent || !qualifier.is_test => found,
                    SelectionResult::Value(_) => SelectionResult::Value(Value::Bool(true)),
                    SelectionResult::Absent => SelectionResult::Value(Value::Bool(false)),
                })
            }
        }
    }

    fn key(&mut self, key: &'a QualifierKey) -> EvalResult<'a> {
        let value = match key {
            // It was looked at when the program was built.
            QualifierKey::Constant(value) => return Ok(Value::borrowed(value)),
            QualifierKey::Attribute(attribute) => self.resolve(attribute)?,
            QualifierKey::Computed(plan) => self.eval(plan)?,
        };
        match unusable_key(&value) {
            Some(why) => Err(Fault::text(why)),
            None => Ok(value),
        }
    }
}

/// Why nothing can be selected by such a key.
pub(crate) fn unusable_key(key: &Value<'_>) -> Option<String> {
    let is_usable = matches!(
        key,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
    );
    (!is_usable).then(|| format!("invalid qualifier type: {}", key.go_type()))
}

fn lookup<'a>(
    from: &Value<'a>,
    key: &Value<'a>,
    is_test: bool,
) -> Result<SelectionResult<'a>, Fault> {
    match from {
        Value::Map(map) => match map.find(key) {
            Some(value) => Ok(SelectionResult::Value(value)),
            None if is_test => Ok(SelectionResult::Absent),
            None => Err(missing_key(key)),
        },
        Value::List(list) => {
            let index = index(key)?;
            let item = usize::try_from(index).ok().and_then(|index| list.get(index));
            match item {
                Some(item) => Ok(SelectionResult::Value(item)),
                None if is_test => Ok(SelectionResult::Absent),
                None => Err(Fault::text(format!("index out of bounds: {}", key.shown()))),
            }
        }
        _ if is_test => Ok(SelectionResult::Absent),
        _ => Err(missing_key(key)),
    }
}

fn missing_key(key: &Value<'_>) -> Fault {
    Fault::text(format!("no such key: {}", key.shown()))
}

fn index(key: &Value<'_>) -> Result<i64, Fault> {
    let unsupported = || Fault::text(format!("unsupported index value {} in list", key.shown()));
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => i64::try_from(*index).map_err(|_| unsupported()),
        Value::Double(number) => {
            let index = *number as i64;
            if index as f64 == *number { Ok(index) } else { Err(unsupported()) }
        }
        other => {
            Err(Fault::text(format!("unsupported index type '{}' in list", other.type_name())))
        }
    }
}
