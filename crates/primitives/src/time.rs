//! Points in time as the scheduler keeps them: nanoseconds since the Unix epoch.
//!
//! Time is always an argument here; nothing in this crate reads a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds since the Unix epoch (negative before it).
///
/// The range is about the years 1678 to 2262; arithmetic saturates at its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch. The reference's "zero time" is represented by it as well.
    pub const EPOCH: Self = Self(0);

    /// The point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// This point rounded down to a whole second.
    pub const fn floor_to_second(self) -> Self {
        Self(self.0.div_euclid(1_000_000_000).saturating_mul(1_000_000_000))
    }

    /// The time from `earlier` to `self`, zero when `earlier` is not earlier.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        let nanos = self.0.saturating_sub(earlier.0);
        if nanos <= 0 { Duration::ZERO } else { Duration::from_nanos(nanos.unsigned_abs()) }
    }

    /// Reads an RFC 3339 timestamp, as Kubernetes writes them (feature `rfc3339`). `None` when `text` is not one.
    #[cfg(feature = "rfc3339")]
    pub fn parse(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        i64::try_from(at.as_nanosecond()).ok().map(Self)
    }

    /// Like [`Timestamp::parse`], but times outside the range become its nearer end.
    #[cfg(feature = "rfc3339")]
    pub fn parse_clamped(text: &str) -> Option<Self> {
        let nanos = text.parse::<jiff::Timestamp>().ok()?.as_nanosecond();
        Some(Self(i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })))
    }
}

fn nanos(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(nanos(length)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(length)))
    }
}

/// RFC 3339 in UTC with as many fractional digits as the value has (feature `rfc3339`).
#[cfg(feature = "rfc3339")]
impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(at) => std::fmt::Display::fmt(&at, f),
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "rfc3339")]
    #[test]
    fn reads_and_prints_what_kubernetes_writes() {
        let at = Timestamp::parse("2026-01-02T03:04:06Z").unwrap();
        assert_eq!(at.to_string(), "2026-01-02T03:04:06Z");
        assert_eq!(
            Timestamp::parse("2026-01-02T03:04:06.25+01:00").unwrap().to_string(),
            "2026-01-02T02:04:06.25Z"
        );
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn floors_towards_the_past() {
        assert_eq!(
            Timestamp::from_nanos(-1).floor_to_second(),
            Timestamp::from_nanos(-1_000_000_000)
        );
        assert_eq!(
            Timestamp::from_nanos(1_999_999_999).floor_to_second(),
            Timestamp::from_nanos(1_000_000_000)
        );
    }
}
