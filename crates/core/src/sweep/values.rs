//! The values of one key of a sweep: lists such as `0.1,0.01`, ranges such as `1..5` and `0.1..0.5..0.1`, and ranges on a
//! logarithmic scale such as `log:1e-5..1e-1..5`.

use crate::dotted_keys::scalar;
use crate::json::{Unusable, Value};

/// Before a range on a logarithmic scale.
const LOG: &str = "log:";

/// Significant digits of values on a logarithmic scale. The last digits of a float depend on the machine, and so would the
/// ids of tasks.
const LOG_DIGITS: usize = 12;

const QUOTE: &str = "for text, put it in quotes: '\"...\"'";

/// The values of a list. Refuses more than `most` before it makes them.
pub(super) fn values(list: &str, most: usize) -> Result<Vec<Value<'_>>, String> {
    let items = split(list);
    let mut values = Vec::new();
    for item in &items {
        if item.trim().is_empty() && items.len() > 1 {
            return Err("a value is missing beside a comma; write \"\" for empty text".to_owned());
        }
        match range(item.trim())? {
            Some(range) if range.count() > most.saturating_sub(values.len()) as u128 => return Err(too_many(most)),
            Some(range) => values.extend(range.numbers()?),
            None => values.push(scalar(item)),
        }
    }
    if values.len() > most { Err(too_many(most)) } else { Ok(values) }
}

fn too_many(most: usize) -> String {
    format!("these are more values than fit into a sweep; at most {most} are left here")
}

/// The items of a list: commas inside brackets, braces and quotes do not separate.
fn split(list: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in list.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    items
}

/// A range that is counted, but not yet made.
#[derive(Debug)]
enum Range {
    Steps(Steps),
    Log { first: Decimal, last: Decimal, count: u32 },
}

/// The range that an item is, if it is one. An item with `..` is a range or an error if a number stands beside the dots, or
/// `log:` before them; else it is text. What is written as JSON is none, whatever it contains.
fn range(item: &str) -> Result<Option<Range>, String> {
    if item.starts_with(['"', '[', '{']) {
        return Ok(None);
    }
    let (is_log, body) = item.strip_prefix(LOG).map_or((false, item), |body| (true, body));
    let parts: Vec<&str> = body.split("..").map(str::trim).collect();
    if parts.len() < 2 || !(is_log || parts.iter().any(|part| looks_like_number(part))) {
        return Ok(None);
    }
    let numbers = parts.iter().map(|part| {
        Decimal::parse(part).ok_or_else(|| match *part {
            "" => format!("{item} is no range: a number is missing; {QUOTE}"),
            part => format!("{item} is no range: {part} is no number as JSON writes it; {QUOTE}"),
        })
    });
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    let range = if is_log { log_range(item, &numbers) } else { step_range(item, &numbers) };
    range.map(Some)
}

/// Also what is no number for JSON, such as `01` and `.5`.
fn looks_like_number(part: &str) -> bool {
    part.bytes().any(|byte| byte.is_ascii_digit()) && part.parse::<f64>().is_ok()
}

fn step_range(item: &str, numbers: &[Decimal]) -> Result<Range, String> {
    let one = Decimal::parse("1");
    let (first, last, step) = match (numbers, one) {
        ([first, last], Some(one)) if first.is_integer && last.is_integer => (*first, *last, one),
        ([_, _], _) => return Err(format!("{item}: a range of decimals needs a step, such as {item}..0.1")),
        ([first, last, step], _) => (*first, *last, *step),
        _ => return Err(format!("{item} is no range: write FIRST..LAST or FIRST..LAST..STEP; {QUOTE}")),
    };
    Steps::new(first, last, step).map(Range::Steps).map_err(|error| match error {
        StepsError::ZeroStep => format!("{item}: the step must not be 0"),
        StepsError::WrongDirection if numbers.len() == 2 => {
            format!("{item} counts up and would have no values; to count down, write {item}..-1")
        }
        StepsError::WrongDirection => format!("{item}: the step leads away from the last number; change its sign"),
        StepsError::TooManyDigits => format!("{item}: these numbers have too many digits together"),
    })
}

