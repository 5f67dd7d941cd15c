//! What runs print, with several servers on one database: followers see what was sent to another server, and sends, deletions and
//! reports that meet lose nothing.

use std::ops::ControlFlow::{Break, Continue};
use std::time::Instant;

use taskqueue_store::conformance::prelude::*;
use taskqueue_store::waiting;
use taskqueue_test_postgres::eventually;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, NoTls};

use crate::servers::Servers;
use crate::storage::Fresh;

/// Twice what lies between two polls.
const SOON: Duration = Duration::from_secs(2);
const ALL: usize = 1_000_000;

/// Two stores on one database, with a running task 1 whose run is 1.
async fn with_a_run() -> Servers {
    let servers = Servers::open(2).await;
    servers.fixture.create_running(1, with_budget(100)).await;
    servers
}

impl Servers {
    /// Reads at the other server what comes behind `offset`, and waits for it or for the end of the run.
    fn follow(&self, run: RunId, offset: u64) -> JoinHandle<Output> {
        let store = Arc::clone(&self.stores[1]);
        tokio::spawn(async move {
            let watcher = store.waiters().watch_output(run, 10).unwrap();
            let read = || async {
                let output = store.read_output(&queue("q"), task_id(1), offset, ALL).await?;
                Ok(if output.text.is_empty() && !output.ended { Continue(output) } else { Break(output) })
            };
            let turn = store.waiters().output_turn().await;
            match waiting::output(watcher, turn, read, std::future::pending()).await.unwrap() {
                Break(output) | Continue(output) => output,
            }
        })
    }

    fn count(&self, table: &str) -> String {
        self.storage.database.rows(&format!("SELECT count(*) FROM taskqueue.{table}"))[0][0].clone().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_of_one_server_sees_what_is_sent_to_another() {
    let servers = with_a_run().await;
    servers.fixture.ok(print(1, 1, 0, "first")).await;
    let mut end = 5;
    for text in [" second", " third", " fourth"] {
        let following = servers.follow(run_id(1), end);
        eventually("it watches", || !servers.stores[1].waiters().watched_outputs().is_empty());
        let sent = Instant::now();
        servers.fixture.ok(print(1, 1, end, text)).await;
        let output = timeout(SOON, following).await.expect("soon").unwrap();
        assert_eq!((&*output.text, output.start, output.ended), (text, end, false), "{:?}", sent.elapsed());
        end = output.end();
    }
    let following = servers.follow(run_id(1), end);
    servers.fixture.ok(complete("q", 1, 1, object("{}"))).await;
    let output = timeout(SOON, following).await.expect("soon").unwrap();
    assert_eq!((&*output.text, output.end(), output.ended), ("", end, true));
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_of_the_server_that_is_printed_to_is_woken_at_once() {
    let servers = with_a_run().await;
    servers.fixture.ok(print(1, 1, 0, "first")).await;
    let following = servers.follow(run_id(1), 5);
    eventually("it watches", || !servers.stores[1].waiters().watched_outputs().is_empty());
    servers.stores[1].write(print(1, 1, 5, "!")).await.unwrap();
    let output = timeout(Duration::from_millis(700), following).await.expect("before any poll").unwrap();
    assert_eq!(output.text, "!");
    servers.end().await;
}

/// What servers notify each other of.
async fn notifications(storage: &Fresh) -> UnboundedReceiver<String> {
    let (client, mut connection) = tokio_postgres::connect(&storage.database.url(), NoTls).await.unwrap();
    let (sender, received) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                drop(sender.send(notification.payload().to_owned()));
            }
        }
    });
    client.batch_execute("LISTEN taskqueue").await.unwrap();
    // The connection ends with the client.
    std::mem::forget(client);
    received
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_notified_of_what_runs_print() {
    let servers = with_a_run().await;
    let mut received = notifications(&servers.storage).await;
    // The other server waits for everything that it can wait for.
    let waiters = servers.stores[1].waiters();
    let _claim = waiters.register(&queue("q"), &route("nobody"), 10).unwrap();
    let _heartbeat = waiters.watch(run_id("z"), 10).unwrap();
    let _output = waiters.watch_output(run_id(1), 10).unwrap();
    // A cancelled run is notified, once it is known that heartbeats are held.
    let mut number = 1;
    let mut is_notified = false;
    while !is_notified {
        number += 1;
        assert!(number < 100, "no notification came at all");
        servers.fixture.create_running(number, Definition::default()).await;
        servers.fixture.ok(cancel("q", number)).await;
        while let Ok(Some(text)) = timeout(Duration::from_millis(100), received.recv()).await {
            is_notified |= text.contains("\n!");
        }
    }
    for offset in 0..20 {
        servers.fixture.ok(print(1, 1, offset, "x")).await;
    }
    servers.fixture.ok(cancel("q", 1)).await;
    let mut lines = Vec::new();
    while !lines.iter().any(|line: &String| line.starts_with('!')) {
        let text = timeout(SOON, received.recv()).await.expect("soon").unwrap();
        lines.extend(text.lines().skip(1).filter(|line| !["waits", "watches"].contains(line)).map(str::to_owned));
    }
    assert_eq!(lines, [format!("! {}", run_id(1))], "nothing besides announcements and the end");
    servers.end().await;
}

