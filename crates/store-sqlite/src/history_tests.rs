//! What a start makes of the file is the truth, which a scan of all rows tells: after every transaction of random histories,
//! whatever was flushed, merged or forgotten by then, and whether the store was closed or killed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, params};
use taskqueue_core::limits::DELETED_RUN_SECONDS;
use taskqueue_core::status::Statuses;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::transaction::{RunUse, TaskKey};

use crate::claim_index::ClaimIndex;
use crate::claim_index::room::Room;
use crate::queries::{CONTINUE, each_row};
use crate::rows::{self, PackedHead};
use crate::{HistoryOptions, Options, SqliteStore, statements as sql};

/// Writes the history after so many changes.
fn flushing_after(flush_after: usize) -> HistoryOptions {
    HistoryOptions { flush_after, ..HistoryOptions::default() }
}

fn clock() -> ManualClock {
    ManualClock::new(START)
}

fn open(file: &Path, clock: &ManualClock, history: HistoryOptions) -> SqliteStore {
    let options = Options { history, ..Options::default() };
    SqliteStore::open(file, Arc::new(clock.clone()), &options).unwrap()
}

/// What the rows of a file say.
#[derive(Default)]
struct Truth {
    pending: BTreeMap<String, BTreeSet<TaskKey>>,
    running: BTreeMap<String, BTreeSet<TaskKey>>,
    active: HashSet<RunId>,
    used: HashSet<RunId>,
    last_key: i64,
    latest_at: Timestamp,
}

impl Truth {
    fn of(file: &Connection) -> Self {
        let mut truth = Self::default();
        let mut queues: HashMap<i64, String> = HashMap::new();
        each_row(file, &sql::LOAD_QUEUES, [], |row| {
            queues.insert(row.get(0)?, row.get(1)?);
            Ok(CONTINUE)
        })
        .unwrap();
        for name in queues.values() {
            truth.pending.insert(name.clone(), BTreeSet::new());
            truth.running.insert(name.clone(), BTreeSet::new());
        }
        each_row(file, &sql::LIST_HEADS, [], |row| {
            let task = rows::claim_index(row)?;
            truth.used.extend(task.finished_run_id);
            truth.last_key = truth.last_key.max(task.key.0);
            truth.latest_at = truth.latest_at.max(task.head.updated_at);
            let head = file.prepare_cached(&sql::LOAD_HEAD)?.query_row([task.key.0], rows::head)?;
            truth.active.extend(head.lifecycle.run.map(|run| run.run_id));
            let of_status = match task.status {
                Status::Pending => Some(&mut truth.pending),
                Status::Running => Some(&mut truth.running),
                _ => None,
            };
            if let (Some(living), Some(queue)) = (of_status, queues.get(&task.queue_key)) {
                living.entry(queue.clone()).or_default().insert(task.key);
            }
            Ok(CONTINUE)
        })
        .unwrap();
        for sql in ["SELECT run_id FROM past_runs", "SELECT run_id FROM deleted_runs"] {
            each_row(file, sql, [], |row| {
                truth.used.insert(rows::run_id(row)?);
                Ok(CONTINUE)
            })
            .unwrap();
        }
        truth
    }

    /// Compares it with an index that was loaded from the file. `ever_used` are all run ids that any claim had.
    fn assert_loaded(&self, index: &ClaimIndex, file: &Connection, ever_used: &[RunId], what: &str) {
        for (status, expected) in [(Status::Pending, &self.pending), (Status::Running, &self.running)] {
            for (queue, expected) in expected {
                let name = QueueName::parse(queue).unwrap();
                let found = index.living(&name, Statuses::NONE.with(status), usize::MAX).unwrap();
                assert_eq!(BTreeSet::from_iter(found), *expected, "{what}: {status:?} tasks of {queue}");
            }
        }
        for run_id in self.used.iter().chain(&self.active).chain(ever_used) {
            let expected = match run_id {
                run_id if self.active.contains(run_id) => "active",
                run_id if self.used.contains(run_id) => "used",
                _ => "new",
            };
            let found = match index.run_use(file, *run_id).unwrap() {
                RunUse::Active(..) => "active",
                RunUse::Past => "used",
                RunUse::New => "new",
            };
            assert_eq!(found, expected, "{what}: {run_id}");
        }
        assert!(index.latest_at >= self.latest_at, "{what}: the clock would begin too early");
        assert!(index.history.last_key >= self.last_key, "{what}: a key would be given again");
    }
}

