//! The segments say what a map in memory says, whatever was used, forgotten, merged and reloaded in between.

use taskqueue_store::conformance::random::Random;

use super::*;
use crate::migrate;

fn connection() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
    connection
}

fn run(n: usize) -> RunId {
    RunId::parse(&format!("r_{n:012}")).unwrap()
}

/// A set of run ids in memory, and the same in segments.
struct Both {
    connection: Connection,
    runs: UsedRuns,
    used: HashMap<RunId, bool>,
}

impl Both {
    fn new(filter_bytes: usize) -> Self {
        let mut both = Self { connection: connection(), runs: UsedRuns::new(filter_bytes, None), used: HashMap::new() };
        both.runs.reload(&both.connection).unwrap();
        both
    }

    fn end(&mut self, run_id: RunId) {
        self.runs.end(run_id);
        self.used.insert(run_id, true);
    }

    fn forget(&mut self, run_id: RunId) {
        self.runs.forget((Timestamp::from_micros(1), run_id));
        self.used.insert(run_id, false);
    }

    fn flush_and_work(&mut self) {
        self.runs.flush(&self.connection).unwrap();
        self.runs.work(&self.connection).unwrap();
    }

    /// As after a restart: what was not written is added again, as a start does.
    fn restart(&mut self, filter_bytes: usize) {
        let recent = std::mem::take(&mut self.runs.recent);
        self.runs = UsedRuns::new(filter_bytes, None);
        self.runs.reload(&self.connection).unwrap();
        self.runs.recent = recent;
    }

    fn assert_equal(&self, ids: usize) {
        for n in 0..ids {
            let used = self.used.get(&run(n)).copied().unwrap_or(false);
            assert_eq!(self.runs.is_used(&self.connection, run(n)).unwrap(), used, "{}", run(n));
            assert!(!(used && self.runs.is_surely_new(run(n))), "{} is used and said to be new", run(n));
        }
    }
}

#[test]
fn segments_say_what_a_map_says() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let filter_bytes = random.pick(&[0, 4_096, 16 << 20]);
        let mut both = Both::new(filter_bytes);
        for step in 0..60 {
            let burst = random.pick(&[1, 40, 3_000]);
            for _ in 0..random.below(burst) {
                let id = run(random.below(20_000));
                if both.used.get(&id) == Some(&true) && random.percent(30) {
                    both.forget(id);
                } else {
                    both.end(id);
                }
            }
            if random.percent(70) {
                both.flush_and_work();
            }
            if random.percent(15) {
                both.restart(filter_bytes);
            }
            if step % 12 == 11 {
                both.assert_equal(20_000);
            }
        }
        both.assert_equal(20_000);
    }
}

#[test]
fn a_reload_keeps_the_filters_of_segments_that_are_there_and_no_others() {
    let mut both = Both::new(16 << 20);
    (0..1_000).for_each(|n| both.end(run(n)));
    both.flush_and_work();
    let kept = both.runs.segments[0].index.clone();
    both.connection.execute_batch("BEGIN").unwrap();
    (1_000..2_000).for_each(|n| both.runs.end(run(n)));
    both.flush_and_work();
    both.connection.execute_batch("ROLLBACK").unwrap();
    both.runs.reload(&both.connection).unwrap();
    both.assert_equal(2_000);
    assert!(std::sync::Arc::ptr_eq(&both.runs.segments[0].index, &kept));
    // The number of the segment that was rolled back is not given to another one.
    (2_000..3_000).for_each(|n| both.end(run(n)));
    both.flush_and_work();
    assert_eq!(both.runs.segments[1].row.number, 3);
    both.assert_equal(3_000);
}

#[test]
fn what_was_forgotten_and_what_was_merged_leaves_the_file() {
    let mut both = Both::new(16 << 20);
    for part in 0..8 {
        (0..500).for_each(|n| both.end(run(part * 500 + n)));
        both.flush_and_work();
    }
    (0..4_000).for_each(|n| both.forget(run(n)));
    for n in 0..40 {
        both.end(run(10_000 + n));
        both.flush_and_work();
    }
    while !both.runs.merged {
        both.runs.credit = 10_000;
        both.runs.work(&both.connection).unwrap();
    }
    both.assert_equal(4_100);
    let count = |sql: &str| both.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let segments = count("SELECT count(*) FROM run_segments");
    assert!(segments <= 8, "{segments} segments");
    assert_eq!(count("SELECT sum(pages) FROM run_segments"), count("SELECT count(*) FROM run_pages"));
}

#[test]
fn filters_take_no_more_memory_than_they_may_and_large_segments_get_less() {
    let mut both = Both::new(10_000);
    (0..20_000).for_each(|n| both.end(run(n)));
    both.runs.flush(&both.connection).unwrap();
    (20_000..20_100).for_each(|n| both.end(run(n)));
    both.runs.flush(&both.connection).unwrap();
    both.restart(10_000);
    let bytes: Vec<usize> = both.runs.segments.iter().map(Segment::filter_bytes).collect();
    assert!(bytes[0] < 10_000 && bytes[0] > 9_000 && bytes[1] == 128, "{bytes:?}");
    both.restart(1_000);
    let bytes: Vec<usize> = both.runs.segments.iter().map(Segment::filter_bytes).collect();
    assert_eq!(bytes, [0, 128]);
    both.assert_equal(21_000);
}

#[test]
fn to_add_a_segment_no_page_of_the_others_is_read() {
    let mut both = Both::new(16 << 20);
    for part in 0..2 {
        both.end(run(part));
        both.runs.flush(&both.connection).unwrap();
    }
    both.connection.execute_batch("DROP TABLE run_pages").unwrap();
    let runs = UsedRuns::behind_all(&both.connection).unwrap();
    assert_eq!((runs.next_segment, runs.segments.len()), (3, 0));
}

#[test]
fn a_merge_that_meets_a_page_without_entries_fails_and_does_not_wait_for_ever() {
    let mut both = Both::new(16 << 20);
    for part in 0..4 {
        both.end(run(part));
        both.runs.flush(&both.connection).unwrap();
    }
    both.connection.execute("UPDATE run_pages SET entries = x''", []).unwrap();
    both.runs.credit = 10_000;
    assert!(both.runs.work(&both.connection).is_err());
    assert!(both.runs.is_damaged());
}
