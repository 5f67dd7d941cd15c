//! What a writer does besides its commands. It runs on the test's own thread.
#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use taskqueue_store::clock::SystemClock;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::write_queue::{MAX_LIGHT, WriteQueue};
use taskqueue_test_postgres::{Cluster, Database};

use super::*;
use crate::address::Address;
use crate::database_tests::{migrated, session};
use crate::session::Schema;

/// A writer on a database with the queue `q`.
fn writer(database: &Database) -> Writer {
    let connector = Connector::new(Address::parse(&database.url()).unwrap(), Schema::new("taskqueue")).unwrap();
    let shared = SharedState {
        connector: Arc::new(connector),
        wakeups: Arc::default(),
        activity: Arc::default(),
        figures: Arc::default(),
        dead: Arc::default(),
        clock: None,
        last_scan: Arc::default(),
        next_search: Arc::default(),
        credit_seconds: 0,
    };
    Writer::new(shared, 0).unwrap()
}

fn serve<C: Command>(writer: &mut Writer, command: C) -> Result<C::Answer, StoreError> {
    let (write, answer) = queued(command);
    writer.execute(vec![write]);
    wait(answer)
}

#[test]
fn a_writer_that_is_never_idle_purges_deleted_queues_all_the_same() {
    let database = migrated(Cluster::shared());
    let mut writer = writer(&database);
    assert!(serve(&mut writer, create_all(0..1_000)).is_ok());
    assert!(serve(&mut writer, delete_queue("q", true)).is_ok());
    // All are there when it begins, and no more can come: it is never idle.
    let (requests, backlog) = WriteQueue::new();
    let answers: Vec<_> = (0..MAX_LIGHT * BATCHES_PER_PURGE + 1)
        .map(|_| {
            let (write, answer) = queued(heartbeat("q", 1, 1));
            requests.submit(write).unwrap();
            answer
        })
        .collect();
    requests.close();
    writer.run(&Arc::new(Mutex::new(backlog)));
    assert!(answers.into_iter().all(|answer| matches!(wait(answer), Err(StoreError::Refused(_)))));
    let left = database.rows("SELECT count(*) FROM taskqueue.tasks");
    assert_eq!(left, [[Some((1_000 - PURGE).to_string())]]);
}

/// Serves all of them in one transaction, in this order.
fn serve_together<C: Command>(
    writer: &mut Writer,
    commands: impl IntoIterator<Item = C>,
) -> Vec<Result<C::Answer, StoreError>> {
    let (writes, answers): (Vec<_>, Vec<_>) = commands.into_iter().map(queued).unzip();
    writer.execute(writes);
    answers.into_iter().map(wait).collect()
}

/// A writer and the model, with a running task in each.
struct Printing {
    database: Database,
    writer: Writer,
    model: ModelStore,
    reading: Runtime,
    session: Session,
}

/// The limit of those who read; no test keeps more.
const ALL: usize = 1_000_000;

impl Printing {
    fn begin() -> Self {
        let database = migrated(Cluster::shared());
        let reading = Builder::new_current_thread().enable_all().build().unwrap();
        let session = reading.block_on(session(&database));
        let model = ModelStore::new(Arc::new(SystemClock::default()));
        reading.block_on(model.write(create_queue("q"))).unwrap();
        let mut printing = Self { writer: writer(&database), database, model, reading, session };
        printing.both(create("q", 1, with_budget(1_000)));
        printing.both(claim("q", "default", 0));
        printing
    }

    fn both<C: Command + Clone>(&mut self, command: C) {
        serve(&mut self.writer, command.clone()).unwrap();
        self.reading.block_on(self.model.write(command)).unwrap();
    }

    fn print_together(&mut self, sends: &[AddOutput]) {
        let expected: Vec<_> = sends.iter().map(|send| self.reading.block_on(self.model.write(send.clone()))).collect();
        assert_eq!(serve_together(&mut self.writer, sends.iter().cloned()), expected, "{sends:?}");
    }

    fn read(&self, offset: u64) -> Result<Output, StoreError> {
        let name = queue("q");
        let read = crate::output::read(&self.session, &name, task_id(1), offset, ALL);
        self.reading.block_on(read).map_err(|error| error.into_store_error("reading output"))
    }

