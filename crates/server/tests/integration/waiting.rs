//! Waiting claims and held heartbeats over real sockets, with the model behind them: what is answered when, and that a
//! disconnected client is not waited for.

use std::sync::Arc;

use taskqueue_core::task::Status;
use taskqueue_server::{Config, Limits};
use taskqueue_store::StoreExt;
use tokio::io::AsyncWriteExt;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use crate::support::served::*;

#[tokio::test]
async fn a_waiting_claim_is_answered_by_a_creation_and_its_connection_goes_on() {
    let served = serve(10).await;
    let mut stream = served.connect().await;
    for n in 0..5 {
        stream.write_all(claim(n, WAIT).as_bytes()).await.unwrap();
        served.await_waiting(1).await;
        served.create(n).await;
        let (head, body) = read(&mut stream).await;
        assert_eq!(status_and_wait(&head), ("200", Some("wait=50")));
        assert!(head.contains("taskqueue-server-version: ") && head.contains("\r\ndate: "), "{head}");
        assert!(body.contains(task_id(n).as_str()), "{body}");
    }
    // A request that was sent behind a waiting one is answered behind it.
    let both = claim(5, WAIT) + "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(both.as_bytes()).await.unwrap();
    served.await_waiting(1).await;
    served.create(5).await;
    assert_eq!(status_and_wait(&read(&mut stream).await.0), ("200", Some("wait=50")));
    assert!(read(&mut stream).await.1.contains("api_version"));
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn the_end_of_a_run_answers_all_its_held_heartbeats_and_their_connections_go_on() {
    let served = serve(10).await;
    served.create_running(1).await;
    served.create_running(2).await;
    let mut both = [served.send(&heartbeat(1, WAIT)).await, served.send(&heartbeat(1, WAIT)).await];
    let mut other = served.send(&heartbeat(2, WAIT)).await;
    served.await_held(3).await;
    let unclaim = heartbeat(1, "").replace("/heartbeat", "/unclaim");
    let mut ending = served.send(&unclaim).await;
    assert_eq!(status_and_wait(&read(&mut ending).await.0), ("204", None));
    for stream in &mut both {
        let (head, body) = read(stream).await;
        assert_eq!(status_and_wait(&head), ("409", None));
        assert!(body.contains(r#""code":"run_finalized""#) && body.contains(r#""action":"unclaim""#), "{body}");
        stream.write_all(HEALTH.as_bytes()).await.unwrap();
        assert!(read(stream).await.1.contains("api_version"));
    }
    served.await_held(1).await;
    served.cancel(2).await;
    let (head, body) = read(&mut other).await;
    assert_eq!(status_and_wait(&head), ("409", None));
    assert!(body.contains(r#""action":"cancel""#), "{body}");
}

#[tokio::test]
async fn a_connection_that_was_to_be_closed_is_closed_after_the_wait() {
    let served = serve(10).await;
    let old = claim(2, WAIT).replace("HTTP/1.1", "HTTP/1.0");
    for (n, request) in [(1, claim(1, "prefer: wait=50\r\nconnection: close\r\n")), (2, old)] {
        let mut stream = served.send(&request).await;
        served.await_waiting(1).await;
        served.create(n).await;
        assert_eq!(status_and_wait(&read(&mut stream).await.0), ("200", Some("wait=50")));
        assert!(is_closed(&mut stream).await);
    }
}

/// Sends a waiting claim with something behind it, at once or while it waits, and disconnects.
async fn send_and_disconnect(served: &Served, n: usize, behind: &[u8], at_once: bool, by_reset: bool) {
    let claim = claim(n, WAIT).into_bytes();
    let mut stream = served.connect().await;
    if at_once {
        stream.write_all(&[&claim, behind].concat()).await.unwrap();
        served.await_waiting(1).await;
    } else {
        stream.write_all(&claim).await.unwrap();
        served.await_waiting(1).await;
        stream.write_all(behind).await.unwrap();
    }
    if by_reset {
        stream.set_zero_linger().unwrap();
    }
}

#[tokio::test]
async fn a_client_that_sends_more_after_a_waiting_claim_and_disconnects_takes_nothing() {
    let requests = HEALTH.repeat(10);
    for behind in [&b"x"[..], HEALTH.as_bytes(), requests.as_bytes()] {
        for (at_once, by_reset) in [(true, false), (true, true), (false, false), (false, true)] {
            let served = serve(10).await;
            send_and_disconnect(&served, 1, behind, at_once, by_reset).await;
            served.await_waiting(0).await;
            served.create(1).await;
            let left = (served.count(Status::Pending).await, served.count(Status::Running).await);
            assert_eq!(left, (1, 0), "{} bytes {at_once} {by_reset}", behind.len());
        }
    }
}

#[tokio::test]
async fn a_client_that_sends_more_after_a_waiting_claim_than_is_kept_is_answered_at_once() {
    let served = serve(10).await;
    let many = 200;
    for at_once in [true, false] {
        let mut stream = served.connect().await;
        let (claim, behind) = (claim(1, WAIT), HEALTH.repeat(many));
        if at_once {
            stream.write_all((claim + &behind).as_bytes()).await.unwrap();
        } else {
            stream.write_all(claim.as_bytes()).await.unwrap();
            served.await_waiting(1).await;
            stream.write_all(behind.as_bytes()).await.unwrap();
        }
        assert_eq!(status_and_wait(&read(&mut stream).await.0), ("204", None));
        for _ in 0..many {
            assert!(read(&mut stream).await.1.contains("api_version"));
        }
    }
    assert!(served.store.waiters().is_empty());
}

#[tokio::test]
async fn at_the_connection_cap_waiting_claims_keep_their_connections() {
    let limits = Limits { waiting_cap: 2, ..Limits::default() };
    let served = serve_with(Config { connection_cap: 3, limits, ..Config::new(None) }).await;
    let mut waiting = [served.send(&claim(1, WAIT)).await, served.send(&claim(2, WAIT)).await];
    served.await_waiting(2).await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut other = served.send(HEALTH).await;
        assert_eq!(status_and_wait(&read(&mut other).await.0).0, "200");
        idle.push(other);
    }
    let last = idle.pop();
    for closed in &mut idle {
        assert!(is_closed(closed).await);
    }
    served.await_waiting(2).await;
    drop(last);
    for (n, stream) in waiting.iter_mut().enumerate() {
        served.create(n).await;
        assert_eq!(status_and_wait(&read(stream).await.0).0, "200");
    }
}

/// A client that disconnects at some moment of its request.
async fn disconnect_at(served: &Served, moment: usize, n: usize) {
    let request = claim(n, WAIT);
    let mut stream = served.connect().await;
    match moment {
        // In the middle of the request.
        0 => drop(stream.write_all(&request.as_bytes()[..n % request.len()]).await),
        // At once behind it, or some time later.
        _ => {
            stream.write_all(request.as_bytes()).await.unwrap();
            for _ in 0..moment * 3 {
                yield_now().await;
            }
        }
    }
    if n.is_multiple_of(3) {
        // By a reset instead of an orderly end.
        stream.set_zero_linger().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_clients_that_disconnect_at_any_moment_leave_nothing_behind() {
    const CLIENTS: usize = 10_000;
    const LANES: usize = 20;
    let served = Arc::new(serve(1_000).await);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let served = Arc::clone(&served);
        lanes.spawn(async move {
            for n in (lane..CLIENTS).step_by(LANES) {
                disconnect_at(&served, n / LANES % 7, n).await;
                // Now and then there is something to take.
                if (n / LANES).is_multiple_of(10) {
                    served.create(n).await;
                }
            }
        });
    }
    timeout(LIMIT, lanes.join_all()).await.unwrap();
    let none_waits = async {
        while !served.store.waiters().is_empty() {
            yield_now().await;
        }
    };
    timeout(LIMIT, none_waits).await.expect("a claim waits whose client has disconnected");
    // A task that was claimed at the moment of the disconnect is found again by its run (I3), and only by it.
    let (taken, left) = (served.count(Status::Running).await, served.count(Status::Pending).await);
    assert_eq!(taken + left, (CLIENTS / 10) as u64);
    let mut found = 0;
    for id in (0..CLIENTS).map(task_id) {
        let task = served.store.get_task(&queue(), id).await;
        let Some(run) = task.ok().and_then(|task| task.lifecycle.run) else { continue };
        let owner: usize = run.run_id.as_str()[2..].parse().unwrap();
        let (head, body) = read(&mut served.send(&claim(owner, "")).await).await;
        assert_eq!(status_and_wait(&head).0, "200");
        assert!(body.contains(id.as_str()), "{body}");
        found += 1;
    }
    assert_eq!(found, taken);
}
