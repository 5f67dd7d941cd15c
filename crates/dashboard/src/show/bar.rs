//! A bar whose parts are the states of tasks. Drawn here, as SVG that holds numbers and our own words only.

use std::fmt;

use askama::filters::HtmlSafe;
use taskqueue_core::status::Status;

/// The width that all parts share. The picture is stretched to its place.
const WIDTH: u64 = 1_000;
/// A state that some task has is at least so wide, so that one failed task of a million is seen.
const LEAST_WIDTH: u64 = 8;
const GAP: u64 = 3;
/// From left to right: what is over, what goes on, what waits, what went wrong.
const ORDER: [Status; 5] = [Status::Succeeded, Status::Running, Status::Pending, Status::Failed, Status::Cancelled];

/// How many tasks have each state, in the order of [`Status::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar([u64; 5]);

impl Bar {
    pub(crate) fn new(tasks: impl Fn(Status) -> u64) -> Self {
        Self(Status::ALL.map(tasks))
    }

    /// The parts from left to right: state, where it begins, how wide it is.
    fn parts(self) -> Vec<(Status, u64, u64)> {
        let of = |status: Status| self.0[status as usize];
        let present: Vec<Status> = ORDER.into_iter().filter(|status| of(*status) > 0).collect();
        let all: u128 = present.iter().map(|status| u128::from(of(*status))).sum();
        let places = present.len() as u64;
        let shared = WIDTH - LEAST_WIDTH * places - GAP * places.saturating_sub(1);
        let mut left = 0;
        let mut part = |status: Status| {
            // The number of tasks is a part of all, so the width is a part of what is shared.
            let share = u128::from(shared) * u128::from(of(status)) / all;
            let width = LEAST_WIDTH + u64::try_from(share).unwrap_or(shared);
            let part = (status, left, width);
            left += width + GAP;
            part
        };
        present.into_iter().map(&mut part).collect()
    }
}

impl HtmlSafe for Bar {}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = Status::ALL.into_iter().filter(|status| self.0[*status as usize] > 0);
        let words: Vec<String> =
            counts.map(|status| format!("{} {}", super::number(self.0[status as usize]), status.as_str())).collect();
        let label = if words.is_empty() { "no task".to_owned() } else { words.join(", ") };
        write!(
            f,
            r#"<svg class="bar" viewBox="0 0 {WIDTH} 8" preserveAspectRatio="none" role="img" aria-label="{label}">"#
        )?;
        for (status, left, width) in self.parts() {
            write!(f, r#"<rect class="{}" x="{left}" width="{width}" height="8"/>"#, status.as_str())?;
        }
        f.write_str("</svg>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_that_occurs_has_its_part_and_none_is_too_narrow_to_be_seen() {
        type Case = ([u64; 5], &'static [(Status, u64, u64)]);
        let cases: [Case; 4] = [
            ([0; 5], &[]),
            ([0, 0, 7, 0, 0], &[(Status::Succeeded, 0, 1_000)]),
            ([1, 0, 1, 0, 0], &[(Status::Succeeded, 0, 498), (Status::Pending, 501, 498)]),
            ([0, 0, 999_999, 1, 0], &[(Status::Succeeded, 0, 988), (Status::Failed, 991, 8)]),
        ];
        for (tasks, parts) in cases {
            assert_eq!(Bar(tasks).parts(), parts, "{tasks:?}");
        }
        let widest = Bar([u64::MAX; 5]).parts();
        assert!(widest.last().is_some_and(|(_, left, width)| left + width <= WIDTH), "{widest:?}");
    }

    #[test]
    fn it_says_in_words_what_it_shows() {
        let text = Bar::new(|status| if status == Status::Failed { 1_200 } else { 0 }).to_string();
        assert!(text.contains(r#"aria-label="1,200 failed""#), "{text}");
        assert!(Bar([0; 5]).to_string().contains("no task"));
    }
}
