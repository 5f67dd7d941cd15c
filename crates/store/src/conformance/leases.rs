//! Leases: when they end, who ends them, and what an outage adds (T1, T3, L1). Time passes in steps of five seconds with
//! a scan each, as on a living server; a longer pause between two scans is an outage.

use super::prelude::*;
use crate::weight::MAX_ITEMS;

const EXPIRED: Refusal = Refusal::RunFinalized { end: RunEnd::HeartbeatExpired };

/// A queue with a task under run 1, just claimed and scanned.
async fn claimed(fixture: Fixture, budget: i64) -> Fixture {
    fixture.scan().await;
    fixture.create_running(1, with_budget(budget)).await;
    fixture
}

pub async fn a_lease_ends_at_the_scan_after_its_end(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    assert_eq!(fixture.pass(295).await, Scanned::default());
    fixture.clock.advance_micros(4_999_999);
    assert_eq!(fixture.scan().await.expired_runs, 0, "not a microsecond early");
    fixture.clock.advance_micros(1);
    assert_eq!(fixture.status(1).await, Status::Running);
    assert_eq!(fixture.scan().await.expired_runs, 1);
    let task = fixture.get(1).await;
    assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Pending, 1));
    assert_eq!((task.lifecycle.finished_at, task.lifecycle.updated_at), (Some(fixture.now()), fixture.now()));
    let finished = FinishedRun { run_id: run_id(1), end: RunEnd::HeartbeatExpired };
    assert_eq!((task.lifecycle.run, task.lifecycle.finished_run), (None, Some(finished)));
    let error = task.outcome.last_error.unwrap();
    assert_eq!((&*error.failure.kind, error.attempt, error.run_id), ("HeartbeatTimeout", 1, Some(run_id(1))));
    assert_eq!((error.occurred_at, error.failure.traceback), (fixture.now(), None));
    assert_eq!(fixture.scan().await, Scanned::default(), "an expiry is charged once");
    assert_eq!(fixture.refused(heartbeat("q", 1, 1)).await, EXPIRED);
    assert_eq!(fixture.refused(complete("q", 1, 1, object("{}"))).await, EXPIRED);
}

/// A transaction is short, however many leases end at once.
pub async fn runs_that_do_not_fit_one_scan_end_in_the_next_one(fixture: Fixture) {
    fixture.scan().await;
    for first in [0, 1_000] {
        fixture.ok(create_all(first..first + 550)).await;
        fixture.ok(claim_all(first..first + 550)).await;
    }
    assert_eq!(fixture.pass(295).await, Scanned::default());
    fixture.clock.advance_seconds(5);
    let scans = [fixture.scan().await, fixture.scan().await, fixture.scan().await];
    let ended = scans.map(|scanned| (scanned.expired_runs, scanned.more));
    assert_eq!(ended, [(MAX_ITEMS as u64, true), (1_100 - MAX_ITEMS as u64, false), (0, false)]);
}

pub async fn a_heartbeat_keeps_a_run_alive(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    for _ in 0..4 {
        fixture.pass(295).await;
        assert_eq!(fixture.ok(heartbeat("q", 1, 1)).await, fixture.now().plus_seconds(300));
    }
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(fixture.pass(600).await.expired_runs, 0);
    assert_eq!(fixture.status(1).await, Status::Succeeded);
}

pub async fn the_last_attempt_fails_when_its_lease_ends(fixture: Fixture) {
    let fixture = claimed(fixture, 1).await;
    assert_eq!(fixture.pass(300).await.expired_runs, 1);
    assert_eq!(fixture.status(1).await, Status::Failed);
    assert_eq!(fixture.claimed(claim("q", "default", 2)).await, None);
}

pub async fn a_report_of_an_expired_run_performs_the_expiry(fixture: Fixture) {
    fixture.ok(create_all(1..8)).await;
    fixture.scan().await;
    fixture.claim_each(1..8).await;
    fixture.pass(295).await;
    fixture.clock.advance_seconds(5);
    let too_large = || args_beyond_the_limit(1);
    let reports = commands![
        heartbeat("q", 1, 1),
        complete("q", 2, 2, too_large()),
        fail("q", 3, 3),
        unclaim("q", 4, 4),
        progress(5, 5, "{}"),
        ReportProgress { progress: too_large(), ..progress(6, 6, "{}") },
        Heartbeat { progress: Some(object("{}")), ..heartbeat("q", 7, 7) },
    ];
    for (id, report) in (1..).zip(reports) {
        assert_eq!(fixture.refused(report.clone()).await, EXPIRED);
        let task = fixture.get(id).await;
        assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Pending, 1));
        assert_eq!(&*task.outcome.last_error.as_ref().unwrap().failure.kind, "HeartbeatTimeout");
        assert_eq!(task.outcome.progress, None);
        assert_eq!(fixture.refused(report).await, EXPIRED);
        assert_eq!(fixture.get(id).await, task, "charged once");
    }
    assert_eq!(fixture.scan().await.expired_runs, 0);
}

