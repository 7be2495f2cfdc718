//! Lists, sets, maps that macros build, optional values.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{CallResult, Context, is_equal};
use crate::cost;
use crate::declarations::Function;
use crate::error::{EvalStop, Fault};
use crate::limits;
use crate::meter::Meter;
use crate::value::{List, Map, Value, compare};

pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> CallResult<'a> {
    use Function as F;
    let meter = context.meter;
    Some(match (function, arguments) {
        (F::Slice, [Value::List(list), Value::Int(start), Value::Int(end)]) => {
            slice(list, *start, *end, meter)
        }
        (F::Flatten, [Value::List(list)]) => flatten(list, 1, meter),
        (F::Flatten, [Value::List(list), Value::Int(depth)]) => flatten(list, *depth, meter),
        (F::Range, [Value::Int(count)]) => range(*count, meter),
        (F::Reverse, [Value::List(list)]) => meter
            .allocate_elements(list.len() as u64)
            .map(|()| Value::list(list.iter().rev().collect())),
        (F::Distinct, [Value::List(list)]) => distinct(list, meter),
        (F::Sort, [Value::List(list)]) => sort(list, list, meter),
        (F::SortByKeys, [Value::List(list), Value::List(keys)]) => sort(list, keys, meter),
        (F::SetsContains, [Value::List(a), Value::List(b)]) => {
            contains_all(a, b, meter).map(Value::Bool)
        }
        (F::SetsEquivalent, [Value::List(a), Value::List(b)]) => contains_all(a, b, meter)
            .and_then(|is| Ok(is && contains_all(b, a, meter)?))
            .map(Value::Bool),
        (F::SetsIntersects, [Value::List(a), Value::List(b)]) => {
            intersects(a, b, meter).map(Value::Bool)
        }
        (F::IndexOf, [Value::List(list), item]) => index_of(list.iter().enumerate(), item, meter),
        (F::LastIndexOf, [Value::List(list), item]) => {
            index_of((0..list.len()).rev().filter_map(|at| Some((at, list.get(at)?))), item, meter)
        }
        (F::Sum, [Value::List(list)]) => return sum(list, context),
        // Of which type a list is follows from its first element.
        (F::IsSorted | F::Max | F::Min, [Value::List(list)])
            if list.get(0).is_some_and(|first| !first.is_ordered()) =>
        {
            return None;
        }
        (F::IsSorted, [Value::List(list)]) => is_sorted(list).map(Value::Bool),
        (F::Max, [Value::List(list)]) => extreme(list, Ordering::Less, "max called on empty list"),
        (F::Min, [Value::List(list)]) => {
            extreme(list, Ordering::Greater, "min called on empty list")
        }
        (F::MapInsert, [Value::Map(map), key, value]) => {
            inserted(map.clone(), [(key.clone(), value.clone())], meter)
        }
        (F::MapInsert, [Value::Map(map), Value::Map(added)]) => {
            inserted(map.clone(), added.entries(), meter)
        }
        (F::Includes, [Value::List(list), item]) => includes(list, item, meter),
        (F::Includes, [value, item]) => is_equal(value, item, meter).map(Value::Bool),
        (F::First, [Value::List(list)]) => Ok(list.get(0).map_or(Value::NONE, Value::some)),
        (F::Last, [Value::List(list)]) => {
            let last = list.len().checked_sub(1).and_then(|last| list.get(last));
            Ok(last.map_or(Value::NONE, Value::some))
        }
        (F::OptionalOf, [value]) => Ok(Value::some(value.clone())),
        (F::OptionalOfNonZero, [value]) => {
            Ok(if value.is_zero() { Value::NONE } else { Value::some(value.clone()) })
        }
        (F::OptionalNone, []) => Ok(Value::NONE),
        (F::HasValue, [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        (F::Value, [Value::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err("optional.none() dereference".into()),
        },
        (F::OptionalUnwrap | F::UnwrapOptional, [Value::List(list)]) => unwrap(list, meter),
        _ => return None,
    })
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64, meter: &Meter) -> Result<Value<'a>, Fault> {
    let fails = |why: String| Err(Fault::text(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return fails("negative indexes not supported".to_owned());
    };
    if from > to {
        return fails("start index must be less than or equal to end index".to_owned());
    }
    if to > list.len() {
        return fails(format!("list is length {}", list.len()));
    }
    meter.allocate_elements((to - from) as u64)?;
    Ok(Value::list((from..to).filter_map(|at| list.get(at)).collect()))
}

fn flatten<'a>(list: &List<'a>, depth: i64, meter: &Meter) -> Result<Value<'a>, Fault> {
    if depth < 0 {
        return Err("level must be non-negative".into());
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat, meter)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    list: &List<'a>,
    depth: i64,
    flat: &mut Vec<Value<'a>>,
    meter: &Meter,
) -> Result<(), Fault> {
    for item in list.iter() {
        meter.step(1)?;
        match item {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat, meter)?,
            other => {
                meter.allocate_elements(1)?;
                flat.push(other);
            }
        }
    }
    Ok(())
}

