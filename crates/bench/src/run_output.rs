//! `taskqueue-bench run-output`: what claims and completions keep of their throughput while 1,000 workers each send 1 KiB of
//! output and a progress report per second, and how soon those who follow a task have a line (row 31 of the goals). Both
//! loads are on one server, with and without each other in turns; who begins changes from round to round.

mod followers;
mod printing;
mod senders;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

pub(crate) use self::printing::{PIECE_BYTES, Printer};
use self::senders::{Senders, Sent, State};
use crate::args::RunOutputArgs;
use crate::claim_turns::ClaimTurns;
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::load::Measured;
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::{Operation, Phase};
use crate::process::{Server, scratch};
use crate::report::{mebibytes_text, milliseconds};
use crate::results::Results;
use crate::{disk, fill, output, pickup, request, table};

/// Until all workers send, and until the last answer is there when they stopped: each sends once a second.
const SETTLING: Duration = Duration::from_millis(1_500);
/// If less of what the workers were to send was sent, the throughput beside it says nothing.
const ENOUGH: f64 = 0.95;
/// What a task keeps, so that every piece pushes out an old one.
const KEPT_BYTES: usize = 262_144;

/// One turn alone, and one beside the senders.
struct Round {
    alone: Measured,
    beside: Measured,
    /// Requests per second of the senders meanwhile.
    outputs: f64,
    progress: f64,
}

pub(crate) async fn run(args: &RunOutputArgs) -> Result<Results> {
    let scratch = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
    let numbers: Rc<Numbers> = Rc::default();
    let missing = missing_features(&server).await?;
    if !missing.is_empty() {
        return Err(Failure::new(format!("the server does not have {}", missing.join(", "))));
    }
    let queue = Phase::ClaimComplete.queue();
    output::progress(&format!("{} finished tasks", args.finished));
    fill::fill(server.address, queue, args.finished, numbers.clone()).await?;
    fill::complete_all(server.address, queue, &numbers).await?;
    output::progress(&format!("{} running tasks with {KEPT_BYTES} bytes of output each", args.workers));
    let printers = running_tasks(&server, usize::from(args.workers), KEPT_BYTES, &numbers).await?;
    let syncs_per_second = disk::syncs_per_second(scratch.path())?;
    let senders = Senders::start((server.address, server.address), printers, usize::from(args.followers))?;
    let mut turns = ClaimTurns::new(server, numbers, args.seconds);
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        output::progress(&format!("round {} of {}", round + 1, args.rounds));
        rounds.push(one_round(&mut turns, &senders, round % 2 == 1).await?);
    }
    let follow = senders.end()?;
    Ok(results(args, &rounds, &follow, syncs_per_second))
}

async fn one_round(turns: &mut ClaimTurns, senders: &Senders, beside_first: bool) -> Result<Round> {
    let before = if beside_first { None } else { Some(turns.turn().await?) };
    let (beside, sent, seconds) = turn_beside(turns, senders).await?;
    let alone = match before {
        Some(alone) => alone,
        None => turns.turn().await?,
    };
    Ok(Round { alone, beside, outputs: sent.outputs as f64 / seconds, progress: sent.progress as f64 / seconds })
}

async fn turn_beside(turns: &mut ClaimTurns, senders: &Senders) -> Result<(Measured, Sent, f64)> {
    turns.prepare().await?;
    senders.set(State::Sending);
    sleep(SETTLING).await;
    let (before, begin) = (senders.sent(), Instant::now());
    let measured = turns.measure().await?;
    let (sent, seconds) = (senders.sent() - before, begin.elapsed().as_secs_f64());
    senders.set(State::Paused);
    sleep(SETTLING).await;
    Ok((measured, sent, seconds))
}

/// How old what these runs send to one server is when those who follow them at another have it.
pub(crate) async fn followed(
    addresses: (SocketAddr, SocketAddr),
    printers: Vec<Printer>,
    duration: Duration,
) -> Result<Latencies> {
    let count = printers.len();
    let senders = Senders::start(addresses, printers, count)?;
    senders.set(State::Sending);
    sleep(duration).await;
    senders.end()
}

pub(crate) fn follow_text(latency: &Latencies) -> String {
    let [p50, p99] = [0.5, 0.99].map(|share| milliseconds(latency.quantile_nanos(share)));
    let (max, count) = (milliseconds(latency.max_nanos()), latency.count());
    format!("a follower has it after it was sent, ms: p50 {p50}, p99 {p99}, max {max} ({count} pieces)")
}

/// What the server would need so that tasks can be followed, and does not have.
pub(crate) async fn missing_features(server: &Server) -> Result<Vec<&'static str>> {
    let mut client = Client::connect(server.address).await?;
    let answer = client.send(&request::get(server.address, "/api/v2/capabilities")).await?;
    let has = |feature: &str| String::from_utf8_lossy(answer.body).contains(&format!("\"{feature}\""));
    Ok(["output", "progress", "wait"].into_iter().filter(|feature| !has(feature)).collect())
}

