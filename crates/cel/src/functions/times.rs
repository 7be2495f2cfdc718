//! Parts of timestamps and durations.

use super::CallResult;
use crate::declarations::Function;
use crate::time::NANOS_PER_SECOND;
use crate::value::Value;

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>]) -> CallResult<'a> {
    use Function as F;
    let (time, zone) = match arguments {
        [Value::Duration(nanos)] => {
            let unit = match function {
                F::Hours => 3600 * NANOS_PER_SECOND,
                F::Minutes => 60 * NANOS_PER_SECOND,
                F::Seconds => NANOS_PER_SECOND,
                F::Milliseconds => NANOS_PER_SECOND / 1000,
                _ => return None,
            };
            return Some(Ok(Value::Int(nanos / unit)));
        }
        [Value::Timestamp(time)] => (time, None),
        [Value::Timestamp(time), Value::String(zone)] => (time, Some(zone)),
        _ => return None,
    };
    let civil = match time.in_zone(zone.map(|zone| &**zone)) {
        Ok(civil) => civil,
        Err(fault) => return Some(Err(fault)),
    };
    Some(Ok(Value::Int(match function {
        F::FullYear => civil.year().into(),
        F::Month => i64::from(civil.month()) - 1,
        F::DayOfYear => i64::from(civil.day_of_year()) - 1,
        F::DayOfMonth => i64::from(civil.day()) - 1,
        F::Date => civil.day().into(),
        F::DayOfWeek => civil.weekday().to_sunday_zero_offset().into(),
        F::Hours => civil.hour().into(),
        F::Minutes => civil.minute().into(),
        F::Seconds => civil.second().into(),
        F::Milliseconds => i64::from(time.instant().1 / 1_000_000),
        _ => return None,
    })))
}