    fn assert_same(&self, offset: u64) {
        let (name, id) = (queue("q"), task_id(1));
        let expected = self.reading.block_on(self.model.read_output(&name, id, offset, ALL));
        assert_eq!(self.read(offset), expected, "from {offset}");
    }

    fn pieces(&self) -> Vec<(u64, usize)> {
        let rows = self.database.rows("SELECT start, octet_length(bytes) FROM taskqueue.output_pieces ORDER BY start");
        let number = |text: &Option<String>| text.as_ref().unwrap().parse::<u64>().unwrap();
        rows.iter().map(|row| (number(&row[0]), number(&row[1]) as usize)).collect()
    }
}

fn send(run: usize, offset: u64, text: &str, most_bytes: usize) -> AddOutput {
    AddOutput { most_bytes, ..print(1, run, offset, text) }
}

/// A text that is different at each offset, with characters of one to four bytes.
fn text_at(offset: u64, characters: usize) -> String {
    (0..characters as u64)
        .map(|n| ['a', 'é', '\0', '\u{20ac}', '\n', '\u{1f600}', 'z'][((offset + n) % 7) as usize])
        .collect()
}

#[test]
fn batches_of_sends_keep_the_bytes_that_they_would_keep_one_by_one() {
    for seed in 0..4 {
        let (mut printing, mut random) = (Printing::begin(), Random::new(6_000 + seed));
        let (mut run, mut end) = (0, 0);
        for step in 0..60 {
            let sends: Vec<AddOutput> = (0..1 + random.below(6))
                .map(|_| {
                    let offset = match random.below(10) {
                        0 => end + random.below(5_000) as u64,
                        1 | 2 => (end as usize).saturating_sub(random.below(9_000)) as u64,
                        3 => random.below(end as usize + 1) as u64,
                        _ => end,
                    };
                    let text = text_at(offset, random.pick(&[1, 7, 30, 300, 900, 1_500, 4_000]));
                    end = end.max(offset + text.len() as u64);
                    let run = run - usize::from(run > 0 && random.percent(5));
                    send(run, offset, &text, random.pick(&[50, 3_000, 20_000, 20_000, 20_000, 100_000]))
                })
                .collect();
            printing.print_together(&sends);
            for offset in [0, random.below(end as usize + 1) as u64, end.saturating_sub(500)] {
                printing.assert_same(offset);
            }
            assert!(printing.pieces().iter().all(|piece| piece.1 <= 4_000), "a larger one does not fit into a page");
            if step % 12 == 11 {
                printing.both(fail("q", 1, run));
                run += 1;
                end = 0;
                printing.both(claim("q", "default", run));
            }
        }
    }
}

#[test]
fn a_run_that_prints_a_little_at_a_time_fills_few_pieces() {
    let mut printing = Printing::begin();
    for n in 0..200 {
        printing.both(send(0, n * 20, "twenty bytes, always", ALL));
    }
    let pieces = printing.pieces();
    assert_eq!(pieces.iter().map(|piece| piece.1).sum::<usize>(), 4_000);
    assert!(pieces.len() <= 4, "{pieces:?}");
    printing.both(send(0, 4_000, &"x".repeat(65_536), ALL));
    assert!(printing.pieces().iter().all(|piece| piece.1 <= 4_000), "a piece that is larger does not fit into a page");
    printing.assert_same(0);
}

#[test]
fn what_is_pushed_out_is_removed_and_what_is_printed_by_the_next_run_takes_its_place() {
    let mut printing = Printing::begin();
    for n in 0..40 {
        printing.both(send(0, n * 1_500, &"x".repeat(1_500), 10_000));
    }
    let held: usize = printing.pieces().iter().map(|piece| piece.1).sum();
    assert!(held < 10_000 + 4_000, "{held}");
    printing.both(fail("q", 1, 0));
    printing.both(claim("q", "default", 1));
    printing.assert_same(0);
    printing.print_together(&[send(1, 0, "new", 10_000), send(0, 60_000, "late", 10_000), send(1, 3, "er", 10_000)]);
    assert_eq!(printing.pieces(), [(0, 5)]);
    printing.assert_same(0);
}

