//! Fuzzy searches as costly as they may be: 64 long words that almost match, over long names.

use serde_json::json;

use super::harness::{Attack, endures, fill, setting};
use super::support::{Request, Server, encode, in_queue};

struct FuzzyNames;

impl Attack for FuzzyNames {
    fn prepare(&self, server: &Server) {
        let name = "ẞ".repeat(255);
        let count = setting("TASKQUEUE_COST_ROWS", 2_000) / 2;
        fill(server, count, |number| json!({"name": format!("{name}{}", number % 10)}));
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
