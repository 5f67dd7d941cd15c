//! Claims: who is next, and the rules of run ids (I2, I3, I4, I12, I14).

use taskqueue_core::task::ActiveRun;

use super::prelude::*;

/// Claims everything of a route of `q` and says in which order it came.
pub(super) async fn claim_all(fixture: &Fixture, for_route: &str, runs: &str) -> Vec<String> {
    let mut ids = Vec::new();
    while let Some(claimed) = fixture.claimed(claim("q", for_route, format!("{runs}{}", ids.len()))).await {
        ids.push(claimed.task.id.as_str().trim_start_matches("t_").trim_start_matches('0').to_owned());
    }
    ids
}

pub async fn highest_priority_first_then_first_in_first_out(fixture: Fixture) {
    let tasks = [("a", 0), ("b", i64::MAX), ("c", -1), ("d", 0), ("e", i64::MIN), ("f", i64::MAX), ("g", 7)];
    for (id, priority) in tasks {
        fixture.clock.advance_seconds(1);
        fixture.create(id, with_priority(priority)).await;
    }
    assert_eq!(claim_all(&fixture, "default", "r").await, ["b", "f", "g", "a", "d", "c", "e"]);
}

pub async fn first_in_first_out_holds_inside_one_microsecond(fixture: Fixture) {
    let ids: Vec<String> = (0..40).map(|n| format!("x{}", n * 7 % 40)).collect();
    for id in &ids {
        fixture.create(id, Definition::default()).await;
    }
    assert_eq!(claim_all(&fixture, "default", "r").await, ids);
}

pub async fn routes_match_exactly(fixture: Fixture) {
    fixture.create("a", with_routes(&["gpu"])).await;
    for route in ["GPU", "Gpu", "gp", "gpu1", "g_u", "default", "gpu.", "g"] {
        assert_eq!(fixture.claimed(claim("q", route, "x")).await, None, "{route}");
    }
    assert_eq!(claim_all(&fixture, "gpu", "r").await, ["a"]);
}

pub async fn a_task_with_several_routes_is_claimed_once(fixture: Fixture) {
    fixture.create("a", with_routes(&["x", "y"])).await;
    fixture.create("b", with_routes(&["y", "z"])).await;
    fixture.create("c", with_routes(&["z"])).await;
    assert_eq!(fixture.claimed(claim("q", "y", 1)).await.unwrap().task.id, task_id("a"));
    assert_eq!(fixture.claimed(claim("q", "x", 2)).await, None);
    assert_eq!(claim_all(&fixture, "z", "r").await, ["b", "c"]);
    assert_eq!(fixture.claimed(claim("q", "y", 3)).await, None);
}

pub async fn a_claim_sets_owner_attempt_and_times(fixture: Fixture) {
    let created = fixture.create(1, with_routes(&["a", "b"])).await;
    fixture.clock.advance_seconds(3);
    let claimed = fixture.claimed(claim("q", "b", 1)).await.unwrap();
    let now = fixture.now();
    let lease_expires_at = now.plus_seconds(300);
    let mut expected = created;
    expected.lifecycle = Lifecycle {
        status: Status::Running,
        attempt: 1,
        last_route: Some(route("b")),
        started_at: Some(now),
        updated_at: now,
        run: Some(ActiveRun { run_id: run_id(1), lease_expires_at, times_out_at: None }),
        ..expected.lifecycle
    };
    assert_eq!(claimed, Claimed { task: expected.clone(), run_id: run_id(1), lease_expires_at });
    assert_eq!(fixture.get(1).await, expected);
}

pub async fn fail_unclaim_requeue_and_expiry_go_behind_every_task_of_their_priority(fixture: Fixture) {
    fixture.create("expired", Definition::default()).await;
    fixture.claim("old").await;
    fixture.pass(295).await;
    fixture.ok(create_all(["failed", "unclaimed", "stays", "requeued", "again"])).await;
    fixture.create("low", with_priority(-1)).await;
    fixture.claim("f").await;
    fixture.claim("u").await;
    fixture.ok(unclaim("q", "unclaimed", "u")).await;
    fixture.ok(requeue("q", "requeued")).await;
    fixture.ok(fail("q", "failed", "f")).await;
    fixture.ok(cancel("q", "again")).await;
    assert_eq!(fixture.pass(5).await.expired_runs, 1);
    fixture.ok(requeue("q", "again")).await;
    let order = ["stays", "unclaimed", "requeued", "failed", "expired", "again", "low"];
    assert_eq!(claim_all(&fixture, "default", "r").await, order);
}

pub async fn only_pending_tasks_are_claimed(fixture: Fixture) {
    let ids = ["cancelled", "failed", "succeeded", "running", "deleted", "pending"];
    fixture.create_many(ids.map(|id| (id, with_budget(1)))).await;
    fixture.ok(cancel("q", "cancelled")).await;
    fixture.ok(delete("q", "deleted")).await;
    fixture.claim(1).await;
    fixture.ok(fail("q", "failed", 1)).await;
    fixture.claim(2).await;
    fixture.ok(complete("q", "succeeded", 2, object("{}"))).await;
    fixture.claim(3).await;
    assert_eq!(claim_all(&fixture, "default", "r").await, ["pending"]);
}

