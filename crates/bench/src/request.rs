//! Requests: what each kind asks for, rendered once with places for identifiers, which are written before each use; and batches of them.

use std::cell::{Cell, RefCell};
use std::mem;
use std::net::SocketAddr;

use self::Operation::{Claim, Complete, Count, Create, Fail, Get, Heartbeat, List, Page, Poll, Unclaim};

/// Characters of an identifier behind its letter (`t_[A-Za-z0-9_-]{12}`): hexadecimal digits.
pub(crate) const CHARACTERS: usize = 12;
const MASK: u64 = (1 << (4 * CHARACTERS)) - 1;
/// An odd number, and the one that undoes a multiplication by it.
const FACTOR: u64 = 0x9E37_79B9_7F4B;
const INVERSE: u64 = 0x393D_EE21_9263;

/// Runs are numbered from far above: the n-th run usually gets the n-th task, and their identifiers must not lie side by side.
pub(crate) const TASKS: Identifiers = Identifiers { letter: 't', first: 0 };
pub(crate) const RUNS: Identifiers = Identifiers { letter: 'r', first: 1 << 40 };

/// Identifiers that look random, and from which the number is read back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identifiers {
    letter: char,
    first: u64,
}

impl Identifiers {
    /// The identifier of a number.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}_{:0CHARACTERS$x}", self.letter, mixed(self.first + number, FACTOR))
    }

    /// The number of an identifier without its letter; none when it is not one of ours.
    pub(crate) fn read(&self, places: &str) -> Option<u64> {
        mixed(u64::from_str_radix(places, 16).ok()?, INVERSE).checked_sub(self.first)
    }
}

/// Spreads a number over all that have so many digits. Each step is undone by itself or by the inverse factor, so this undoes itself, too.
fn mixed(number: u64, factor: u64) -> u64 {
    let product = number.wrapping_mul(factor) & MASK;
    (product ^ product >> (2 * CHARACTERS)).wrapping_mul(factor) & MASK
}

/// The next numbers of tasks and runs of one server. They rise over the whole measurement, so that nothing is ever named twice. Also
/// which tasks are held or complete, by the answers of the server: finds every task that is handed out twice.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    tasks: Cell<u64>,
    runs: Cell<u64>,
    taken: RefCell<Vec<bool>>,
    /// The reference hands out the same task again and again.
    pub(crate) are_repeated: Cell<bool>,
    /// Pending tasks that cannot be claimed.
    pub(crate) waiting: Cell<u64>,
}

impl Numbers {
    pub(crate) fn next_task(&self) -> u64 {
        self.tasks.replace(self.tasks.get() + 1)
    }

    pub(crate) fn next_run(&self) -> u64 {
        self.runs.replace(self.runs.get() + 1)
    }

    /// The number that the next new task will have.
    pub(crate) fn tasks_so_far(&self) -> u64 {
        self.tasks.get()
    }

    /// Notes that a claim was answered with this task; returns true if it is held, or complete.
    pub(crate) fn is_handed_out_twice(&self, task: u64) -> bool {
        let (mut taken, at) = (self.taken.borrow_mut(), task as usize);
        if taken.len() <= at {
            taken.resize(at + 1, false);
        }
        mem::replace(&mut taken[at], true) && !self.are_repeated.get()
    }

    /// Notes that a task is about to be given back, or its failure told: from then on the server may hand it out again.
    pub(crate) fn gives_back(&self, task: u64) {
        self.taken.borrow_mut()[task as usize] = false;
    }
}

/// The queue of the load.
pub(crate) const QUEUE: &str = "bench";
/// The queue of all others: those who work beside the load, and workers without work.
pub(crate) const OTHER: &str = "other";

const TASK: &str = "t_TTTTTTTTTTTT";
const RUN: &str = "r_RRRRRRRRRRRR";
const ARGS_BYTES: usize = 200;
/// Stands for the args of a task.
const ARGS: &str = "ARGS";

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
    /// Reads anything, by its path, in which `t_TTTTTTTTTTTT` is the newest task.
    Page(&'static str),
}

/// What takes tasks away.
pub(crate) const PAIRS: &[Operation] = &[Claim, Complete];