/// Loads what a start would after a crash at this moment, and compares it with the rows.
fn assert_start_finds_the_truth(file: &Path, ever_used: &[RunId], what: &str) {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let snapshot = connection.unchecked_transaction().unwrap();
    let mut index = ClaimIndex::new(HistoryOptions::default(), None, Room::default());
    index.reload(&snapshot).unwrap();
    Truth::of(&snapshot).assert_loaded(&index, &snapshot, ever_used, what);
}

/// A store that is closed or killed now and then.
struct Restarted {
    clock: ManualClock,
    history: HistoryOptions,
    folder: tempfile::TempDir,
    starts: usize,
    store: SqliteStore,
}

impl Restarted {
    fn new(history: HistoryOptions) -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
        let store = open(&folder.path().join("0.db"), &clock, history);
        Self { clock, history, folder, starts: 0, store }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(format!("{}.db", self.starts))
    }

    fn close(&mut self) {
        let empty = self.folder.path().join("empty.db");
        drop(std::mem::replace(&mut self.store, open(&empty, &self.clock, self.history)));
        self.store = open(&self.file(), &self.clock, self.history);
    }

    /// Continues with a copy of the file as it is now. The store that goes on without us may write what it likes.
    fn kill(&mut self) {
        let file = Connection::open(self.file()).unwrap();
        self.starts += 1;
        file.execute("VACUUM INTO ?1", [self.file().to_str().unwrap()]).unwrap();
        self.store = open(&self.file(), &self.clock, self.history);
    }
}

async fn random_history(seed: u64, steps: usize) {
    let mut random = Random::new(seed);
    let mut generator = Generator::new(seed);
    let mut restarted = Restarted::new(flushing_after(random.pick(&[1, 2, 5, 30, 32_768])));
    restarted.store.write(create_queue("q")).await.unwrap();
    let ever_used: Vec<RunId> = (0..300).map(run_id).collect();
    for step in 0..steps {
        let what = format!("step {step} of seed {seed}");
        match generator.step() {
            Step::Write(command) => {
                let answer = command.clone().write_to(&restarted.store).await;
                generator.learn(&command, &answer);
            }
            Step::Pass(micros) => restarted.clock.advance_micros(micros),
            Step::Live(seconds) => {
                restarted.clock.advance_seconds(seconds);
                restarted.store.write(Scan).await.unwrap();
            }
            Step::Reopen if random.percent(50) => restarted.close(),
            Step::Reopen => restarted.kill(),
        }
        if random.percent(2) {
            restarted.clock.advance_seconds(DELETED_RUN_SECONDS + 1);
            restarted.store.write(Scan).await.unwrap();
        }
        assert_start_finds_the_truth(&restarted.file(), &ever_used, &what);
    }
}

#[tokio::test]
async fn a_start_after_any_transaction_finds_what_all_rows_say() {
    for seed in 0..10 {
        random_history(seed, 150).await;
    }
}

/// Copies the only task under other keys, ids and run ids.
fn copy(file: &Connection, count: i64) {
    let values = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?));
    let (key, queue_key, packed) = file.query_row("SELECT task_key, queue_key, packed FROM tasks", [], values).unwrap();
    let one = PackedHead::unpack(&packed).unwrap();
    let insert = "INSERT INTO tasks (task_key, queue_key, id, created_at, status, packed)
        VALUES (?1, ?2, ?3, 1, 'succeeded', ?4)";
    let mut insert = file.prepare(insert).unwrap();
    file.execute_batch("BEGIN").unwrap();
    for copy in 1..=count {
        let run_id = format!("r_{copy:012}");
        let packed = PackedHead { finished_run: one.finished_run.map(|(_, end)| (run_id.as_str(), end)), ..one }.pack();
        insert.execute(params![key + copy, queue_key, format!("t_{copy:012}"), packed]).unwrap();
    }
    file.execute_batch("COMMIT").unwrap();
}

