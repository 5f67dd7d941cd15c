#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use std::time::Duration;

use taskqueue_core::lease::is_longer_than_outage;

use super::*;

const SECOND: i64 = 1_000_000;
const START: i64 = 1_800_000_000;

/// Seconds since the start that a scan shows, and whether it counts as one after an outage.
type Seen = (i64, bool);

/// A database whose clock is set by so many seconds before each scan, which come every five seconds.
fn scans(steps: &[i64]) -> Vec<Seen> {
    let at = Timestamp::from_micros(START * SECOND);
    let mut row = ClockRow { micros: at.as_micros(), offset_micros: 0, last_scan_at: Some(at), ahead_since: None };
    let mut seen = Vec::new();
    for step in steps {
        row.micros += (step + 5) * SECOND;
        let before = row.last_scan_at;
        let clock = Clock::of_scan(row, step * SECOND);
        assert!(Some(clock.now) >= before, "time went back");
        seen.push((
            (clock.now.as_micros() - at.as_micros()) / SECOND,
            is_longer_than_outage(clock.last_scan_at.unwrap(), clock.now),
        ));
        let (offset_micros, ahead_since) = (clock.offset_micros, clock.ahead_since);
        row = ClockRow { offset_micros, ahead_since, last_scan_at: Some(clock.now), ..row };
    }
    seen
}

#[test]
fn every_step_of_the_databases_clock_does_what_the_table_says() {
    const YEARS: i64 = 300_000_000;
    let cases: [(&str, &[i64], &[Seen]); 6] = [
        ("nothing happens", &[0, 0], &[(5, false), (10, false)]),
        // Found, which counts as an outage; nobody's time has moved.
        ("ahead for a moment", &[YEARS, -YEARS, 0], &[(5, true), (10, false), (15, false)]),
        ("ahead by less than an outage", &[10, 0], &[(15, false), (20, false)]),
        // Slower by a hundredth.
        ("set back", &[-100, 0], &[(4, false), (9, false)]),
        ("set back a little: stands still", &[-10, 0, 0], &[(0, false), (4, false), (9, false)]),
        (
            "ahead for good: followed after a minute, which is an outage again",
            &[1_000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[
                (5, true),
                (10, false),
                (15, false),
                (20, false),
                (25, false),
                (30, false),
                (35, false),
                (40, false),
                (45, false),
                (50, false),
                (55, false),
                (60, false),
                (1_065, true),
                (1_070, false),
            ],
        ),
    ];
    for (what, steps, expected) in cases {
        assert_eq!(scans(steps), expected, "{what}");
    }
}

#[test]
fn time_that_is_ahead_of_the_database_is_slowed_down_by_a_hundredth() {
    let last = Timestamp::from_micros(START * SECOND);
    let row = ClockRow {
        micros: START * SECOND - 95 * SECOND,
        offset_micros: 100 * SECOND,
        last_scan_at: Some(last),
        ahead_since: None,
    };
    let clock = Clock::of_scan(row, 0);
    assert_eq!(clock.offset_micros, 100 * SECOND - SECOND / 20);
    assert_eq!(clock.now.as_micros(), START * SECOND + 5 * SECOND - SECOND / 20);
}

#[test]
fn a_step_is_what_the_databases_clock_moved_more_than_time_has_passed() {
    let (scan, start) = (LastScan::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(scan.step_micros(at(0), 1_000), 0, "nothing to compare with");
    assert_eq!(scan.step_micros(at(5), 1_000 + 5 * SECOND), 0);
    assert_eq!(scan.step_micros(at(3_605), 1_000 + 3_605 * SECOND), 0, "nobody was there for an hour");
    assert_eq!(scan.step_micros(at(3_610), 1_000 + 3_710 * SECOND), 100 * SECOND);
    assert_eq!(scan.step_micros(at(3_615), 1_000 + 3_615 * SECOND), -100 * SECOND);
}
