//! `taskqueue-bench scrape`: how long `GET /metrics` takes with many queues and tasks, while somebody works (row 35 of the goals). A
//! server gives the same text for a second, so each scrape waits until the next one is computed.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::args::ScrapeArgs;
use crate::client::{Client, QueueClient};
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::numbered_ids::Numbers;
use crate::operation::{Operation, Phase};
use crate::process::{Server, scratch};
use crate::report::milliseconds;
use crate::results::Results;
use crate::{fill, output, request, table};

/// Longer than a text is given to others.
const PAUSE: Duration = Duration::from_millis(1_050);

pub(crate) async fn run(args: &ScrapeArgs) -> Result<Results> {
    let scratch = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
    let (address, numbers) = (server.address, Rc::<Numbers>::default());
    output::progress(&format!("preparing {} tasks in {} queues", args.tasks, args.queues));
    let mut client = Client::connect(address).await?;
    for number in 0..args.queues {
        // Requests are rendered for a queue that lives as long as the program.
        let queue: &'static str = format!("scraped-{number}").leak();
        client.send(&request::create_queue(address, queue)).await?;
        fill::fill(address, queue, args.tasks / args.queues, numbers.clone()).await?;
    }
    let (mut computed, mut shared, mut bytes) = (Latencies::default(), Latencies::default(), 0);
    let mut other = QueueClient::connect(address, Phase::Lifecycle.queue()).await?;
    for number in 1..=args.scrapes {
        output::progress(&format!("scrape {number} of {}", args.scrapes));
        other.succeed(Operation::Create, numbers.next_task(), 0).await?;
        tokio::time::sleep(PAUSE).await;
        for latencies in [&mut computed, &mut shared] {
            let begin = Instant::now();
            let answer = client.send(&request::get(address, "/metrics")).await?;
            latencies.record(begin.elapsed());
            bytes = answer.body.len();
            let is_whole = answer.body.windows(22).any(|part| part == b"taskqueue_figures_up 1");
            if answer.status != 200 || !is_whole {
                return Err(Failure::new(format!("a scrape was answered {} or without figures", answer.status)));
            }
        }
    }
    let median = computed.quantile_nanos(0.5) as f64 / 1e6;
    let what = format!("scrape with {} queues and {} tasks, median ms", args.queues, args.tasks);
    let judged = vec![Judged::at_most(35, &what, median, 20.0, 10.0)];
    let figures = json!({
        "queues": args.queues, "tasks": args.tasks, "bytes": bytes,
        "computed_nanoseconds": { "p50": computed.quantile_nanos(0.5), "max": computed.max_nanos() },
        "shared_nanoseconds": { "p50": shared.quantile_nanos(0.5), "max": shared.max_nanos() },
    });
    let row = |what: &str, latencies: &Latencies| {
        let times = [latencies.quantile_nanos(0.5), latencies.max_nanos()].map(milliseconds);
        [vec![what.to_owned(), latencies.count().to_string()], times.to_vec()].concat()
    };
    let rows = [row("computed", &computed), row("given again within a second", &shared)];
    let table = table::render(&["scrape", "count", "p50 ms", "max"], &rows, 1);
    Ok(Results { text: format!("{bytes} bytes\n\n{table}"), figures, judged })
}
