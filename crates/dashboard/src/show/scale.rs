//! Scales: from numbers to places between 0 and 1, with round ticks. All numbers are finite; that they were exact once does not
//! matter to a picture.

/// Roughly how many ticks an axis has.
const TICKS: f64 = 6.0;
/// Never more, whatever rounding does.
const MOST_TICKS: usize = 16;
/// A logarithmic axis with fewer powers of ten than this has ticks in between.
const FEW_DECADES: f64 = 2.5;

/// A mark at an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// From 0 to 1.
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// A scale from the smallest to the largest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    pub(crate) is_log: bool,
}

impl Scale {
    /// A scale over these numbers with a little room around them; none without numbers. On a logarithmic scale only those above
    /// zero count.
    pub(crate) fn over(values: impl Iterator<Item = f64>, is_log: bool) -> Option<Self> {
        let (low, high) = ends(values.filter(|value| value.is_finite() && (!is_log || *value > 0.0)));
        if low > high {
            return None;
        }
        if is_log {
            let (from, to) = (low.log10(), high.log10());
            let room = if from == to { 0.5 } else { (to - from) * 0.03 };
            return Some(Self { low: from - room, high: to + room, is_log });
        }
        let room =
            if low == high { (low.abs() * 0.1).max(f64::MIN_POSITIVE * 1e6) } else { (high / 2.0 - low / 2.0) * 0.06 };
        let room = if low == 0.0 && high == 0.0 { 1.0 } else { room };
        Some(Self { low: (low - room).max(f64::MIN), high: (high + room).min(f64::MAX), is_log })
    }

    /// Returns whether these numbers are better read on a logarithmic scale: all above zero, over two powers of ten or more.
    pub(crate) fn suits_log(values: impl Iterator<Item = f64>) -> bool {
        let (low, high) = ends(values);
        low > 0.0 && high / low >= 100.0
    }

    /// The place of a number; none where a logarithm has none.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let value = if self.is_log { Some(value).filter(|value| *value > 0.0)?.log10() } else { value };
        // Halves, so that the span of the largest numbers is finite.
        let place = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        place.is_finite().then_some(place.clamp(0.0, 1.0))
    }

    /// Round numbers along the scale.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let mut ticks = if self.is_log { self.log_ticks() } else { self.linear_ticks() };
        ticks.truncate(MOST_TICKS);
        ticks
    }

    fn linear_ticks(&self) -> Vec<Tick> {
        let rough = (self.high / TICKS) - (self.low / TICKS);
        let Some(step) = round_step(rough) else { return Vec::new() };
        let first = (self.low / step).ceil();
        let values = (0..MOST_TICKS).map(|number| (first + number as f64) * step);
        let values = values.take_while(|value| *value <= self.high && value.is_finite());
        values.filter_map(|value| Some(Tick { at: self.place(value)?, label: label(value, step) })).collect()
    }

    fn log_ticks(&self) -> Vec<Tick> {
        let (from, to) = (self.low.floor() as i32, self.high.ceil() as i32);
        let decades = self.high - self.low;
        let within: &[f64] = if decades <= FEW_DECADES { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let stride = ((decades / TICKS).ceil() as i32).max(1);
        let powers = (from..=to).filter(|power| power.rem_euclid(stride) == 0);
        let values = powers.flat_map(|power| within.iter().map(move |factor| factor * 10_f64.powi(power)));
        let seen = values.filter(|value| (self.low..=self.high).contains(&value.log10()));
        let ticks: Vec<Tick> =
            seen.filter_map(|value| Some(Tick { at: self.place(value)?, label: label(value, value) })).collect();
        if ticks.len() >= 2 {
            return ticks;
        }
        // So small a part of a power of ten that no round power is in it.
        let linear = Self { low: 10_f64.powf(self.low), high: 10_f64.powf(self.high), is_log: false };
        let moved = |tick: Tick| {
            let value = linear.low + tick.at * (linear.high - linear.low);
            Some(Tick { at: self.place(value)?, label: tick.label })
        };
        linear.linear_ticks().into_iter().filter_map(moved).collect()
    }
}

/// The smallest and the largest of some numbers; the smallest is above the largest where there are none.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// The nearest of 1, 2, 5, 10, 20, ...
fn round_step(rough: f64) -> Option<f64> {
    if !rough.is_finite() || rough <= 0.0 {
        return None;
    }
    let power = 10_f64.powf(rough.log10().floor());
    // Between two steps the geometric mean decides.
    let factor = match rough / power {
        ..1.414 => 1.0,
        ..3.162 => 2.0,
        ..7.071 => 5.0,
        _ => 10.0,
    };
    let step: f64 = factor * power;
    (step.is_finite() && step > 0.0).then_some(step)
}

