//! The one table of scenarios: what is prepared, what is sent, what is measured, must and aim; and the engine that runs its rows.

use crate::Result;
use crate::beside::Beside;
use crate::figures::Bound::{self, AtLeast, AtMost, Keeps, NoMore};
use crate::figures::{Goal, line, progress};
use crate::measures::{self, Ask, Sample};
use crate::request::Operation::{self, *};
use crate::request::PAIRS;
use crate::server::Pile::{self, *};
use crate::server::{Bench, On};
use crate::shapes::{self, Engine};
use crate::turns::{self, Sending, Side};
use crate::{Args, Command, Output};
use crate::{peers, usage};

/// A kind of sending and measuring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent {
    /// One load on several, in turns.
    Turns(Sending),
    /// Single requests on one connection, on servers with different piles of tasks, in turns.
    Samples(On, &'static [(&'static str, &'static [Pile])], &'static [Sample]),
    /// Connections that ask nothing, claims that wait, heartbeats that are held, followers.
    Connections(u64),
    /// Tasks that waiting claims pick up; at another server on PostgreSQL.
    Pickups(On),
    /// Output that is followed at another server.
    Following,
    /// One bulk action, by its path and body, on tasks that others do not use.
    Bulk(&'static str, &'static str),
    /// The completion of a task for which so many others wait.
    Dependents(On, u64),
    /// `task submit --from` of so many lines, and batches.
    Submit(u64),
    /// `taskqueue loop`, and loops that only start and reap the same program.
    Worker(u32),
    /// Every page of the dashboard so often, and one that is left open.
    Pages(u32),
    /// Claims without a pause, in windows.
    LongRun(f64),
    /// Single requests under callgrind, of this build and the other.
    Instructions,
    /// Creations and pairs on other queues.
    Peers,
    /// The largest request of every kind.
    Shapes(Engine),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// The command that runs it, and its name there.
    pub(crate) name: &'static str,
    pub(crate) prepared: &'static [Pile],
    pub(crate) sent: Sent,
    pub(crate) goals: &'static [Goal],
}

const fn goal(row: u8, figure: &'static str, bound: Bound, must: f64, aim: f64) -> Goal {
    Goal { row, figure, bound, must, aim }
}

const fn scenario(name: &'static str, prepared: &'static [Pile], sent: Sent, goals: &'static [Goal]) -> Scenario {
    Scenario { name, prepared, sent, goals }
}

const fn side(name: &'static str, on: On) -> Side {
    Side { name, on: Some(on), piles: &[], beside: Beside::Nobody }
}

/// A closed loop against the reference, three turns of a second each.
const fn bare(cycle: &'static [Operation], connections: &'static [u16]) -> Sent {
    Sent::Turns(Sending { connections, ..sending(cycle, &[REFERENCE, DISK], (3, 1.0)) })
}

const fn sending(cycle: &'static [Operation], sides: &'static [Side], turns: (u32, f64)) -> Sending {
    Sending { cycle, batch: 1, connections: &[64], rate: None, sides, turns }
}

const REFERENCE: Side = side("reference", On::Reference);
const DISK: Side = side("disk", On::Disk);
/// The requests of workers and people, in about the proportions in which they do it. One run in five ends in a failure, one is given back.
const MIXED: &[Operation] = &[
    Create, Claim, Heartbeat, Complete, Get, Count, Create, Claim, Heartbeat, Complete, Get, List, Claim, Heartbeat,
    Fail, Get, Create, Claim, Complete, Count, Claim, Unclaim, Get,
];
const BATCH: Sending = Sending { batch: 100, connections: &[16], ..sending(PAIRS, &[REFERENCE, DISK], (3, 1.0)) };
const ON_POSTGRES: &[Side] = &[Side { on: None, ..side("pgbench -N", On::Postgres) }, side("postgres", On::Postgres)];
const POSTGRES: Sending = Sending { connections: &[64, 1], ..sending(PAIRS, ON_POSTGRES, (3, 5.0)) };
const POSTGRES_BATCH: Sending = Sending { batch: 100, connections: &[16], ..POSTGRES };
const BUILDS: &[Side] = &[side("baseline", On::Baseline), side("this build", On::Disk)];
/// Those who have something else in the same queue.
const WAITING: &[Side] = &[
    DISK,
    Side { piles: &[Delayed(1_000_000)], ..side("delayed", On::Disk) },
    Side { piles: &[Chained(100_000)], ..side("chained", On::Disk) },
    Side { piles: &[Pile::Retention], ..side("retention", On::Disk) },
];
const A_THIRD_FINISHED: &[Pile] = &[Finished(333_333), Pending(666_667)];
const CLAIM: Sample = Sample("claim", Ask::Claim, 50);
const FILTER: &str = "/count?filter=args.group%20%3D%3D%203";

