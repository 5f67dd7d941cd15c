//! `taskqueue-bench work`: how many runs of `true` a worker makes in a second, compared with loops that only start and reap
//! it; and what an idle worker costs.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::args::WorkArgs;
use crate::failure::{Failure, Result};
use crate::fill::fill;
use crate::goals::Judged;
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::process::{Server, scratch};
use crate::report::{mebibytes, mebibytes_text};
use crate::results::Results;
use crate::table;
use crate::usage::Usage;

/// What every run is.
const PROGRAM: &str = "true";
/// How long a worker may take to become idle.
const SETTLING: Duration = Duration::from_secs(3);

/// Runs per second in one round.
struct Round {
    one_loop: f64,
    many_loops: f64,
    worker: f64,
}

/// What an idle worker takes; both of its processes.
struct Idle {
    worker_bytes: u64,
    keeper_bytes: u64,
    core_share: f64,
}

pub(crate) async fn run(args: &WorkArgs) -> Result<Results> {
    let scratch = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
    let numbers: Rc<Numbers> = Rc::default();
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        crate::output::progress(&format!("round {round} of {}", args.rounds));
        fill(server.address, Phase::ClaimComplete.queue(), args.tasks.into(), Rc::clone(&numbers)).await?;
        let one_loop = bare(args.tasks, 1).await?;
        let many_loops = bare(args.tasks, args.slots.into()).await?;
        let begin = Instant::now();
        let tasks = args.tasks.to_string();
        let mut worker = start(args, &server, scratch.path(), Phase::ClaimComplete.queue(), &["--max-tasks", &tasks])?;
        let ended = spawn_blocking(move || worker.wait()).await.map_err(|error| Failure::new(error.to_string()))??;
        if !ended.success() {
            return Err(Failure::new(format!("the worker ended with {ended}")));
        }
        rounds.push(Round { one_loop, many_loops, worker: rate(args.tasks, begin) });
    }
    crate::output::progress("a worker without anything to do");
    let mut worker = start(args, &server, scratch.path(), Phase::Poll.queue(), &[])?;
    let idle = idle(&worker, args.seconds).await;
    // Its other process ends when this one has ended.
    drop(worker.kill());
    worker.wait()?;
    Ok(results(args, &rounds, &idle?))
}

/// Starts and reaps so many processes, in so many loops at once; how many of them in a second.
async fn bare(processes: u32, loops: u32) -> Result<f64> {
    let begin = Instant::now();
    let one_loop =
        move || (0..processes / loops).try_for_each(|_| spawn().and_then(|mut child| child.wait().map(drop)));
    let loops_at_once: Vec<_> = (0..loops).map(|_| spawn_blocking(one_loop)).collect();
    for one in loops_at_once {
        one.await.map_err(|error| Failure::new(error.to_string()))??;
    }
    Ok(rate(processes / loops * loops, begin))
}

fn spawn() -> std::io::Result<Child> {
    Command::new(PROGRAM).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn rate(runs: u32, begin: Instant) -> f64 {
    f64::from(runs) / begin.elapsed().as_secs_f64()
}

fn start(args: &WorkArgs, server: &Server, folder: &Path, queue: &str, more: &[&str]) -> Result<Child> {
    let mut command = Command::new(&args.server.binary);
    command.args(["loop", "--url", &format!("http://{}", server.address), "--queue", queue]);
    command.args(["--jobs", &args.slots.to_string(), "--run-dir"]).arg(folder.join("runs"));
    command.args(more).args(["--", PROGRAM]);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

async fn idle(keeper: &Child, seconds: f64) -> Result<Idle> {
    sleep(SETTLING).await;
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", keeper.id()))?;
    let worker = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    let worker: u32 = worker.ok_or_else(|| Failure::new("the worker has no second process".to_owned()))?;
    let usage = || Ok::<_, Failure>((Usage::of(worker)?, Usage::of(keeper.id())?));
    let (begin, before) = (Instant::now(), usage()?);
    sleep(Duration::from_secs_f64(seconds)).await;
    let after = usage()?;
    let used = after.0.cpu_seconds + after.1.cpu_seconds - before.0.cpu_seconds - before.1.cpu_seconds;
    let core_share = used / begin.elapsed().as_secs_f64();
    Ok(Idle { worker_bytes: after.0.rss_bytes, keeper_bytes: after.1.rss_bytes, core_share })
}

fn results(args: &WorkArgs, rounds: &[Round], idle: &Idle) -> Results {
    let of = |quantity: fn(&Round) -> f64| median(rounds.iter().map(quantity).collect());
    let over_one = of(|round| round.worker / round.one_loop);
    let over_many = of(|round| round.worker / round.many_loops);
    let row = |what: String, rate: f64, share: f64| vec![what, format!("{rate:.0}"), format!("{share:.2}")];
    let rows = [
        row(format!("one loop of {PROGRAM}"), of(|round| round.one_loop), of(|round| round.worker / round.one_loop)),
        row(format!("{} loops at once", args.slots), of(|round| round.many_loops), over_many),
        row(format!("taskqueue loop --jobs {} -- {PROGRAM}", args.slots), of(|round| round.worker), 1.0),
    ];
    let table = table::render(&["what", "per second", "the worker over it"], &rows, 1);
    let [worker, keeper] = [idle.worker_bytes, idle.keeper_bytes].map(mebibytes_text);
    let share = idle.core_share * 100.0;
    let text = format!("{table}\n\nidle: worker {worker} MiB, keeper {keeper} MiB, {share:.2} % of one core");
    let figures = json!({
        "one_loop": of(|round| round.one_loop), "loops_at_once": of(|round| round.many_loops),
        "worker": of(|round| round.worker), "over_one_loop": over_one, "over_loops_at_once": over_many,
        "idle": { "worker_bytes": idle.worker_bytes, "keeper_bytes": idle.keeper_bytes, "core_share": idle.core_share },
    });
    Results { text, figures, judged: judge(over_one, idle) }
}

fn judge(over_one: f64, idle: &Idle) -> Vec<Judged> {
    vec![
        Judged::at_least(19, "runs of true over a bare loop of it", over_one, 0.6, 0.6),
        Judged::at_most(19, "RSS of an idle worker, MiB", mebibytes(idle.worker_bytes), 15.0, 15.0),
        Judged::at_most(19, "idle worker, share of one core", idle.core_share, 0.002, 0.002),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_judged_by_its_speed_its_memory_and_its_rest() {
        let idle = Idle { worker_bytes: 10 << 20, keeper_bytes: 0, core_share: 0.0 };
        let judged = judge(0.7, &idle);
        assert!((judged[1].measured - 10.0).abs() < 1e-9, "{judged:?}");
        assert_eq!(judged.len(), 3);
    }

    #[tokio::test]
    async fn a_bare_loop_runs_as_many_as_it_says() {
        assert!(bare(4, 2).await.unwrap() > 0.0);
    }
}
