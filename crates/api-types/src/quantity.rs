//! Quantities: the exact decimal numbers of the API (`1500m`, `1.5Gi`, `2e3`).
//!
//! Answers to `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go` (`docs/spec/plugins-node.md` §2.1).
//!
//! Invariants: arithmetic is exact, never floating point; a parsed number is a multiple of 10^-9 (finer digits are
//! rounded away from zero); equality and order go by value, whatever the spelling; no input panics or takes more
//! than time linear in its length.
//!
//! Numbers of up to 18 digits are a machine integer and a power of ten; the rest, which no sane object has, are
//! integers of any size. The two forms overflow differently when turned into 64 bits, as they do in the reference.

mod parse;
#[cfg(test)]
mod tests;
mod wide;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use wide::WideInteger;

/// Decimal places that survive parsing.
const NANO_SCALE: i32 = 9;
/// Longest number accepted, and the furthest two numbers may lie apart to be added digit by digit.
const MAX_DIGITS: usize = 4096;

/// An exact number with the style it was written in. Cheap to clone in its usual form.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text as written, where the reference prints that instead of the canonical form and the two may differ.
    text: Option<Arc<str>>,
}

/// The style a quantity prints in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
    /// Powers of 1000: `k`, `M`, `m`.
    DecimalSi,
    /// `e3`, `e-6`.
    DecimalExponent,
}

#[derive(Clone, Debug)]
enum Amount {
    /// `value * 10^scale`.
    Small {
        value: i64,
        scale: i32,
    },
    Wide(Box<Decimal>),
}

/// `± magnitude * 10^-scale`.
#[derive(Clone, Debug)]
struct Decimal {
    is_negative: bool,
    magnitude: WideInteger,
    scale: i64,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text does not have the form of a quantity.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The suffix is none that exists.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// There are no digits before the suffix.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// There are more than 4,096 digits. The reference accepts such numbers, at the price of time and memory.
    #[error("quantity has {digits} digits, at most 4096 are allowed")]
    TooLong {
        /// How many there are.
        digits: usize,
    },
}

impl Quantity {
    /// The quantity zero, printed as `0`.
    pub const ZERO: Self = Self {
        amount: Amount::Small { value: 0, scale: 0 },
        format: Format::DecimalSi,
        text: None,
    };