fn log_range(item: &str, numbers: &[Decimal]) -> Result<Range, String> {
    let [first, last, count] = numbers else {
        return Err(format!("{item}: write log:FIRST..LAST..COUNT, such as log:1e-5..1e-1..5; {QUOTE}"));
    };
    let positive = [first, last].iter().all(|number| number.to_float().is_some_and(|float| float > 0.0));
    if !positive {
        return Err(format!("{item}: a logarithmic range needs numbers greater than 0"));
    }
    match count.to_integer().and_then(|count| u32::try_from(count).ok()).filter(|count| *count >= 2) {
        Some(count) => Ok(Range::Log { first: *first, last: *last, count }),
        None => Err(format!("{item}: the last number is how many values there are, an integer of at least 2")),
    }
}

impl Range {
    fn count(&self) -> u128 {
        match self {
            Self::Steps(steps) => steps.count,
            Self::Log { count, .. } => u128::from(*count),
        }
    }

    fn numbers(&self) -> Result<Vec<Value<'static>>, String> {
        match self {
            Self::Steps(steps) => {
                let numbers = (0..steps.count).map(|index| steps.at(index).and_then(value));
                numbers.collect::<Option<_>>().ok_or_else(|| "use integers of 64 bits and finite numbers".to_owned())
            }
            Self::Log { first, last, count } => log_numbers(*first, *last, *count),
        }
    }
}

/// An integer if the range is one of integers, else a float.
fn value(number: Decimal) -> Option<Value<'static>> {
    if number.is_integer { number.to_integer().map(Value::Int) } else { number.to_float().map(Value::Float) }
}

/// Both ends are exactly as they are given. All are integers if the ends are and every value comes out as one.
fn log_numbers(first: Decimal, last: Decimal, count: u32) -> Result<Vec<Value<'static>>, String> {
    let (Some(start), Some(end)) = (first.to_float(), last.to_float()) else { return Ok(Vec::new()) };
    let (from, to) = (start.log10(), end.log10());
    let inner = (1..count - 1).map(|index| {
        let exponent = from + (to - from) * f64::from(index) / f64::from(count - 1);
        let rounded = format!("{:.*e}", LOG_DIGITS - 1, 10_f64.powf(exponent));
        rounded.parse().unwrap_or(f64::NAN)
    });
    let floats: Vec<f64> = [start].into_iter().chain(inner).chain([end]).collect();
    if floats.windows(2).any(|pair| pair[0] == pair[1] || (pair[0] < pair[1]) != (start < end)) {
        return Err("the ends of this logarithmic range are too close together for so many values".to_owned());
    }
    let integers = first.is_integer && last.is_integer && floats.iter().all(|float| float.fract() == 0.0);
    // Integers above this are not exact in a float.
    let integers = integers && floats.iter().all(|float| *float <= 2_f64.powi(53));
    Ok(floats.into_iter().map(|float| if integers { Value::Int(float as i64) } else { Value::Float(float) }).collect())
}

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
const EXPONENT_MAX: u32 = 400;

impl Decimal {
    /// Reads a number as JSON writes it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        use Unusable::{FloatRange, IntegerRange};
        let value = scalar(text);
        if !matches!(value, Value::Int(_) | Value::Float(_) | Value::Unusable(IntegerRange | FloatRange)) {
            return None;
        }
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let power = power.parse().ok().filter(|power: &i32| power.unsigned_abs() <= EXPONENT_MAX)?;
        let digits = format!("{whole}{fraction}");
        if digits.trim_start_matches('-').len() > DIGITS_MAX {
            return None;
        }
        let exponent = power - i32::try_from(fraction.len()).ok()?;
        Some(Self { digits: digits.parse().ok()?, exponent, is_integer: !text.contains(['.', 'e', 'E']) })
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
    use crate::json::write_value;

