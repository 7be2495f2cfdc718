//! Floating-point numbers in text, read as Go's `strconv.ParseFloat` does.

use std::borrow::Cow;

/// Bits of a number's significand.
const PRECISION: i64 = 53;
/// Exponents of the last bit of the smallest and of the largest number.
const MIN_EXPONENT: i64 = -1074;
const MAX_EXPONENT: i64 = 971;
/// Further digits of an exponent make no difference.
const LARGE_EXPONENT: i64 = 10_000;

/// Reads decimal and hexadecimal numbers, with underscores between digits, `inf`, `infinity` and `nan` in any case. What is
/// too large is no number.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let text = without_underscores(text)?;
    let (is_signed, is_negative) = (text.starts_with(['+', '-']), text.starts_with('-'));
    let unsigned = &text[usize::from(is_signed)..];
    let number = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(hex) => hexadecimal(hex)?,
        None if unsigned.starts_with(['+', '-']) => return None,
        None => unsigned.parse::<f64>().ok()?,
    };
    let is_word = unsigned.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_fine = number.is_finite() || is_word && !(number.is_nan() && is_signed);
    is_fine.then_some(if is_negative { -number } else { number })
}

/// `None` if an underscore does not stand between digits; a prefix counts as one.
fn without_underscores(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(Cow::Borrowed(text));
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_hex = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let is_digit = |byte: u8| {
        byte.is_ascii_digit() || is_hex && (byte.is_ascii_hexdigit() || b"xX".contains(&byte))
    };
    let parts: Vec<_> = text.split('_').map(str::as_bytes).collect();
    let is_between_digits = parts.windows(2).all(|pair| {
        pair[0].last().is_some_and(|byte| is_digit(*byte))
            && pair[1].first().is_some_and(|byte| is_digit(*byte))
    });
    is_between_digits.then(|| Cow::Owned(text.replace('_', "")))
}

/// A number like `1.8p-3`, whose exponent is one of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let (mut significand, mut is_inexact) = (0_u64, false);
    let mut shift = 0;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    for (index, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(digit.to_digit(16)?);
        let is_fraction = index >= whole.len();
        if significand >> (u64::BITS - 4) == 0 {
            significand = significand << 4 | digit;
            shift -= if is_fraction { 4 } else { 0 };
        } else {
            is_inexact |= digit != 0;
            shift += if is_fraction { 0 } else { 4 };
        }
    }
    rounded(significand, is_inexact, shift + decimal(exponent)?)
}

fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.bytes().fold(0, |number, digit| match number < LARGE_EXPONENT {
        true => 10 * number + i64::from(digit - b'0'),
        false => number,
    });
    Some(if text.starts_with('-') { -number } else { number })
}

/// The number next to `significand · 2^exponent`, and to a bit more if that is inexact. `None` if there is none.
fn rounded(significand: u64, is_inexact: bool, exponent: i64) -> Option<f64> {
    if significand == 0 {
        return Some(0.0);
    }
    let n_bits = i64::from(u64::BITS - significand.leading_zeros());
    let last_bit = (exponent + n_bits - PRECISION).max(MIN_EXPONENT);
    let mut kept = significand;
    if exponent >= last_bit {
        // There are no more bits than fit, so that none is lost.
        kept <<= exponent - last_bit;
    } else {
        let n_cut = u32::try_from(last_bit - exponent).unwrap_or(u32::MAX);
        kept = significand.checked_shr(n_cut).unwrap_or(0);
        let half = 1_u128.checked_shl(n_cut - 1).unwrap_or(u128::MAX);
        let cut = u128::from(significand) - (u128::from(kept) << n_cut.min(64));
        let is_odd = kept & 1 == 1;
        kept += u64::from(cut > half || cut == half && (is_inexact || is_odd));
    }
    let number = kept as f64 * power_of_two(last_bit)?;
    number.is_finite().then_some(number)
}

fn power_of_two(exponent: i64) -> Option<f64> {
    let bits = match exponent {
        MIN_EXPONENT..-1022 => 1 << (exponent - MIN_EXPONENT),
        -1022..=MAX_EXPONENT => (exponent + 1023) << 52,
        _ => return None,
    };
    Some(f64::from_bits(bits.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_go() {
        for (text, number) in [
            ("1_0", 10.0),
            ("0_1.5e1_0", 1.5e10),
            ("+Inf", f64::INFINITY),
            ("-infinity", f64::NEG_INFINITY),
            ("0x1p4", 16.0),
            ("+0X1P-2", 0.25),
            ("-0x_1_0.8p+0_1", -33.0),
            ("0x.8p0", 0.5),
            ("0x0p99999999999", 0.0),
            ("0x1p-99999999999", 0.0),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000000000000000000001p0", 1.0 + f64::EPSILON),
            ("0x1.00000000000018p0", 1.0 + 2.0 * f64::EPSILON),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1p-1074", f64::from_bits(1)),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", f64::from_bits(1)),
            ("0x0.fffffffffffffcp-1022", f64::MIN_POSITIVE),
            ("0x123456789abcdef01234p0", 0x1234_5678_9abc_def0_1234_u128 as f64),
        ] {
            assert_eq!(parse(text), Some(number), "{text}");
        }
        for text in [
            "",
            "+",
            "+-1",
            "1__0",
            "_1",
            "1_",
            "1_.5",
            "1._5",
            "1e_1",
            "1_e1",
            "0x10",
            "0xp0",
            "0x.p0",
            "0x1p",
            "0x1_p0",
            "0x1p_1",
            "0x1pa",
            "0xgp0",
            "0b1",
            "0x1p1024",
            "0x1.fffffffffffff8p1023",
            "1e400",
            "+nan",
            "infinit",
            "+_1",
            "0_x1p0",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse("nan").is_some_and(f64::is_nan));
    }
}
