//! Filters of 8 kB over tasks of 825 kB: many paths, and many literals in one large array.

use super::harness::{Attack, endures, fill};
use super::support::{Request, Server, encode, in_queue};

const TASKS: usize = 60;
const TASK_BYTES: usize = 825_000;

/// Requests with these filters, in turn.
struct LargeDocuments {
    filters: Vec<String>,
}

fn joined(word: &str, predicates: impl Iterator<Item = String>) -> String {
    let text = predicates.collect::<Vec<_>>().join(word);
    assert!(text.len() <= 8_192, "{} bytes", text.len());
    text
}

impl Attack for LargeDocuments {
    fn prepare(&self, server: &Server) {
        let members: Vec<String> = (0..1_500).map(|n| format!("\"k{n}\":{{\"v\":{n},\"t\":\"{:200}\"}}", n)).collect();
        let mut items = String::from("\"i\"");
        while items.len() + members.len() * 230 < TASK_BYTES {
            items.push_str(",\"item\"");
        }
        let body = format!("{{\"args\":{{\"list\":[{items}],{}}}}}", members.join(","));
        fill(server, TASKS, |_| body.as_str());
    }

    fn request(&self, number: usize) -> Request {
        let filter = encode(&self.filters[number % self.filters.len()]);
        let path = match number % 3 {
            0 => format!("/tasks?limit=1&filter={filter}"),
            1 => format!("/tasks/count?filter={filter}"),
            _ => format!("/tasks?limit=1&order_by=priority&filter={filter}"),
        };
        Request::new("GET", &in_queue(&path))
    }
}

#[test]
fn filters_over_large_documents_leave_others_alone() {
    endures(&LargeDocuments {
        filters: vec![
            joined(" or ", (0..380).map(|n| format!("args.k{n}.x==1"))),
            joined(" and ", (0..330).map(|n| format!("args.z{n}.x!=1 "))) + " or args.k1.v==-1",
            joined(" or ", (0..300).map(|n| format!("'none{n}' in args.list"))),
        ],
    });
}
