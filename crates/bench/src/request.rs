//! Requests: what each kind asks for, rendered once with places for identifiers, which are written before each use; and batches of them.

use std::net::SocketAddr;

use self::Operation::{
    BulkUpdate, Claim, Complete, Count, CountByStatus, Create, Fail, Filter, Get, Heartbeat, List, Poll, Unclaim,
};
use crate::numbered_ids::{self, run_id, task_id};

/// The queue of the load.
pub(crate) const QUEUE: &str = "bench";
/// The queue of all others: those who work beside the load, and workers without work.
pub(crate) const OTHER: &str = "other";

const TASK: &str = "t_TTTTTTTTTTTT";
const RUN: &str = "r_RRRRRRRRRRRR";
/// One digit by which filters on args select a tenth of all tasks.
const GROUP: &str = "#";
const ARGS_BYTES: usize = 200;
const RESULT: &str = r#"{"loss":0.125}"#;
const ERROR: &str = r#"{"type":"ValueError","message":"not today","traceback":"line 1"}"#;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Makes a task with 200 bytes of args.
    Create,
    Claim,
    /// Asks for a task where there is none.
    Poll,
    Heartbeat,
    Complete,
    Fail,
    Unclaim,
    Get,
    /// Reads the first page: 100 tasks.
    List,
    Count,
    CountByStatus,
    /// Counts the tasks that a filter on args selects.
    Filter,
    /// Changes the tenth of all tasks that a filter on args selects.
    BulkUpdate,
}

impl Operation {
    /// All kinds, in the order of their declaration.
    const ALL: [Self; 13] =
        [Create, Claim, Poll, Heartbeat, Complete, Fail, Unclaim, Get, List, Count, CountByStatus, Filter, BulkUpdate];

    /// Returns true for the status of an answer that is as it should be. Claims may find nothing; the load says where they must not.
    pub(crate) fn expects(self, status: u16) -> bool {
        match self {
            Create => status == 201,
            Claim => matches!(status, 200 | 204),
            Poll | Complete | Fail | Unclaim => status == 204,
            _ => status == 200,
        }
    }

    /// Returns true if it names the run that the connection holds.
    pub(crate) fn needs_run(self) -> bool {
        matches!(self, Heartbeat | Complete | Fail | Unclaim)
    }

    /// Returns true if the connection holds no run afterwards.
    pub(crate) fn ends_run(self) -> bool {
        matches!(self, Complete | Fail | Unclaim)
    }
}

/// One request, ready to be sent.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    task_at: Option<usize>,
    run_at: Option<usize>,
    group_at: Option<usize>,
}

/// The requests of one connection, one for each operation.
#[derive(Debug)]
pub(crate) struct Requests(Vec<Template>);

impl Requests {
    pub(crate) fn new(address: SocketAddr, queue: &str) -> Self {
        Self(Operation::ALL.map(|operation| render(operation, address, queue)).into())
    }

    /// Names the task, the run and the group, where the request has a place for them.
    pub(crate) fn fill(&mut self, operation: Operation, task: u64, run: u64) -> &[u8] {
        let Template { bytes, task_at, run_at, group_at } = &mut self.0[operation as usize];
        if let Some(at) = *task_at {
            numbered_ids::write_task(&mut bytes[at..at + numbered_ids::CHARACTERS], task);
        }
        if let Some(at) = *run_at {
            numbered_ids::write_run(&mut bytes[at..at + numbered_ids::CHARACTERS], run);
        }
        if let Some(at) = *group_at {
            bytes[at] = b'0' + (task % 10) as u8;
        }
        bytes
    }

    /// A filled request that the server may answer later.
    pub(crate) fn waiting(&mut self, operation: Operation, task: u64, run: u64) -> Vec<u8> {
        with_wait(self.fill(operation, task, run))
    }
}

