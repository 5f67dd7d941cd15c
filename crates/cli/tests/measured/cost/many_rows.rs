//! Reads of many small tasks: long filters that select nothing, orders without an index, groups.

use serde_json::json;

use super::harness::{Attack, endures, fill, setting};
use super::support::{Request, Server, encode, in_queue};

struct ManyRows;

impl Attack for ManyRows {
    fn prepare(&self, server: &Server) {
        fill(
            server,
            setting("TASKQUEUE_COST_ROWS", 2_000),
            |number| json!({"name": format!("n{number}"), "args": {"n": number, "x": [1, 2, 3]}}),
        );
    }

    fn request(&self, number: usize) -> Request {
        let parts = |predicate: &str| {
            let all: Vec<String> = (0..200).map(|n| predicate.replace("{}", &n.to_string())).collect();
            encode(&all.join(" or "))
        };
        let path = match number % 5 {
            0 => format!("/tasks?filter={}", parts("args.a{}.b > {}")),
            1 => format!("/tasks/count?filter={}", parts("name == 'x{}'")),
            2 => format!("/tasks/count?group_by=routes,status&filter={}", parts("'r{}' in routes")),
            3 => format!("/tasks?order_by=name&limit=1000&filter={}", parts("args.n != -{}")),
            _ => "/tasks?status=failed&order_by=updated_at".to_owned(),
        };
        Request::new("GET", &in_queue(&path))
    }
}

#[test]
fn reads_of_many_rows_do_not_slow_down_others() {
    endures(&ManyRows);
}
