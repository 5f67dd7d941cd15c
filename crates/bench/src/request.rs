//! Requests rendered once, with places into which the identifiers of tasks and runs are written before each use.
//! Which request comes when is decided in `operation.rs` and `load.rs`; batches are rendered in `batch_request.rs`.

use std::net::SocketAddr;

use crate::numbered_ids;
use crate::operation::{OPERATIONS, Operation};

pub(crate) const TASK: &str = "t_TTTTTTTTTTTT";
pub(crate) const RUN: &str = "r_RRRRRRRRRRRR";
/// One digit by which filters on args select a tenth of all tasks.
const GROUP: &str = "#";
const ARGS_BYTES: usize = 200;
/// How runs end.
pub(crate) const RESULT: &str = r#"{"loss":0.125}"#;
pub(crate) const ERROR: &str = r#"{"type":"ValueError","message":"not today","traceback":"line 1"}"#;

/// One request, ready to be sent.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    task_at: Vec<usize>,
    run_at: Vec<usize>,
    group_at: Vec<usize>,
}

impl Request {
    pub(crate) fn new(text: &str) -> Self {
        let places = |mark: &str, skipped: usize| text.match_indices(mark).map(|(at, _)| at + skipped).collect();
        // The places of identifiers are behind their letter.
        let (task_at, run_at, group_at) = (places(TASK, 2), places(RUN, 2), places(GROUP, 0));
        Self { task_at, run_at, group_at, bytes: text.replace(GROUP, "0").into_bytes() }
    }

    /// Names the task, the run and the group, where the request has a place for them.
    pub(crate) fn fill(&mut self, task: u64, run: u64) -> &[u8] {
        self.fill_all(std::iter::once((task, run)))
    }

    /// Names the task, the run and the group of each item.
    pub(crate) fn fill_all(&mut self, items: impl Iterator<Item = (u64, u64)>) -> &[u8] {
        for (item, (task, run)) in items.enumerate() {
            if let Some(at) = self.task_at.get(item) {
                numbered_ids::write_task(&mut self.bytes[*at..at + numbered_ids::CHARACTERS], task);
            }
            if let Some(at) = self.run_at.get(item) {
                numbered_ids::write_run(&mut self.bytes[*at..at + numbered_ids::CHARACTERS], run);
            }
            if let Some(at) = self.group_at.get(item) {
                self.bytes[*at] = b'0' + u8::try_from(task % 10).unwrap_or(0);
            }
        }
        &self.bytes
    }
}

/// The requests of one connection, one for each operation.
#[derive(Debug)]
pub(crate) struct Requests([Request; OPERATIONS]);

impl Requests {
    /// Renders all requests for one queue.
    pub(crate) fn new(address: SocketAddr, queue: &str) -> Self {
        Self(Operation::ALL.map(|operation| Request::new(&render(operation, address, queue))))
    }

    pub(crate) fn of(&mut self, operation: Operation) -> &mut Request {
        &mut self.0[operation as usize]
    }

    /// A claim that the server may answer later, when there is a task.
    pub(crate) fn waiting_claim(&mut self, run: u64, seconds: u32) -> Vec<u8> {
        with_wait(self.of(Operation::Claim).fill(0, run), seconds)
    }

    /// A heartbeat that the server may answer later, while the run goes on.
    pub(crate) fn held_heartbeat(&mut self, task: u64, run: u64, seconds: u32) -> Vec<u8> {
        with_wait(self.of(Operation::Heartbeat).fill(task, run), seconds)
    }
}

pub(crate) fn with_wait(request: &[u8], seconds: u32) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    request.replacen("\r\n", &format!("\r\nprefer: wait={seconds}\r\n"), 1).into_bytes()
}