fn range<'a>(count: i64, meter: &Meter) -> Result<Value<'a>, Fault> {
    let size = u64::try_from(count).unwrap_or(0);
    // Checked before the list is allocated: the budget bounds its size.
    let units = cost::made(1.0, size);
    if !meter.can_afford(units) {
        meter.charge(units)?;
        return Err(Fault::Stop(EvalStop::Cost));
    }
    meter.allocate_elements(size)?;
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

fn distinct<'a>(list: &List<'a>, meter: &Meter) -> Result<Value<'a>, Fault> {
    let mut unique: Vec<Value<'a>> = Vec::new();
    'items: for item in list.iter() {
        for other in &unique {
            if is_equal(&item, other, meter)? {
                continue 'items;
            }
        }
        meter.allocate_elements(1)?;
        unique.push(item);
    }
    Ok(Value::list(unique))
}

/// Sorts by keys at the same places. Parity: equal keys keep their order; in the reference that is open.
fn sort<'a>(list: &List<'a>, keys: &List<'a>, meter: &Meter) -> Result<Value<'a>, Fault> {
    if list.len() != keys.len() {
        return Err(Fault::text(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} \
             and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    meter.allocate_elements(2 * list.len() as u64)?;
    let mut rows: Vec<_> = keys.iter().zip(list.iter()).collect();
    let Some((first, _)) = rows.first() else { return Ok(Value::List(list.clone())) };
    let kind = first.type_name();
    if !first.is_ordered() {
        return Err("list elements must be comparable".into());
    }
    if rows.iter().any(|(key, _)| key.type_name() != kind) {
        return Err("list elements must have the same type".into());
    }
    // NaN has no place; it stays where it is among its neighbours.
    let is_nan = |value: &Value<'_>| matches!(value, Value::Double(value) if value.is_nan());
    if !rows.iter().any(|(key, _)| is_nan(key)) {
        rows.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    }
    Ok(Value::list(rows.into_iter().map(|(_, item)| item).collect()))
}

/// Whether an element equals the value.
pub(super) fn contains<'a>(
    list: &List<'a>,
    item: &Value<'a>,
    meter: &Meter,
) -> Result<bool, Fault> {
    for other in list.iter() {
        if is_equal(item, &other, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains_all<'a>(list: &List<'a>, wanted: &List<'a>, meter: &Meter) -> Result<bool, Fault> {
    for item in wanted.iter() {
        if !contains(list, &item, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(a: &List<'a>, b: &List<'a>, meter: &Meter) -> Result<bool, Fault> {
    for item in a.iter() {
        if contains(b, &item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn index_of<'a>(
    items: impl Iterator<Item = (usize, Value<'a>)>,
    wanted: &Value<'a>,
    meter: &Meter,
) -> Result<Value<'a>, Fault> {
    for (at, item) in items {
        if is_equal(&item, wanted, meter)? {
            return Ok(Value::Int(at as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn is_sorted(list: &List<'_>) -> Result<bool, Fault> {
    let mut before: Option<Value<'_>> = None;
    for item in list.iter() {
        if !item.is_ordered() {
            return Err(Fault::NO_OVERLOAD);
        }
        if let Some(before) = &before
            && matches!(compare(before, &item), Ok(Ordering::Greater))
        {
            return Ok(false);
        }
        before = Some(item);
    }
    Ok(true)
}

/// Parity: the sum of an empty list is an int whatever its type; the reference knows the type only where it is static.
fn sum<'a>(list: &List<'a>, context: &Context<'_>) -> CallResult<'a> {
    let mut sum = match list.get(0) {
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(0),
        Some(Value::Int(_)) | None => Value::Int(0),
        Some(_) => return None,
    };
    for item in list.iter() {
        match super::call(Function::Add, &[sum, item], context) {
            Ok(next) => sum = next,
            // The reference asks the failed sum for more and loses the reason.
            Err(Fault::Error(error)) => return Some(Err(Fault::Error(error))),
            Err(stop) => return Some(Err(stop)),
        }
    }
    Some(Ok(sum))
}

/// The element that no other one is better than; it is replaced where it compares as `worse`.
fn extreme<'a>(
    list: &List<'a>,
    worse: Ordering,
    on_empty: &'static str,
) -> Result<Value<'a>, Fault> {
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        if !item.is_ordered() {
            return Err(Fault::NO_OVERLOAD);
        }
        let is_better = match &best {
            None => true,
            Some(best) => matches!(compare(best, &item), Ok(order) if order == worse),
        };
        if is_better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| on_empty.into())
}

fn includes<'a>(list: &List<'a>, wanted: &Value<'a>, meter: &Meter) -> Result<Value<'a>, Fault> {
    for (at, item) in list.iter().enumerate() {
        if at >= limits::MAX_INCLUDES_VALUES {
            return Err(Fault::text(format!(
                "'includes' function cannot be applied to lists longer than {} values",
                limits::MAX_INCLUDES_VALUES
            )));
        }
        if is_equal(&item, wanted, meter)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn unwrap<'a>(list: &List<'a>, meter: &Meter) -> Result<Value<'a>, Fault> {
    let mut values = Vec::new();
    for item in list.iter() {
        match item {
            Value::Optional(None) => {}
            Value::Optional(Some(value)) => {
                meter.allocate_elements(1)?;
                values.push((*value).clone());
            }
            other => {
                return Err(Fault::text(format!(
                    "value of type {} is not optional",
                    other.type_name()
                )));
            }
        }
    }
    Ok(Value::list(values))
}

/// `kept` with the elements of `added`, in place if there is no other reference to it.
pub(crate) fn extended<'a>(
    kept: List<'a>,
    added: &List<'a>,
    meter: &Meter,
) -> Result<Value<'a>, Fault> {
    meter.allocate_elements(added.len() as u64)?;
    let mut items = match kept {
        List::Items(items) => items,
        other => Arc::new(other.iter().collect()),
    };
    if Arc::get_mut(&mut items).is_none() {
        meter.allocate_elements(items.len() as u64)?;
    }
    Arc::make_mut(&mut items).extend(added.iter());
    Ok(Value::List(List::Items(items)))
}

/// `kept` with further entries, in place if there is no other reference to it. A key that is there already is an error.
pub(crate) fn inserted<'a>(
    kept: Map<'a>,
    added: impl IntoIterator<Item = (Value<'a>, Value<'a>)>,
    meter: &Meter,
) -> Result<Value<'a>, Fault> {
    let Map::Entries(mut entries) = kept else {
        return Err(Fault::NO_OVERLOAD);
    };
    if Arc::get_mut(&mut entries).is_none() {
        meter.allocate_elements(2 * entries.len() as u64)?;
    }
    for (key, value) in added {
        meter.allocate_elements(2)?;
        key.check_hashable()?;
        if entries.find(&key).is_some() {
            return Err(Fault::text(format!("insert failed: key {} already exists", key.shown())));
        }
        Arc::make_mut(&mut entries).insert(&key, value)?;
    }
    Ok(Value::Map(Map::Entries(entries)))
}
