//! Lengths of time as configuration files write them: `15s`, `1m30s`, `500ms`, `-1s`.
//!
//! Invariants: [`Duration::parse`] accepts exactly the duration strings upstream's flag and JSON parsers accept, and
//! never overflows; the printed form parses back to the same value.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A signed length of time in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// No number where one is needed, or stray characters.
    #[error(
        "invalid duration {0:?}: use numbers with units, such as \"10s\", \"1m30s\" or \"500ms\""
    )]
    Malformed(String),
    /// There is a number without a unit.
    #[error("missing unit in duration {0:?}: use one of ns, us, ms, s, m, h")]
    MissingUnit(String),
    /// There is a unit that does not exist.
    #[error("unknown unit {unit:?} in duration {text:?}: use one of ns, us, ms, s, m, h")]
    UnknownUnit {
        /// The unit found.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// The duration is longer than about 292 years.
    #[error("duration {0:?} is too long: the limit is about 292 years")]
    TooLong(String),
}

impl Duration {
    /// No time at all; in a configuration file the same as not set.
    pub const ZERO: Self = Self(0);

    /// A length of `seconds` whole seconds; the longest or shortest representable one if it does not fit.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// A length of this many nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The length in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whether this is the zero length, which counts as not set.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// As a standard duration; nothing when negative.
    #[must_use]
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }

    /// Reads a duration such as `15s` or `-1m30s`: a sign, then one or more decimal numbers each with a unit (`ns`,
    /// `us`, `ms`,
    /// `s`, `m`, `h`); `0` needs none.
    ///
    /// # Errors
    /// If the text has another form, or is longer than 2⁶³ ns.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let too_long = || DurationError::TooLong(text.to_owned());
        let (is_negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        // Magnitudes are kept as i128 below 2^64, so that the most negative length parses and nothing can overflow.
        let limit = i128::from(i64::MAX) + i128::from(is_negative);
        let mut total: i128 = 0;
        // One number and its unit in each round. Either side of the dot may be missing, but not both.
        while !rest.is_empty() {
            let whole_len = digits(rest);
            let whole = &rest[..whole_len];
            rest = &rest[whole_len..];
            let mut fraction = "";
            if let Some(after_dot) = rest.strip_prefix('.') {
                let len = digits(after_dot);
                fraction = &after_dot[..len];
                rest = &after_dot[len..];
            }
            if whole.is_empty() && fraction.is_empty() {
                return Err(malformed());
            }
            let unit_len =
                rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
            let unit = &rest[..unit_len];
            rest = &rest[unit_len..];
            let unit_nanos: i128 = match unit {
                "" => return Err(DurationError::MissingUnit(text.to_owned())),
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => i128::from(NANOS_PER_SECOND),
                "m" => 60 * i128::from(NANOS_PER_SECOND),
                "h" => 3_600 * i128::from(NANOS_PER_SECOND),
                _ => {
                    return Err(DurationError::UnknownUnit {
                        unit: unit.to_owned(),
                        text: text.to_owned(),
                    });
                }
            };
            let whole: i128 = match whole.trim_start_matches('0') {
                "" => 0,
                digits if digits.len() > 19 => return Err(too_long()),
                digits => digits.parse().map_err(|_| malformed())?,
            };
            total += whole * unit_nanos + fraction_nanos(fraction, unit_nanos);
            if total > limit {
                return Err(too_long());
            }
        }
        let signed = if is_negative { -total } else { total };
        i64::try_from(signed).map(Self).map_err(|_| too_long())
    }
}

/// How many ASCII digits `text` starts with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// What `0.<fraction>` of a unit is worth, truncated. Eighteen digits are more than an hour in nanoseconds needs.
fn fraction_nanos(fraction: &str, unit_nanos: i128) -> i128 {
    let (mut value, mut scale) = (0_i128, 1_i128);
    for digit in fraction.bytes().take(18) {
        value = value * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    value * unit_nanos / scale
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        if magnitude == 0 {
            return f.write_str("0s");
        }
        let (unit_nanos, unit) = match magnitude {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        if unit != "s" {
            return write!(f, "{sign}{}{unit}", decimal(magnitude, unit_nanos));
        }
        let minute_nanos = 60 * unit_nanos;
        let minutes = magnitude / minute_nanos;
        let seconds = decimal(magnitude % minute_nanos, unit_nanos);
        match (minutes / 60, minutes % 60) {
            (0, 0) => write!(f, "{sign}{seconds}s"),
            (0, minutes) => write!(f, "{sign}{minutes}m{seconds}s"),
            (hours, minutes) => write!(f, "{sign}{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// `value / unit` with as many decimals as it needs and no more.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let decimals = format!("{rest:0width$}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"15s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
                Duration::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    #[test]
    fn parses_what_upstream_parses() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("5s", 5_000_000_000),
            ("+1m30.5s", 90_500_000_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("-3s", -3_000_000_000),
            ("2µs", 2_000),
            ("-2562047h47m16.854775808s", i64::MIN),
            ("9223372036.854775807s", i64::MAX),
        ];
        for (text, nanos) in cases {
            assert_eq!(Duration::parse(text).map(Duration::as_nanos), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "-", "s", ".", ".s", "1", "1 s", "1x", "1s ", "1e3s", "--1s"] {
            assert!(Duration::parse(text).is_err(), "{text}");
        }
        assert!(matches!(Duration::parse("99999999h"), Err(DurationError::TooLong(_))));
        assert!(matches!(
            Duration::parse("99999999999999999999999999999999999999999s"),
            Err(DurationError::TooLong(_))
        ));
    }

    #[test]
    fn prints_as_upstream_prints() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (12, "12ns"),
            (1_100, "1.1µs"),
            (1_250_000, "1.25ms"),
            (500_000_000, "500ms"),
            (1_500_000_000, "1.5s"),
            (15_000_000_000, "15s"),
            (300_000_000_000, "5m0s"),
            (600_000_000_000, "10m0s"),
            (900_000_000_000, "15m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (3_661_000_000_000, "1h1m1s"),
            (-1_500_000_000, "-1.5s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Duration::from_nanos(nanos).to_string(), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(36), ..ProptestConfig::default() })]

        #[test]
        fn printed_form_parses_back(nanos in any::<i64>()) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn parsing_never_panics(text in "[-+0-9.a-zµ ]{0,24}") {
            let _ = Duration::parse(&text);
        }
    }
}