/// Args of 200 bytes, with the group that filters look for. Their text is filled up.
pub(crate) fn args() -> String {
    let head = format!(r#"{{"group":{GROUP},"text":""#);
    let filling = ARGS_BYTES - head.len() - 2;
    format!(r#"{head}{}"}}"#, "x".repeat(filling))
}

fn render(operation: Operation, address: SocketAddr, queue: &str) -> String {
    let run = format!(r#"{{"run_id":"{RUN}"}}"#);
    let claim = format!(r#"{{"route":"default","run_id":"{RUN}"}}"#);
    let (method, path, body) = match operation {
        Operation::Create => ("PUT", format!("/{TASK}"), format!(r#"{{"name":"bench","args":{}}}"#, args())),
        Operation::Claim | Operation::Poll => ("POST", "/claim".to_owned(), claim),
        Operation::Heartbeat => ("POST", format!("/{TASK}/heartbeat"), run),
        Operation::Complete => {
            ("POST", format!("/{TASK}/complete"), format!(r#"{{"run_id":"{RUN}","result":{RESULT}}}"#))
        }
        Operation::Fail => ("POST", format!("/{TASK}/fail"), format!(r#"{{"run_id":"{RUN}","error":{ERROR}}}"#)),
        Operation::Unclaim => ("POST", format!("/{TASK}/unclaim"), run),
        Operation::Get => ("GET", format!("/{TASK}"), String::new()),
        Operation::List => ("GET", "?limit=100".to_owned(), String::new()),
        Operation::Count => ("GET", "/count".to_owned(), String::new()),
        Operation::CountByStatus => ("GET", "/count?group_by=status".to_owned(), String::new()),
        Operation::Filter => ("GET", format!("/count?filter=args.group%20%3D%3D%20{GROUP}"), String::new()),
        Operation::BulkUpdate => {
            let changes = format!(r#"{{"metadata":{{"by":"{RUN}"}}}}"#);
            ("PATCH", String::new(), format!(r#"{{"filter":"args.group == {GROUP}","changes":{changes}}}"#))
        }
    };
    with_body(method, address, &format!("/api/v2/queues/{queue}/tasks{path}"), &body)
}

/// A whole request; without a body there is no header about one.
pub(crate) fn with_body(method: &str, address: SocketAddr, path: &str, body: &str) -> String {
    let content = match body.len() {
        0 => String::new(),
        length => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
    };
    format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{content}\r\n{body}")
}

/// A request that creates a queue.
pub(crate) fn create_queue(address: SocketAddr, queue: &str) -> Vec<u8> {
    format!("PUT /api/v2/queues/{queue} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

/// A request without a body for a path of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The identifiers of a task and a run.
    pub(crate) fn ids(task: u64, run: u64) -> (String, String) {
        (numbered_ids::task_id(task), numbered_ids::run_id(run))
    }

    #[test]
    fn args_have_200_bytes() {
        assert_eq!(args().len(), ARGS_BYTES);
    }

    #[test]
    fn numbers_stand_in_their_places() {
        let mut requests = Requests::new(SocketAddr::from(([127, 0, 0, 1], 80)), "q");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (task, run) = ids(17, 4);
        let complete = text(requests.of(Operation::Complete).fill(17, 4));
        assert!(
            complete.starts_with(&format!("POST /api/v2/queues/q/tasks/{task}/complete HTTP/1.1\r\n")),
            "{complete}"
        );
        assert!(complete.contains(&format!(r#""run_id":"{run}""#)), "{complete}");
        assert!(text(requests.of(Operation::Create).fill(17, 4)).contains(r#""group":7"#));
        assert!(text(requests.of(Operation::Filter).fill(23, 4)).contains("%203 HTTP"));
    }

    #[test]
    fn nothing_is_left_to_fill_in_and_lengths_are_right() {
        let mut requests = Requests::new(SocketAddr::from(([127, 0, 0, 1], 80)), "q");
        for operation in Operation::ALL {
            let text = String::from_utf8(requests.of(operation).fill(1, 2).to_vec()).unwrap();
            assert!(!text.contains("TTTT") && !text.contains("RRRR") && !text.contains(GROUP), "{text}");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            assert_eq!(length.map_or(0, |length| length.parse().unwrap()), body.len());
        }
    }
}