pub async fn replaying_the_claim_of_an_expired_run_is_stale(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    fixture.pass(295).await;
    fixture.clock.advance_seconds(5);
    let stale = Refusal::StaleRun { run_id: run_id(1) };
    assert_eq!(fixture.refused(claim("q", "default", 1)).await, stale, "before the scan");
    fixture.scan().await;
    assert_eq!(fixture.refused(claim("q", "default", 1)).await, stale, "after the scan");
    assert_eq!(fixture.claim(2).await.task.lifecycle.attempt, 2);
}

pub async fn reads_and_actions_do_not_expire_a_lease(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    fixture.pass(295).await;
    fixture.clock.advance_seconds(5);
    assert_eq!(fixture.status(1).await, Status::Running);
    assert_eq!(fixture.count_by_status().await, [0, 1, 0, 0, 0]);
    assert!(matches!(fixture.refused(update("q", 1, to_priority(1))).await, Refusal::TaskRunning { .. }));
    assert!(matches!(fixture.refused(delete("q", 1)).await, Refusal::TaskRunning { .. }));
    assert!(matches!(fixture.refused(requeue("q", 1)).await, Refusal::TaskStateConflict { .. }));
    assert!(matches!(fixture.refused(delete_queue("q", true)).await, Refusal::QueueHasRunningTasks { .. }));
    assert_eq!(fixture.claimed(claim("q", "default", 2)).await, None);
    assert_eq!(fixture.status(1).await, Status::Running);
    fixture.ok(cancel("q", 1)).await;
    assert_eq!(fixture.refused(heartbeat("q", 1, 1)).await, Refusal::RunFinalized { end: RunEnd::Cancel });
}

pub async fn after_an_outage_every_lease_is_good_for_the_credit(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    fixture.clock.advance_seconds(600);
    assert_eq!(fixture.scan().await, Scanned { credited_runs: 1, ..Scanned::default() });
    assert_eq!(fixture.status(1).await, Status::Running);
    assert_eq!(fixture.pass(85).await, Scanned::default());
    assert_eq!(fixture.status(1).await, Status::Running);
    assert_eq!(fixture.pass(5).await.expired_runs, 1, "ninety seconds, not more");
}

pub async fn a_heartbeat_before_the_scan_is_heard_after_an_outage(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    fixture.clock.advance_seconds(600);
    assert_eq!(fixture.ok(heartbeat("q", 1, 1)).await, fixture.now().plus_seconds(300));
    assert_eq!(fixture.pass(295).await, Scanned::default());
    fixture.clock.advance_seconds(600);
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(fixture.status(1).await, Status::Succeeded);
}

pub async fn a_credit_never_shortens_a_lease(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    fixture.clock.advance_seconds(16);
    assert_eq!(fixture.scan().await, Scanned::default(), "more than the credit is left");
    fixture.pass(280).await;
    assert_eq!(fixture.status(1).await, Status::Running);
    assert_eq!(fixture.pass(5).await.expired_runs, 1);
}

/// The first command after an outage grants the credit; later ones, before a scan and after it, add nothing.
pub async fn an_outage_is_credited_once(fixture: Fixture) {
    let fixture = claimed(fixture, 3).await;
    fixture.clock.advance_seconds(600);
    fixture.create(2, Definition::default()).await;
    let lease = async || fixture.get(1).await.lifecycle.run.unwrap().lease_expires_at;
    let credited = fixture.now().plus_seconds(90);
    assert_eq!(lease().await, credited);
    for id in 3..6 {
        fixture.clock.advance_seconds(1);
        fixture.create(id, Definition::default()).await;
        assert_eq!(lease().await, credited, "granted again to command {id}");
    }
    assert_eq!(fixture.scan().await, Scanned::default(), "granted again by the scan");
    assert_eq!(lease().await, credited);
    assert_eq!(fixture.pass(85).await.expired_runs, 0);
    assert_eq!(fixture.pass(2).await.expired_runs, 1, "ninety seconds after the outage, not more");
}

pub async fn a_scan_reports_what_it_did(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    for name in ["q", "other"] {
        for id in 0..3 {
            fixture.ok(create(name, id, Definition::default())).await;
            fixture.ok(claim(name, "default", format!("{name}{id}"))).await;
        }
    }
    fixture.scan().await;
    fixture.clock.advance_seconds(16);
    fixture.ok(heartbeat("q", 0, "q0")).await;
    fixture.scan().await;
    assert_eq!(fixture.pass(284).await.expired_runs, 5, "runs of every queue, except the one with a heartbeat");
    assert_eq!(fixture.pass(15).await.expired_runs, 0);
    assert_eq!(fixture.pass(5).await.expired_runs, 1);
}
