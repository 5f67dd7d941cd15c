//! The one table of scenarios: what is prepared, what is sent, what is measured, must and aim; and the engine that runs its rows.

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use self::Sent::{By, Turns};
use crate::Result;
use crate::beside::Beside;
use crate::figures::{Goal, progress};
use crate::request::Operation::{self, *};
use crate::request::PAIRS;
use crate::server::Pile::{self, *};
use crate::server::{Bench, On};
use crate::shapes;
use crate::turns::{self, Cycles, Sending, Side};
use crate::{Args, Command, measures, peers, usage};

/// How a row is measured.
#[derive(Clone, Copy)]
pub(crate) enum Sent {
    /// By one load on several, in turns.
    Turns(Sending),
    /// By a function of its own.
    By(for<'b> fn(&'b mut Bench) -> LocalBoxFuture<'b, Result<()>>),
}

/// A row: the command that runs it with its name there, what is prepared, what is sent, and what its figures are to reach.
type Scenario = (&'static str, &'static [Pile], Sent, &'static [Goal]);

/// A fifth more or less is noise, because machines are shared.
const fn at_least(figure: &'static str, must: f64, aim: f64) -> Goal {
    Goal { figure, is_least: true, noise: 0.2, must, aim }
}

const fn at_most(figure: &'static str, must: f64, aim: f64) -> Goal {
    Goal { is_least: false, ..at_least(figure, must, aim) }
}

/// Of two that do the same in turns only 3 % are noise.
const fn keeps(figure: &'static str, must: f64, aim: f64) -> Goal {
    Goal { noise: 0.03, ..at_least(figure, must, aim) }
}

const fn side(name: &'static str, on: On) -> Side {
    Side { name, on: Some(on), piles: &[], beside: Beside::Nobody }
}

/// A closed loop against the reference, three turns of a second each.
const fn bare(cycles: Cycles, connections: &'static [u16]) -> Sent {
    Turns(Sending { connections, ..sending(cycles, &[REFERENCE, DISK], (3, 1.0)) })
}

const fn sending(cycles: Cycles, sides: &'static [Side], turns: (u32, f64)) -> Sending {
    Sending { cycles, batch: 1, connections: &[64], rate: None, sides, turns, is_started_again: false }
}

/// Single requests on one connection to servers with different piles of tasks, which are started again before.
const fn samples(cycles: Cycles, sides: &'static [Side]) -> Sent {
    Turns(Sending { connections: &[1], is_started_again: true, ..sending(cycles, sides, (5, 2.5)) })
}

const fn filled(name: &'static str, on: On, piles: &'static [Pile]) -> Side {
    Side { piles, ..side(name, on) }
}

const fn beside(name: &'static str, on: On, beside: Beside) -> Side {
    Side { beside, ..side(name, on) }
}

const REFERENCE: Side = side("reference", On::Reference);
const DISK: Side = side("disk", On::Disk);
/// The requests of workers and people, in about the proportions in which they do it. One run in five ends in a failure, one is given back.
const MIXED: &[Operation] = &[
    Create, Claim, Heartbeat, Complete, Get, Count, Create, Claim, Heartbeat, Complete, Get, List, Claim, Heartbeat,
    Fail, Get, Create, Claim, Complete, Count, Claim, Unclaim, Get,
];
const PAIR: Cycles = &[("", PAIRS)];
const CREATION: Cycles = &[("", &[Create])];
const BATCH: Sending = Sending { batch: 100, connections: &[16], ..sending(PAIR, &[REFERENCE, DISK], (3, 1.0)) };
const ON_POSTGRES: &[Side] = &[Side { on: None, ..side("pgbench -N", On::Postgres) }, side("postgres", On::Postgres)];
const POSTGRES: Sending = Sending { connections: &[64, 1], ..sending(PAIR, ON_POSTGRES, (3, 5.0)) };
const POSTGRES_BATCH: Sending = Sending { batch: 100, connections: &[16], ..POSTGRES };
const BUILDS: &[Side] = &[side("baseline", On::Baseline), side("this build", On::Disk)];
const A_THIRD_FINISHED: &[Pile] = &[Ended(333_333, PAIRS), Pending(666_667)];
/// One of each page of the dashboard.
pub(crate) const PAGES: Cycles = &[
    ("queues", &[Page("/ui/")]),
    ("system", &[Page("/ui/system")]),
    ("tasks", &[Page("/ui/queues/bench/tasks")]),
    ("a task", &[Page("/ui/queues/bench/tasks/t_TTTTTTTTTTTT")]),
    ("workers", &[Page("/ui/queues/bench/workers")]),
    ("routes", &[Page("/ui/queues/bench/routes")]),
    ("compare", &[Page("/ui/queues/bench/compare")]),
    ("submit", &[Page("/ui/queues/bench/submit")]),
    ("settings", &[Page("/ui/queues/bench/settings")]),
];
/// Against another build.
const OVER_BASELINE: &[Goal] =
    &[keeps("this build ratio", 0.98, 1.0), Goal { noise: 0.03, ..at_most("this build CPU ratio", 1.0, 0.85) }];

#[rustfmt::skip]
const TABLE: &[Scenario] = &[
    // Against bare HTTP, and another build
    ("run/create", &[], bare(CREATION, &[64, 16, 1]), &[at_least("64 disk ratio", 0.23, 0.40), at_least("16 disk ratio", 0.17, 0.30)]),
    ("run/claim-complete", &[], bare(PAIR, &[64, 16, 1]), &[
        at_least("64 disk ratio", 0.30, 0.45), at_least("16 disk ratio", 0.19, 0.28), at_least("1 disk ratio", 0.09, 0.14),
        at_most("64 disk CPU ratio", 4.0, 2.5), at_most("16 disk p99 over p50", 8.0, 4.0),
        at_most("1 disk items/sync", 1.05, 1.05), at_least("16 disk items/sync", 5.0, 8.0), at_least("64 disk items/sync", 12.0, 20.0)]),
    ("run/get", &[Pending(10_000)], bare(&[("", &[Get])], &[64, 16, 1]), &[at_least("16 disk ratio", 0.50, 0.70)]),
    ("run/list", &[Pending(10_000)], bare(&[("", &[List])], &[16]), &[at_least("16 disk ratio", 0.25, 0.38)]),
    ("run/count", &[Pending(10_000)], bare(&[("", &[Count])], &[64, 16, 1]), &[at_least("16 disk ratio", 0.45, 0.70)]),
    ("run/mixed", &[Pending(1_000)], bare(&[("", MIXED)], &[16, 1000]), &[at_least("16 disk ratio", 0.22, 0.35)]),
    ("run/poll", &[], Turns(Sending { connections: &[1000], rate: Some(1.0), ..sending(&[("", &[Poll])], &[REFERENCE, DISK], (3, 1.0)) }), &[
        at_most("1000 disk share of a core", 0.05, 0.02)]),
    ("run/create-among-many", &[Pending(200_000)], bare(CREATION, &[64, 16]), &[
        at_least("64 disk ratio", 0.25, 0.40), at_least("16 disk ratio", 0.22, 0.30)]),
    ("run/batch-create", &[], Turns(Sending { cycles: CREATION, ..BATCH }), &[at_least("16 disk ratio", 0.40, 0.65)]),
    ("run/batch-claim-complete", &[], Turns(BATCH), &[at_least("16 disk ratio", 0.42, 0.65)]),
    ("run/instructions", &[], By(|bench| usage::instructions(bench).boxed_local()), &[]),
    // Claims beside something else
    ("scenarios/tls", &[], Turns(Sending { connections: &[64, 16, 1], ..sending(PAIR, &[DISK, side("tls", On::Tls)], (5, 2.0)) }), &[
        keeps("64 tls ratio", 0.8, 0.9)]),
    ("scenarios/waiting", &[], Turns(sending(PAIR, &[DISK, filled("delayed", On::Disk, &[Waiting(1_000_000, 1)]),
            filled("chained", On::Disk, &[Waiting(100_000, 10)]), filled("retention", On::Disk, &[Retention])], (5, 2.0))), &[
        keeps("64 delayed ratio", 0.98, 1.0), keeps("64 chained ratio", 0.98, 1.0), keeps("64 retention ratio", 0.95, 0.98)]),
    ("scenarios/output", &[Ended(100_000, PAIRS)], Turns(sending(PAIR, &[beside("disk", On::Disk, Beside::IdleWorkers),
            beside("beside output", On::Disk, Beside::Workers)], (5, 4.0))), &[
        keeps("64 beside output ratio", 0.9, 0.97), keeps("printed and reported, over once per worker and second", 0.98, 0.99),
        at_most("a follower has what was sent, p99 ms", 500.0, 100.0)]),
    ("scenarios/viewers", A_THIRD_FINISHED, Turns(sending(PAIR, &[DISK, beside("beside pages", On::Disk, Beside::Viewers)], (5, 4.0))), &[
        keeps("64 beside pages ratio", 0.97, 0.99)]),
    // Piles of tasks. Creations come last: they make the piles larger.
    ("scenarios/backlog", &[], samples(
        &[("claim", &[Claim, Unclaim]), ("first page", &[List]), ("counts by status", &[Page("/api/v2/queues/bench/tasks/count?group_by=status")]),
          ("filter on args", &[Page("/api/v2/queues/bench/tasks/count?filter=args.group%20%3D%3D%200")]), ("creation", &[Create])],
        &[filled("1,000 pending", On::Disk, &[Pending(1_000)]), filled("100,000 pending", On::Disk, &[Pending(100_000)]), filled("1,000,000 pending", On::Disk, &[Pending(1_000_000)])]), &[
        at_most("1 1,000,000 pending claim p50 over first", 1.25, 1.05), at_most("1 1,000,000 pending first page p50 over first", 1.5, 1.1),
        at_most("1 1,000,000 pending counts by status p50 over first", 1.5, 1.1), at_most("1 1,000,000 pending filter on args p50 ms", 2_000.0, 500.0),
        at_most("1 1,000 pending claim RSS MiB before", 30.0, 12.0), at_most("1 1,000,000 pending claim RSS MiB filled", 128.0, 90.0),
        at_most("1 1,000 pending claim start to healthy ms", 100.0, 30.0), at_most("1 1,000,000 pending claim start to healthy ms", 2_000.0, 500.0)]),
    ("scenarios/history", &[], samples(
        &[("claim", &[Claim, Unclaim]), ("page of failed", &[Page("/api/v2/queues/bench/tasks?status=failed&limit=100")]), ("creation", &[Create])],
        &[filled("1,000 pending", On::Disk, &[Pending(1_000)]), filled("10,000,000 finished", On::Disk, &[Ended(10_000_000, PAIRS), Ended(100, &[Claim, Fail]), Pending(1_000)])]), &[
        at_most("1 10,000,000 finished claim RSS MiB after the start", 64.0, 32.0), at_most("1 10,000,000 finished claim start to healthy ms", 300.0, 100.0),
        at_most("1 10,000,000 finished claim p50 over first", 1.25, 1.05), at_most("1 10,000,000 finished creation p50 over first", 1.25, 1.05),
        at_least("1 10,000,000 finished creation ratio", 0.85, 0.95),
        at_most("1 10,000,000 finished page of failed p50 ms", 10.0, 2.0)]),
    // Each text of metrics is given again for a second.
    ("scenarios/metrics", &[], Turns(Sending { connections: &[1], rate: Some(0.9),
        ..sending(&[("", &[Page("/metrics"), Create])], &[filled("100 queues", On::Disk, &[Spread(1_000_000, 100)])], (3, 10.0)) }), &[
        at_most("1 100 queues p50 ms", 20.0, 10.0)]),
    ("scenarios/dashboard", &[], samples(PAGES, &[filled("1,000,000 tasks", On::Disk, A_THIRD_FINISHED)]), &[at_most("p99 ms", 50.0, 20.0)]),
    // Connections, waiting, dependencies
    ("scenarios/connections", &[], By(|bench| measures::held(bench, 10_000).boxed_local()), &[
        at_most("idle connections: RSS MiB", 150.0, 100.0), at_most("waiting claims: RSS MiB", 150.0, 150.0),
        at_most("waiting claims: share of a core", 0.02, 0.02)]),
    ("scenarios/pickup", &[], By(|bench| measures::pickups(bench, On::Disk).boxed_local()), &[at_most("picked up, p99 ms", 5.0, 5.0)]),
    ("scenarios/dependents", &[], By(|bench| measures::dependents(bench, On::Disk, 100_000).boxed_local()), DEPENDENTS),
    // Many at once
    ("scenarios/bulk-cancel", &[Pending(1_000_000)], By(|bench| measures::bulk(bench, "POST", "/bulk/cancel", r#"{"filter":"args.group >= 0"}"#).boxed_local()), &[
        at_least("tasks/s", 30_000.0, 100_000.0), at_most("longest creation or claim of others, ms", 200.0, 50.0)]),
    ("scenarios/bulk-update", &[Pending(300_000)], By(|bench|
        measures::bulk(bench, "PATCH", "", r#"{"filter":"args.group >= 0","changes":{"metadata":{"by":"bench"}}}"#).boxed_local()), &[]),
    ("scenarios/submit", &[], By(|bench| measures::submit(bench, 1_000_000).boxed_local()), &[at_least("lines/s over tasks/s of batches", 0.5, 0.8)]),
    ("scenarios/worker", &[], By(|bench| measures::worker(bench, 2_000).boxed_local()), &[
        at_least("runs of true over one loop", 0.6, 0.6), at_most("idle worker: RSS MiB", 15.0, 15.0),
        at_most("idle worker: share of a core", 0.002, 0.002)]),
    // On PostgreSQL
    ("postgres/create", &[], Turns(Sending { cycles: CREATION, ..POSTGRES }), &[at_least("64 postgres ratio", 0.8, 2.0)]),
    ("postgres/claim-complete", &[], Turns(POSTGRES), &[
        at_least("64 postgres ratio", 0.5, 1.2), at_least("1 postgres ratio", 0.3, 0.5)]),
    ("postgres/batch-create", &[], Turns(Sending { cycles: CREATION, ..POSTGRES_BATCH }), &[]),
    ("postgres/batch-claim-complete", &[], Turns(POSTGRES_BATCH), &[at_least("16 postgres ratio", 1.6, 2.5)]),
    ("postgres/backlog", &[], samples(&[("claim", &[Claim, Unclaim])],
        &[filled("1,000 pending", On::Postgres, &[Pending(1_000)]), filled("1,000,000 pending", On::Postgres, &[Pending(1_000_000)]),
          filled("1,000,000 finished", On::Postgres, &[Ended(1_000_000, PAIRS), Pending(1_000)])]), &[
        at_most("1 1,000,000 pending claim p50 over first", 1.5, 1.1), at_most("1 1,000,000 finished claim p50 over first", 1.5, 1.1)]),
    // Rows die all the while; what is pending is enough for a minute.
    ("postgres/long-run", &[Pending(1_000_000)], Turns(sending(PAIR, &[side("postgres", On::Postgres)], (6, 10.0))), &[
        at_least("64 postgres last over first", 0.8, 0.95)]),
    ("postgres/pickup", &[], By(|bench| measures::pickups(bench, On::Postgres).boxed_local()), &[at_most("picked up, p99 ms", 50.0, 50.0)]),
    ("postgres/dependents", &[], By(|bench| measures::dependents(bench, On::Postgres, 100_000).boxed_local()), DEPENDENTS),
    // Other queues, and the largest requests
    ("peers/pairs", &[], By(|bench| peers::run(bench).boxed_local()), &[
        at_least("64, beanstalkd -f 0: our pairs over its", 0.9, 1.2), at_least("64, labtasker-server: our pairs over its", 100.0, 300.0)]),
    ("shapes/sqlite", &[], By(|bench| shapes::run(bench, On::Disk).boxed_local()), SHAPES),
    ("shapes/postgres", &[], By(|bench| shapes::run(bench, On::Postgres).boxed_local()), SHAPES),
];

const DEPENDENTS: &[Goal] = &[at_most("completion ms", 50.0, 20.0), at_most("all can be claimed after s", 5.0, 2.0)];
const SHAPES: &[Goal] = &[at_most("shapes that break C1, C2, C3 or C5", 0.0, 0.0)];

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
    let is_wanted = |(name, ..): &&Scenario| name.starts_with(&group) && name.contains(&part);
    let (wanted, mut failed) = (TABLE.iter().filter(is_wanted).collect::<Vec<_>>(), Vec::new());
    if wanted.is_empty() {
        return Err(format!("nothing of this command is called {part:?}").into());
    }
    for scenario in wanted {
        progress(scenario.0);
        if let Err(failure) = measure(&mut bench, scenario).await {
            failed.push(format!("{} is not measured: {failure}", scenario.0));
            progress(&failed[failed.len() - 1]);
        }
    }
    failed.extend(bench.missed);
    failed.iter().for_each(|failure| progress(failure));
    Ok(failed.is_empty())
}

async fn measure(bench: &mut Bench, (name, prepared, sent, goals): &Scenario) -> Result<()> {
    (bench.scenario, bench.piles) = (name, prepared);
    bench.goals = match bench.args.baseline {
        _ if bench.args.scale < 1.0 => &[],
        Some(_) => OVER_BASELINE,
        None => goals,
    };
    match *sent {
        Turns(sending) if bench.args.baseline.is_some() => {
            // An even number: each begins as often as the other.
            turns::run(bench, Sending { sides: BUILDS, turns: (6, 1.0), ..sending }).await
        }
        Turns(sending) => turns::run(bench, sending).await,
        By(measure) => measure(bench).await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_and_every_goal_a_connection_and_a_side_that_it_has() {
        let names: BTreeSet<&str> = TABLE.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), TABLE.len());
        for (name, _, sent, goals) in TABLE {
            let Turns(sending) = sent else { continue };
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
