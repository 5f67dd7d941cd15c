//! Leases: when they end, who ends them, and what an outage adds (T1, T3, L1). Time passes in steps of five seconds with
//! a scan each, as on a living server; a longer pause between two scans is an outage.

use taskqueue_core::definition::Definition;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::{FinishedRun, RunEnd, Status};

use super::Storage;
use super::bench::Bench;
use super::commands::*;
use crate::command::{Answer, Scanned};

const EXPIRED: Refusal = Refusal::RunFinalized { end: RunEnd::HeartbeatExpired };

/// A queue with a task under run 1, just claimed and scanned.
async fn claimed(storage: &impl Storage, budget: i64) -> Bench {
    let bench = Bench::with_queue(storage).await;
    bench.create(1, with_budget(budget)).await;
    bench.scan().await;
    bench.claim(1).await;
    bench
}

pub async fn a_lease_ends_at_the_scan_after_its_end(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    assert_eq!(bench.pass(295).await, Scanned::default());
    bench.clock.advance_micros(4_999_999);
    assert_eq!(bench.scan().await.expired_runs, 0, "not a microsecond early");
    bench.clock.advance_micros(1);
    assert_eq!(bench.status(1).await, Status::Running);
    assert_eq!(bench.scan().await.expired_runs, 1);
    let task = bench.get(1).await;
    assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Pending, 1));
    assert_eq!((task.lifecycle.finished_at, task.lifecycle.updated_at), (Some(bench.now()), bench.now()));
    let finished = FinishedRun { run_id: run_id(1), end: RunEnd::HeartbeatExpired };
    assert_eq!((task.lifecycle.run, task.lifecycle.finished_run), (None, Some(finished)));
    let error = task.outcome.last_error.unwrap();
    assert_eq!((&*error.failure.kind, error.attempt, error.run_id), ("HeartbeatTimeout", 1, run_id(1)));
    assert_eq!((error.occurred_at, error.failure.traceback), (bench.now(), None));
    assert_eq!(bench.scan().await, Scanned::default(), "an expiry is charged once");
    assert_eq!(bench.refused(heartbeat("q", 1, 1)).await, EXPIRED);
    assert_eq!(bench.refused(complete("q", 1, 1, object("{}"))).await, EXPIRED);
}

pub async fn a_heartbeat_keeps_a_run_alive(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    for _ in 0..4 {
        bench.pass(295).await;
        assert_eq!(bench.ok(heartbeat("q", 1, 1)).await, Answer::Lease(bench.now().plus_seconds(300)));
    }
    bench.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(bench.pass(600).await.expired_runs, 0);
    assert_eq!(bench.status(1).await, Status::Succeeded);
}

pub async fn the_last_attempt_fails_when_its_lease_ends(storage: &impl Storage) {
    let bench = claimed(storage, 1).await;
    assert_eq!(bench.pass(300).await.expired_runs, 1);
    assert_eq!(bench.status(1).await, Status::Failed);
    assert_eq!(bench.claimed(claim("q", "default", 2)).await, None);
}

pub async fn a_report_of_an_expired_run_performs_the_expiry(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in 1..5 {
        bench.create(id, Definition::default()).await;
    }
    bench.scan().await;
    for id in 1..5 {
        bench.claim(id).await;
    }
    bench.pass(295).await;
    bench.clock.advance_seconds(5);
    let too_large = args_beyond_the_limit(1);
    let reports = [heartbeat("q", 1, 1), complete("q", 2, 2, too_large), fail("q", 3, 3), unclaim("q", 4, 4)];
    for (id, report) in (1..).zip(reports) {
        assert_eq!(bench.refused(report.clone()).await, EXPIRED);
        let task = bench.get(id).await;
        assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Pending, 1));
        assert_eq!(&*task.outcome.last_error.as_ref().unwrap().failure.kind, "HeartbeatTimeout");
        assert_eq!(bench.refused(report).await, EXPIRED);
        assert_eq!(bench.get(id).await, task, "charged once");
    }
    assert_eq!(bench.scan().await.expired_runs, 0);
}

pub async fn replaying_the_claim_of_an_expired_run_is_stale(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    bench.pass(295).await;
    bench.clock.advance_seconds(5);
    let stale = Refusal::StaleRun { run_id: run_id(1) };
    assert_eq!(bench.refused(claim("q", "default", 1)).await, stale, "before the scan");
    bench.scan().await;
    assert_eq!(bench.refused(claim("q", "default", 1)).await, stale, "after the scan");
    assert_eq!(bench.claim(2).await.task.lifecycle.attempt, 2);
}

