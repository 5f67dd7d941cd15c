//! A server that answers the first batches of new tasks and then no more, to see what a command does that is interrupted while it
//! waits.

use serde_json::{Value, json};
use taskqueue_client::capabilities::FEATURES;

use crate::support::{FakeServer, reply};

/// What the requests for batches contain.
pub(crate) const BATCH_REQUEST: &str = "/tasks/batch/create ";

/// Answers so many batches.
pub(crate) fn holding_server(answers: usize) -> FakeServer {
    let mut answered = 0;
    FakeServer::start(move |request| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        if head.contains("/capabilities ") {
            return reply("200 OK", &json!({"features": FEATURES}).to_string());
        }
        answered += 1;
        if answered <= answers { reply("200 OK", &created(body)) } else { None }
    })
}

fn created(body: &str) -> String {
    let request: Value = serde_json::from_str(body).unwrap();
    let items = request["tasks"].as_array().unwrap().iter();
    let items: Vec<Value> = items.map(|task| json!({"id": task["id"], "outcome": "created"})).collect();
    json!({"items": items}).to_string()
}
