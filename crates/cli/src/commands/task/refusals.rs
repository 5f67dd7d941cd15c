//! Which tasks were refused and why, in the order of the lines or combinations, although answers come in another order.

use std::collections::BTreeMap;

use super::planned_task::Origin;

/// Further refusals are only counted.
const SHOWN: u64 = 20;

#[derive(Debug, Default)]
pub(super) struct Refusals {
    count: u64,
    printed: u64,
    /// Not printed yet, because of something before them whose answer is missing. No more than can still be printed.
    waiting: BTreeMap<u64, String>,
}

impl Refusals {
    pub(super) fn add(&mut self, origin: Origin, reason: impl FnOnce() -> String) {
        self.count += 1;
        let place = origin.number();
        let is_full = self.printed + self.waiting.len() as u64 >= SHOWN;
        if is_full && self.waiting.last_key_value().is_none_or(|(last, _)| *last < place) {
            return;
        }
        self.waiting.insert(place, format!("{origin}: {}", reason()));
        if is_full {
            self.waiting.pop_last();
        }
    }

    /// The lines to print now: those before this place, in their order.
    pub(super) fn take_before(&mut self, place: u64) -> Vec<String> {
        let rest = self.waiting.split_off(&place);
        let lines: Vec<String> = std::mem::replace(&mut self.waiting, rest).into_values().collect();
        self.printed += lines.len() as u64;
        lines
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// How many were only counted, once all lines are printed.
    pub(super) fn not_shown(&self) -> u64 {
        self.count - self.printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(refusals: &mut Refusals, line: u64) {
        refusals.add(Origin::Line(line), || "no".to_owned());
    }

    #[test]
    fn refusals_are_printed_in_the_order_of_the_lines() {
        let mut refusals = Refusals::default();
        [7, 3, 12].into_iter().for_each(|line| add(&mut refusals, line));
        assert_eq!(refusals.take_before(5), ["line 3: no"]);
        add(&mut refusals, 5);
        assert_eq!(refusals.take_before(u64::MAX), ["line 5: no", "line 7: no", "line 12: no"]);
        assert_eq!((refusals.count(), refusals.not_shown()), (4, 0));
    }

    #[test]
    fn the_first_are_shown_and_the_others_counted_in_whichever_order_they_come() {
        let mut refusals = Refusals::default();
        (1..=1000).rev().for_each(|line| add(&mut refusals, line));
        assert_eq!(refusals.waiting.len() as u64, SHOWN);
        let lines = refusals.take_before(u64::MAX);
        assert_eq!((lines.len() as u64, lines[0].as_str(), lines[19].as_str()), (SHOWN, "line 1: no", "line 20: no"));
        add(&mut refusals, 0);
        assert_eq!(refusals.take_before(u64::MAX), Vec::<String>::new());
        assert_eq!((refusals.count(), refusals.not_shown()), (1001, 981));
    }
}