/// Running tasks that have printed so much.
pub(crate) async fn running_tasks(
    server: &Server,
    count: usize,
    bytes: usize,
    numbers: &Numbers,
) -> Result<Vec<Printer>> {
    let mut client = Client::connect(server.address).await?;
    let mut requests = request::Requests::new(server.address, printing::QUEUE);
    let mut printers = Vec::with_capacity(count);
    for _ in 0..count {
        let (task, run) = (numbers.next_task(), numbers.next_run());
        for operation in [Operation::Create, Operation::Claim] {
            let answer = client.send(requests.of(operation).fill(task, run)).await?;
            if !operation.expects(answer.status) {
                return Err(Failure::new(format!("{operation:?} was answered with {}", answer.status)));
            }
        }
        let mut printer = Printer::new(server.address, task, run);
        printer.print(&mut client, bytes).await?;
        printers.push(printer);
    }
    Ok(printers)
}

fn results(args: &RunOutputArgs, rounds: &[Round], follow: &Latencies, syncs_per_second: f64) -> Results {
    let of = |quantity: fn(&Round) -> f64| median(rounds.iter().map(quantity).collect());
    let ratio = of(|round| round.beside.rate() / round.alone.rate());
    let (outputs, progress) = (of(|round| round.outputs), of(|round| round.progress));
    let workers = f64::from(args.workers);
    let sent_share = outputs.min(progress) / workers;
    let row = |what: &str, measured: fn(&Round) -> &Measured| {
        let median_of = |quantity: fn(&Measured) -> f64| {
            median(rounds.iter().map(|round| quantity(measured(round))).collect::<Vec<_>>())
        };
        let mut latency = Latencies::default();
        rounds.iter().for_each(|round| latency.merge(&measured(round).latency()));
        let rss = rounds.iter().map(|round| measured(round).rss_bytes).max().unwrap_or(0);
        let core = median_of(|measured| measured.cpu_seconds / measured.seconds);
        let mut row = vec![what.to_owned(), format!("{:.0}", median_of(Measured::rate))];
        row.extend([0.5, 0.99].map(|share| milliseconds(latency.quantile_nanos(share))));
        row.extend([milliseconds(latency.max_nanos()), format!("{core:.2}"), mebibytes_text(rss)]);
        row
    };
    let rows = [row("alone", |round| &round.alone), row("beside output", |round| &round.beside)];
    let heading = ["claim-complete", "req/s", "p50 ms", "p99", "max", "cores", "RSS MiB"];
    let table = table::render(&heading, &rows, 1);
    let each: Vec<String> =
        rounds.iter().map(|round| format!("{:.3}", round.beside.rate() / round.alone.rate())).collect();
    let text = format!(
        "{table}\n\nratio {ratio:.3} (rounds: {}), {syncs_per_second:.0} syncs/s\n\
         {workers} workers sent {outputs:.0} outputs/s of {PIECE_BYTES} bytes and {progress:.0} progress/s{}\n{}",
        each.join(" "),
        if sent_share < ENOUGH { ": too few, the ratio is void" } else { "" },
        follow_text(follow),
    );
    let figures = json!({
        "workers": args.workers, "finished": args.finished, "ratio": ratio, "syncs_per_second": syncs_per_second,
        "outputs_per_second": outputs, "progress_per_second": progress,
        "rounds": rounds.iter().map(Round::json).collect::<Vec<_>>(),
        "follow_nanoseconds": pickup::json(follow),
    });
    Results { text, figures, judged: judge(ratio, sent_share, follow) }
}

impl Round {
    fn json(&self) -> Value {
        json!({
            "alone_per_second": self.alone.rate(), "beside_per_second": self.beside.rate(),
            "outputs_per_second": self.outputs, "progress_per_second": self.progress,
        })
    }
}

fn judge(ratio: f64, sent_share: f64, follow: &Latencies) -> Vec<Judged> {
    // Without the load there is no figure.
    let ratio = if sent_share < ENOUGH { f64::NAN } else { ratio };
    // The worker may hold a line back for a second, and the follower is to have it after 1.5.
    let (after, must, aim) = (follow.quantile_millis(0.99), 500.0, 100.0);
    vec![
        Judged::over_baseline(
            31,
            "claim-complete, 64 connections: beside output and progress over alone",
            ratio,
            0.9,
            0.97,
        ),
        Judged::over_baseline(
            31,
            "output and progress sent, over one each per worker and second",
            sent_share,
            0.98,
            0.99,
        ),
        Judged::at_most(32, "a follower has what was sent, p99 ms", after, must, aim),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::Verdict;

    #[test]
    fn a_ratio_without_its_load_is_a_miss() {
        let mut follow = Latencies::default();
        follow.record(Duration::from_millis(20));
        let verdicts =
            |ratio, sent| judge(ratio, sent, &follow).iter().map(|judged| judged.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(0.98, 1.0), [Verdict::Aim; 3]);
        assert_eq!(verdicts(0.91, 0.985), [Verdict::Must, Verdict::Must, Verdict::Aim]);
        assert_eq!(verdicts(0.98, 0.5), [Verdict::Missed, Verdict::Missed, Verdict::Aim]);
    }
}
