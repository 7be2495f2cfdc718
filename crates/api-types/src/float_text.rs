//! Floating-point numbers as text.

use std::fmt::{Display, LowerExp};

/// A number of type `f32` or `f64` with as few digits as tell it from others of its type, as Go's `%g` writes it: with an
/// exponent below 0.0001 and from a million on.
///
/// ```
/// use kube_scheduler_api_types::float_text;
///
/// assert_eq!(float_text(0.1_f32), "0.1");
/// assert_eq!(float_text(1_234_567.0_f64), "1.234567e+06");
/// assert_eq!(float_text(f64::NEG_INFINITY), "-Inf");
/// ```
pub fn float_text<T: Display + LowerExp>(value: T) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return match &*scientific {
            "inf" => "+Inf".to_owned(),
            "-inf" => "-Inf".to_owned(),
            _ => scientific,
        };
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_gos() {
        for (value, text) in [
            (0.0, "0"),
            (50.0, "50"),
            (0.5, "0.5"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (123_456.0, "123456"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-1.0, "-1"),
            (f32::NAN, "NaN"),
            (f32::INFINITY, "+Inf"),
        ] {
            assert_eq!(float_text(value), text);
        }
        assert_eq!(float_text(1e300), "1e+300");
    }
}