/// Row 17 of the goals, of every scenario that takes turns.
const FAULTS: &[Goal] = &[goal(17, "errors", AtMost, 0.0, 0.0), goal(17, "tasks handed out twice", AtMost, 0.0, 0.0)];
/// Row 27: against another build.
const OVER_BASELINE: &[Goal] = &[goal(27, "ratio", Keeps, 0.98, 1.0), goal(27, "CPU ratio", NoMore, 1.0, 0.85)];

#[rustfmt::skip]
const TABLE: &[Scenario] = &[
    // Against bare HTTP, and another build
    scenario("run/create", &[], bare(&[Create], &[64, 16, 1]), &[
        goal(3, "64 disk ratio", AtLeast, 0.23, 0.40), goal(3, "16 disk ratio", AtLeast, 0.17, 0.30)]),
    scenario("run/claim-complete", &[], Sent::Turns(Sending { connections: &[64, 16, 1],
        ..sending(PAIRS, &[REFERENCE, DISK, side("tmpfs", On::Tmpfs)], (3, 1.0)) }), &[
        goal(1, "64 disk ratio", AtLeast, 0.30, 0.45), goal(1, "16 disk ratio", AtLeast, 0.19, 0.28), goal(1, "1 disk ratio", AtLeast, 0.09, 0.14),
        goal(2, "64 tmpfs ratio", AtLeast, 0.32, 0.48), goal(2, "16 tmpfs ratio", AtLeast, 0.28, 0.41), goal(2, "1 tmpfs ratio", AtLeast, 0.19, 0.30),
        goal(5, "64 disk CPU ratio", AtMost, 4.0, 2.5), goal(9, "16 disk claim p99 over p50", AtMost, 8.0, 4.0),
        goal(6, "1 disk items/sync", AtMost, 1.05, 1.05), goal(6, "16 disk items/sync", AtLeast, 5.0, 8.0), goal(6, "64 disk items/sync", AtLeast, 12.0, 20.0)]),
    scenario("run/lifecycle", &[], bare(&[Create, Claim, Complete], &[16]), &[]),
    scenario("run/get", &[Pending(10_000)], bare(&[Get], &[64, 16, 1]), &[
        goal(4, "16 disk ratio", AtLeast, 0.45, 0.70), goal(30, "16 disk ratio", AtLeast, 0.50, 0.70)]),
    scenario("run/list", &[Pending(10_000)], bare(&[List], &[16]), &[
        goal(4, "16 disk ratio", AtLeast, 0.38, 0.80), goal(28, "16 disk ratio", AtLeast, 0.25, 0.38)]),
    scenario("run/count", &[Pending(10_000)], bare(&[Count], &[64, 16, 1]), &[goal(4, "16 disk ratio", AtLeast, 0.45, 0.70)]),
    scenario("run/filter", &[Pending(10_000)], bare(&[Filter], &[16]), &[]),
    scenario("run/bulk-update", &[Pending(1_000)], bare(&[BulkUpdate], &[16]), &[]),
    scenario("run/mixed", &[Pending(1_000)], bare(MIXED, &[16, 1000]), &[goal(4, "16 disk ratio", AtLeast, 0.22, 0.35)]),
    scenario("run/poll", &[], Sent::Turns(Sending { connections: &[1000], rate: Some(1.0),
        ..sending(&[Poll], &[REFERENCE, DISK], (3, 1.0)) }), &[goal(14, "1000 disk share of a core", AtMost, 0.05, 0.02)]),
    scenario("run/create-among-many", &[Pending(200_000)], bare(&[Create], &[64, 16]), &[
        goal(29, "64 disk ratio", AtLeast, 0.25, 0.40), goal(29, "16 disk ratio", AtLeast, 0.22, 0.30)]),
    scenario("run/batch-create", &[], Sent::Turns(Sending { cycle: &[Create], ..BATCH }), &[goal(20, "16 disk ratio", AtLeast, 0.40, 0.65)]),
    scenario("run/batch-claim-complete", &[], Sent::Turns(BATCH), &[goal(21, "16 disk ratio", AtLeast, 0.42, 0.65)]),
    scenario("run/instructions", &[], Sent::Instructions, &[]),
    // Claims beside something else
    scenario("scenarios/tls", &[], Sent::Turns(Sending { connections: &[64, 16, 1],
        ..sending(PAIRS, &[DISK, side("tls", On::Tls)], (5, 2.0)) }), &[goal(34, "64 tls ratio", Keeps, 0.8, 0.9)]),
    scenario("scenarios/waiting", &[], Sent::Turns(sending(PAIRS, WAITING, (5, 2.0))), &[
        goal(39, "64 delayed ratio", Keeps, 0.98, 1.0), goal(40, "64 chained ratio", Keeps, 0.98, 1.0), goal(41, "64 retention ratio", Keeps, 0.95, 0.98)]),
    scenario("scenarios/output", &[Finished(100_000)],
        Sent::Turns(sending(PAIRS, &[Side { beside: Beside::IdleWorkers, ..DISK },
            Side { beside: Beside::Workers, ..side("beside output", On::Disk) }], (5, 4.0))), &[
        goal(31, "64 beside output ratio", Keeps, 0.9, 0.97), goal(31, "printed and reported, over once per worker and second", Keeps, 0.98, 0.99),
        goal(32, "a follower has what was sent, p99 ms", AtMost, 500.0, 100.0)]),
    scenario("scenarios/viewers", A_THIRD_FINISHED,
        Sent::Turns(sending(PAIRS, &[DISK, Side { beside: Beside::Viewers, ..side("beside pages", On::Disk) }], (5, 4.0))), &[
        goal(38, "64 beside pages ratio", Keeps, 0.97, 0.99)]),
    // Piles of tasks
    scenario("scenarios/backlog", &[], Sent::Samples(On::Disk,
        &[("1,000 pending", &[Pending(1_000)]), ("100,000 pending", &[Pending(100_000)]), ("1,000,000 pending", &[Pending(1_000_000)])],
        &[CLAIM, Sample("creation", Ask::Create, 50), Sample("first page", Ask::Tasks("?limit=100"), 50),
          Sample("counts by status", Ask::Tasks("/count?group_by=status"), 50), Sample("filter on args", Ask::Tasks(FILTER), 1)]), &[
        goal(10, "1,000,000 pending: claim over the first", AtMost, 1.25, 1.05), goal(10, "1,000,000 pending: first page over the first", AtMost, 1.5, 1.1),
        goal(10, "1,000,000 pending: counts by status over the first", AtMost, 1.5, 1.1), goal(11, "1,000,000 pending: filter on args, p50 ms", AtMost, 2_000.0, 500.0),
        goal(15, "1,000 pending: RSS MiB before", AtMost, 30.0, 12.0), goal(15, "1,000,000 pending: RSS MiB filled", AtMost, 128.0, 90.0),
        goal(16, "1,000 pending: start to healthy ms", AtMost, 100.0, 30.0), goal(16, "1,000,000 pending: start to healthy ms", AtMost, 2_000.0, 500.0)]),
    scenario("scenarios/history", &[], Sent::Samples(On::Disk,
        &[("1,000 pending", &[Pending(1_000)]), ("10,000,000 finished", &[Finished(10_000_000), Failed(100), Pending(1_000)])],
        &[CLAIM, Sample("creation", Ask::Create, 50), Sample("page of failed", Ask::Tasks("?status=failed&limit=100"), 50)]), &[
        goal(25, "10,000,000 finished: RSS MiB after the start", AtMost, 64.0, 32.0), goal(25, "10,000,000 finished: start to healthy ms", AtMost, 300.0, 100.0),
        goal(25, "10,000,000 finished: claim over the first", AtMost, 1.25, 1.05), goal(25, "10,000,000 finished: creation over the first", AtMost, 1.25, 1.05),
        goal(26, "10,000,000 finished: page of failed, p50 ms", AtMost, 10.0, 2.0)]),
    // Connections, waiting, dependencies
    scenario("scenarios/connections", &[], Sent::Connections(10_000), &[
        goal(15, "idle connections: RSS MiB", AtMost, 150.0, 100.0), goal(18, "waiting claims: RSS MiB", AtMost, 150.0, 150.0),
        goal(18, "waiting claims: share of a core", AtMost, 0.02, 0.02), goal(18, "held heartbeats: RSS MiB", AtMost, 150.0, 150.0),
        goal(18, "held heartbeats: share of a core more", AtMost, 0.02, 0.02), goal(33, "followers: memory over that of waiting claims", AtMost, 1.25, 1.0),
        goal(33, "followers: share of a core more", AtMost, 0.02, 0.02)]),
    scenario("scenarios/pickup", &[], Sent::Pickups(On::Disk), &[goal(18, "picked up, p99 ms", AtMost, 5.0, 5.0)]),
    scenario("scenarios/dependents", &[], Sent::Dependents(On::Disk, 100_000), DEPENDENTS),
    // Many at once
    scenario("scenarios/bulk-cancel", &[Pending(1_000_000)], Sent::Bulk("POST /bulk/cancel", r#"{"filter":"args.group >= 0"}"#), &[
        goal(24, "tasks/s", AtLeast, 30_000.0, 100_000.0), goal(24, "longest creation or claim of others, ms", AtMost, 200.0, 50.0)]),
    scenario("scenarios/bulk-update", &[Pending(300_000)], Sent::Bulk("PATCH ", r#"{"filter":"args.group >= 0","changes":{"metadata":{"by":"bench"}}}"#), &[]),
    scenario("scenarios/submit", &[], Sent::Submit(1_000_000), &[goal(23, "lines/s over tasks/s of batches", AtLeast, 0.5, 0.8)]),
    // Worker, metrics, dashboard
    scenario("scenarios/worker", &[], Sent::Worker(2_000), &[
        goal(19, "runs of true over one loop", AtLeast, 0.6, 0.6), goal(19, "idle worker: RSS MiB", AtMost, 15.0, 15.0),
        goal(19, "idle worker: share of a core", AtMost, 0.002, 0.002)]),
    scenario("scenarios/metrics", &[], Sent::Samples(On::Disk, &[("100 queues", &[Pile::Spread(1_000_000, 100)])],
        &[Sample("metrics, computed", Ask::NewMetrics, 2), Sample("metrics, given again", Ask::Metrics, 2)]), &[
        goal(35, "100 queues: metrics, computed, p50 ms", AtMost, 20.0, 10.0)]),
    scenario("scenarios/dashboard", A_THIRD_FINISHED, Sent::Pages(100), &[
        goal(36, "slowest page, p99 ms", AtMost, 50.0, 20.0), goal(37, "open page: share of a core", AtMost, 0.005, 0.002)]),
    // On PostgreSQL
    scenario("postgres/create", &[], Sent::Turns(Sending { cycle: &[Create], ..POSTGRES }), &[goal(12, "64 postgres ratio", AtLeast, 0.8, 2.0)]),
    scenario("postgres/claim-complete", &[], Sent::Turns(POSTGRES), &[
        goal(12, "64 postgres ratio", AtLeast, 0.5, 1.2), goal(12, "1 postgres ratio", AtLeast, 0.3, 0.5)]),
    scenario("postgres/batch-create", &[], Sent::Turns(Sending { cycle: &[Create], ..POSTGRES_BATCH }), &[]),
    scenario("postgres/batch-claim-complete", &[], Sent::Turns(POSTGRES_BATCH), &[goal(22, "16 postgres ratio", AtLeast, 1.6, 2.5)]),
    scenario("postgres/backlog", &[], Sent::Samples(On::Postgres, &[("1,000 pending", &[Pending(1_000)]), ("1,000,000 pending", &[Pending(1_000_000)]),
        ("1,000,000 finished", &[Finished(1_000_000), Pending(1_000)])], &[CLAIM]), &[
        goal(13, "1,000,000 pending: claim over the first", AtMost, 1.5, 1.1), goal(13, "1,000,000 finished: claim over the first", AtMost, 1.5, 1.1)]),
    scenario("postgres/long-run", &[], Sent::LongRun(60.0), &[goal(13, "pairs in the last window over the first", AtLeast, 0.8, 0.95)]),
    scenario("postgres/pickup", &[], Sent::Pickups(On::Postgres), &[goal(18, "picked up, p99 ms", AtMost, 50.0, 50.0)]),
    scenario("postgres/following", &[], Sent::Following, &[goal(32, "a follower has what was sent, p99 ms", AtMost, 2_000.0, 1_500.0)]),
    scenario("postgres/dependents", &[], Sent::Dependents(On::Postgres, 100_000), DEPENDENTS),
    // Other queues, and the largest requests
    scenario("peers/pairs", &[], Sent::Peers, &[
        goal(7, "64, beanstalkd -f 0: our pairs over its", AtLeast, 0.9, 1.2), goal(8, "64, labtasker-server: our pairs over its", AtLeast, 100.0, 300.0)]),
    scenario("shapes/sqlite", &[], Sent::Shapes(Engine::Sqlite), &[goal(44, "shapes that break C1, C2, C3 or C5", AtMost, 0.0, 0.0)]),
    scenario("shapes/postgres", &[], Sent::Shapes(Engine::Postgres), &[goal(44, "shapes that break C1, C2, C3 or C5", AtMost, 0.0, 0.0)]),
];

const DEPENDENTS: &[Goal] =
    &[goal(42, "completion ms", AtMost, 50.0, 20.0), goal(43, "all can be claimed after s", AtMost, 5.0, 2.0)];

/// Runs the rows of a command and shows what was found; returns true if no must is missed and nothing failed.
pub(crate) async fn run(command: Command, args: Args) -> Result<bool> {
    // The names of rows begin with that of their command.
    let of_rows = if command == Command::Compare { Command::Run } else { command };
    let group = format!("{of_rows:?}/").to_lowercase();
    if (command == Command::Compare) != args.baseline.is_some() {
        return Err("`compare` needs --baseline, and nothing else takes it".into());
    }
    let mut bench = Bench::new(args);
    // Those of shapes are filtered themselves.
    let part = if command == Command::Shapes { String::new() } else { bench.args.only.clone() };
    let (all, mut failed) = (TABLE.iter().filter(|scenario| scenario.name.starts_with(&group)), false);
    for scenario in all.filter(|scenario| scenario.name.contains(&part)) {
        progress(scenario.name);
        if let Err(failure) = scenario.measure(&mut bench).await {
            progress(&format!("{} is not measured: {failure}", scenario.name));
            failed = true;
        }
    }
    if bench.report.is_empty() && !failed {
        return Err(format!("nothing of this command is called {:?}", bench.args.only).into());
    }
    if !bench.report.turns.is_empty() {
        for (goal, count) in FAULTS.iter().zip(bench.report.faults) {
            bench.report.add("all turns", goal.figure, count as f64, FAULTS);
        }
    }
    Ok(bench.report.show(bench.args.output == Output::Json) && !failed)
}

impl Scenario {
    async fn measure(&self, bench: &mut Bench) -> Result<()> {
        (bench.scenario, bench.piles) = (self.name, self.prepared);
        bench.goals = match bench.args.baseline {
            _ if bench.args.scale < 1.0 => &[],
            Some(_) => OVER_BASELINE,
            None => self.goals,
        };
        match self.sent {
            Sent::Turns(sending) if bench.args.baseline.is_some() => {
                // An even number: each begins as often as the other.
                turns::run(bench, Sending { sides: BUILDS, turns: (6, 1.0), ..sending }).await
            }
            Sent::Turns(sending) => turns::run(bench, sending).await,
            Sent::Samples(on, piles, samples) => measures::piles(bench, on, piles, samples).await,
            Sent::Connections(count) => measures::connections(bench, bench.scaled(count)).await,
            Sent::Pickups(on) => measures::pickups(bench, on).await,
            Sent::Following => measures::following(bench).await,
            Sent::Bulk(request, body) => measures::bulk(bench, request, body).await,
            Sent::Dependents(on, count) => measures::dependents(bench, on, bench.scaled(count)).await,
            Sent::Submit(lines) => measures::submit(bench, bench.scaled(lines)).await,
            Sent::Worker(runs) => measures::worker(bench, runs).await,
            Sent::Pages(count) => measures::pages(bench, count).await,
            Sent::LongRun(seconds) => measures::long_run(bench, seconds).await,
            Sent::Instructions => usage::instructions(bench).await,
            Sent::Peers => peers::run(bench).await,
            Sent::Shapes(engine) => shapes::run(bench, engine).await,
        }
    }
}

/// Prints the table.
pub(crate) fn list() {
    for scenario in TABLE {
        line(&format!("{}: {:?}, {:?}", scenario.name, scenario.sent, scenario.prepared));
        for Goal { row, figure, bound, must, aim } in scenario.goals {
            line(&format!("    row {row}: {figure}: {bound:?} {must}, aim {aim}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_and_every_goal_a_connection_and_a_side_that_it_has() {
        let names: BTreeSet<&str> = TABLE.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), TABLE.len());
        for Scenario { name, sent, goals, .. } in TABLE {
            let Sent::Turns(sending) = sent else { continue };
            for goal in goals.iter().filter(|goal| goal.figure.starts_with(|c: char| c.is_ascii_digit())) {
                let (connections, rest) = goal.figure.split_once(' ').unwrap();
                assert!(sending.connections.contains(&connections.parse().unwrap()), "{name}: {goal:?}");
                assert!(sending.sides.iter().any(|side| rest.starts_with(side.name)), "{name}: {goal:?}");
            }
        }
    }

    #[test]
    fn a_cycle_claims_as_often_as_it_ends_runs() {
        let claims = MIXED.iter().filter(|operation| **operation == Claim).count();
        assert_eq!(claims, MIXED.iter().filter(|operation| operation.ends_run()).count());
    }
}
