//! Another client, which creates, claims and completes one task after the other in a queue of its own while something else is
//! measured: how long its requests took.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::answer_parser;
use crate::client::QueueClient;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::numbered_ids::Numbers;
use crate::operation::{Operation, Phase};
use crate::report::milliseconds;

/// The columns of [`Waits::rows`].
pub(crate) const HEADING: [&str; 6] = ["another client", "requests", "count", "p50 ms", "p99", "max"];

/// How long its requests took.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) create: Latencies,
    pub(crate) claim: Latencies,
    pub(crate) complete: Latencies,
}

/// Says that it is over when it is dropped, so that the other client ends whatever happens.
pub(crate) struct Over(pub(crate) Rc<Cell<bool>>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl Waits {
    /// Lets the client work until it is over.
    pub(crate) async fn measure(address: SocketAddr, numbers: &Numbers, is_over: impl Fn() -> bool) -> Result<Self> {
        let mut client = QueueClient::connect(address, Phase::Lifecycle.queue()).await?;
        let mut waits = Self::default();
        while !is_over() {
            let (task, run) = (numbers.next_task(), numbers.next_run());
            for (operation, latency) in [
                (Operation::Create, &mut waits.create),
                (Operation::Claim, &mut waits.claim),
                (Operation::Complete, &mut waits.complete),
            ] {
                let begin = Instant::now();
                let answer = client.succeed(operation, task, run).await?;
                latency.record(begin.elapsed());
                if operation == Operation::Claim && answer_parser::claimed_task(answer.body) != Some(task) {
                    return Err(Failure::new("a claim did not get the only task".to_owned()));
                }
            }
        }
        Ok(waits)
    }

    /// All of several rounds.
    pub(crate) fn merged<'w>(rounds: impl IntoIterator<Item = &'w Self>) -> Self {
        let mut all = Self::default();
        for round in rounds {
            all.create.merge(&round.create);
            all.claim.merge(&round.claim);
            all.complete.merge(&round.complete);
        }
        all
    }

    pub(crate) fn rows(&self, when: &str) -> Vec<Vec<String>> {
        let row = |(what, latency): (&str, &Latencies)| {
            let mut row = vec![when.to_owned(), what.to_owned(), latency.count().to_string()];
            row.extend([0.5, 0.99].map(|share| milliseconds(latency.quantile_nanos(share))));
            row.push(milliseconds(latency.max_nanos()));
            row
        };
        [("create", &self.create), ("claim", &self.claim), ("complete", &self.complete)].into_iter().map(row).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let of = |latency: &Latencies| json!({ "p50": latency.quantile_nanos(0.5), "p99": latency.quantile_nanos(0.99), "max": latency.max_nanos() });
        json!({ "create_nanoseconds": of(&self.create), "claim_nanoseconds": of(&self.claim), "complete_nanoseconds": of(&self.complete) })
    }
}
