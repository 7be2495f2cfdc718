//! The grammar of quantities: `sign digits . digits suffix`.
//!
//! Invariant: a text is looked at once, left to right, and never copied unless it has to be kept.

use std::sync::Arc;

use super::wide::WideInteger;
use super::{Amount, Decimal, Format, MAX_DIGITS, NANO_SCALE, Quantity, QuantityError};

/// Numbers with at most this many digits are kept as a machine integer.
const FAST_DIGITS: usize = 18;
/// Even binary quantities with more digits may be a multiple of 1024, so the reference prints them in canonical form.
const KEPT_BINARY_DIGITS: usize = 3;
/// 2^63 - 1: what binary quantities are capped at.
const BINARY_MAX: u64 = i64::MAX as u64;

/// A quantity text, taken apart.
struct Parts<'a> {
    is_negative: bool,
    /// Digits before the point without leading zeros; empty means zero.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    /// Whether there was any digit at all.
    has_digits: bool,
    suffix: &'a str,
}

/// What a suffix stands for.
#[derive(Clone, Copy)]
enum Suffix {
    /// A power of two.
    Binary(u32),
    /// A power of ten.
    Decimal(i32),
    /// A power of ten written as `e<exponent>`.
    Exponent(i32),
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    let parts = split(text)?;
    let suffix = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
    let n_digits = parts.whole.len().max(1) + parts.fraction.len();
    if n_digits > MAX_DIGITS {
        return Err(QuantityError::TooLong { digits: n_digits });
    }
    match suffix {
        Suffix::Binary(bits) => parse_binary(text, &parts, bits),
        Suffix::Decimal(exponent) => parse_decimal(text, &parts, exponent, Format::DecimalSi),
        Suffix::Exponent(exponent) => {
            parse_decimal(text, &parts, exponent, Format::DecimalExponent)
        }
    }
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let after_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let after_sign = after_letters.strip_prefix(['+', '-']).unwrap_or(after_letters);
    if !after_sign.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        is_negative: text.starts_with('-'),
        whole: whole.trim_start_matches('0'),
        fraction,
        has_digits: !whole.is_empty() || !fraction.is_empty(),
        suffix,
    })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn interpret(suffix: &str) -> Option<Suffix> {
    Some(match suffix {
        "" => Suffix::Decimal(0),
        "n" => Suffix::Decimal(-9),
        "u" => Suffix::Decimal(-6),
        "m" => Suffix::Decimal(-3),
        "k" => Suffix::Decimal(3),
        "M" => Suffix::Decimal(6),
        "G" => Suffix::Decimal(9),
        "T" => Suffix::Decimal(12),
        "P" => Suffix::Decimal(15),
        "E" => Suffix::Decimal(18),
        "Ki" => Suffix::Binary(10),
        "Mi" => Suffix::Binary(20),
        "Gi" => Suffix::Binary(30),
        "Ti" => Suffix::Binary(40),
        "Pi" => Suffix::Binary(50),
        "Ei" => Suffix::Binary(60),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Quirk: the reference keeps the low 32 bits of larger exponents.
            Suffix::Exponent(exponent as i32)
        }
    })
}

fn parse_decimal(
    text: &str,
    parts: &Parts<'_>,
    exponent: i32,
    format: Format,
) -> Result<Quantity, QuantityError> {
    let n_digits = parts.whole.len().max(1) + parts.fraction.len();
    let scale = exponent.wrapping_sub(parts.fraction.len() as i32);
    if n_digits <= FAST_DIGITS && scale >= -NANO_SCALE {
        let value = small_value(parts);
        let is_kept = scale % 3 == 0 && starts_nonzero(parts) && !ends_in_thousands(parts);
        let text = (is_kept && !prints_as_written(text, format)).then(|| Arc::from(text));
        return Ok(Quantity { amount: Amount::Small { value, scale }, format, text });
    }
    let magnitude = digits_of(parts)?;
    if magnitude.is_zero() {
        return Ok(Quantity { format, ..Quantity::ZERO });
    }
    let decimal = Decimal {
        is_negative: parts.is_negative,
        magnitude,
        scale: exponent_scale(exponent, parts),
    };
    Ok(Quantity { amount: Amount::Wide(Box::new(decimal.rounded_to_nano()?)), format, text: None })
}

