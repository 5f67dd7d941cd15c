//! Bulk updates: long filters over large documents that change one task, and short ones that change every task of the queue.

use serde_json::{Value, json};

use super::harness::{Attack, endures, fill, setting};
use super::support::{Request, Server, in_queue, task_id};

const LARGE: usize = 20;

struct BulkUpdates;

impl Attack for BulkUpdates {
    fn prepare(&self, server: &Server) {
        let members: serde_json::Map<String, Value> =
            (0..1_500).map(|n| (format!("k{n}"), json!({"v": n, "t": " ".repeat(500)}))).collect();
        let large = json!({"args": members});
        fill(server, LARGE + setting("TASKQUEUE_COST_ROWS", 1_000), |number| {
            if number < LARGE { large.clone() } else { json!({"args": {"n": number}}) }
        });
    }

    fn request(&self, number: usize) -> Request {
        let looks: Vec<String> = (0..370).map(|n| format!("args.k{n}.x==1")).collect();
        let filter = match number % 3 {
            0 => "priority >= 0".to_owned(),
            _ => format!("{} or id=='{}'", looks.join(" or "), task_id(number % LARGE)),
        };
        let body = json!({"filter": filter, "changes": {"priority": number}});
        Request::new("PATCH", &in_queue("/tasks")).json(body)
    }
}

#[test]
fn bulk_updates_leave_others_alone() {
    endures(&BulkUpdates);
}