pub async fn a_replayed_claim_returns_the_same_task_and_the_unchanged_lease(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.create(2, Definition::default()).await;
    let first = fixture.claim(1).await;
    fixture.pass(10).await;
    assert_eq!(fixture.claim(1).await, first);
    fixture.ok(heartbeat("q", 1, 1)).await;
    let renewed = fixture.claim(1).await;
    assert_eq!(renewed.lease_expires_at, fixture.now().plus_seconds(300));
    assert_eq!(without_seq(renewed.task).definition, first.task.definition);
    assert_eq!(fixture.count_by_status().await, [1, 1, 0, 0, 0]);
}

pub async fn an_active_run_id_conflicts_with_another_queue_or_route(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.create(1, with_routes(&["a", "b"])).await;
    fixture.ok(create("q", 2, with_routes(&["b"]))).await;
    fixture.ok(create("other", 1, with_routes(&["a"]))).await;
    fixture.claimed(claim("q", "a", 1)).await.unwrap();
    let conflict = Refusal::RunIdConflict { run_id: run_id(1) };
    assert_eq!(fixture.refused(claim("q", "b", 1)).await, conflict);
    assert_eq!(fixture.refused(claim("q", "nothing", 1)).await, conflict);
    assert_eq!(fixture.refused(claim("other", "a", 1)).await, conflict);
    assert!(matches!(fixture.refused(claim("no", "a", 1)).await, Refusal::QueueNotFound { .. }));
    assert_eq!(fixture.count_by_status().await, [1, 1, 0, 0, 0]);
}

pub async fn a_used_run_id_never_claims_again(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.ok(create("other", 1, Definition::default())).await;
    fixture.create(1, with_budget(10)).await;
    let stale = |run| Refusal::StaleRun { run_id: run_id(run) };
    for run in 0..4 {
        fixture.claim(run).await;
        match run {
            0 => fixture.ok(fail("q", 1, run)).await,
            1 => fixture.ok(unclaim("q", 1, run)).await,
            2 => drop(fixture.ok(cancel("q", 1)).await),
            _ => fixture.ok(complete("q", 1, run, object("{}"))).await,
        }
        for used in 0..=run {
            assert_eq!(fixture.refused(claim("q", "default", used)).await, stale(used));
            assert_eq!(fixture.refused(claim("q", "nothing", used)).await, stale(used));
            assert_eq!(fixture.refused(claim("other", "default", used)).await, stale(used));
        }
        if run == 2 {
            fixture.ok(requeue("q", 1)).await;
        }
    }
    assert_eq!(fixture.claimed(claim("other", "default", 9)).await.unwrap().task.id, task_id(1));
}

/// A task with a run of every kind: displaced ones, the latest one, and none that is active.
async fn with_runs(fixture: &Fixture, id: u32, runs: [u32; 3]) {
    fixture.create(id, with_budget(10)).await;
    fixture.claim(runs[0]).await;
    fixture.ok(fail("q", id, runs[0])).await;
    fixture.claim(runs[1]).await;
    fixture.ok(cancel("q", id)).await;
    fixture.ok(requeue("q", id)).await;
    fixture.claim(runs[2]).await;
    fixture.ok(unclaim("q", id, runs[2])).await;
}

async fn assert_stale(fixture: &Fixture, runs: [u32; 3]) {
    for run in runs {
        let stale = Refusal::StaleRun { run_id: run_id(run) };
        assert_eq!(fixture.refused(claim("q", "default", run)).await, stale);
        assert_eq!(fixture.refused(claim("q", "nothing", run)).await, stale, "also where nothing is pending");
    }
}

/// A purge may still be under way; then its ids go with the scan that follows it.
async fn until_forgotten(fixture: &Fixture, runs: [u32; 3]) {
    for run in runs {
        let forgotten = async {
            while fixture.write(claim("q", "nothing", run)).await != Ok(None) {
                fixture.scan().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), forgotten).await.unwrap();
    }
}

const A_DAY_SECONDS: i64 = 86_400;

/// From the deletion of the task, and not from the end of the run.
pub async fn run_ids_of_a_deleted_task_are_kept_for_a_day(fixture: Fixture) {
    with_runs(&fixture, 1, [1, 2, 3]).await;
    fixture.clock.advance_seconds(10 * A_DAY_SECONDS);
    fixture.scan().await;
    assert_stale(&fixture, [1, 2, 3]).await;
    fixture.ok(delete("q", 1)).await;
    fixture.create(2, Definition::default()).await;
    assert_stale(&fixture, [1, 2, 3]).await;
    fixture.clock.advance_micros(A_DAY_SECONDS * 1_000_000 - 1);
    fixture.scan().await;
    assert_stale(&fixture, [1, 2, 3]).await;
    fixture.clock.advance_micros(1);
    fixture.scan().await;
    assert_eq!(fixture.claim(1).await.task.id, task_id(2), "forgotten");
    until_forgotten(&fixture, [2, 3, 4]).await;
}

pub async fn run_ids_of_a_deleted_queue_are_kept_for_a_day(fixture: Fixture) {
    with_runs(&fixture, 1, [1, 2, 3]).await;
    fixture.ok(delete_queue("q", true)).await;
    fixture.ok(create_queue("q")).await;
    assert_stale(&fixture, [1, 2, 3]).await;
    fixture.create(1, Definition::default()).await;
    assert_stale(&fixture, [1, 2, 3]).await;
    fixture.clock.advance_micros(A_DAY_SECONDS * 1_000_000 - 1);
    for _ in 0..3 {
        fixture.scan().await;
        assert_stale(&fixture, [1, 2, 3]).await;
    }
    fixture.clock.advance_micros(1);
    until_forgotten(&fixture, [1, 2, 3]).await;
}