    /// Reads a quantity such as `250m` or `1.5Gi`. Surrounding space is not accepted here, other than by
    /// [`from_json`](Self::from_json).
    ///
    /// # Errors
    /// If the text is not a quantity, in the words of the reference.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// As [`parse`](Self::parse), for the text of a JSON string or number, in which surrounding space is ignored.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub(crate) fn parse_json_text(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text.trim())
    }

    /// Reads a JSON string or number; `null` is zero.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and for values of any other type.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, QuantityError> {
        match value {
            serde_json::Value::Null => Ok(Self::ZERO),
            serde_json::Value::String(text) => Self::parse_json_text(text),
            serde_json::Value::Number(number) => Self::parse_json_text(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }

    /// A whole number, printed with decimal suffixes.
    pub const fn from_units(value: i64) -> Self {
        Self { amount: Amount::Small { value, scale: 0 }, format: Format::DecimalSi, text: None }
    }

    /// A whole number, printed with binary suffixes (`Ki`).
    pub const fn from_binary_units(value: i64) -> Self {
        Self { amount: Amount::Small { value, scale: 0 }, format: Format::Binary, text: None }
    }

    /// Thousandths, printed with decimal suffixes.
    pub(crate) const fn from_milli(value: i64) -> Self {
        Self { amount: Amount::Small { value, scale: -3 }, format: Format::DecimalSi, text: None }
    }

    /// Whether both are the same number written in the same way, so that they can be exchanged for each other. May be
    /// `false` for equal ones with more digits than 64 bits hold.
    pub fn is_written_like(&self, other: &Self) -> bool {
        let (
            Amount::Small { value: a, scale: scale_a },
            Amount::Small { value: b, scale: scale_b },
        ) = (&self.amount, &other.amount)
        else {
            return false;
        };
        (a, scale_a, self.format, &self.text) == (b, scale_b, other.format, &other.text)
    }

    /// The number rounded up to a whole one, as the reference's `Value` gives it: what 64 bits do not hold (`12E`) gives
    /// an arbitrary number, the reference's. See [`checked_value`](Self::checked_value).
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The number of thousandths rounded up to a whole one, as the reference's `MilliValue` gives it. For overflow see
    /// [`value`](Self::value).
    pub fn milli_value(&self) -> i64 {
        self.scaled(3)
    }

    /// The number rounded away from zero to a whole one; `None` if 64 bits do not hold it.
    ///
    /// ```
    /// use kube_scheduler_api_types::Quantity;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// assert_eq!(Quantity::parse("1500m")?.checked_value(), Some(2));
    /// assert_eq!(Quantity::parse("12E")?.checked_value(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn checked_value(&self) -> Option<i64> {
        self.to_decimal().checked_scaled(0)
    }

    /// The number of thousandths rounded away from zero to a whole one; `None` if 64 bits do not hold it.
    pub fn checked_milli_value(&self) -> Option<i64> {
        self.to_decimal().checked_scaled(3)
    }

    /// The sign of the number: -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match &self.amount {
            Amount::Small { value, .. } => value.signum() as i32,
            Amount::Wide(decimal) => decimal.sign(),
        }
    }

    /// Whether the number is zero.
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// The nearest the reference's floating-point arithmetic comes to the number, for metrics only.
    pub fn approximate(&self) -> f64 {
        let (base, exponent) = match &self.amount {
            Amount::Small { value, scale } => (*value as f64, *scale),
            Amount::Wide(decimal) => {
                let magnitude = decimal.magnitude.to_decimal().parse().unwrap_or(f64::INFINITY);
                let exponent = i32::try_from(-decimal.scale).unwrap_or(i32::MIN);
                (if decimal.is_negative { -magnitude } else { magnitude }, exponent)
            }
        };
        // Powers of ten as literals are exact to the last bit; computed ones are not.
        let power: f64 = format!("1e{exponent}").parse().unwrap_or(1.0);
        if exponent == 0 { base } else { base * power }
    }

    /// The text the reference prints: the one written if that was nearly canonical, else the canonical form.
    ///
    /// Quirk: multiples of 10^21 in decimal style print without their suffix, as in the reference.
    pub fn canonical(&self) -> String {
        match &self.text {
            Some(text) => (**text).to_owned(),
            None => self.rendered(),
        }
    }

    /// Adds `other` exactly. The style stays, unless this was zero.
    ///
    /// Parity: where the two lie more than 4,096 decimal places apart, the smaller one is dropped.
    pub fn add(&mut self, other: &Self) {
        self.text = None;
        if let (
            Amount::Small { value: a, scale: scale_a },
            Amount::Small { value: b, scale: scale_b },
        ) = (&self.amount, &other.amount)
        {
            let (a, scale_a, b, scale_b) = (*a, *scale_a, *b, *scale_b);
            if a == 0 {
                self.format = other.format;
            }
            if b == 0 {
                return;
            }
            let sum = if a == 0 {
                Some((b, scale_b))
            } else if scale_a >= scale_b {
                checked_scale_up(a, scale_a.abs_diff(scale_b))
                    .and_then(|a| a.checked_add(b))
                    .map(|sum| (sum, scale_b))
            } else {
                checked_scale_up(b, scale_a.abs_diff(scale_b))
                    .and_then(|b| a.checked_add(b))
                    .map(|sum| (sum, scale_a))
            };
            if let Some((value, scale)) = sum {
                self.amount = Amount::Small { value, scale };
                return;
            }
        } else if self.is_zero() {
            self.format = other.format;
        }
        let sum = self.to_decimal().plus(&other.to_decimal());
        self.amount = Amount::Wide(Box::new(sum));
    }

    /// Subtracts `other` exactly, as [`add`](Self::add) adds.
    pub fn subtract(&mut self, other: &Self) {
        let amount = match &other.amount {
            Amount::Small { value, scale } if *value != i64::MIN => {
                Amount::Small { value: -value, scale: *scale }
            }
            _ => {
                let mut decimal = other.to_decimal().into_owned();
                decimal.is_negative = !decimal.is_negative;
                Amount::Wide(Box::new(decimal))
            }
        };
        self.add(&Self { amount, format: other.format, text: None });
    }

    /// The number, if it is a whole one that 64 bits hold and was not written as a fraction: `1000m` is none, as in the
    /// reference's `AsInt64`.
    pub fn as_integer(&self) -> Option<i64> {
        match &self.amount {
            Amount::Small { value, scale } => checked_scale_up(*value, u32::try_from(*scale).ok()?),
            Amount::Wide(_) => None,
        }
    }

    /// The exact product, in the style of this quantity; `None` if it has more digits than 64 bits hold.
    pub fn checked_mul(&self, factor: &Self) -> Option<Self> {
        let (
            Amount::Small { value: a, scale: scale_a },
            Amount::Small { value: b, scale: scale_b },
        ) = (&self.amount, &factor.amount)
        else {
            return None;
        };
        let amount =
            Amount::Small { value: a.checked_mul(*b)?, scale: scale_a.checked_add(*scale_b)? };
        Some(Self { amount, format: self.format, text: None })
    }

    fn scaled(&self, places: i32) -> i64 {
        match &self.amount {
            Amount::Small { value, scale } => {
                let exponent = scale.saturating_add(places);
                if exponent >= 0 {
                    scale_up(*value, exponent)
                } else {
                    scale_down(*value, exponent.unsigned_abs())
                }
            }
            Amount::Wide(decimal) => decimal.scaled(i64::from(places)),
        }
    }

    fn to_decimal(&self) -> Cow<'_, Decimal> {
        match &self.amount {
            Amount::Small { value, scale } => Cow::Owned(Decimal {
                is_negative: *value < 0,
                magnitude: WideInteger::from_u64(value.unsigned_abs()),
                scale: -i64::from(*scale),
            }),
            Amount::Wide(decimal) => Cow::Borrowed(decimal),
        }
    }

    fn rendered(&self) -> String {
        let decimal = self.to_decimal();
        if decimal.magnitude.is_zero() {
            return "0".to_owned();
        }
        let sign = if decimal.is_negative { "-" } else { "" };
        if self.format == Format::Binary
            && let Some(mut whole) =
                decimal.whole().filter(|whole| *whole >= WideInteger::from_u64(1024))
        {
            let mut power = 0;
            // Beyond the last suffix the reference has none to print; a capped number never gets there.
            while power < BINARY_SUFFIXES.len() - 1 {
                let mut next = whole.clone();
                if next.divide(1024) != 0 {
                    break;
                }
                whole = next;
                power += 1;
            }
            return format!("{sign}{}{}", whole.to_decimal(), BINARY_SUFFIXES[power]);
        }
        let (digits, exponent) = decimal.in_thousands();
        let suffix = match self.format {
            Format::DecimalExponent if exponent == 0 => Cow::Borrowed(""),
            Format::DecimalExponent => Cow::Owned(format!("e{exponent}")),
            Format::DecimalSi | Format::Binary => Cow::Borrowed(decimal_suffix(exponent)),
        };
        format!("{sign}{digits}{suffix}")
    }
}

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn decimal_suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