/// Who waits for nothing but output is not announced either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_followers_only_notifies_nobody() {
    let servers = with_a_run().await;
    servers.fixture.ok(print(1, 1, 0, "x")).await;
    let mut received = notifications(&servers.storage).await;
    while timeout(Duration::from_millis(300), received.recv()).await.is_ok() {}
    for offset in 1..3_u64 {
        let following = servers.follow(run_id(1), offset);
        eventually("it watches", || !servers.stores[1].waiters().watched_outputs().is_empty());
        servers.fixture.ok(print(1, 1, offset, "x")).await;
        timeout(SOON, following).await.expect("soon").unwrap();
    }
    assert!(received.try_recv().is_err());
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_sends_to_two_servers_keep_every_byte_once() {
    let servers = with_a_run().await;
    let text: String = (0..60_000).map(|n| char::from(b'a' + (n / 7 % 26) as u8)).collect();
    let mut sends = JoinSet::new();
    for n in 0..120 {
        // In a mixed order, each with a part of the next one.
        let start = n * 37 % 120 * 500;
        let piece = &text[start..text.len().min(start + 800)];
        let store = Arc::clone(if n % 2 == 0 { &servers.fixture.store } else { &servers.stores[1] });
        let send = AddOutput { most_bytes: ALL, ..print(1, 1, start as u64, piece) };
        sends.spawn(async move { store.write(send).await });
    }
    assert!(sends.join_all().await.into_iter().all(|answer| answer == Ok(())));
    let output = servers.stores[1].read_output(&queue("q"), task_id(1), 0, ALL).await.unwrap();
    assert!(output.text == text && output.start == 0, "{} bytes from {}", output.text.len(), output.start);
    servers.end().await;
}

/// Each run prints a letter of its own, and its next piece pushes out the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_beside_sends_gives_bytes_of_one_run_and_no_gaps() {
    let servers = with_a_run().await;
    let letter = |attempt: u64| char::from(b'a' + (attempt % 26) as u8);
    servers.fixture.ok(fail("q", 1, 1)).await;
    servers.fixture.claim(2).await;
    servers.fixture.ok(print(1, 2, 0, &letter(2).to_string())).await;
    let reader = Arc::clone(&servers.stores[1]);
    let reading = tokio::spawn(async move {
        let mut reads = 0_usize;
        loop {
            let output = reader.read_output(&queue("q"), task_id(1), 0, ALL).await.unwrap();
            let own = letter(output.attempt as u64);
            assert!(!output.text.is_empty() && output.text.chars().all(|one| one == own), "{output:?}");
            reads += 1;
            if output.ended && output.attempt == 42 {
                return reads;
            }
        }
    });
    for run in 3..=42_u64 {
        servers.fixture.ok(fail("q", 1, run - 1)).await;
        servers.fixture.claim(run).await;
        for n in 0..5 {
            let text = letter(run).to_string().repeat(5_000);
            servers.fixture.ok(AddOutput { most_bytes: 6_000, ..print(1, run, n * 5_000, &text) }).await;
        }
    }
    servers.fixture.ok(complete("q", 1, 42, object("{}"))).await;
    assert!(reading.await.unwrap() > 10);
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_and_telemetry_of_two_servers_do_not_undo_each_other() {
    let servers = with_a_run().await;
    let (here, there) = (&servers.fixture.store, &servers.stores[1]);
    here.write(observe("q", 1, "default", WorkerStatus::Idle)).await.unwrap();
    for round in 0..40 {
        servers.fixture.clock.advance_micros(1);
        let status = if round % 2 == 0 { WorkerStatus::Busy } else { WorkerStatus::Idle };
        let telemetry = format!(r#"{{"round":{round}}}"#);
        let (reported, measured) =
            tokio::join!(here.write(observe("q", 1, "default", status)), there.write(measure(1, &telemetry)));
        assert_eq!((reported, measured), (Ok(()), Ok(())));
        let query = ObservationQuery { filter: None, limit: 10, after: None };
        let page = here.list_workers(&queue("q"), query).await.unwrap();
        let [observation] = &page.items[..] else { panic!("{page:?}") };
        assert_eq!(observation.report.status, status, "round {round}");
        assert_eq!(observation.telemetry.as_ref().unwrap().value.as_str(), telemetry, "round {round}");
    }
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_output_of_deleted_tasks_and_queues_is_removed() {
    let servers = with_a_run().await;
    servers.fixture.ok(complete("q", 1, 1, object("{}"))).await;
    for id in 2..=20 {
        servers.fixture.create_running(id, Definition::default()).await;
        servers.fixture.ok(AddOutput { most_bytes: ALL, ..print(id, id, 0, &"x".repeat(20_000)) }).await;
        servers.fixture.ok(complete("q", id, id, object("{}"))).await;
    }
    assert_eq!(servers.count("outputs"), "19");
    servers.fixture.ok(delete("q", 2)).await;
    servers.fixture.ok(act_on_all("q", BulkAction::Delete, &format!("id != '{}'", task_id(20)))).await;
    assert_eq!(servers.count("outputs"), "1");
    servers.fixture.scan().await;
    eventually("their pieces are removed", || servers.count("output_pieces") == "5");
    servers.fixture.ok(delete_queue("q", true)).await;
    servers.fixture.scan().await;
    for table in ["output_pieces", "outputs", "output_purges"] {
        eventually("nothing is left", || servers.count(table) == "0");
    }
    servers.end().await;
}
