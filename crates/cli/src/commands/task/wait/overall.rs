//! How far tasks are together, by what their runs say. Pure.

use taskqueue_core::words;

use super::tally::Tally;
use crate::progress_view::ProgressView;

/// Of one task all that is known, of several the part that is done, and when the last of them ends if none is still to begin.
/// `running` are the running tasks that report progress; one that reports none counts when it has ended.
pub(super) fn overall(tally: &Tally, running: &[&ProgressView]) -> Option<String> {
    if let ([only], 1) = (running, tally.unfinished()) {
        let measures = only.measures();
        return Some(if measures.is_empty() { only.said() } else { measures }).filter(|text| !text.is_empty());
    }
    let parts: Vec<f64> = running.iter().filter_map(|view| view.done).collect();
    if parts.is_empty() {
        return None;
    }
    let ended = (tally.total() - tally.unfinished()) as f64;
    let done = (ended + parts.iter().sum::<f64>()) / tally.total() as f64;
    // The tasks may have changed between two answers.
    let percent = format!("{} % of all", (done.min(1.0) * 100.0).floor() as u64);
    Some(eta(tally, running).map_or(percent.clone(), |eta| format!("{percent}  {eta}")))
}

/// When the last task ends, if all run and say when they do.
fn eta(tally: &Tally, running: &[&ProgressView]) -> Option<String> {
    let all: Option<Vec<u64>> = running.iter().map(|view| view.seconds_left).collect();
    let last = all.filter(|all| all.len() as u64 == tally.unfinished())?.into_iter().max()?;
    Some(format!("ETA {}", words::span(last)))
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{JsonObject, Status, Task};

    use super::*;
    use crate::commands::status_counts::StatusCounts;
    use crate::live::testing::{TEST_TIME, task};

    fn view(progress: &str) -> ProgressView {
        let running = Task {
            status: Status::Running,
            started_at: Some(TEST_TIME.plus_seconds(-100)),
            progress: Some(JsonObject::from_canonical(progress)),
            progress_updated_at: Some(TEST_TIME),
            ..task(1)
        };
        ProgressView::of(&running, TEST_TIME).unwrap()
    }

    #[test]
    fn one_task_shows_all_and_several_show_their_sum() {
        let tally = |succeeded, running| Tally {
            counts: StatusCounts { succeeded, running, ..StatusCounts::default() },
            missing: 0,
        };
        let half = view(r#"{"step":50,"total":100}"#);
        assert_eq!(overall(&tally(9, 1), &[&half]).as_deref(), Some("50 %  50/100  2s per step  ETA 100s"));
        assert_eq!(overall(&tally(2, 2), &[&half]).as_deref(), Some("62 % of all"));
        let quarter = view(r#"{"step":25,"total":100}"#);
        assert_eq!(overall(&tally(1, 2), &[&half, &quarter]).as_deref(), Some("58 % of all  ETA 5m"));
        let all_done = view(r#"{"step":100,"total":100}"#);
        assert_eq!(overall(&tally(0, 2), &[&half, &all_done]).as_deref(), Some("75 % of all"), "it ends sometime");
        let said = view(r#"{"loss":0.5}"#);
        assert_eq!(overall(&tally(0, 1), &[&said]).as_deref(), Some("loss=0.5"));
        assert_eq!(overall(&tally(0, 2), &[&said]), None);
        assert_eq!(overall(&tally(0, 1), &[]), None);
        assert_eq!(overall(&tally(0, 1), &[&half, &half, &half]).as_deref(), Some("100 % of all"));
    }
}
