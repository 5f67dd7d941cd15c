//! Batches of 2 MiB: of many small values, of which every item is refused, and of tasks that exist already.

use super::harness::{Attack, endures};
use super::support::{Request, Server, in_queue, task_id};

/// Bodies that have arrived are understood though their clients left, and without optimisation each takes a tenth of a second.
const ITEMS: usize = 4;

struct LargeBatches {
    bodies: [String; 2],
}

impl Attack for LargeBatches {
    fn prepare(&self, server: &Server) {
        for body in &self.bodies {
            server.post(&in_queue("/tasks/batch/create"), body.as_str()).expect(200);
        }
    }

    fn request(&self, number: usize) -> Request {
        Request::new("POST", &in_queue("/tasks/batch/create")).json(self.bodies[number % 2].as_str())
    }
}

#[test]
fn large_batches_leave_others_alone() {
    let batch = |item: &dyn Fn(usize) -> String| {
        let items: Vec<String> = (0..ITEMS).map(|n| format!(r#"{{"id":"{}",{}}}"#, task_id(n), item(n))).collect();
        format!(r#"{{"tasks":[{}]}}"#, items.join(","))
    };
    let (lists, text) = ("[1],".repeat(130_000), "x".repeat(520_000));
    // Nobody claims them: the tasks are of a route of their own.
    endures(&LargeBatches {
        bodies: [
            batch(&|_| format!(r#""args":{{"a":[{lists}1]}},"unknown":1"#)),
            batch(&|n| format!(r#""args":{{"n":{n},"a":"{text}"}},"routes":["nobody"]"#)),
        ],
    });
}
