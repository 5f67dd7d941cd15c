//! Reads of output that wait, over real sockets, with the model behind them: what is answered when, and that nothing is held for a
//! client that has disconnected; and what holds for all requests that wait.

use taskqueue_core::ids::RunId;
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::TaskAction;
use taskqueue_store::StoreExt;
use taskqueue_store::command::{ActOnTask, ReportProgress};
use tokio::io::AsyncWriteExt;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::support::served::*;

fn body(start: u64, text: &str, ended: bool) -> String {
    let end = start + text.len() as u64;
    format!(r#"{{"attempt":1,"start":{start},"end":{end},"text":"{text}","ended":{ended}}}"#)
}

impl Served {
    /// Task `n`, running as run `n`, which has printed `abc`.
    async fn create_printing(&self, n: usize) {
        self.create_running(n).await;
        self.print(n, 0, "abc").await;
    }
}

/// A server with task 1, running as run 1, which has printed `abc`.
async fn printing() -> Served {
    let served = serve(10).await;
    served.create_printing(1).await;
    served
}

#[tokio::test]
async fn a_waiting_read_is_answered_by_output_and_its_connection_goes_on() {
    let served = printing().await;
    let mut stream = served.connect().await;
    for n in 0..5 {
        let offset = 3 + n;
        stream.write_all(read_output("GET", 1, &format!("?offset={offset}"), WAIT).as_bytes()).await.unwrap();
        served.await_watching(1).await;
        served.print(1, offset, "x").await;
        let (head, text) = read(&mut stream).await;
        assert_eq!(status_and_wait(&head), ("200", Some("wait=50")));
        assert!(head.contains("taskqueue-server-version: ") && head.contains("\r\ncontent-type: application/json\r\n"));
        assert_eq!(text, body(offset, "x", false));
    }
    // A request that was sent behind a waiting one is answered behind it.
    let both = read_output("GET", 1, "?offset=8", WAIT)
        + "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(both.as_bytes()).await.unwrap();
    served.await_watching(1).await;
    served.print(1, 8, "y").await;
    assert_eq!(read(&mut stream).await.1, body(8, "y", false));
    assert!(read(&mut stream).await.1.contains("api_version"));
    assert!(is_closed(&mut stream).await);
    assert!(served.store.waiters().is_empty());
}

#[tokio::test]
async fn what_is_there_already_is_answered_at_once() {
    let served = printing().await;
    for (query, text) in [("", "abc"), ("?offset=0", "abc"), ("?offset=2", "c")] {
        let (head, answer) = read(&mut served.send(&read_output("GET", 1, query, WAIT)).await).await;
        assert_eq!(status_and_wait(&head), ("200", Some("wait=50")));
        assert_eq!(answer, body(3 - text.len() as u64, text, false));
    }
    served.cancel(1).await;
    let (head, answer) = read(&mut served.send(&read_output("GET", 1, "?offset=9", WAIT)).await).await;
    assert_eq!((status_and_wait(&head).0, answer), ("200", body(3, "", true)));
    assert!(served.store.waiters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_as_long_as_it_was_asked_for_and_no_timeout_ends_it() {
    let served = printing().await;
    for (wanted, given) in [(Some(5), 5), (Some(600), 60), (None, 0)] {
        let headers = wanted.map_or_else(String::new, |seconds: u32| format!("prefer: wait={seconds}\r\n"));
        let applied = wanted.map(|_| format!("wait={given}"));
        let requests = [
            (claim(9, &headers), "204", Some(String::new())),
            (heartbeat(1, &headers), "200", None),
            (read_output("GET", 1, "?offset=3", &headers), "200", Some(body(3, "", false))),
        ];
        for (request, status, expected) in requests {
            let begun = Instant::now();
            let (head, text) = read(&mut served.send(&request).await).await;
            let elapsed = begun.elapsed().as_secs();
            assert_eq!((status_and_wait(&head), elapsed), ((status, applied.as_deref()), given), "{request}");
            match expected {
                Some(expected) => assert_eq!(text, expected),
                None => assert!(text.contains("lease_expires_at"), "{text}"),
            }
        }
    }
    assert!(served.store.waiters().is_empty());
}

#[tokio::test]
async fn head_waits_like_get_and_has_its_length_without_its_body() {
    let served = printing().await;
    let at_once = served.send(&(read_output("HEAD", 1, "", "") + HEALTH)).await;
    let waiting = served.send(&(read_output("HEAD", 1, "?offset=3", WAIT) + HEALTH)).await;
    served.await_watching(1).await;
    served.print(1, 3, "def").await;
    for mut stream in [at_once, waiting] {
        let mut text = Vec::new();
        while !text.ends_with(b"}") {
            tokio::io::AsyncReadExt::read_buf(&mut stream, &mut text).await.unwrap();
        }
        let text = String::from_utf8(text).unwrap().to_lowercase();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body(3, "def", false).len())), "{head}");
        assert!(rest.starts_with("http/1.1 200 ok") && rest.contains("api_version"), "{rest}");
    }
}