#[test]
fn what_is_kept_again_and_pushed_out_again_in_one_batch_leaves_a_piece_that_grows() {
    let mut printing = Printing::begin();
    printing.both(send(0, 0, &"x".repeat(1_000), ALL));
    printing.both(send(0, 1_000, "y", 100));
    printing.print_together(&[send(0, 0, &"z".repeat(901), 500), send(0, 1_001, &"y".repeat(450), 500)]);
    assert_eq!(printing.pieces(), [(951, 500)]);
    printing.both(send(0, 1_451, "more", 500));
    assert_eq!(printing.read(0).unwrap().end(), 1_455);
    printing.assert_same(0);
}

#[test]
fn a_task_that_prints_and_is_deleted_in_one_batch_leaves_nothing_but_pieces_to_purge() {
    let mut printing = Printing::begin();
    printing.both(send(0, 0, &"x".repeat(10_000), ALL));
    let (first, print) = queued(send(0, 10_000, "more", ALL));
    let (second, cancelled) = queued(cancel("q", 1));
    let (third, deleted) = queued(delete("q", 1));
    let (fourth, late) = queued(send(0, 10_004, "late", ALL));
    printing.writer.execute(vec![first, second, third, fourth]);
    assert_eq!((wait(print), wait(cancelled).is_ok(), wait(deleted)), (Ok(()), true, Ok(())));
    assert_eq!(wait(late), Err(Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(1) }.into()));
    assert!(printing.database.rows("SELECT 1 FROM taskqueue.outputs").is_empty());
    assert_eq!(printing.pieces().len(), 3, "the deletion does not wait for them");
    printing.writer.purge();
    assert!(printing.writer.purging, "it goes on until nothing is left");
    printing.writer.purge();
    assert!(!printing.writer.purging);
    assert_eq!(printing.pieces(), []);
    assert!(printing.database.rows("SELECT 1 FROM taskqueue.output_purges").is_empty());
}

#[test]
fn the_output_of_many_deleted_tasks_is_purged_some_pieces_at_a_time() {
    let mut printing = Printing::begin();
    printing.database.admin(
        "INSERT INTO taskqueue.outputs SELECT task_key, 1, 8, 8, 7, 'r_000000000000', '0-8' FROM taskqueue.tasks;
        INSERT INTO taskqueue.output_pieces
        SELECT task_key, n, 'x' FROM taskqueue.tasks, generate_series(0, 1199) AS n",
    );
    serve(&mut printing.writer, cancel("q", 1)).unwrap();
    serve(&mut printing.writer, delete_queue("q", true)).unwrap();
    let mut left = Vec::new();
    while printing.writer.purging {
        printing.writer.purge();
        left.push(printing.pieces().len());
    }
    assert_eq!(left, [700, 200, 0, 0], "{PURGE} at a time");
    assert!(printing.database.rows("SELECT 1 FROM taskqueue.output_purges").is_empty());
}

#[test]
fn progress_and_what_comes_after_it_in_a_batch_count_what_is_there_by_then() {
    let mut printing = Printing::begin();
    let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(700_000));
    let (first, progressed) = queued(progress(1, 0, &large));
    let (second, completed) = queued(complete("q", 1, 0, object(&large)));
    let (third, smaller) = queued(progress(1, 0, r#"{"step":1}"#));
    let (fourth, completed_then) = queued(complete("q", 1, 0, object(&large)));
    printing.writer.execute(vec![first, second, third, fourth]);
    assert_eq!(wait(progressed), Ok(()));
    assert!(matches!(wait(completed), Err(StoreError::Refused(Refusal::TaskDataTooLarge))));
    assert_eq!((wait(smaller), wait(completed_then)), (Ok(()), Ok(())));
    let stored = "SELECT progress_bytes, progress, octet_length(result) > 700000 FROM taskqueue.tasks
        JOIN taskqueue.outcomes USING (task_key)";
    let expected = ["10", r#"{"step":1}"#, "t"].map(|text| Some(text.to_owned()));
    assert_eq!(printing.database.rows(stored), [expected]);
}
