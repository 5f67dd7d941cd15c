//! Those who follow: each asks for what comes next of one task, and waits for it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use serde_json::Value;

use super::printing::{self, Reading};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::{pickup, request};

/// Follows a task as long as it runs, and records how old each piece is when it is there.
pub(super) async fn follow(
    mut client: Client,
    at: SocketAddr,
    mut reading: Reading,
    latencies: Rc<RefCell<Latencies>>,
) -> Result<()> {
    loop {
        let request = request::with_wait(&reading.request(at), pickup::LONGEST_SECONDS);
        let answer = client.send(&request).await?;
        let now = Instant::now();
        let body: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let (Some(text), Some(end), false) = (body["text"].as_str(), body["end"].as_u64(), body["ended"] == true)
        else {
            return Err(Failure::new(format!("a follower was answered with {} {body}", answer.status)));
        };
        let mut latencies = latencies.borrow_mut();
        printing::ages(text, now).for_each(|age| latencies.record(age));
        reading.offset = end;
    }
}
