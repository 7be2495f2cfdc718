//! Durations and timestamps in the reference's notation (`docs/spec/cel.md` §5).

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use crate::error::Fault;

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// Year 1 to 9999.
const MIN_SECOND: i64 = -62_135_596_800;
const MAX_SECOND: i64 = 253_402_300_799;

const TIMESTAMP_OVERFLOW: &str = "timestamp overflow";
const INTEGER_OVERFLOW: &str = "integer overflow";

/// A moment, and the offset it was written with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    /// Since 1970.
    seconds: i64,
    nanos: u32,
    /// East of UTC.
    offset_seconds: i32,
}

impl Timestamp {
    pub(crate) fn from_seconds(seconds: i64) -> Result<Self, Fault> {
        Self::new(seconds, 0, 0)
    }

    fn new(seconds: i64, nanos: u32, offset_seconds: i32) -> Result<Self, Fault> {
        if !(MIN_SECOND..=MAX_SECOND).contains(&seconds) {
            return Err(TIMESTAMP_OVERFLOW.into());
        }
        Ok(Self { seconds, nanos, offset_seconds })
    }

    pub(crate) fn seconds(self) -> i64 {
        self.seconds
    }

    /// For comparisons.
    pub(crate) fn instant(self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.instant() == (MIN_SECOND, 0)
    }

    pub(crate) fn plus(self, nanos: i64) -> Result<Self, Fault> {
        let total = i64::from(self.nanos) + nanos % NANOS_PER_SECOND;
        let seconds = self
            .seconds
            .checked_add(nanos / NANOS_PER_SECOND)
            .and_then(|seconds| seconds.checked_add(total.div_euclid(NANOS_PER_SECOND)))
            .ok_or(INTEGER_OVERFLOW)?;
        let nanos = u32::try_from(total.rem_euclid(NANOS_PER_SECOND)).unwrap_or(0);
        Self::new(seconds, nanos, self.offset_seconds)
    }

    pub(crate) fn minus(self, other: Self) -> Result<i64, Fault> {
        let seconds = self.seconds.checked_sub(other.seconds).ok_or(INTEGER_OVERFLOW)?;
        seconds
            .checked_mul(NANOS_PER_SECOND)
            .and_then(|nanos| nanos.checked_add(i64::from(self.nanos) - i64::from(other.nanos)))
            .ok_or_else(|| INTEGER_OVERFLOW.into())
    }