impl Operation {
    /// The table of requests: method, path behind that of the tasks of a queue or a whole one, members of the body, and statuses of answers that are as
    /// they should be. Claims may find nothing; the load says where they must not.
    fn row(self) -> (&'static str, &'static str, &'static str, &'static [u16]) {
        const FAILED: &str = r#""run_id":"r_RRRRRRRRRRRR","error":{"type":"ValueError","message":"not today"}"#;
        const WANTED: &str = r#""run_id":"r_RRRRRRRRRRRR","route":"default""#;
        match self {
            Create => ("PUT", "/t_TTTTTTTTTTTT", r#""name":"bench","args":ARGS"#, &[201]),
            Claim => ("POST", "/claim", WANTED, &[200, 204]),
            Poll => ("POST", "/api/v2/queues/other/tasks/claim", WANTED, &[204]),
            Heartbeat => ("POST", "/t_TTTTTTTTTTTT/heartbeat", r#""run_id":"r_RRRRRRRRRRRR""#, &[200]),
            Complete => {
                ("POST", "/t_TTTTTTTTTTTT/complete", r#""run_id":"r_RRRRRRRRRRRR","result":{"loss":0.125}"#, &[204])
            }
            Fail => ("POST", "/t_TTTTTTTTTTTT/fail", FAILED, &[204]),
            Unclaim => ("POST", "/t_TTTTTTTTTTTT/unclaim", r#""run_id":"r_RRRRRRRRRRRR""#, &[204]),
            Get => ("GET", "/t_TTTTTTTTTTTT", "", &[200]),
            List => ("GET", "?limit=100", "", &[200]),
            Count => ("GET", "/count", "", &[200]),
            Page(path) => ("GET", path, "", &[200]),
        }
    }

    pub(crate) fn expects(self, status: u16) -> bool {
        self.row().3.contains(&status)
    }

    /// A request by itself.
    pub(crate) fn request(self, address: SocketAddr, queue: &str, ids: (u64, u64)) -> Vec<u8> {
        self.template(address, queue).fill(ids).to_vec()
    }

    pub(crate) fn template(self, address: SocketAddr, queue: &str) -> Template {
        let (method, path, members, _) = self.row();
        let path = if matches!(self, Page(_) | Poll) { path.to_owned() } else { tasks(queue, path) };
        let members = members.replace(ARGS, &args());
        let body = if members.is_empty() { members } else { format!("{{{members}}}") };
        let bytes = with_body(method, address, &path, &body);
        let place = |mark: &str| bytes.windows(mark.len()).position(|part| part == mark.as_bytes());
        Template { task_at: place(TASK), run_at: place(RUN), bytes }
    }

    /// One request for many tasks and runs. What is created has 200 bytes of args, and what is added for each.
    pub(crate) fn batch(
        self,
        address: SocketAddr,
        queue: &str,
        items: &[(u64, u64)],
        more: &dyn Fn(u64) -> String,
    ) -> Vec<u8> {
        let (_, path, members, _) = self.row();
        let (action, members) = (path.rsplit('/').next().unwrap_or_default(), members.replace(ARGS, &args()));
        let item = |(task, run): &(u64, u64)| {
            let (id, run, more) = (TASKS.id(*task), RUNS.id(*run), more(*task));
            match self {
                Create => format!(r#"{{"id":"{id}",{members}{more}}}"#),
                Claim => format!(r#""{run}""#),
                _ => format!(r#"{{"task_id":"{id}","action":"{action}",{}}}"#, members.replacen(RUN, &run, 1)),
            }
        };
        let items = items.iter().map(item).collect::<Vec<_>>().join(",");
        let (verb, body) = match self {
            Create => ("create", format!(r#"{{"tasks":[{items}]}}"#)),
            Claim => ("claim", format!(r#"{{"route":"default","run_ids":[{items}]}}"#)),
            _ => ("report", format!(r#"{{"reports":[{items}]}}"#)),
        };
        with_body("POST", address, &tasks(queue, &format!("/batch/{verb}")), &body)
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

/// One request, ready to be sent again and again.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    task_at: Option<usize>,
    run_at: Option<usize>,
}

impl Template {
    /// Names the task and the run, where the request has a place for them.
    pub(crate) fn fill(&mut self, (task, run): (u64, u64)) -> &[u8] {
        for (ids, at, number) in [(TASKS, self.task_at, task), (RUNS, self.run_at, run)] {
            if let Some(at) = at {
                let id = ids.id(number);
                self.bytes[at..at + id.len()].copy_from_slice(id.as_bytes());
            }
        }
        &self.bytes
    }
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

/// How long the server may hold a request back.
pub(crate) const WAIT_SECONDS: u64 = 30;

/// Lets the server answer a request later.
pub(crate) fn with_wait(request: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(request).replacen("\r\n", &format!("\r\nprefer: wait={WAIT_SECONDS}\r\n"), 1).into_bytes()
}

/// Args of 200 bytes: a number that filters look for, and a text.
pub(crate) fn args() -> String {
    let head = r#"{"group":0,"text":""#;
    format!(r#"{head}{}"}}"#, "x".repeat(ARGS_BYTES - head.len() - 2))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn numbers_read_back() {
        for ids in [TASKS, RUNS] {
            for number in (0..1000).chain([1_234_567, 999_999_999, (1 << 36) - 1]) {
                assert_eq!(ids.read(&ids.id(number)[2..]), Some(number));
            }
        }
        assert_eq!(TASKS.read("00000000000x"), None);
        assert_eq!(RUNS.read(&TASKS.id(42)[2..]), None);
    }

    #[test]
    fn a_held_or_complete_task_must_not_be_handed_out() {
        let numbers = Numbers::default();
        assert!(!numbers.is_handed_out_twice(100));
        numbers.gives_back(100);
        assert!(!numbers.is_handed_out_twice(100) && numbers.is_handed_out_twice(100));
        assert!(!numbers.is_handed_out_twice(7) && numbers.is_handed_out_twice(7));
    }

    #[test]
    fn a_run_is_not_called_like_the_task_of_its_number() {
        assert_ne!(TASKS.id(42)[2..], RUNS.id(42)[2..]);
    }

    /// Whatever is sorted by identifier finds the next one anywhere: every part of the range is hit about as often as every other.
    #[test]
    fn consecutive_numbers_are_spread_evenly() {
        for ids in [TASKS, RUNS] {
            for column in [2, 7, 8, 13] {
                let mut counts = [0_u32; 256];
                for number in 0..64_000 {
                    counts[usize::from(ids.id(number).as_bytes()[column])] += 1;
                }
                for character in *b"0123456789abcdef" {
                    let count = counts[usize::from(character)];
                    // 4,000 are expected; six standard deviations.
                    assert!((3_630..=4_370).contains(&count), "{ids:?} {column} {character}: {count}");
                }
            }
        }
    }

    #[test]
    fn neighbours_in_time_are_not_neighbours_in_order() {
        let rises = (0..10_000).filter(|number| TASKS.id(*number) < TASKS.id(number + 1)).count();
        assert!((4_000..=6_000).contains(&rises), "{rises}");
    }

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
    fn identifiers_stand_in_their_places_and_nothing_is_left_to_fill_in() {
        for operation in [Create, Claim, Poll, Heartbeat, Complete, Fail, Unclaim, Get, List, Count] {
            let (head, body) = parts(&operation.request(address(), "q", (17, 4)));
            assert!(![TASK, RUN].iter().any(|mark| head.contains(mark) || body.contains(mark)), "{head} {body}");
        }
        let (head, body) = parts(&Complete.request(address(), "q", (17, 4)));
        assert!(head.starts_with(&format!("POST /api/v2/queues/q/tasks/{}/complete HTTP/1.1", TASKS.id(17))), "{head}");
        assert!(body.contains(&format!(r#""run_id":"{}""#, RUNS.id(4))), "{body}");
        assert!(parts(&with_wait(&Claim.request(address(), "q", (0, 4)))).0.contains("prefer: wait=30"));
        assert_eq!(args().len(), ARGS_BYTES);
    }

    #[test]
    fn each_item_of_a_batch_has_its_own_identifiers() {
        let body = |operation: Operation| -> Value {
            let (items, more) = ([(10, 20), (11, 21), (12, 22)], r#","max_attempts":1"#);
            let request = operation.batch(address(), "q", &items, &|_| more.to_owned());
            serde_json::from_str(&parts(&request).1).unwrap()
        };
        let created = &body(Create)["tasks"];
        assert_eq!((created.as_array().unwrap().len(), &created[2]["id"]), (3, &TASKS.id(12).into()));
        assert_eq!((&created[2]["args"]["group"], &created[0]["max_attempts"]), (&0.into(), &1.into()));
        assert_eq!(body(Claim)["run_ids"][1], RUNS.id(21));
        let report = &body(Complete)["reports"][1];
        let expected = (&TASKS.id(11).into(), &RUNS.id(21).into(), &"complete".into());
        assert_eq!((&report["task_id"], &report["run_id"], &report["action"]), expected);
        assert_eq!(body(Fail)["reports"][0]["error"]["type"], "ValueError");
    }
}
