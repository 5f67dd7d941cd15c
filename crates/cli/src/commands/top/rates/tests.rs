//! Rates from tables of counts.

use taskqueue_client::Group;

use super::*;

/// Counts of pending and succeeded tasks.
fn counts(pending: u64, succeeded: u64) -> Counts {
    let group = |word: &str, count| Group { key: vec![word.to_owned()], count };
    Counts::of(&[group("pending", pending), group("succeeded", succeeded)])
}

/// A history of refreshes: seconds since the first, pending, succeeded.
fn history(refreshes: &[(u64, u64, u64)]) -> History {
    let start = Instant::now();
    let mut history = History::default();
    for (second, pending, succeeded) in refreshes {
        history.record(counts(*pending, *succeeded), start + Duration::from_secs(*second));
    }
    history
}

#[test]
fn one_refresh_gives_no_rate() {
    assert_eq!(history(&[]).rates(), None);
    assert_eq!(history(&[(0, 5, 5)]).rates(), None);
    assert_eq!(history(&[(0, 5, 5), (0, 4, 6)]).rates(), None, "nor do two at once");
    assert_eq!(history(&[(0, 5, 5)]).bars(3), [0, 0, 0]);
}

#[test]
fn rates_are_changes_of_counts_over_time() {
    let rates = history(&[(0, 100, 0), (2, 96, 4), (4, 102, 8)]).rates().unwrap();
    assert_eq!(rates, Rates { created: 2.5, finished: 2.0 });
    assert_eq!(rates.seconds_left(&counts(102, 8)), Some(51.0));
    assert_eq!(rates.seconds_left(&counts(0, 8)), None);
}

#[test]
fn a_queue_that_stands_still_has_no_end_in_sight() {
    let rates = history(&[(0, 100, 0), (2, 100, 0)]).rates().unwrap();
    assert_eq!((rates.finished, rates.seconds_left(&counts(100, 0))), (0.0, None));
}

#[test]
fn only_the_last_minute_counts_also_where_refreshes_are_rare() {
    let busy_then_idle = history(&[(0, 0, 0), (10, 0, 1000), (70, 0, 1000)]);
    assert_eq!(busy_then_idle.rates().unwrap().finished, 0.0);
    let rare = history(&[(0, 0, 0), (120, 0, 1200)]);
    assert_eq!(rare.rates().unwrap().finished, 10.0);
}

#[test]
fn deleted_and_requeued_tasks_are_no_work_and_no_debt() {
    let rates = history(&[(0, 0, 100), (1, 100, 0), (2, 80, 20), (3, 0, 0), (4, 0, 20)]).rates().unwrap();
    assert_eq!(rates, Rates { created: 5.0, finished: 10.0 });
}

#[test]
fn bars_are_equal_parts_of_five_minutes_whatever_the_interval() {
    let history = history(&[(0, 0, 0), (100, 0, 100), (250, 0, 100), (300, 0, 200)]);
    assert_eq!(history.bars(3), [100_000, 0, 100_000]);
    assert_eq!(history.bars(6), [50_000, 50_000, 0, 0, 0, 100_000]);
}

#[test]
fn what_is_older_than_the_bars_is_forgotten() {
    let refreshes: Vec<(u64, u64, u64)> = (0..2000).map(|second| (second, 0, second)).collect();
    let history = history(&refreshes);
    assert_eq!(history.samples.len(), 301);
    assert_eq!(history.bars(5), [60_000; 5]);
}