    /// Reads RFC 3339.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let refused = || Fault::conversion("string", "google.protobuf.Timestamp");
        let (time, offset_seconds) = split_offset(text).ok_or_else(refused)?;
        let (time, fraction) = match time.split_once(['.', ',']) {
            Some((time, fraction)) => (time, Some(fraction)),
            None => (time, None),
        };
        let nanos = fraction.map_or(Some(0), fraction_nanos).ok_or_else(refused)?;
        let civil = civil(time).ok_or_else(refused)?;
        let utc = civil.to_zoned(TimeZone::UTC).map_err(|_| refused())?;
        let seconds = utc.timestamp().as_second() - i64::from(offset_seconds);
        Self::new(seconds, nanos, offset_seconds)
    }

    /// Date and time where the clock is `offset` seconds ahead of UTC.
    fn at_offset(self, offset_seconds: i32) -> Option<DateTime> {
        let offset = Offset::from_seconds(offset_seconds).ok()?;
        let instant = jiff::Timestamp::new(self.seconds, self.nanos.cast_signed()).ok()?;
        Some(offset.to_datetime(instant))
    }

    /// Date and time in a zone: a name, or an offset like `-05:30`. UTC if absent.
    pub(crate) fn in_zone(self, zone: Option<&str>) -> Result<DateTime, Fault> {
        let out_of_range = || Fault::from(TIMESTAMP_OVERFLOW);
        let Some(zone) = zone else {
            return self.at_offset(0).ok_or_else(out_of_range);
        };
        let Some((hours, minutes)) = zone.split_once(':') else {
            if zone.is_empty() || zone == "UTC" {
                return self.at_offset(0).ok_or_else(out_of_range);
            }
            if zone.starts_with(['/', '\\']) || zone.contains("..") {
                return Err("time: invalid location name".into());
            }
            // The zone of the machine is no part of an expression.
            let found = TimeZoneDatabase::bundled().get(zone).ok();
            // In the reference, names are those of files.
            let found = found.filter(|found| found.iana_name() == Some(zone));
            let found = found.ok_or_else(|| Fault::text(format!("unknown time zone {zone}")))?;
            let instant = jiff::Timestamp::new(self.seconds, self.nanos.cast_signed())
                .map_err(|_| out_of_range())?;
            return Ok(found.to_datetime(instant));
        };
        let number = |text: &str| {
            text.parse::<i32>().map_err(|_| {
                Fault::text(format!(
                    "strconv.Atoi: parsing {}: invalid syntax",
                    crate::quote::quoted(text)
                ))
            })
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        hours
            .checked_mul(60)
            .and_then(|total| total.checked_add(sign * minutes))
            .and_then(|total| total.checked_mul(60))
            .and_then(|seconds| self.at_offset(seconds))
            .ok_or_else(out_of_range)
    }

    /// RFC 3339 with as many digits as needed.
    pub(crate) fn text(self) -> String {
        let Some(civil) = self.at_offset(self.offset_seconds) else { return String::new() };
        let fraction = if self.nanos == 0 {
            String::new()
        } else {
            format!(".{:09}", self.nanos).trim_end_matches('0').to_owned()
        };
        let offset = match self.offset_seconds / 60 {
            0 => "Z".to_owned(),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                let minutes = minutes.abs();
                format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        };
        let (date, time) = (civil.date(), civil.time());
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}{offset}",
            date.year(),
            date.month(),
            date.day(),
            time.hour(),
            time.minute(),
            time.second()
        )
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.instant() == other.instant()
    }
}

/// The text without its offset, and the offset.
fn split_offset(text: &str) -> Option<(&str, i32)> {
    if let Some(time) = text.strip_suffix('Z') {
        return Some((time, 0));
    }
    let start = text.len().checked_sub(6).filter(|start| text.is_char_boundary(*start))?;
    let (time, offset) = text.split_at(start);
    let sign = match offset.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = offset[1..].split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours <= 24 && minutes < 60).then_some((time, sign * (hours * 3600 + minutes * 60)))
}

fn digits(text: &str, count: usize) -> Option<i32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn civil(text: &str) -> Option<DateTime> {
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = date.split('-').collect::<Vec<_>>().try_into().ok()?;
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>().try_into().ok()?;
    let hour = if hour.len() == 1 { digits(hour, 1)? } else { digits(hour, 2)? };
    DateTime::new(
        i16::try_from(digits(year, 4)?).ok()?,
        i8::try_from(digits(month, 2)?).ok()?,
        i8::try_from(digits(day, 2)?).ok()?,
        i8::try_from(hour).ok()?,
        i8::try_from(digits(minute, 2)?).ok()?,
        i8::try_from(digits(second, 2)?).ok()?,
        0,
    )
    .ok()
}

fn fraction_nanos(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine: String = text.chars().chain("000000000".chars()).take(9).collect();
    nine.parse().ok()
}

/// Reads a duration like `1h30m` or `-1.5s`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Result<i64, Fault> {
    let refused = || Fault::conversion("string", "google.protobuf.Duration");
    let (is_negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(refused());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        rest = after;
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(refused()),
        };
        total += amount(number, unit).ok_or_else(refused)?;
        if total > i128::from(i64::MAX) + 1 {
            return Err(refused());
        }
    }
    i64::try_from(if is_negative { -total } else { total }).map_err(|_| refused())
}

fn amount(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    // Nanoseconds need no more than 13 digits; further ones are cut off as the reference does.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        fraction.parse::<i128>().ok()? * unit / scale
    };
    Some(whole * unit + part)
}

/// Seconds with as many digits as needed, as the reference writes durations.
pub(crate) fn duration_text(nanos: i64) -> String {
    let seconds = (nanos / NANOS_PER_SECOND) as f64;
    let rest = (nanos % NANOS_PER_SECOND) as f64;
    format!("{}s", seconds + rest / 1e9)
}
