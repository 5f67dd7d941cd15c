//! One client of a history: what it asks for at random, and what it writes down.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use super::{CLAIMS, Call, Choices, Claimed, TASKS, What, now_micros};
use crate::support::*;

struct Client<'a> {
    server: &'a Server,
    lane: usize,
    choices: Choices,
    runs: usize,
    /// The tasks and runs that it has.
    held: Vec<(usize, usize)>,
    calls: Vec<Call>,
}

/// Asks until the time is over and enough was claimed by all; gives all that concerns claims.
pub(super) fn run(server: &Server, lane: usize, choices: Choices, until: Instant, claims: &AtomicUsize) -> Vec<Call> {
    let mut client = Client { server, lane, choices, runs: 0, held: Vec::new(), calls: Vec::new() };
    while Instant::now() < until || claims.load(Ordering::SeqCst) < CLAIMS {
        let before = client.held.len();
        client.step();
        claims.fetch_add(client.held.len().saturating_sub(before), Ordering::SeqCst);
    }
    client.calls
}

impl Client<'_> {
    fn step(&mut self) {
        match self.choices.below(20) {
            0..5 => self.claim(),
            5..9 => self.end(),
            9..13 => self.create(),
            13 | 14 => self.update(),
            15 => self.cancel(),
            16 => self.requeue(),
            17 => self.delete(),
            18 => self.change_settings(),
            _ => self.act_on_many(),
        }
    }

    fn write_down(&mut self, begun: Instant, what: What) {
        self.calls.push(Call { begun, ended: Instant::now(), what });
    }

    fn task(&mut self) -> usize {
        self.choices.below(TASKS)
    }

    fn some_dependencies(&mut self) -> Vec<String> {
        let count = self.choices.below(4);
        (0..count).map(|_| task_id(self.task())).collect()
    }

    fn claim(&mut self) {
        self.runs += 1;
        let run = self.lane * 1_000_000 + self.runs;
        let route = if self.choices.one_in(4) { "delayed" } else { "default" };
        let begun = Instant::now();
        let response = self.server.claim_for("q", route, run);
        let answer = (response.status == 200).then(|| {
            let task = &response.json()["task"];
            let of = |id: &Value| id.as_str().unwrap()[2..].parse::<usize>().unwrap();
            Claimed {
                task: of(&task["id"]),
                dependencies: task["dependencies"].as_array().into_iter().flatten().map(of).collect(),
                started_at: micros(&task["started_at"]),
                attempt: task["attempt"].as_i64().unwrap(),
            }
        });
        self.held.extend(answer.as_ref().map(|claimed| (claimed.task, run)));
        self.write_down(begun, What::Claim { answer });
    }

    /// Ends one of its runs, in one of several ways. Somebody may have cancelled it.
    fn end(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let chosen = self.choices.below(self.held.len());
        let (task, run) = self.held.swap_remove(chosen);
        let (action, more) = match self.choices.below(6) {
            0 => ("fail", json!({"retry": false})),
            1 => ("fail", json!({"retry_after_seconds": 0.05})),
            2 => ("unclaim", json!({"delay_seconds": 0.05})),
            _ => ("complete", json!({})),
        };
        let mut body = action_body(action, run);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let begun = Instant::now();
        let status = self.server.post(&of_task(task, &format!("/{action}")), body).status;
        assert!(matches!(status, 204 | 404 | 409), "{action}: {status}");
        match action {
            "complete" => self.write_down(begun, What::Complete { task, done: status == 204 }),
            _ => self.write_down(begun, What::End { task }),
        }
    }

    fn create(&mut self) {
        let task = self.task();
        let mut body = json!({"dependencies": self.some_dependencies(), "max_attempts": 3});
        if self.choices.one_in(2) {
            body["on_dependency_failure"] = json!("cancel");
        }
        if self.choices.one_in(6) {
            body["not_before"] = json!(at_offset(now_micros() + 200_000, 0));
        }
        if self.choices.one_in(8) {
            body["not_before"] = json!("2099-01-01T00:00:00Z");
        }
        let status = self.server.put(&of_task(task, ""), body).status;
        assert!(matches!(status, 200 | 201 | 409), "create: {status}");
    }

    fn update(&mut self) {
        let task = self.task();
        let changes = match self.choices.below(6) {
            0 => json!({"not_before": null}),
            1 => json!({"on_dependency_failure": "cancel"}),
            2 => json!({"on_dependency_failure": "wait"}),
            3 => json!({"archived": true}),
            _ => json!({"dependencies": self.some_dependencies()}),
        };
        let status = self.server.patch(&of_task(task, ""), changes).status;
        assert!(matches!(status, 200 | 404 | 409), "update: {status}");
    }

    fn cancel(&mut self) {
        let task = self.task();
        let begun = Instant::now();
        let status = self.server.cancel(task).status;
        assert!(matches!(status, 200 | 404 | 409), "cancel: {status}");
        self.write_down(begun, What::End { task });
    }

    fn requeue(&mut self) {
        let task = self.task();
        let status = self.server.requeue(task).status;
        assert!(matches!(status, 200 | 404 | 409), "requeue: {status}");
    }

    fn delete(&mut self) {
        let task = self.task();
        let begun = Instant::now();
        let status = self.server.delete(&of_task(task, "")).status;
        assert!(matches!(status, 204 | 404 | 409), "delete: {status}");
        self.write_down(begun, What::Delete { task, done: status == 204 });
    }

    /// Only one client pauses, so that it knows for how long.
    fn change_settings(&mut self) {
        let path = in_queue("/settings");
        if self.lane == 0 {
            for paused in [true, false] {
                let begun = Instant::now();
                self.server.patch(&path, json!({"paused": paused})).expect(200);
                self.write_down(begun, What::Pause { paused });
                // Others ask meanwhile.
                for _ in 0..self.choices.below(5) {
                    self.server.list("limit=10");
                }
            }
        } else if self.lane == 1 {
            let limit = [json!(null), json!(1), json!(5)][self.choices.below(3)].clone();
            self.server.patch(&path, json!({"max_running": limit, "route_limits": {"default": limit}})).expect(200);
        }
    }

    /// One action on all that a filter selects. It may end any run.
    fn act_on_many(&mut self) {
        let part = format!("id > '{}'", task_id(self.task()));
        let (action, filter) = match self.choices.below(4) {
            0 => ("cancel", format!("{part} and priority == 0 and 'default' in routes")),
            1 => ("delete", format!("{part} and 'default' in routes and status in ['failed', 'cancelled']")),
            _ => ("requeue", format!("{part} and 'default' in routes")),
        };
        if action == "cancel" && !self.choices.one_in(4) {
            return;
        }
        let begun = Instant::now();
        let status = self.server.post(&in_queue(&format!("/tasks/bulk/{action}")), json!({"filter": filter})).status;
        assert_eq!(status, 200, "{action} of many");
        if action == "cancel" {
            let ended = Instant::now();
            self.calls.extend((0..TASKS).map(|task| Call { begun, ended, what: What::End { task } }));
        }
    }
}
