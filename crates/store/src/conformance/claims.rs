//! Claims: who is next, and the rules of run ids (I2, I3, I4, I12, I14).

use std::time::Duration;

use taskqueue_core::definition::Definition;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::{ActiveRun, Lifecycle, Status};

use super::Storage;
use super::bench::{Bench, without_seq};
use super::commands::*;
use crate::command::{Answer, Claimed};

/// Claims everything of a route of `q` and says in which order it came.
pub(super) async fn claim_all(bench: &Bench, for_route: &str, runs: &str) -> Vec<String> {
    let mut ids = Vec::new();
    while let Some(claimed) = bench.claimed(claim("q", for_route, format!("{runs}{}", ids.len()))).await {
        ids.push(claimed.task.id.as_str().trim_start_matches("t_").trim_start_matches('0').to_owned());
    }
    ids
}

pub async fn highest_priority_first_then_first_in_first_out(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    let tasks = [("a", 0), ("b", i64::MAX), ("c", -1), ("d", 0), ("e", i64::MIN), ("f", i64::MAX), ("g", 7)];
    for (id, priority) in tasks {
        bench.clock.advance_seconds(1);
        bench.create(id, with_priority(priority)).await;
    }
    assert_eq!(claim_all(&bench, "default", "r").await, ["b", "f", "g", "a", "d", "c", "e"]);
}

pub async fn first_in_first_out_holds_inside_one_microsecond(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    let ids: Vec<String> = (0..40).map(|n| format!("x{}", n * 7 % 40)).collect();
    for id in &ids {
        bench.create(id, Definition::default()).await;
    }
    assert_eq!(claim_all(&bench, "default", "r").await, ids);
}

pub async fn routes_match_exactly(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create("a", with_routes(&["gpu"])).await;
    for route in ["GPU", "Gpu", "gp", "gpu1", "g_u", "default", "gpu.", "g"] {
        assert_eq!(bench.claimed(claim("q", route, "x")).await, None, "{route}");
    }
    assert_eq!(claim_all(&bench, "gpu", "r").await, ["a"]);
}

pub async fn a_task_with_several_routes_is_claimed_once(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create("a", with_routes(&["x", "y"])).await;
    bench.create("b", with_routes(&["y", "z"])).await;
    bench.create("c", with_routes(&["z"])).await;
    assert_eq!(bench.claimed(claim("q", "y", 1)).await.unwrap().task.id, task_id("a"));
    assert_eq!(bench.claimed(claim("q", "x", 2)).await, None);
    assert_eq!(claim_all(&bench, "z", "r").await, ["b", "c"]);
    assert_eq!(bench.claimed(claim("q", "y", 3)).await, None);
}

pub async fn a_claim_sets_owner_attempt_and_times(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    let created = bench.create(1, with_routes(&["a", "b"])).await;
    bench.clock.advance_seconds(3);
    let claimed = bench.claimed(claim("q", "b", 1)).await.unwrap();
    let now = bench.now();
    let lease_expires_at = now.plus_seconds(300);
    let mut expected = created;
    expected.lifecycle = Lifecycle {
        status: Status::Running,
        attempt: 1,
        last_route: Some(route("b")),
        started_at: Some(now),
        updated_at: now,
        run: Some(ActiveRun { run_id: run_id(1), lease_expires_at }),
        ..expected.lifecycle
    };
    assert_eq!(claimed, Claimed { task: expected.clone(), run_id: run_id(1), lease_expires_at });
    assert_eq!(bench.get(1).await, expected);
}

pub async fn fail_unclaim_requeue_and_expiry_go_behind_every_task_of_their_priority(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create("expired", Definition::default()).await;
    bench.claim("old").await;
    bench.pass(295).await;
    for id in ["failed", "unclaimed", "stays", "requeued", "again"] {
        bench.create(id, Definition::default()).await;
    }
    bench.create("low", with_priority(-1)).await;
    bench.claim("f").await;
    bench.claim("u").await;
    bench.ok(unclaim("q", "unclaimed", "u")).await;
    bench.ok(requeue("q", "requeued")).await;
    bench.ok(fail("q", "failed", "f")).await;
    bench.ok(cancel("q", "again")).await;
    assert_eq!(bench.pass(5).await.expired_runs, 1);
    bench.ok(requeue("q", "again")).await;
    let order = ["stays", "unclaimed", "requeued", "failed", "expired", "again", "low"];
    assert_eq!(claim_all(&bench, "default", "r").await, order);
}

pub async fn only_pending_tasks_are_claimed(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in ["cancelled", "failed", "succeeded", "running", "deleted", "pending"] {
        bench.create(id, with_budget(1)).await;
    }
    bench.ok(cancel("q", "cancelled")).await;
    bench.ok(delete("q", "deleted")).await;
    bench.claim(1).await;
    bench.ok(fail("q", "failed", 1)).await;
    bench.claim(2).await;
    bench.ok(complete("q", "succeeded", 2, object("{}"))).await;
    bench.claim(3).await;
    assert_eq!(claim_all(&bench, "default", "r").await, ["pending"]);
}

pub async fn a_replayed_claim_returns_the_same_task_and_the_unchanged_lease(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create(1, Definition::default()).await;
    bench.create(2, Definition::default()).await;
    let first = bench.claim(1).await;
    bench.pass(10).await;
    assert_eq!(bench.claim(1).await, first);
    bench.ok(heartbeat("q", 1, 1)).await;
    let renewed = bench.claim(1).await;
    assert_eq!(renewed.lease_expires_at, bench.now().plus_seconds(300));
    assert_eq!(without_seq(renewed.task).definition, first.task.definition);
    assert_eq!(bench.count_by_status().await, [1, 1, 0, 0, 0]);
}

