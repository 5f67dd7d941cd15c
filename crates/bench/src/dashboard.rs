//! `taskqueue-bench dashboard`: how long the pages of the dashboard take with many tasks, what a page costs that is left open, and what
//! claims keep of their throughput beside many open ones (rows 36 to 38 of the goals). A page is asked for as a browser does it: again
//! after as many seconds as the page says.

mod viewers;

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use self::viewers::{State, Viewers};
use crate::args::DashboardArgs;
use crate::claim_turns::ClaimTurns;
use crate::client::{Client, QueueClient};
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::load::Measured;
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::{Operation, Phase};
use crate::process::{Server, scratch};
use crate::report::milliseconds;
use crate::results::Results;
use crate::usage::Usage;
use crate::{fill, output, request, table};

/// Until all viewers have asked once.
const SETTLING: Duration = Duration::from_secs(3);

/// How long one page took, and how large it is.
struct PageFigures {
    path: String,
    latency: Latencies,
    bytes: usize,
}

pub(crate) async fn run(args: &DashboardArgs) -> Result<Results> {
    let scratch = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
    let numbers: Rc<Numbers> = Rc::default();
    let queue = Phase::ClaimComplete.queue();
    output::progress(&format!("{} tasks, a third of them finished", args.tasks));
    fill::fill(server.address, queue, args.tasks / 3, numbers.clone()).await?;
    fill::complete_all(server.address, queue, &numbers).await?;
    fill::fill(server.address, queue, args.tasks - args.tasks / 3, numbers.clone()).await?;
    let paths = paths(&server, &numbers).await?;
    let mut pages = Vec::new();
    for path in &paths {
        output::progress(&format!("{path}, {} times", args.requests));
        pages.push(ask(&server, path, args.requests).await?);
    }
    let share = open_share(&server, paths[1].clone(), args.seconds).await?;
    let viewers = Viewers::start(server.address, &paths, usize::from(args.viewers));
    let mut turns = ClaimTurns::new(server, numbers, args.seconds);
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        output::progress(&format!("round {} of {}", round + 1, args.rounds));
        rounds.push(one_round(&mut turns, &viewers, round % 2 == 1).await?);
    }
    let asked = viewers.end()?;
    Ok(results(args, &pages, share, &rounds, asked))
}

/// One of each page.
async fn paths(server: &Server, numbers: &Numbers) -> Result<Vec<String>> {
    let mut client = QueueClient::connect(server.address, Phase::ClaimComplete.queue()).await?;
    let number = numbers.next_task();
    let answer = client.send(Operation::Create, number, 0).await?;
    let text = String::from_utf8_lossy(answer.body).into_owned();
    let id = text
        .split('"')
        .find(|part| part.starts_with("t_"))
        .ok_or_else(|| Failure::new("no task was created".to_owned()))?;
    let of_queue = |rest: &str| format!("/ui/queues/{}/{rest}", Phase::ClaimComplete.queue());
    let of_queue_paths = ["tasks", "workers", "routes", "compare", "submit"].map(of_queue);
    let all = ["/ui/".to_owned(), of_queue("tasks"), of_queue(&format!("tasks/{id}")), "/ui/system".to_owned()];
    Ok(all.into_iter().chain(of_queue_paths.into_iter().skip(1)).collect())
}

async fn ask(server: &Server, path: &str, requests: u32) -> Result<PageFigures> {
    let (mut client, request) = (Client::connect(server.address).await?, request::get(server.address, path));
    let (mut latency, mut bytes) = (Latencies::default(), 0);
    for number in 0..=requests {
        let begin = Instant::now();
        let answer = client.send(&request).await?;
        if answer.status != 200 {
            return Err(Failure::new(format!("{path} was answered with {}", answer.status)));
        }
        bytes = answer.body.len();
        // The first one warms up.
        if number > 0 {
            latency.record(begin.elapsed());
        }
    }
    Ok(PageFigures { path: path.to_owned(), latency, bytes })
}

/// The share of a core that a page costs which is left open, without what the server does anyway.
async fn open_share(server: &Server, path: String, seconds: f64) -> Result<f64> {
    let period = Duration::from_secs_f64(seconds * 4.0);
    let used = async || -> Result<f64> {
        let before = Usage::of(server.pid())?.cpu_seconds;
        sleep(period).await;
        Ok((Usage::of(server.pid())?.cpu_seconds - before) / period.as_secs_f64())
    };
    output::progress("an idle server");
    let idle = used().await?;
    output::progress("an open page");
    let viewers = Viewers::start(server.address, &[path], 1);
    viewers.set(State::Looking);
    let open = used().await?;
    viewers.end()?;
    Ok((open - idle).max(0.0))
}

async fn one_round(turns: &mut ClaimTurns, viewers: &Viewers, beside_first: bool) -> Result<(Measured, Measured)> {
    let before = if beside_first { None } else { Some(turns.turn().await?) };
    turns.prepare().await?;
    viewers.set(State::Looking);
    sleep(SETTLING).await;
    let beside = turns.measure().await?;
    viewers.set(State::Away);
    let alone = match before {
        Some(alone) => alone,
        None => turns.turn().await?,
    };
    Ok((alone, beside))
}

fn results(
    args: &DashboardArgs,
    pages: &[PageFigures],
    share: f64,
    rounds: &[(Measured, Measured)],
    asked: u64,
) -> Results {
    let slowest = pages.iter().map(|page| page.latency.quantile_nanos(0.99)).max().unwrap_or(0) as f64 / 1e6;
    let kept = median(rounds.iter().map(|(alone, beside)| beside.rate() / alone.rate()).collect());
    let judged = vec![
        Judged::at_most(36, &format!("slowest page with {} tasks, p99 ms", args.tasks), slowest, 50.0, 20.0),
        Judged::at_most(37, "an open page, share of a core", share, 0.005, 0.002),
        Judged::over_baseline(38, &format!("claim-complete beside {} open pages", args.viewers), kept, 0.97, 0.99),
    ];
    let row = |page: &PageFigures| {
        let times = [0.5, 0.99].map(|share| milliseconds(page.latency.quantile_nanos(share)));
        let mut row = vec![page.path.clone(), page.bytes.to_string()];
        row.extend(times);
        row.push(milliseconds(page.latency.max_nanos()));
        row
    };
    let rows: Vec<Vec<String>> = pages.iter().map(row).collect();
    let table = table::render(&["page", "bytes", "p50 ms", "p99", "max"], &rows, 1);
    let text = format!(
        "{table}\nan open page costs {:.2} % of a core\nclaim-complete keeps {kept:.3} beside {} open pages ({asked} asked for)\n",
        100.0 * share,
        args.viewers,
    );
    let page_json = |page: &PageFigures| {
        json!({ "path": page.path, "bytes": page.bytes, "p50_nanoseconds": page.latency.quantile_nanos(0.5),
                "p99_nanoseconds": page.latency.quantile_nanos(0.99), "max_nanoseconds": page.latency.max_nanos() })
    };
    let figures = json!({
        "tasks": args.tasks, "pages": pages.iter().map(page_json).collect::<Vec<_>>(), "open_page_core_share": share,
        "viewers": args.viewers, "claim_complete_kept": kept, "pages_asked_for": asked,
    });
    Results { text, figures, judged }
}