#[tokio::test]
async fn all_requests_that_wait_share_one_cap() {
    let served = serve(2).await;
    served.create_printing(1).await;
    served.create_running(2).await;
    let answered = async |request: &str| read(&mut served.send(request).await).await;
    let output = read_output("GET", 1, "?offset=3", WAIT);
    let waiting = served.send(&claim(9, WAIT)).await;
    served.await_waiting(1).await;
    let _held = served.send(&heartbeat(1, WAIT)).await;
    served.await_held(1).await;
    let (head, text) = answered(&output).await;
    assert_eq!((status_and_wait(&head), text), (("200", None), body(3, "", false)));
    for (request, status) in [(heartbeat(2, WAIT), "200"), (claim(10, WAIT), "204")] {
        assert_eq!(status_and_wait(&answered(&request).await.0), (status, None));
    }
    drop(waiting);
    served.await_waiting(0).await;
    let reading = served.send(&output).await;
    served.await_watching(1).await;
    assert_eq!(status_and_wait(&answered(&claim(10, WAIT)).await.0), ("204", None));
    drop(reading);
    served.await_watching(0).await;
    let _held = served.send(&heartbeat(2, WAIT)).await;
    served.await_held(2).await;
}

/// Heartbeats that are held, and reads of output that wait.
#[tokio::test]
async fn who_is_gone_is_not_waited_for_and_who_is_done_with_sending_or_sends_too_much_is_answered_at_once() {
    for request in [heartbeat(1, WAIT), read_output("GET", 1, "?offset=3", WAIT)] {
        let served = printing().await;
        let await_waiting = async |count| served.await_count(count, || served.store.waiters().len()).await;
        for by_reset in [false, true] {
            let disconnected = served.send(&request).await;
            await_waiting(1).await;
            if by_reset {
                disconnected.set_zero_linger().unwrap();
            }
            drop(disconnected);
            await_waiting(0).await;
        }
        let mut half = served.send(&request).await;
        await_waiting(1).await;
        half.shutdown().await.unwrap();
        let (head, text) = read(&mut half).await;
        assert_eq!(status_and_wait(&head), ("200", None), "{request}");
        let expected = if request.starts_with("GET") { body(3, "", false) } else { "{\"lease_expires_at\":".into() };
        assert!(text.starts_with(&expected), "{text}");
        let mut eager = served.send(&(request.clone() + &HEALTH.repeat(200))).await;
        assert_eq!(status_and_wait(&read(&mut eager).await.0), ("200", None), "{request}");
        for _ in 0..200 {
            assert!(read(&mut eager).await.1.contains("api_version"));
        }
        let mut waiting = [served.send(&request).await, served.send(&request).await];
        await_waiting(2).await;
        served.server.stop.send(()).unwrap();
        for stream in &mut waiting {
            assert_eq!(status_and_wait(&read(stream).await.0), ("200", None), "{request}");
            assert!(is_closed(stream).await);
        }
        timeout(LIMIT, served.server.running).await.unwrap().unwrap();
    }
}