pub async fn an_active_run_id_conflicts_with_another_queue_or_route(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(create_queue("other")).await;
    bench.create(1, with_routes(&["a", "b"])).await;
    bench.ok(create("q", 2, with_routes(&["b"]))).await;
    bench.ok(create("other", 1, with_routes(&["a"]))).await;
    bench.claimed(claim("q", "a", 1)).await.unwrap();
    let conflict = Refusal::RunIdConflict { run_id: run_id(1) };
    assert_eq!(bench.refused(claim("q", "b", 1)).await, conflict);
    assert_eq!(bench.refused(claim("q", "nothing", 1)).await, conflict);
    assert_eq!(bench.refused(claim("other", "a", 1)).await, conflict);
    assert!(matches!(bench.refused(claim("no", "a", 1)).await, Refusal::QueueNotFound { .. }));
    assert_eq!(bench.count_by_status().await, [1, 1, 0, 0, 0]);
}

pub async fn a_used_run_id_never_claims_again(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(create_queue("other")).await;
    bench.ok(create("other", 1, Definition::default())).await;
    bench.create(1, with_budget(10)).await;
    let stale = |run| Refusal::StaleRun { run_id: run_id(run) };
    for run in 0..4 {
        bench.claim(run).await;
        match run {
            0 => bench.ok(fail("q", 1, run)).await,
            1 => bench.ok(unclaim("q", 1, run)).await,
            2 => bench.ok(cancel("q", 1)).await,
            _ => bench.ok(complete("q", 1, run, object("{}"))).await,
        };
        for used in 0..=run {
            assert_eq!(bench.refused(claim("q", "default", used)).await, stale(used));
            assert_eq!(bench.refused(claim("q", "nothing", used)).await, stale(used));
            assert_eq!(bench.refused(claim("other", "default", used)).await, stale(used));
        }
        if run == 2 {
            bench.ok(requeue("q", 1)).await;
        }
    }
    assert_eq!(bench.claimed(claim("other", "default", 9)).await.unwrap().task.id, task_id(1));
}

/// A task with a run of every kind: displaced ones, the latest one, and none that is active.
async fn with_runs(bench: &Bench, id: u32, runs: [u32; 3]) {
    bench.create(id, with_budget(10)).await;
    bench.claim(runs[0]).await;
    bench.ok(fail("q", id, runs[0])).await;
    bench.claim(runs[1]).await;
    bench.ok(cancel("q", id)).await;
    bench.ok(requeue("q", id)).await;
    bench.claim(runs[2]).await;
    bench.ok(unclaim("q", id, runs[2])).await;
}

async fn assert_stale(bench: &Bench, runs: [u32; 3]) {
    for run in runs {
        let stale = Refusal::StaleRun { run_id: run_id(run) };
        assert_eq!(bench.refused(claim("q", "default", run)).await, stale);
        assert_eq!(bench.refused(claim("q", "nothing", run)).await, stale, "also where nothing is pending");
    }
}

/// A purge may still be under way; then its ids go with the scan that follows it.
async fn until_forgotten(bench: &Bench, runs: [u32; 3]) {
    for run in runs {
        let forgotten = async {
            while bench.write(claim("q", "nothing", run)).await != Ok(Answer::Claimed(None)) {
                bench.scan().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), forgotten).await.unwrap();
    }
}

const A_DAY_SECONDS: i64 = 86_400;

pub async fn run_ids_of_a_deleted_task_are_kept_for_a_day(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    with_runs(&bench, 1, [1, 2, 3]).await;
    bench.ok(delete("q", 1)).await;
    bench.create(2, Definition::default()).await;
    assert_stale(&bench, [1, 2, 3]).await;
    bench.clock.advance_micros(A_DAY_SECONDS * 1_000_000 - 1);
    bench.scan().await;
    assert_stale(&bench, [1, 2, 3]).await;
    bench.clock.advance_micros(1);
    bench.scan().await;
    assert_eq!(bench.claim(1).await.task.id, task_id(2), "forgotten");
    until_forgotten(&bench, [2, 3, 4]).await;
}

pub async fn run_ids_of_a_deleted_queue_are_kept_for_a_day(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    with_runs(&bench, 1, [1, 2, 3]).await;
    bench.ok(delete_queue("q", true)).await;
    bench.ok(create_queue("q")).await;
    assert_stale(&bench, [1, 2, 3]).await;
    bench.create(1, Definition::default()).await;
    assert_stale(&bench, [1, 2, 3]).await;
    bench.clock.advance_micros(A_DAY_SECONDS * 1_000_000 - 1);
    for _ in 0..3 {
        bench.scan().await;
        assert_stale(&bench, [1, 2, 3]).await;
    }
    bench.clock.advance_micros(1);
    until_forgotten(&bench, [1, 2, 3]).await;
}

pub async fn a_run_id_is_kept_from_the_deletion_of_its_task_and_not_from_its_end(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    with_runs(&bench, 1, [1, 2, 3]).await;
    bench.clock.advance_seconds(10 * A_DAY_SECONDS);
    bench.scan().await;
    assert_stale(&bench, [1, 2, 3]).await;
    bench.ok(delete("q", 1)).await;
    bench.clock.advance_seconds(A_DAY_SECONDS - 1);
    bench.scan().await;
    assert_stale(&bench, [1, 2, 3]).await;
}