pub async fn reads_and_actions_do_not_expire_a_lease(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    bench.pass(295).await;
    bench.clock.advance_seconds(5);
    assert_eq!(bench.status(1).await, Status::Running);
    assert_eq!(bench.count_by_status().await, [0, 1, 0, 0, 0]);
    assert!(matches!(bench.refused(update("q", 1, to_priority(1))).await, Refusal::TaskRunning { .. }));
    assert!(matches!(bench.refused(delete("q", 1)).await, Refusal::TaskRunning { .. }));
    assert!(matches!(bench.refused(requeue("q", 1)).await, Refusal::TaskStateConflict { .. }));
    assert!(matches!(bench.refused(delete_queue("q", true)).await, Refusal::QueueHasRunningTasks { .. }));
    assert_eq!(bench.claimed(claim("q", "default", 2)).await, None);
    assert_eq!(bench.status(1).await, Status::Running);
    bench.ok(cancel("q", 1)).await;
    assert_eq!(bench.refused(heartbeat("q", 1, 1)).await, Refusal::RunFinalized { end: RunEnd::Cancel });
}

pub async fn after_an_outage_every_lease_is_good_for_the_credit(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    bench.clock.advance_seconds(600);
    assert_eq!(bench.scan().await, Scanned { credited_runs: 1, ..Scanned::default() });
    assert_eq!(bench.status(1).await, Status::Running);
    assert_eq!(bench.pass(85).await, Scanned::default());
    assert_eq!(bench.status(1).await, Status::Running);
    assert_eq!(bench.pass(5).await.expired_runs, 1, "ninety seconds, not more");
}

pub async fn a_heartbeat_before_the_scan_is_heard_after_an_outage(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    bench.clock.advance_seconds(600);
    assert_eq!(bench.ok(heartbeat("q", 1, 1)).await, Answer::Lease(bench.now().plus_seconds(300)));
    assert_eq!(bench.pass(295).await, Scanned::default());
    bench.clock.advance_seconds(600);
    bench.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(bench.status(1).await, Status::Succeeded);
}

pub async fn a_credit_never_shortens_a_lease(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    bench.clock.advance_seconds(16);
    assert_eq!(bench.scan().await, Scanned::default(), "more than the credit is left");
    bench.pass(280).await;
    assert_eq!(bench.status(1).await, Status::Running);
    assert_eq!(bench.pass(5).await.expired_runs, 1);
}

/// Whatever is heard first after an outage grants the credit; what comes next, before a scan and after it, adds nothing.
pub async fn an_outage_is_credited_once(storage: &impl Storage) {
    let bench = claimed(storage, 3).await;
    bench.clock.advance_seconds(600);
    bench.create(2, Definition::default()).await;
    let lease = async || bench.get(1).await.lifecycle.run.unwrap().lease_expires_at;
    let credited = bench.now().plus_seconds(90);
    assert_eq!(lease().await, credited);
    for id in 3..6 {
        bench.clock.advance_seconds(1);
        bench.create(id, Definition::default()).await;
        assert_eq!(lease().await, credited, "granted again to command {id}");
    }
    assert_eq!(bench.scan().await, Scanned::default(), "granted again by the scan");
    assert_eq!(lease().await, credited);
    assert_eq!(bench.pass(85).await.expired_runs, 0);
    assert_eq!(bench.pass(2).await.expired_runs, 1, "ninety seconds after the outage, not more");
}

pub async fn a_scan_reports_what_it_did(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(create_queue("other")).await;
    for name in ["q", "other"] {
        for id in 0..3 {
            bench.ok(create(name, id, Definition::default())).await;
            bench.ok(claim(name, "default", format!("{name}{id}"))).await;
        }
    }
    bench.scan().await;
    bench.clock.advance_seconds(16);
    bench.ok(heartbeat("q", 0, "q0")).await;
    bench.scan().await;
    assert_eq!(bench.pass(284).await.expired_runs, 5, "runs of every queue, except the one that was heard");
    assert_eq!(bench.pass(15).await.expired_runs, 0);
    assert_eq!(bench.pass(5).await.expired_runs, 1);
}
