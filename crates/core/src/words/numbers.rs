//! Numbers, counted things and sizes as people read them.

/// 12345 as `12,345`.
pub fn number(value: impl Into<u64>) -> String {
    let digits = value.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 task`, `2,000 tasks`.
pub fn count(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(value))
}

/// A number with one decimal, unless that is 0.
pub fn one_decimal(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A size with few digits: `512 B`, `38.2 GiB`.
pub fn bytes(value: u64) -> String {
    let (number, unit) = scaled(value);
    format!("{number} {unit}")
}

/// A part of a whole, with the unit once if both have the same: `20.1 of 24 GiB`, `3 MiB of 24 GiB`.
pub fn bytes_of(part: u64, whole: u64) -> String {
    let ((number, unit), whole_unit) = (scaled(part), scaled(whole).1);
    if unit == whole_unit {
        format!("{number} of {}", bytes(whole))
    } else {
        format!("{number} {unit} of {}", bytes(whole))
    }
}

fn scaled(value: u64) -> (String, &'static str) {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1_023.5 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    let number = if unit == 0 || scaled >= 99.5 { format!("{scaled:.0}") } else { one_decimal(scaled) };
    (number, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_exact() {
        let cases =
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (u64::MAX, "18,446,744,073,709,551,615")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        let counts = [0, 1, 1_234].map(|value| count(value, "task"));
        assert_eq!(counts, ["0 tasks", "1 task", "1,234 tasks"]);
    }

    #[test]
    fn sizes_have_binary_units() {
        let cases = [(0, "0 B"), (1_023, "1023 B"), (1_024, "1 KiB"), (1_536, "1.5 KiB"), (41_017_000_000, "38.2 GiB")];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes_of(21_582_210_662, 25_769_803_776), "20.1 of 24 GiB");
        assert_eq!(bytes_of(3_145_728, 25_769_803_776), "3 MiB of 24 GiB");
    }
}
