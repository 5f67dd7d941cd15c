//! Everything that ends a run, for what waits for that.

use super::prelude::*;

/// The causes, and what each makes of the run.
pub(super) const CAUSES: [(&str, RunEnd); 7] = [
    ("complete", RunEnd::Complete),
    ("fail", RunEnd::Fail),
    ("unclaim", RunEnd::Unclaim),
    ("cancel", RunEnd::Cancel),
    ("bulk cancel", RunEnd::Cancel),
    ("late report", RunEnd::HeartbeatExpired),
    ("expiry", RunEnd::HeartbeatExpired),
];

/// Ends the run `n` of task `n`.
pub(super) async fn end_run(fixture: &Fixture, n: usize, cause: &str) {
    match cause {
        "complete" => fixture.ok(complete("q", n, n, object("{}"))).await,
        "fail" => fixture.ok(fail("q", n, n)).await,
        "unclaim" => fixture.ok(unclaim("q", n, n)).await,
        "cancel" => drop(fixture.ok(cancel("q", n)).await),
        "bulk cancel" => drop(fixture.ok(act_on_all("q", BulkAction::Cancel, "exists(id)")).await),
        "late report" => {
            fixture.pass(LEASE_SECONDS - 5).await;
            // Between two scans.
            fixture.clock.advance_seconds(6);
            fixture.refused(complete("q", n, n, object("{}"))).await;
        }
        _ => assert_eq!(fixture.pass(LEASE_SECONDS).await.expired_runs, 1),
    }
}

/// Takes the task out, so that the next claim gets another one.
pub(super) async fn take_out(fixture: &Fixture, n: usize, cause: &str) {
    if !matches!(cause, "complete" | "cancel" | "bulk cancel") {
        fixture.ok(cancel("q", n)).await;
    }
}