/// A tick with as many decimals as its step needs.
fn label(value: f64, step: f64) -> String {
    if value == 0.0 || value.abs() < step / 1e6 {
        return "0".to_owned();
    }
    if value.abs() >= 1e6 || step < 1e-5 {
        return exponential(value, 3);
    }
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    without_zeros(&format!("{value:.decimals$}"))
}

/// A computed number (mean, deviation) with a few digits. What is stored is never shown by this.
pub(crate) fn rounded(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if !(-4.0..9.0).contains(&magnitude) {
        return exponential(value, digits);
    }
    let decimals = (digits as f64 - 1.0 - magnitude).max(0.0) as usize;
    without_zeros(&format!("{value:.decimals$}"))
}

/// `1.5e-7`.
fn exponential(value: f64, digits: usize) -> String {
    let text = format!("{value:.*e}", digits - 1);
    let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{power}", without_zeros(number))
}

/// Decimals without the zeros that they end with.
pub(crate) fn without_zeros(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], is_log: bool) -> Vec<String> {
        let scale = Scale::over(values.iter().copied(), is_log).expect("a scale");
        let ticks = scale.ticks();
        assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)), "{ticks:?}");
        assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at), "{ticks:?}");
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&[0.21, 1.37], false), ["0.2", "0.4", "0.6", "0.8", "1", "1.2", "1.4"]);
        assert_eq!(labels(&[0.0, 100.0], false), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&[-3.0, 4.0], false), ["-3", "-2", "-1", "0", "1", "2", "3", "4"]);
        assert_eq!(labels(&[1e-7, 1.2e-6], false), ["2e-7", "4e-7", "6e-7", "8e-7", "1e-6", "1.2e-6"]);
        assert_eq!(labels(&[1_000_000.0, 6_000_000.0], false), ["1e6", "2e6", "3e6", "4e6", "5e6", "6e6"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_or_round_numbers_between() {
        assert_eq!(labels(&[0.001, 0.1], true), ["0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1"]);
        assert_eq!(labels(&[1e-5, 1.0], true), ["0.00001", "0.0001", "0.001", "0.01", "0.1", "1"]);
        assert!(labels(&[1e-300, 1e300], true).len() <= MOST_TICKS);
        assert!(labels(&[3.1, 3.2], true).len() >= 2);
    }

    #[test]
    fn one_number_or_equal_numbers_stand_in_the_middle() {
        for (value, is_log) in [(0.0, false), (7.0, false), (-1e300, false), (1e-300, true), (42.0, true)] {
            let scale = Scale::over([value, value].into_iter(), is_log).expect("a scale");
            let place = scale.place(value).expect("a place");
            assert!((place - 0.5).abs() < 0.01, "{value} at {place}");
            let _ = scale.ticks();
        }
    }

    #[test]
    fn the_largest_numbers_do_not_break_a_scale() {
        let scale = Scale::over([f64::MIN, f64::MAX].into_iter(), false).expect("a scale");
        assert_eq!((scale.place(f64::MIN), scale.place(0.0), scale.place(f64::MAX)), (Some(0.0), Some(0.5), Some(1.0)));
        assert!(scale.ticks().len() >= 2);
        assert_eq!(Scale::over([f64::NAN].into_iter(), false), None);
    }

    #[test]
    fn a_logarithmic_scale_has_no_place_for_zero_and_below() {
        let scale = Scale::over([0.0, -1.0, 1.0, 100.0].into_iter(), true).expect("a scale");
        assert_eq!((scale.place(0.0), scale.place(-1.0)), (None, None));
        assert_eq!(Scale::over([0.0, -1.0].into_iter(), true), None);
        assert!(Scale::suits_log([0.001, 0.1].into_iter()) && !Scale::suits_log([0.0, 0.1].into_iter()));
    }

    #[test]
    fn computed_numbers_have_few_digits() {
        let cases = [
            (0.0, "0"),
            (0.239_14, "0.2391"),
            (1234.56, "1235"),
            (1e-7, "1e-7"),
            (1.5e12, "1.5e12"),
            (f64::INFINITY, "–"),
            (-0.5, "-0.5"),
        ];
        for (value, text) in cases {
            assert_eq!(rounded(value, 4), text);
        }
    }
}
