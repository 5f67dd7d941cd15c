//! `taskqueue-bench bulk`: how fast a bulk action cancels many pending tasks, and how long others wait meanwhile (row 24 of the
//! goals). Another client creates, claims and completes in another queue all the while, on one connection.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::another_client::{HEADING, Over, Waits};
use crate::args::BulkArgs;
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::{answer_parser, fill, output, request, table};

/// Every task of the queue matches, and the server must look into its args to see it.
const FILTER: &str = "args.group >= 0";
/// How long the other client is watched before, with nobody else there.
const ALONE: Duration = Duration::from_secs(2);

struct Round {
    tasks_per_second: f64,
    alone: Waits,
    meanwhile: Waits,
}

pub(crate) async fn run(args: &BulkArgs) -> Result<Results> {
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        output::progress(&format!("round {round} of {}: preparing {} pending tasks", args.rounds, args.tasks));
        rounds.push(measure(args).await?);
    }
    let rate = median(rounds.iter().map(|round| round.tasks_per_second).collect());
    let alone = Waits::merged(rounds.iter().map(|round| &round.alone));
    let meanwhile = Waits::merged(rounds.iter().map(|round| &round.meanwhile));
    let longest = meanwhile.claim.max_nanos() as f64 / 1e6;
    let judged = vec![
        Judged::at_least(24, &format!("bulk cancel of {}, tasks/s", args.tasks), rate, 30_000.0, 100_000.0),
        Judged::at_most(24, "longest claim of another client meanwhile, ms", longest, 200.0, 50.0),
    ];
    let figures = json!({
        "tasks": args.tasks, "tasks_per_second": rate, "alone": alone.json(), "meanwhile": meanwhile.json(),
    });
    let rows = [alone.rows("alone"), meanwhile.rows("meanwhile")].concat();
    let table = table::render(&HEADING, &rows, 2);
    let text = format!("{} pending tasks cancelled: {rate:.0} per second\n\n{table}", args.tasks);
    Ok(Results { text, figures, judged })
}

async fn measure(args: &BulkArgs) -> Result<Round> {
    let scratch = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
    let (address, queue, numbers) = (server.address, Phase::BulkUpdate.queue(), Rc::<Numbers>::default());
    fill::fill(address, queue, args.tasks, numbers.clone()).await?;
    let (begin, is_over) = (Instant::now(), Rc::new(Cell::new(false)));
    let alone = Waits::measure(address, &numbers, || begin.elapsed() >= ALONE).await?;
    output::progress("cancelling");
    let cancelling = tokio::task::spawn_local(cancel(address, queue, args.tasks, is_over.clone()));
    let meanwhile = Waits::measure(address, &numbers, || is_over.get()).await?;
    let tasks_per_second = cancelling.await.map_err(|error| Failure::new(error.to_string()))??;
    Ok(Round { tasks_per_second, alone, meanwhile })
}

/// Cancels all pending tasks of a queue with one request; how many per second.
async fn cancel(address: SocketAddr, queue: &str, expected: u64, is_over: Rc<Cell<bool>>) -> Result<f64> {
    let _over = Over(is_over);
    let path = format!("/api/v2/queues/{queue}/tasks/bulk/cancel");
    let body = format!(r#"{{"filter":"{FILTER}","expect":{expected}}}"#);
    let mut client = Client::connect(address).await?;
    let begin = Instant::now();
    let answer = client.send(request::with_body("POST", address, &path, &body).as_bytes()).await?;
    let seconds = begin.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(answer.body);
    let changed = serde_json::from_str::<Value>(&text).ok().and_then(|answer| answer["changed"].as_u64());
    let cancelled = fill::count(address, queue, "cancelled").await?;
    if (changed, cancelled) == (Some(expected), expected) {
        return Ok(expected as f64 / seconds);
    }
    let code = answer_parser::error_code(text.as_bytes()).unwrap_or(&text);
    Err(Failure::new(format!("the bulk action was answered with {code}, and {cancelled} tasks are cancelled")))
}
