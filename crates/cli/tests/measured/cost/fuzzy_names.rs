//! Fuzzy searches as costly as they may be: 64 long words that almost match, over long names.

use serde_json::json;

use super::harness::{Attack, endures, setting};
use super::support::{Request, Server, encode, in_parallel, in_queue, of_task};

struct FuzzyNames;

impl Attack for FuzzyNames {
    fn prepare(&self, server: &Server) {
        let name = "ẞ".repeat(255);
        in_parallel(8, |thread| {
            for number in (thread..setting("TASKQUEUE_COST_ROWS", 2_000) / 2).step_by(8) {
                server.put(&of_task(number, ""), json!({"name": format!("{name}{}", number % 10)})).expect(201);
            }
        });
    }

    fn request(&self, number: usize) -> Request {
        let words: Vec<String> = (0..60).map(|n| format!("{}{}", "s".repeat(120 - n), n % 10)).collect();
        let words = encode(&words.join(" "));
        let path = match number % 2 {
            0 => format!("/tasks/count?name_fuzzy={words}"),
            _ => format!("/tasks?order_by=name&name_fuzzy={words}"),
        };
        Request::new("GET", &in_queue(&path))
    }
}

#[test]
fn costly_fuzzy_searches_leave_others_alone() {
    endures(&FuzzyNames);
}