/// `value * 10^exponent`, `None` on overflow or for more digits than any sum can use.
fn checked_scale_up(value: i64, exponent: u32) -> Option<i64> {
    value.checked_mul(10_i64.checked_pow(exponent)?)
}

/// `value * 10^exponent`. Quirk: overflow wraps for the exponents the reference has a short cut for and gives zero
/// for all others.
fn scale_up(value: i64, exponent: i32) -> i64 {
    match exponent {
        0..=3 | 6 | 9 => value.wrapping_mul(10_i64.pow(exponent.unsigned_abs())),
        _ => checked_scale_up(value, exponent.unsigned_abs()).unwrap_or(0),
    }
}

/// `value / 10^exponent`, rounded away from zero.
fn scale_down(value: i64, exponent: u32) -> i64 {
    let Some(divisor) = 10_i64.checked_pow(exponent) else { return value.signum() };
    let quotient = value / divisor;
    if value % divisor == 0 { quotient } else { quotient + value.signum() }
}

impl Decimal {
    fn sign(&self) -> i32 {
        match (self.magnitude.is_zero(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    /// Brings the number to nine decimal places, rounding away from zero.
    fn rounded_to_nano(mut self) -> Result<Self, QuantityError> {
        let places = self.scale - i64::from(NANO_SCALE);
        if places > 0 {
            // With more places than there are digits, only the rounding is left.
            if self.magnitude.scale_down(places.min(MAX_DIGITS as i64 * 2) as u32) {
                self.magnitude.increment();
            }
        } else if places < -(MAX_DIGITS as i64) {
            return Err(QuantityError::TooLong {
                digits: usize::try_from(-places).unwrap_or(usize::MAX),
            });
        } else {
            self.magnitude.scale_up(places.unsigned_abs() as u32);
        }
        self.scale = i64::from(NANO_SCALE);
        Ok(self)
    }

    /// The number times 10^`places` as 64 bits, with the reference's rounding and overflow.
    fn scaled(&self, places: i64) -> i64 {
        let cut = self.scale - places;
        let low = self.magnitude.low_bits() as i64;
        let low = if self.is_negative { low.wrapping_neg() } else { low };
        if cut <= 0 {
            // The reference goes through a floating-point power of ten here, which ends at 10^18.
            let factor = 10_i64.checked_pow(cut.unsigned_abs().min(64) as u32).unwrap_or(i64::MIN);
            return low.wrapping_mul(factor);
        }
        let divisor = u32::try_from(cut).ok().and_then(|cut| 10_i64.checked_pow(cut));
        if let Some(divisor) = divisor {
            // Quirk: every negative number takes this way, however large, and rounds up, not away from zero.
            if self.is_negative || self.magnitude < WideInteger::from_u64(i64::MAX as u64) {
                return low / divisor + i64::from(low % divisor != 0);
            }
        }
        let mut quotient = self.magnitude.clone();
        let is_inexact = quotient.scale_down(u32::try_from(cut).unwrap_or(u32::MAX));
        let quotient = quotient.low_bits() as i64;
        let quotient = if self.is_negative { quotient.wrapping_neg() } else { quotient };
        quotient.wrapping_add(i64::from(is_inexact && !self.is_negative))
    }

    /// The number times 10^`places`, rounded away from zero; `None` on overflow.
    fn checked_scaled(&self, places: i64) -> Option<i64> {
        let mut magnitude = self.magnitude.clone();
        let cut = self.scale - places;
        if cut > 0 {
            if magnitude.scale_down(u32::try_from(cut).unwrap_or(u32::MAX)) {
                magnitude.increment();
            }
        } else {
            // Of numbers other than zero 64 bits hold none with so many digits, and scaling further takes memory.
            magnitude.scale_up(cut.unsigned_abs().min(20) as u32);
        }
        let magnitude = magnitude.to_u64()?;
        if self.is_negative {
            0_i64.checked_sub_unsigned(magnitude)
        } else {
            i64::try_from(magnitude).ok()
        }
    }

    /// The magnitude as a whole number, if it is one.
    fn whole(&self) -> Option<WideInteger> {
        let mut whole = self.magnitude.clone();
        if self.scale >= 0 {
            let places = u32::try_from(self.scale).ok()?;
            (!whole.scale_down(places)).then_some(whole)
        } else {
            let places =
                u32::try_from(-self.scale).ok().filter(|places| *places as usize <= MAX_DIGITS)?;
            whole.scale_up(places);
            Some(whole)
        }
    }

    /// Digits and an exponent that is the largest possible multiple of three.
    fn in_thousands(&self) -> (String, i64) {
        let mut digits = self.magnitude.to_decimal();
        let n_zeros = digits.len() - digits.trim_end_matches('0').len();
        let exponent = n_zeros as i64 - self.scale;
        let surplus = exponent.rem_euclid(3);
        digits.truncate(digits.len() - n_zeros);
        digits.extend(std::iter::repeat_n('0', surplus as usize));
        (digits, exponent - surplus)
    }

    fn plus(&self, other: &Self) -> Self {
        if self.magnitude.is_zero() {
            return other.clone();
        }
        if other.magnitude.is_zero() {
            return self.clone();
        }
        let (mut a, mut b) = (self.clone(), other.clone());
        let gap = a.scale - b.scale;
        if gap.unsigned_abs() > MAX_DIGITS as u64 {
            return if a.leading_place() >= b.leading_place() { a } else { b };
        }
        let coarser = if gap >= 0 { &mut b } else { &mut a };
        coarser.magnitude.scale_up(gap.unsigned_abs() as u32);
        let scale = self.scale.max(other.scale);
        if a.is_negative == b.is_negative {
            a.magnitude.add(&b.magnitude);
            return Self { scale, ..a };
        }
        let is_negative = if a.magnitude >= b.magnitude { a.is_negative } else { b.is_negative };
        let magnitude = a.magnitude.difference(&b.magnitude);
        Self { is_negative: is_negative && !magnitude.is_zero(), magnitude, scale }
    }

    /// The power of ten above the first digit.
    fn leading_place(&self) -> i64 {
        self.magnitude.to_decimal().len() as i64 - self.scale
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign != Ordering::Equal || self.magnitude.is_zero() {
            return by_sign;
        }
        let by_size = self.leading_place().cmp(&other.leading_place()).then_with(|| {
            // Equal leading places bound the gap by the longer number, so this cannot grow out of hand.
            let (mut a, mut b) = (self.magnitude.clone(), other.magnitude.clone());
            let gap = self.scale - other.scale;
            let coarser = if gap >= 0 { &mut b } else { &mut a };
            coarser.scale_up(gap.unsigned_abs() as u32);
            a.cmp(&b)
        });
        if self.is_negative { by_size.reverse() } else { by_size }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (
            Amount::Small { value: a, scale: scale_a },
            Amount::Small { value: b, scale: scale_b },
        ) = (&self.amount, &other.amount)
        {
            // 10^19 times a 64-bit number still fits.
            let gap = scale_a.abs_diff(*scale_b);
            if let Some(factor) = (gap <= 19).then(|| 10_i128.pow(gap)) {
                let (a, b) = (i128::from(*a), i128::from(*b));
                return if scale_a >= scale_b {
                    (a * factor).cmp(&b)
                } else {
                    a.cmp(&(b * factor))
                };
            }
        }
        self.to_decimal().cmp(&other.to_decimal())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.rendered()),
        }
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}
