//! Quantities, as far as an API server looks at them: is it one, is it negative, are two equal.
//!
//! Invariant: accepts exactly the grammar of `resource.Quantity`; values are compared in billionths, saturating.

/// Billionths of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

impl Quantity {
    /// The value of `text`, or nothing when it is not a quantity.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits_end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let scale = Scale::parse(suffix)?;
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        }
        let fraction_digits = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let nano = match scale {
            Scale::Decimal(exponent) => {
                shift(mantissa, exponent.saturating_add(9).saturating_sub(fraction_digits))
            }
            Scale::Binary(exponent) => {
                let scaled = mantissa.saturating_mul(1i128 << exponent);
                shift(scaled, 9i32.saturating_sub(fraction_digits))
            }
        };
        Some(Self(if negative { -nano } else { nano }))
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.0 < 0
    }
}

/// `mantissa` times ten to the `exponent`, rounded up.
fn shift(mantissa: i128, exponent: i32) -> i128 {
    if mantissa == 0 {
        return 0;
    }
    let power = 10i128.checked_pow(exponent.unsigned_abs());
    match (exponent >= 0, power) {
        (true, Some(power)) => mantissa.saturating_mul(power),
        (true, None) => i128::MAX,
        (false, Some(power)) => mantissa / power + i128::from(mantissa % power != 0),
        (false, None) => 1,
    }
}

enum Scale {
    Decimal(i32),
    Binary(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "" => Self::Decimal(0),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                    return None;
                }
                let limit = if exponent.starts_with('-') { -40 } else { 40 };
                Self::Decimal(exponent.parse().unwrap_or(limit).clamp(-40, 40))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_in_different_forms_are_equal() {
        for (one, other) in [
            ("1", "1000m"),
            ("1Ki", "1024"),
            ("0.5Gi", "512Mi"),
            ("1e3", "1k"),
            ("1E", "1000P"),
            ("-1", "-1000m"),
        ] {
            assert_eq!(Quantity::parse(one), Quantity::parse(other), "{one} {other}");
            assert!(Quantity::parse(one).is_some());
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "m", "1x", "1.2.3", "1 Gi", "abc", "1e", "--1", "1Kib", "."] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn absurd_sizes_saturate() {
        assert!(Quantity::parse("99999999999999999999999999999999999999999E").is_some());
        assert!(!Quantity::parse("1e-99999999999").is_some_and(Quantity::is_zero));
    }
}
