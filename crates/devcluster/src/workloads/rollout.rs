//! How many pods a rollout may have too many and too few.

use serde_json::Value;

use crate::object::at;

/// The limits of a rolling update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// How many pods there may be above the wanted number.
    pub(super) surge: i64,
    /// How many of the wanted pods may be unavailable.
    pub(super) unavailable: i64,
}

/// The limits in a rolling update's parameters, for `wanted` pods; a quarter each by default. If both are zero, one pod may
/// be unavailable, since nothing could be updated otherwise.
pub(super) fn limits(parameters: Option<&Value>, wanted: i64) -> Limits {
    let quarter = Value::from("25%");
    let get = |field: &str| parameters.and_then(|value| at(value, &[field])).unwrap_or(&quarter);
    let surge = portion(get("maxSurge"), wanted, Rounding::Up);
    let unavailable = portion(get("maxUnavailable"), wanted, Rounding::Down).min(wanted);
    Limits { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
}

/// A count, or a percentage of `total`; zero for anything else.
pub(super) fn portion(value: &Value, total: i64, rounding: Rounding) -> i64 {
    if let Some(count) = value.as_i64() {
        return count.max(0);
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    let percent: i64 = percent.and_then(|text| text.parse().ok()).unwrap_or(0);
    let hundredths = total.saturating_mul(percent.clamp(0, 1000));
    match rounding {
        Rounding::Up => hundredths.saturating_add(99) / 100,
        Rounding::Down => hundredths / 100,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn surges_are_rounded_up_and_gaps_down() {
        let of = |surge: Value, unavailable: Value, wanted| {
            let parameters = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let limits = limits(Some(&parameters), wanted);
            (limits.surge, limits.unavailable)
        };
        assert_eq!(of(json!("25%"), json!("25%"), 3), (1, 0));
        assert_eq!(of(json!("25%"), json!("25%"), 10), (3, 2));
        assert_eq!(of(json!(0), json!("10%"), 3), (0, 1));
        assert_eq!(of(json!(2), json!(5), 3), (2, 3));
        assert_eq!(of(json!("many"), json!(null), 3), (0, 1));
        assert_eq!(limits(None, 4), Limits { surge: 1, unavailable: 1 });
    }
}
