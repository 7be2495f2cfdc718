//! Loops.

use super::{EvalResult, Evaluation, Slot};
use crate::error::Fault;
use crate::plan::Fold;
use crate::value::{Map, Value};

impl<'a> Evaluation<'a> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> EvalResult<'a> {
        let range = self.eval(&fold.range)?;
        self.slots[fold.slot] = Slot::Lazy(&fold.start);
        let looped = match &range {
            Value::List(list) => {
                let length = list.len();
                (0..length).try_for_each_while(|index| {
                    let Some(item) = list.get(index) else { return Ok(false) };
                    let index = Value::Int(index as i64);
                    let (first, second) =
                        if fold.has_second { (index, Some(item)) } else { (item, None) };
                    self.iterate(fold, first, second)
                })
            }
            Value::Map(map) => self.fold_map(fold, map),
            other if fold.has_second => Err(Fault::text(format!(
                "unsupported comprehension range type: {}",
                other.go_type()
            ))),
            other => Err(Fault::text(format!("got '{}', expected iterable type", other.go_type()))),
        };
        let result = looped.and_then(|()| self.eval(&fold.result));
        self.slots[fold.slot] = Slot::Unset;
        result
    }

    fn fold_map(&mut self, fold: &'a Fold, map: &Map<'a>) -> Result<(), Fault> {
        let keys = map.keys();
        self.meter.allocate_elements(keys.len() as u64)?;
        keys.into_iter().try_for_each_while(|key| {
            let value = if fold.has_second { map.find(&key) } else { None };
            self.iterate(fold, key, value)
        })
    }

    /// One turn; false if the loop ends before it.
    fn iterate(
        &mut self,
        fold: &'a Fold,
        first: Value<'a>,
        second: Option<Value<'a>>,
    ) -> Result<bool, Fault> {
        self.meter.step(1)?;
        self.slots[fold.slot + 1] = Slot::Value(first);
        self.slots[fold.slot + 2] = second.map_or(Slot::Unset, Slot::Value);
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(stop @ Fault::Stop(_)) => return Err(stop),
            _ => {}
        }
        self.slots[fold.slot] = match self.eval(&fold.step) {
            Ok(value) => Slot::Value(value),
            Err(stop @ Fault::Stop(_)) => return Err(stop),
            Err(error) => Slot::Failed(error),
        };
        Ok(true)
    }
}

/// Iteration that may end early without an error.
trait ForEachWhile: Iterator + Sized {
    fn try_for_each_while(
        self,
        mut each: impl FnMut(Self::Item) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        for item in self {
            if !each(item)? {
                break;
            }
        }
        Ok(())
    }
}

impl<I: Iterator> ForEachWhile for I {}