fn render(operation: Operation, address: SocketAddr, queue: &str) -> Template {
    let run = format!(r#"{{"run_id":"{RUN}"}}"#);
    let (method, path, body) = match operation {
        Create => ("PUT", format!("/{TASK}"), format!(r#"{{"name":"bench","args":{}}}"#, args_of(GROUP))),
        Claim | Poll => ("POST", "/claim".to_owned(), format!(r#"{{"route":"default","run_id":"{RUN}"}}"#)),
        Heartbeat => ("POST", format!("/{TASK}/heartbeat"), run),
        Complete => ("POST", format!("/{TASK}/complete"), format!(r#"{{"run_id":"{RUN}","result":{RESULT}}}"#)),
        Fail => ("POST", format!("/{TASK}/fail"), format!(r#"{{"run_id":"{RUN}","error":{ERROR}}}"#)),
        Unclaim => ("POST", format!("/{TASK}/unclaim"), run),
        Get => ("GET", format!("/{TASK}"), String::new()),
        List => ("GET", "?limit=100".to_owned(), String::new()),
        Count => ("GET", "/count".to_owned(), String::new()),
        CountByStatus => ("GET", "/count?group_by=status".to_owned(), String::new()),
        Filter => ("GET", format!("/count?filter=args.group%20%3D%3D%20{GROUP}"), String::new()),
        BulkUpdate => {
            let changes = format!(r#"{{"metadata":{{"by":"{RUN}"}}}}"#);
            ("PATCH", String::new(), format!(r#"{{"filter":"args.group == {GROUP}","changes":{changes}}}"#))
        }
    };
    let bytes = with_body(method, address, &tasks(queue, &path), &body);
    let place =
        |mark: &str, skipped| bytes.windows(mark.len()).position(|part| part == mark.as_bytes()).map(|at| at + skipped);
    // The places of identifiers are behind their letter.
    let (task_at, run_at, group_at) = (place(TASK, 2), place(RUN, 2), place(GROUP, 0));
    Template { bytes, task_at, run_at, group_at }
}

/// The path of something about the tasks of a queue.
pub(crate) fn tasks(queue: &str, rest: &str) -> String {
    format!("/api/v2/queues/{queue}/tasks{rest}")
}

/// A whole request; a `GET` without a body has no header about one.
pub(crate) fn with_body(method: &str, address: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    let content = match (method, body.len()) {
        ("GET", 0) => String::new(),
        (_, 0) => "content-length: 0\r\n".to_owned(),
        (_, length) => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
    };
    format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{content}\r\n{body}").into_bytes()
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    with_body("GET", address, path, "")
}

/// How long the server may hold a request back.
pub(crate) const WAIT_SECONDS: u64 = 30;

/// Lets the server answer a request later.
pub(crate) fn with_wait(request: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(request).replacen("\r\n", &format!("\r\nprefer: wait={WAIT_SECONDS}\r\n"), 1).into_bytes()
}

/// Args of 200 bytes.
pub(crate) fn args() -> String {
    args_of("0")
}

/// Args with the group that filters look for. Their text is filled up.
fn args_of(group: &str) -> String {
    let head = format!(r#"{{"group":{group},"text":""#);
    format!(r#"{head}{}"}}"#, "x".repeat(ARGS_BYTES - head.len() - 2))
}

/// The items of a batch.
#[derive(Clone, Copy)]
pub(crate) enum Batch<'a> {
    /// Makes tasks with 200 bytes of args, and with what is added for each.
    Create(&'a dyn Fn(u64) -> String),
    Claim,
    Complete,
    Fail,
}

impl Batch<'_> {
    /// A request for these tasks and runs.
    pub(crate) fn request(self, address: SocketAddr, queue: &str, items: &[(u64, u64)]) -> Vec<u8> {
        let report = |(task, run): (u64, u64), end: &str| {
            format!(r#"{{"task_id":"{}","run_id":"{}",{end}}}"#, task_id(task), run_id(run))
        };
        let args = args_of(GROUP);
        let item = |(task, run): (u64, u64)| match self {
            Self::Create(more) => {
                let (id, args) = (task_id(task), args.replacen(GROUP, &(task % 10).to_string(), 1));
                format!(r#"{{"id":"{id}","name":"bench","args":{args}{}}}"#, more(task))
            }
            Self::Claim => format!(r#""{}""#, run_id(run)),
            Self::Complete => report((task, run), &format!(r#""action":"complete","result":{RESULT}"#)),
            Self::Fail => report((task, run), &format!(r#""action":"fail","error":{ERROR}"#)),
        };
        let items = items.iter().map(|each| item(*each)).collect::<Vec<_>>().join(",");
        let (verb, body) = match self {
            Self::Create(_) => ("create", format!(r#"{{"tasks":[{items}]}}"#)),
            Self::Claim => ("claim", format!(r#"{{"route":"default","run_ids":[{items}]}}"#)),
            Self::Complete | Self::Fail => ("report", format!(r#"{{"reports":[{items}]}}"#)),
        };
        with_body("POST", address, &tasks(queue, &format!("/batch/{verb}")), &body)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 80))
    }

    /// The head and the body, whose length the head says.
    fn parts(request: &[u8]) -> (String, String) {
        let text = String::from_utf8(request.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(length.map_or(0, |length| length.parse().unwrap()), body.len(), "{text}");
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn identifiers_and_groups_stand_in_their_places_and_nothing_is_left_to_fill_in() {
        let mut requests = Requests::new(address(), "q");
        for (place, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, place);
            let (head, body) = parts(requests.fill(operation, 17, 4));
            assert!(![TASK, RUN, GROUP].iter().any(|mark| head.contains(mark) || body.contains(mark)), "{head} {body}");
        }
        let (head, body) = parts(requests.fill(Complete, 17, 4));
        assert!(head.starts_with(&format!("POST /api/v2/queues/q/tasks/{}/complete HTTP/1.1", task_id(17))), "{head}");
        assert!(body.contains(&format!(r#""run_id":"{}""#, run_id(4))), "{body}");
        assert!(parts(requests.fill(Filter, 23, 4)).0.contains("%203 HTTP"));
        assert!(parts(&requests.waiting(Claim, 0, 4)).0.contains("prefer: wait=30"));
        assert_eq!(args().len(), ARGS_BYTES);
    }

    #[test]
    fn each_item_of_a_batch_has_its_own_identifiers() {
        let body = |batch: Batch<'_>| -> Value {
            serde_json::from_str(&parts(&batch.request(address(), "q", &[(10, 20), (11, 21), (12, 22)])).1).unwrap()
        };
        let created = &body(Batch::Create(&|_| r#","max_attempts":1"#.to_owned()))["tasks"];
        assert_eq!((created.as_array().unwrap().len(), &created[2]["id"]), (3, &task_id(12).into()));
        assert_eq!((&created[2]["args"]["group"], &created[0]["max_attempts"]), (&2.into(), &1.into()));
        assert_eq!(body(Batch::Claim)["run_ids"][1], run_id(21));
        let report = &body(Batch::Complete)["reports"][1];
        let expected = (&task_id(11).into(), &run_id(21).into(), &"complete".into());
        assert_eq!((&report["task_id"], &report["run_id"], &report["action"]), expected);
        assert_eq!(body(Batch::Fail)["reports"][0]["error"]["type"], "ValueError");
    }
}
