//! Lengths of time in the notation that messages use: `5m0s`, `1.5s`, `100ms`.

use std::fmt::Write as _;
use std::time::Duration;

/// Prints a duration the way the reference's messages do.
pub(crate) fn go_duration(length: Duration) -> String {
    let nanos = length.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000 {
        return format!("{nanos}ns");
    }
    if nanos < 1_000_000 {
        return format!("{}µs", decimal(nanos, 1_000));
    }
    if nanos < 1_000_000_000 {
        return format!("{}ms", decimal(nanos, 1_000_000));
    }
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let mut text = String::new();
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if seconds >= 60 {
        let _ = write!(text, "{minutes}m");
    }
    text + &decimal(nanos % 60_000_000_000, 1_000_000_000) + "s"
}

/// `value / unit` without trailing zeros.
fn decimal(value: u128, unit: u128) -> String {
    let whole = value / unit;
    let fraction = value % unit;
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_messages_do() {
        let cases = [
            (Duration::from_secs(300), "5m0s"),
            (Duration::from_secs(900), "15m0s"),
            (Duration::from_millis(1_500), "1.5s"),
            (Duration::from_secs(3_661), "1h1m1s"),
            (Duration::from_micros(1_250), "1.25ms"),
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(12), "12ns"),
        ];
        for (length, text) in cases {
            assert_eq!(go_duration(length), text);
        }
    }
}