    fn texts(list: &str) -> Result<Vec<String>, String> {
        let text = |value: &Value<'_>| {
            let mut out = Vec::new();
            write_value(&mut out, value);
            String::from_utf8(out).unwrap()
        };
        values(list, 1000).map(|values| values.iter().map(text).collect())
    }

    #[test]
    fn lists_ranges_and_text_are_told_apart() {
        let cases: [(&str, &[&str]); 30] = [
            ("1,2.5,a", &["1", "2.5", "\"a\""]),
            ("1..3", &["1", "2", "3"]),
            ("-1..1,9", &["-1", "0", "1", "9"]),
            ("1, 4..5", &["1", "4", "5"]),
            ("7..7", &["7"]),
            ("3..1..-1", &["3", "2", "1"]),
            ("0..10..5", &["0", "5", "10"]),
            ("10..1..-4", &["10", "6", "2"]),
            ("0.1..0.5..0.1", &["0.1", "0.2", "0.3", "0.4", "0.5"]),
            ("0.9..0.7..-0.1", &["0.9", "0.8", "0.7"]),
            ("0.1..0.5..0.15", &["0.1", "0.25", "0.4"]),
            ("1..2..0.5", &["1.0", "1.5", "2.0"]),
            ("1e-3..3e-3..1e-3", &["0.001", "0.002", "0.003"]),
            ("log:1e-5..1e-1..5", &["1e-5", "0.0001", "0.001", "0.01", "0.1"]),
            ("log:0.1..0.001..3", &["0.1", "0.01", "0.001"]),
            ("log:16..128..4", &["16", "32", "64", "128"]),
            ("log:1..10..3", &["1.0", "3.16227766017", "10.0"]),
            ("log:1e-300..1e300..3", &["1e-300", "1.0", "1e300"]),
            ("[1,2],{\"a\":[3,4]}", &["[1,2]", "{\"a\":[3,4]}"]),
            ("\"a,b\",\"c\\\",d\"", &["\"a,b\"", "\"c\\\",d\""]),
            ("\"1..5\"", &["\"1..5\""]),
            ("\"a..5..b\"", &["\"a..5..b\""]),
            ("[\"a..5..b\"],{\"a\":\"b..5..c\"}", &["[\"a..5..b\"]", "{\"a\":\"b..5..c\"}"]),
            ("../data", &["\"../data\""]),
            ("../data/1,a/../b", &["\"../data/1\"", "\"a/../b\""]),
            ("1.2.3", &["\"1.2.3\""]),
            ("a..b,main..dev", &["\"a..b\"", "\"main..dev\""]),
            ("..", &["\"..\""]),
            ("log:debug,log:1", &["\"log:debug\"", "\"log:1\""]),
            ("", &["\"\""]),
        ];
        for (list, expected) in cases {
            assert_eq!(texts(list).unwrap(), expected, "{list}");
        }
    }

    #[test]
    fn what_looks_like_a_range_and_is_none_is_refused() {
        let cases = [
            ("1..", "a number is missing"),
            ("..5", "a number is missing"),
            ("1...5", ".5 is no number"),
            ("1..x", "x is no number"),
            ("01..05", "01 is no number"),
            ("1..2..3..4", "FIRST..LAST..STEP"),
            ("1..5..0", "must not be 0"),
            ("5..1", "write 5..1..-1"),
            ("5..1..2", "change its sign"),
            ("1..5..-1", "change its sign"),
            ("0.1..0.5", "needs a step, such as 0.1..0.5..0.1"),
            ("1..1001", "at most 1000"),
            ("1..600,1..600", "at most 1000"),
            ("0..1..1e-30", "at most 1000"),
            ("1e-300..1e300..1", "too many digits"),
            ("9223372036854775807..9223372036854775808", "64 bits"),
            ("log:1e-5..1e-1", "log:FIRST..LAST..COUNT"),
            ("log:0..1..5", "greater than 0"),
            ("log:-1..1..5", "greater than 0"),
            ("log:1..10..1", "at least 2"),
            ("log:1..10..2.5", "at least 2"),
            ("log:1..10..4000000000", "at most 1000"),
            ("log:1..1..3", "too close"),
            ("log:..", "a number is missing"),
            ("1,,2", "missing beside a comma"),
            ("1,2,", "missing beside a comma"),
        ];
        for (list, expected) in cases {
            let message = texts(list).unwrap_err();
            assert!(message.contains(expected), "{list}: {message}");
        }
    }
}

#[cfg(test)]
mod decimal_tests {
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
}
