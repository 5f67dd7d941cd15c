//! What runs print where several servers share a database: it is followed at another server, and sends that a killed server may
//! or may not have stored are repeated elsewhere.

use serde_json::{Value, json};

use super::{POLLED, found_by_next_poll, fresh_database, logging_server, logging_servers};
use crate::support::*;

const WAITS: &str = "a read of output waits";

fn read(offset: usize) -> Request {
    Request::new("GET", &of_task(1, &format!("/output?offset={offset}")))
}

/// A follower there reads what is sent here.
#[track_caller]
fn followed(here: &Server, there: &Server, offset: usize, text: &str) {
    let mut following = there.begin_until_logged(&read(offset).waiting(28), WAITS);
    // The first poll that sees a follower takes it for one that has missed something, and one may be under way.
    there.await_log_lines(POLLED, there.count_log_lines(POLLED) + 2);
    found_by_next_poll(there, || drop(here.send(&output_request(1, 1, offset, text)).expect(204)));
    let output = following.read_response(true).unwrap().expect(200).json();
    assert_eq!((&output["text"], &output["start"]), (&json!(text), &json!(offset)), "{output}");
}

/// What task 1 prints here is read there, and its end.
pub(super) fn assert_followed([here, there]: &[Server; 2]) {
    here.create(1, json!({}));
    assert_eq!(here.claimed(1), 1);
    here.send(&output_request(1, 1, 0, "0")).expect(204);
    (1..6).for_each(|offset| followed(here, there, offset, &offset.to_string()));
    let mut following = there.begin_until_logged(&read(6).waiting(28), WAITS);
    here.act(1, "complete", 1).expect(204);
    let output = following.read_response(true).unwrap().expect(200).json();
    assert_eq!((&output["text"], &output["end"], &output["ended"]), (&json!(""), &json!(6), &json!(true)), "{output}");
}

#[test]
fn a_follower_at_one_server_reads_what_is_sent_to_another() {
    assert_followed(&logging_servers(&fresh_database().url()));
}

/// The text is different at each offset, so that a byte that was stored twice or not at all is seen.
#[test]
fn what_a_killed_server_was_sent_is_there_once_after_it_was_repeated_elsewhere() {
    let database = fresh_database();
    let mut servers = logging_servers(&database.url());
    servers[0].create(1, json!({}));
    assert_eq!(servers[0].claimed(1), 1);
    let text: String = (0..9_000).map(|n| format!("{n:05}\n")).collect();
    let (mut sent, mut kills) = (0, 0);
    while sent < text.len() {
        let end = text.len().min(sent + 900);
        let request = output_request(1, 1, sent, &text[sent..end]);
        // A server is killed while it works on a send, and its worker repeats that at the other one.
        if sent / 900 % 15 == 7 {
            let _sending = servers[0].begin_request(&request);
            servers[0].kill();
            servers = [logging_server(&database.url()), logging_server(&database.url())];
            kills += 1;
        }
        servers[0].send(&request).expect(204);
        sent = end;
    }
    assert!(kills >= 4, "{kills}");
    let output: Value = servers[1].send(&read(0)).expect(200).json();
    let is_whole = output["text"] == json!(text) && output["end"] == json!(text.len());
    assert!(is_whole, "{} to {}", output["start"], output["end"]);
}