fn parse_binary(text: &str, parts: &Parts<'_>, bits: u32) -> Result<Quantity, QuantityError> {
    let n_digits = parts.whole.len().max(1);
    // The reference's estimate of how many decimal digits a binary suffix leaves room for.
    let spare = 15 - n_digits as i64 - i64::from(bits * 3 / 10) - 1;
    if parts.fraction.is_empty()
        && spare >= 0
        && let Some(value) = small_value(parts).checked_mul(1_i64 << bits)
    {
        let is_short_or_odd = n_digits <= KEPT_BINARY_DIGITS || small_value(parts) % 2 != 0;
        let is_kept = starts_nonzero(parts) && is_short_or_odd;
        let text = (is_kept && !prints_as_written(text, Format::Binary)).then(|| Arc::from(text));
        return Ok(Quantity {
            amount: Amount::Small { value, scale: 0 },
            format: Format::Binary,
            text,
        });
    }
    let mut magnitude = digits_of(parts)?;
    if magnitude.is_zero() {
        return Ok(Quantity { format: Format::Binary, ..Quantity::ZERO });
    }
    magnitude.shift_left(bits);
    let scale = parts.fraction.len() as i64;
    let decimal = Decimal { is_negative: parts.is_negative, magnitude, scale }.rounded_to_nano()?;
    let mut whole = decimal.magnitude.clone();
    let has_fraction = whole.scale_down(NANO_SCALE as u32);
    let is_below_one = whole.is_zero();
    let cap = WideInteger::from_u64(BINARY_MAX);
    let decimal = if whole > cap || (whole == cap && has_fraction) {
        Decimal { is_negative: parts.is_negative, magnitude: cap, scale: 0 }
    } else {
        decimal
    };
    let format = if is_below_one { Format::DecimalSi } else { Format::Binary };
    Ok(Quantity { amount: Amount::Wide(Box::new(decimal)), format, text: None })
}

/// The digits as a signed integer; only called for at most 18 of them.
fn small_value(parts: &Parts<'_>) -> i64 {
    let digits = parts.whole.bytes().chain(parts.fraction.bytes());
    let value = digits.fold(0_i64, |acc, digit| acc * 10 + i64::from(digit - b'0'));
    if parts.is_negative { -value } else { value }
}

fn digits_of(parts: &Parts<'_>) -> Result<WideInteger, QuantityError> {
    if !parts.has_digits {
        return Err(QuantityError::Number);
    }
    Ok(WideInteger::from_digits(parts.whole.bytes().chain(parts.fraction.bytes())))
}

/// Places after the decimal point that `exponent` and the fraction amount to.
fn exponent_scale(exponent: i32, parts: &Parts<'_>) -> i64 {
    parts.fraction.len() as i64 - i64::from(exponent)
}

/// Whether the first digit that counts is not a zero; without a whole part it is the implied zero before the point.
fn starts_nonzero(parts: &Parts<'_>) -> bool {
    !parts.whole.is_empty()
}

fn ends_in_thousands(parts: &Parts<'_>) -> bool {
    parts.whole.bytes().chain(parts.fraction.bytes()).rev().take(3).filter(|b| *b == b'0').count()
        == 3
}

/// Whether a text that is kept is the canonical form anyway, so that it need not be stored. May say no too often.
fn prints_as_written(text: &str, format: Format) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().next().is_some_and(|b| matches!(b, b'1'..=b'9'))
        && digits.bytes().all(|b| b.is_ascii_alphanumeric())
        && format != Format::DecimalExponent
}