#[tokio::test]
async fn a_start_reads_the_living_tasks_and_not_70_000_finished_ones() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let file = folder.path().join("tasks.db");
    let store = open(&file, &clock, HistoryOptions::default());
    store.write(create_queue("q")).await.unwrap();
    store.write(create("q", "first", Definition::default())).await.unwrap();
    store.write(claim("q", "default", "first")).await.unwrap();
    store.write(complete("q", "first", "first", object("{}"))).await.unwrap();
    drop(store);
    // More than the keys behind which a start reads rows: it reads them in parts.
    copy(&Connection::open(&file).unwrap(), 70_000);
    let store = open(&file, &clock, HistoryOptions::default());
    for id in 1..=20 {
        store.write(create("q", format!("living-{id}"), Definition::default())).await.unwrap();
    }
    let living = claim("q", "default", "living");
    store.write(living.clone()).await.unwrap();
    let used = RunId::parse("r_000000012345").unwrap();
    let again = taskqueue_store::command::Claim { run_id: used, ..living };
    assert!(store.write(again).await.is_err(), "a used run id");
    drop(store);
    let connection = Connection::open(&file).unwrap();
    let mut index = ClaimIndex::new(HistoryOptions::default(), None, Room::default());
    index.reload(&connection).unwrap();
    assert!(index.rows_read <= 100, "{} rows", index.rows_read);
    let ids = [used, run_id("first"), run_id("living"), run_id("another")];
    Truth::of(&connection).assert_loaded(&index, &connection, &ids, "after the second start");
    assert_eq!(index.living(&queue("q"), Statuses::LIVING, usize::MAX).unwrap().len(), 20);
}

#[tokio::test]
async fn an_end_between_flushes_costs_a_start_no_more_rows_than_there_were_changes() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let file = folder.path().join("tasks.db");
    let store = open(&file, &clock, flushing_after(100));
    store.write(create_queue("q")).await.unwrap();
    for id in 0..300 {
        store.write(create("q", id, Definition::default())).await.unwrap();
        store.write(claim("q", "default", id)).await.unwrap();
        store.write(complete("q", id, id, object("{}"))).await.unwrap();
        let connection = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let mut index = ClaimIndex::new(HistoryOptions::default(), None, Room::default());
        index.reload(&connection).unwrap();
        assert!(index.rows_read <= 100, "{} rows after {id}", index.rows_read);
    }
}

#[tokio::test]
async fn a_damaged_page_of_used_run_ids_is_made_anew_and_claims_go_on() {
    for damage in ["UPDATE run_pages SET entries = x''", "DELETE FROM run_pages", "UPDATE run_segments SET state = '?'"]
    {
        let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
        let file = folder.path().join("tasks.db");
        let store = open(&file, &clock, flushing_after(1));
        store.write(create_queue("q")).await.unwrap();
        for id in 0..3 {
            store.write(create("q", id, Definition::default())).await.unwrap();
            store.write(claim("q", "default", id)).await.unwrap();
            store.write(complete("q", id, id, object("{}"))).await.unwrap();
        }
        store.write(create("q", "living", Definition::default())).await.unwrap();
        drop(store);
        Connection::open(&file).unwrap().execute_batch(damage).unwrap();
        let store = open(&file, &clock, flushing_after(1));
        // The one that finds the damage may fail.
        let _ = store.write(claim("q", "default", 1)).await;
        let again = store.write(claim("q", "default", 1)).await.map(drop);
        assert!(!matches!(again, Ok(()) | Err(StoreError::Unavailable)), "{damage}: a used run id: {again:?}");
        let claimed = store.write(claim("q", "default", "new")).await.map(|claimed| claimed.is_some());
        assert_eq!(claimed, Ok(true), "{damage}");
        let ids: Vec<RunId> = (0..3).map(run_id).collect();
        assert_start_finds_the_truth(&file, &ids, damage);
    }
}
