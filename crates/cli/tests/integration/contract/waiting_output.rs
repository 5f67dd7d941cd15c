//! Reads of output that wait (`Prefer: wait=N`, docs/reference/http-api.md §14.11), and output that is sent while the server is
//! killed.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

/// The log line when a read starts to wait.
const WAITS: &str = "a read of output waits";

/// Task `n`, running as run `n`, which has printed `abc`.
fn printing(server: &Server, n: usize) {
    server.create_running(n);
    server.send(&output_request(n, n, 0, "abc")).expect(204);
}

/// A read behind `offset`, which waits.
fn waiting(n: usize, offset: usize) -> Request {
    Request::new("GET", &of_task(n, &format!("/output?offset={offset}"))).waiting(25)
}

#[track_caller]
fn assert_output(waiting: &mut Connection, start: usize, text: &str, ended: bool, applied: Option<&str>) {
    let answer = waiting.read_response(true).unwrap().expect(200);
    let expected = json!({"attempt": 1, "start": start, "end": start + text.len(), "text": text, "ended": ended});
    assert_eq!((answer.json(), answer.header("Preference-Applied")), (expected, applied));
}

#[test]
fn a_read_waits_until_the_run_prints_or_ends() {
    let server = Server::with_debug_log();
    printing(&server, 1);
    printing(&server, 2);
    let wait = |n: usize| server.begin_until_logged(&waiting(n, 3), WAITS);
    let mut both = [wait(1), wait(1)];
    let mut other = wait(2);
    let begun = Instant::now();
    server.send(&output_request(1, 1, 3, "d")).expect(204);
    both.iter_mut().for_each(|one| assert_output(one, 3, "d", false, Some("wait=25")));
    // The connection goes on, also with a read that waits again.
    assert_eq!(both[0].exchange(&Request::new("GET", "/health")).unwrap().status, 200);
    both[1].write(&waiting(1, 4).to_bytes()).unwrap();
    server.await_log_lines(WAITS, 4);
    server.act(1, "complete", 1).expect(204);
    assert_output(&mut both[1], 4, "", true, Some("wait=25"));
    server.cancel(2).expect(200);
    assert_output(&mut other, 3, "", true, Some("wait=25"));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_and_nothing_that_was_not_sent() {
    let mut server = Server::alone();
    (0..4).for_each(|n| printing(&server, n));
    let mut sent = [3; 4];
    for round in 0..3 {
        let line = |offset: usize| format!("{round} {offset}\n");
        let acknowledged = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..4)
                .map(|n| {
                    let (server, mut offset) = (&server, sent[n]);
                    scope.spawn(of_this_test(move || {
                        loop {
                            let text = line(offset);
                            match server.try_send(&output_request(n, n, offset, &text)) {
                                Ok(response) => drop(response.expect(204)),
                                Err(_) => return offset,
                            }
                            offset += text.len();
                        }
                    }))
                })
                .collect();
            let progressing = || server.get(&of_task(3, &format!("/output?offset={}", sent[3] + 500))).json();
            let begun = Instant::now();
            while progressing()["text"] == "" {
                assert!(begun.elapsed() < Duration::from_secs(30), "nothing is kept");
            }
            server.signal("KILL");
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect::<Vec<usize>>()
        });
        server.wait();
        server.start_again();
        for (n, acknowledged) in acknowledged.into_iter().enumerate() {
            let output = server.get(&of_task(n, &format!("/output?offset={}", sent[n]))).expect(200).json();
            let mut expected = String::new();
            while sent[n] + expected.len() < acknowledged {
                expected += &line(sent[n] + expected.len());
            }
            let text = output["text"].as_str().unwrap();
            let unanswered = line(acknowledged);
            assert!(text == expected || text == expected + &unanswered, "{n}: {text:?}");
            sent[n] += text.len();
        }
    }
}