/// Many clients in a row on one connection: a wait must leave nothing behind that disturbs the requests after it.
#[tokio::test]
async fn a_write_behind_a_wait_is_not_taken_for_a_read_that_ends_with_its_client() {
    let served = printing().await;
    let mut stream = served.send(&read_output("GET", 1, "?offset=3", WAIT)).await;
    served.await_watching(1).await;
    served.print(1, 3, "d").await;
    assert_eq!(read(&mut stream).await.1, body(3, "d", false));
    // The claim waits with a closed sending side: a client that is only half gone gets its answer.
    stream.write_all(claim(9, "").as_bytes()).await.unwrap();
    assert_eq!(status_and_wait(&read(&mut stream).await.0), ("204", None));
    stream.write_all(claim(9, WAIT).as_bytes()).await.unwrap();
    served.await_waiting(1).await;
    stream.shutdown().await.unwrap();
    assert_eq!(status_and_wait(&read(&mut stream).await.0), ("204", None));
}

#[tokio::test]
async fn output_of_a_later_run_ends_the_wait_for_that_of_an_earlier_one() {
    let served = printing().await;
    let mut stream = served.send(&read_output("GET", 1, "?offset=3", WAIT)).await;
    served.await_watching(1).await;
    served.cancel(1).await;
    assert_eq!(read(&mut stream).await.1, body(3, "", true));
    served.store.write(ActOnTask { queue: queue(), id: task_id(1), action: TaskAction::Requeue }).await.unwrap();
    assert_eq!(status_and_wait(&read(&mut served.send(&claim(7, "")).await).await.0).0, "200");
    let (_, text) = read(&mut served.send(&read_output("GET", 1, "?offset=3", WAIT)).await).await;
    assert_eq!(text, body(3, "", true), "the second run has not printed yet");
}

#[tokio::test]
async fn a_held_heartbeat_that_is_executed_again_does_not_bring_its_progress_back() {
    let served = serve(10).await;
    served.create_running(1).await;
    let run_id = RunId::parse("r_000000000001").unwrap();
    let progress = |n| JsonObject::from_canonical(&format!(r#"{{"step":{n}}}"#));
    let shown = async || served.store.get_task(&queue(), task_id(1)).await.unwrap().outcome.progress.unwrap().value;
    let sent = heartbeat(1, WAIT).replace("content-length: 27", "content-length: 49");
    let sent = sent.replace(r#""}"#, r#"","progress":{"step":1}}"#);
    let mut held = served.send(&sent).await;
    let recorded = async {
        while served.store.get_task(&queue(), task_id(1)).await.unwrap().outcome.progress.is_none() {
            yield_now().await;
        }
    };
    timeout(LIMIT, recorded).await.unwrap();
    let report = ReportProgress { queue: queue(), id: task_id(1), run_id, progress: progress(2) };
    served.store.write(report).await.unwrap();
    let lease = served.store.get_task(&queue(), task_id(1)).await.unwrap().lifecycle.run.unwrap().lease_expires_at;
    // A wake-up without a reason: the heartbeat is executed again.
    served.clock.advance_seconds(1);
    served.store.waiters().run_ended(run_id);
    let renewed = async {
        while served.store.get_task(&queue(), task_id(1)).await.unwrap().lifecycle.run.unwrap().lease_expires_at
            == lease
        {
            yield_now().await;
        }
    };
    timeout(LIMIT, renewed).await.unwrap();
    assert_eq!(shown().await, progress(2));
    served.cancel(1).await;
    assert_eq!(status_and_wait(&read(&mut held).await.0), ("409", None));
}
