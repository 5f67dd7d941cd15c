//! Decimal numbers as they are written, for ranges: `0.1..0.5..0.1` counts in digits, so no value shows the error of binary
//! fractions.

/// `digits` times ten to the power of `exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: i128,
    exponent: i32,
    /// Written without point and exponent.
    is_integer: bool,
}

/// More digits than any float has.
const DIGITS_MAX: usize = 34;

/// Beyond the exponents of floats; keeps the arithmetic away from overflow.
const EXPONENT_MAX: i32 = 400;

impl Decimal {
    /// Reads a number as JSON writes it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (text, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let magnitude = whole.strip_prefix('-').unwrap_or(whole);
        let leading_zero = magnitude.len() > 1 && magnitude.starts_with('0');
        if !is_digits(magnitude) || leading_zero || fraction.is_some_and(|digits| !is_digits(digits)) {
            return None;
        }
        let power = exponent.map_or(Some(0), parse_exponent)?;
        let fraction_digits = fraction.unwrap_or_default();
        if magnitude.len() + fraction_digits.len() > DIGITS_MAX {
            return None;
        }
        Some(Self {
            digits: format!("{whole}{fraction_digits}").parse().ok()?,
            exponent: power - i32::try_from(fraction_digits.len()).ok()?,
            is_integer: fraction.is_none() && exponent.is_none(),
        })
    }

    pub(super) fn is_integer(self) -> bool {
        self.is_integer
    }

    /// The nearest float; none beyond the largest one.
    pub(super) fn to_float(self) -> Option<f64> {
        let float: f64 = format!("{}e{}", self.digits, self.exponent).parse().ok()?;
        float.is_finite().then_some(float)
    }

    /// The number, if it was written as an integer and fits.
    pub(super) fn to_integer(self) -> Option<i64> {
        if self.is_integer { i64::try_from(self.digits).ok() } else { None }
    }

    /// Its digits at a smaller exponent.
    fn scaled_to(self, exponent: i32) -> Option<i128> {
        let power = u32::try_from(self.exponent - exponent).ok()?;
        self.digits.checked_mul(10_i128.checked_pow(power)?)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let power: i32 = text.parse().ok().filter(|_| is_digits(digits))?;
    (power.abs() <= EXPONENT_MAX).then_some(power)
}

/// The numbers from `first` on in equal steps, as far as `last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    first: i128,
    step: i128,
    exponent: i32,
    is_integer: bool,
    /// How many there are. At least one.
    pub(super) count: u128,
}

/// Why there are no numbers from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepsError {
    ZeroStep,
    /// The step leads away from the end.
    WrongDirection,
    /// More digits than the arithmetic has.
    TooManyDigits,
}

impl Steps {
    /// The last number is included where a step meets it.
    pub(super) fn new(first: Decimal, last: Decimal, step: Decimal) -> Result<Self, StepsError> {
        let numbers = [first, last, step];
        let exponent = numbers.iter().map(|number| number.exponent).min().unwrap_or(0);
        let [Some(first), Some(last), Some(step)] = numbers.map(|number| number.scaled_to(exponent)) else {
            return Err(StepsError::TooManyDigits);
        };
        let distance = last.checked_sub(first).ok_or(StepsError::TooManyDigits)?;
        if step == 0 {
            return Err(StepsError::ZeroStep);
        }
        if distance != 0 && (distance < 0) != (step < 0) {
            return Err(StepsError::WrongDirection);
        }
        let count = distance.unsigned_abs() / step.unsigned_abs() + 1;
        Ok(Self { first, step, exponent, is_integer: numbers.iter().all(|number| number.is_integer), count })
    }

    /// The number at `index`, which is less than `count`.
    pub(super) fn at(&self, index: u128) -> Option<Decimal> {
        let offset = i128::try_from(index).ok()?.checked_mul(self.step)?;
        let digits = self.first.checked_add(offset)?;
        Some(Decimal { digits, exponent: self.exponent, is_integer: self.is_integer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn numbers_are_read_as_json_writes_them() {
        for (text, float) in [("0", 0.0), ("-12", -12.0), ("0.10", 0.1), ("1e-5", 1e-5), ("2.5E+3", 2500.0)] {
            assert_eq!(number(text).to_float(), Some(float), "{text}");
        }
        for text in
            ["", "-", "+1", "01", ".5", "5.", "1e", "1e+", "1e1.5", "0x1", "1_0", "NaN", "inf", " 1", "1e999", "--1"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse(&"9".repeat(35)), None);
        assert_eq!(number("1e399").to_float(), None);
        assert_eq!((number("7").to_integer(), number("7.0").to_integer()), (Some(7), None));
        assert_eq!(number("99999999999999999999").to_integer(), None);
    }

    fn floats(first: &str, last: &str, step: &str) -> Result<Vec<f64>, StepsError> {
        let steps = Steps::new(number(first), number(last), number(step))?;
        Ok((0..steps.count).map(|index| steps.at(index).unwrap().to_float().unwrap()).collect())
    }

    #[test]
    fn steps_are_exact_in_decimals() {
        assert_eq!(floats("0.1", "0.5", "0.1"), Ok(vec![0.1, 0.2, 0.3, 0.4, 0.5]));
        assert_eq!(floats("0", "1", "0.25"), Ok(vec![0.0, 0.25, 0.5, 0.75, 1.0]));
        assert_eq!(floats("0.1", "0.5", "0.15"), Ok(vec![0.1, 0.25, 0.4]));
        assert_eq!(floats("1e-3", "3e-3", "1e-3"), Ok(vec![0.001, 0.002, 0.003]));
        assert_eq!(floats("1", "0.5", "-0.25"), Ok(vec![1.0, 0.75, 0.5]));
        assert_eq!(floats("2", "2", "5"), Ok(vec![2.0]));
        assert_eq!(floats("1", "2", "0"), Err(StepsError::ZeroStep));
        assert_eq!(floats("1", "2", "-1"), Err(StepsError::WrongDirection));
        assert_eq!(floats("1e-300", "1e300", "1"), Err(StepsError::TooManyDigits));
        assert_eq!(Steps::new(number("0"), number("1"), number("1e-30")).unwrap().count, 10_u128.pow(30) + 1);
    }
}
