//! Where every task must be when a history is over: what its state, its time and its dependencies say.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::now_micros;
use crate::support::*;

/// All tasks by number, archived ones included.
fn all_tasks(server: &Server) -> HashMap<usize, Value> {
    server.tasks_by_number(&format!("{BY_ID}&include_archived=true"))
}

fn dependencies(task: &Value) -> Vec<usize> {
    let ids = task["dependencies"].as_array().into_iter().flatten();
    ids.map(|id| id.as_str().unwrap()[2..].parse().unwrap()).collect()
}

/// The numbers of the pending tasks that the rules let claims take now.
fn claimable(tasks: &HashMap<usize, Value>) -> BTreeSet<usize> {
    let succeeded = |n: &usize| tasks.get(n).is_some_and(|task| task["status"] == "succeeded");
    let may_run = |task: &Value| {
        let is_due = task.get("not_before").is_none_or(|time| micros(time) <= now_micros());
        task["status"] == "pending" && is_due && dependencies(task).iter().all(succeeded)
    };
    tasks.iter().filter(|(_, task)| may_run(task)).map(|(n, _)| *n).collect()
}

/// Pending tasks that would be cancelled for a dependency that has failed and is there.
fn overdue(tasks: &HashMap<usize, Value>) -> Vec<usize> {
    let has_failed =
        |n: &usize| tasks.get(n).is_some_and(|task| task["status"] == "failed" || task["status"] == "cancelled");
    let is_overdue = |task: &Value| {
        let cancels = task.get("on_dependency_failure").is_some();
        task["status"] == "pending" && cancels && dependencies(task).iter().any(has_failed)
    };
    tasks.iter().filter(|(_, task)| is_overdue(task)).map(|(n, _)| *n).collect()
}

/// Claims all that there is at both servers, and completes it; gives the numbers.
fn take_all(servers: &[Server; 2], round: usize) -> BTreeSet<usize> {
    let mut taken = BTreeSet::new();
    for (which, route) in [(0, "default"), (1, "default"), (0, "delayed"), (1, "delayed")] {
        let first = 500_000_000 + round * 10_000 + which * 1_000 + route.len() * 100_000;
        let runs: Vec<String> = (first..first + 200).map(run_id).collect();
        for item in servers[which].batch("claim", json!({"route": route, "run_ids": runs})) {
            if item["outcome"] == "claimed" {
                let task: usize = item["task"]["id"].as_str().unwrap()[2..].parse().unwrap();
                assert!(taken.insert(task), "task {task} was claimed twice");
                let body = json!({"run_id": item["run_id"], "result": {}});
                servers[1 - which].post(&of_task(task, "/complete"), body).expect(204);
            }
        }
    }
    taken
}

pub(super) fn every_task_is_where_it_belongs(servers: &[Server; 2]) {
    let open = json!({"paused": null, "max_running": null, "route_limits": null});
    servers[1].patch(&in_queue("/settings"), open).expect(200);
    // What clients still had.
    for (n, task) in all_tasks(&servers[0]) {
        if task["status"] == "running" {
            servers[0].cancel(n).expect(200);
        }
    }
    eventually("every task that is to be cancelled is cancelled", || overdue(&all_tasks(&servers[0])).is_empty());
    // Those that wait for a time wait for a moment, or for longer than anybody.
    let is_soon = |task: &Value| task.get("not_before").is_some_and(|time| !time.as_str().unwrap().starts_with("2099"));
    let due = |task: &Value| !is_soon(task) || micros(&task["not_before"]) <= now_micros();
    eventually("every near time has come", || all_tasks(&servers[0]).values().all(due));
    for round in 0.. {
        let tasks = all_tasks(&servers[1]);
        let expected = claimable(&tasks);
        for (n, task) in tasks.iter().filter(|(_, task)| task["status"] == "pending") {
            let explained = servers[n % 2].get(&of_task(*n, "/explain")).expect(200).json();
            assert_eq!(explained["claimable"], expected.contains(n), "{task} {explained}");
        }
        let taken = take_all(servers, round);
        // The first ones that are completed may let others be claimed before all have asked.
        assert!(expected.is_subset(&taken), "left alone: {:?}", expected.difference(&taken).collect::<Vec<_>>());
        if taken.is_empty() {
            break;
        }
    }
    let tasks = all_tasks(&servers[0]);
    assert!(tasks.values().all(|task| task["status"] != "running"));
    assert!(overdue(&tasks).is_empty());
}
