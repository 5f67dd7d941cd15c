//! Requests: what each kind asks for, rendered once with places for identifiers, which are written before each use; and batches of them.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};

use self::Operation::{BulkUpdate, Claim, Complete, Count, Create, Fail, Filter, Get, Heartbeat, List, Poll, Unclaim};

/// Characters of an identifier behind its letter (`t_[A-Za-z0-9_-]{12}`), of 6 bits each.
pub(crate) const CHARACTERS: usize = 12;

/// Bits of the upper and of the lower half of an identifier.
const HALF: u32 = 36;

/// Runs have a key of their own: the n-th run usually gets the n-th task, and their identifiers must not lie side by side.
pub(crate) const TASKS: Identifiers = Identifiers { letter: 't', key: 0x9E37_79B9_7F4A_7C15 };
pub(crate) const RUNS: Identifiers = Identifiers { letter: 'r', key: 0x94D0_49BB_1331_11EB };

/// The upper half is a hash of the number, the lower one the number mixed with a hash of the upper one: two rounds of a Feistel network,
/// which are undone in reverse order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identifiers {
    letter: char,
    key: u64,
}

impl Identifiers {
    /// Writes the identifier of a number into its twelve places.
    pub(crate) fn write(&self, places: &mut [u8], number: u64) {
        let upper = self.hash(number);
        let mixed = u128::from(upper) << HALF | u128::from(number ^ self.hash(upper));
        // Nine bytes are twelve characters.
        let _ = BASE64_URL_SAFE_NO_PAD.encode_slice(&mixed.to_be_bytes()[7..], places);
    }

    /// The identifier of a number.
    pub(crate) fn id(&self, number: u64) -> String {
        let mut places = [0; CHARACTERS];
        self.write(&mut places, number);
        format!("{}_{}", self.letter, places.map(char::from).iter().collect::<String>())
    }

    /// The number of an identifier; none when it is not one of ours.
    pub(crate) fn read(&self, places: &[u8]) -> Option<u64> {
        let mut bytes = [0; 16];
        BASE64_URL_SAFE_NO_PAD.decode_slice(places, &mut bytes[7..]).ok()?;
        let mixed = u128::from_be_bytes(bytes);
        let (upper, lower) = ((mixed >> HALF) as u64, mixed as u64 & ((1 << HALF) - 1));
        let number = lower ^ self.hash(upper);
        (upper == self.hash(number)).then_some(number)
    }

    /// As many bits as half an identifier has, of which each depends on all of the number.
    fn hash(&self, number: u64) -> u64 {
        let product = number.wrapping_mul(self.key);
        (product ^ product >> 32).wrapping_mul(self.key) >> (u64::BITS - HALF)
    }
}

/// The next numbers of tasks and runs of one server. They rise over the whole measurement, so that nothing is ever named twice. Also
/// which tasks are held or complete, by the answers of the server: finds every task that is handed out twice.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    tasks: Cell<u64>,
    runs: Cell<u64>,
    taken: RefCell<Vec<bool>>,
    double_claims: Cell<u64>,
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

    /// Notes that a claim was answered with this task.
    pub(crate) fn handed_out(&self, task: u64) {
        let is_double = self.set_taken(task, true);
        self.double_claims.set(self.double_claims.get() + u64::from(is_double));
    }

    /// Notes that a task is about to be given back, or its failure told: from then on the server may hand it out again.
    pub(crate) fn gives_back(&self, task: u64) {
        self.set_taken(task, false);
    }

    /// Counts the tasks that were handed out while they were held or after they were complete.
    pub(crate) fn double_claims(&self) -> u64 {
        self.double_claims.get()
    }

    /// Returns what it was before.
    fn set_taken(&self, task: u64, is_taken: bool) -> bool {
        let (mut taken, at) = (self.taken.borrow_mut(), task as usize);
        if taken.len() <= at {
            taken.resize(at + 1, false);
        }
        std::mem::replace(&mut taken[at], is_taken)
    }
}

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
    /// Counts the tasks that a filter on args selects.
    Filter,
    /// Changes the tenth of all tasks that a filter on args selects.
    BulkUpdate,
}

/// What takes tasks away.
pub(crate) const PAIRS: &[Operation] = &[Claim, Complete];

impl Operation {
    /// Returns true for the status of an answer that is as it should be. Claims may find nothing; the load says where they must not.
    pub(crate) fn expects(self, status: u16) -> bool {
        match self {
            Create => status == 201,
            Claim => matches!(status, 200 | 204),
            Poll | Complete | Fail | Unclaim => status == 204,
            _ => status == 200,
        }
    }

    /// A request by itself.
    pub(crate) fn request(self, address: SocketAddr, queue: &str, ids: (u64, u64)) -> Vec<u8> {
        self.template(address, queue).fill(ids).to_vec()
    }

    pub(crate) fn template(self, address: SocketAddr, queue: &str) -> Template {
        let get = |path: String| ("GET", path, String::new());
        let post = |path: &str, more: &str| ("POST", path.to_owned(), format!(r#"{{"run_id":"{RUN}"{more}}}"#));
        let (method, path, body) = match self {
            Create => ("PUT", format!("/{TASK}"), format!(r#"{{"name":"bench","args":{}}}"#, args_of(GROUP))),
            Claim | Poll => post("/claim", r#","route":"default""#),
            Heartbeat | Complete | Fail | Unclaim => {
                let (verb, more) = self.report();
                post(&format!("/{TASK}/{verb}"), &more)
            }
            Get => get(format!("/{TASK}")),
            List => get("?limit=100".to_owned()),
            Count => get("/count".to_owned()),
            Filter => get(format!("/count?filter=args.group%20%3D%3D%20{GROUP}")),
            BulkUpdate => {
                let changes = format!(r#"{{"metadata":{{"by":"{RUN}"}}}}"#);
                ("PATCH", String::new(), format!(r#"{{"filter":"args.group == {GROUP}","changes":{changes}}}"#))
            }
        };
        let bytes = with_body(method, address, &tasks(queue, &path), &body);
        let place = |mark: &str| bytes.windows(mark.len()).position(|part| part == mark.as_bytes());
        // The places of identifiers are behind their letter.
        let (task_at, run_at, group_at) = (place(TASK).map(|at| at + 2), place(RUN).map(|at| at + 2), place(GROUP));
        Template { bytes, task_at, run_at, group_at }
    }

    /// What it reports about a run: the verb and the members beside the identifiers.
    fn report(self) -> (&'static str, String) {
        match self {
            Complete => ("complete", format!(r#","result":{RESULT}"#)),
            Fail => ("fail", format!(r#","error":{ERROR}"#)),
            Unclaim => ("unclaim", String::new()),
            _ => ("heartbeat", String::new()),
        }
    }

    /// One request for many tasks and runs. What is created has 200 bytes of args, and what is added for each.
    pub(crate) fn batch(
        self,
        address: SocketAddr,
        queue: &str,
        items: &[(u64, u64)],
        more: &dyn Fn(u64) -> String,
    ) -> Vec<u8> {
        let args = args_of(GROUP);
        let item = |(task, run): (u64, u64)| match self {
            Create => {
                let (id, args) = (TASKS.id(task), args.replacen(GROUP, &(task % 10).to_string(), 1));
                format!(r#"{{"id":"{id}","name":"bench","args":{args}{}}}"#, more(task))
            }
            Claim => format!(r#""{}""#, RUNS.id(run)),
            _ => {
                let (action, said) = self.report();
                format!(r#"{{"task_id":"{}","run_id":"{}","action":"{action}"{said}}}"#, TASKS.id(task), RUNS.id(run))
            }
        };
        let items = items.iter().map(|each| item(*each)).collect::<Vec<_>>().join(",");
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
    group_at: Option<usize>,
}

impl Template {
    /// Names the task, the run and the group, where the request has a place for them.
    pub(crate) fn fill(&mut self, (task, run): (u64, u64)) -> &[u8] {
        for (ids, at, number) in [(TASKS, self.task_at, task), (RUNS, self.run_at, run)] {
            if let Some(at) = at {
                ids.write(&mut self.bytes[at..at + CHARACTERS], number);
            }
        }
        if let Some(at) = self.group_at {
            self.bytes[at] = b'0' + (task % 10) as u8;
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

/// Args of 200 bytes.
pub(crate) fn args() -> String {
    args_of("0")
}

/// Args with the group that filters look for. Their text is filled up.
fn args_of(group: &str) -> String {
    let head = format!(r#"{{"group":{group},"text":""#);
    format!(r#"{head}{}"}}"#, "x".repeat(ARGS_BYTES - head.len() - 2))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    fn id(ids: &Identifiers, number: u64) -> [u8; CHARACTERS] {
        let mut places = [0; CHARACTERS];
        ids.write(&mut places, number);
        places
    }

    #[test]
    fn numbers_read_back() {
        for ids in [TASKS, RUNS] {
            for number in (0..1000).chain([1_234_567, 999_999_999, (1 << 36) - 1]) {
                assert_eq!(ids.read(&id(&ids, number)), Some(number));
            }
        }
        assert_eq!(TASKS.id(42).as_bytes()[2..], id(&TASKS, 42));
        assert_eq!(TASKS.read(b"00000000000x"), None);
        assert_eq!(TASKS.read(b"00000000000 "), None);
    }

    #[test]
    fn a_held_or_complete_task_must_not_be_handed_out() {
        let numbers = Numbers::default();
        numbers.handed_out(100);
        numbers.gives_back(100);
        for double_claims in [0, 1] {
            numbers.handed_out(100);
            assert_eq!(numbers.double_claims(), double_claims);
        }
        numbers.handed_out(7);
        numbers.handed_out(7);
        assert_eq!(numbers.double_claims(), 2);
    }

    #[test]
    fn a_run_is_not_called_like_the_task_of_its_number() {
        assert_ne!(id(&TASKS, 42), id(&RUNS, 42));
    }

    /// Whatever is sorted by identifier finds the next one anywhere: every part of the range is hit about as often as every other.
    #[test]
    fn consecutive_numbers_are_spread_evenly() {
        for ids in [TASKS, RUNS] {
            for column in [0, 5, 6, 11] {
                let mut counts = [0_u32; 256];
                for number in 0..64_000 {
                    counts[usize::from(id(&ids, number)[column])] += 1;
                }
                for character in ALPHABET {
                    let count = counts[usize::from(*character)];
                    // 1,000 are expected; six standard deviations.
                    assert!((800..=1200).contains(&count), "{ids:?} {column} {character}: {count}");
                }
            }
        }
    }

    #[test]
    fn neighbours_in_time_are_not_neighbours_in_order() {
        let rises = (0..10_000).filter(|number| id(&TASKS, *number) < id(&TASKS, number + 1)).count();
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
    fn identifiers_and_groups_stand_in_their_places_and_nothing_is_left_to_fill_in() {
        let all = [Create, Claim, Poll, Heartbeat, Complete, Fail, Unclaim, Get, List, Count, Filter, BulkUpdate];
        for operation in all {
            let (head, body) = parts(&operation.request(address(), "q", (17, 4)));
            assert!(![TASK, RUN, GROUP].iter().any(|mark| head.contains(mark) || body.contains(mark)), "{head} {body}");
        }
        let (head, body) = parts(&Complete.request(address(), "q", (17, 4)));
        assert!(head.starts_with(&format!("POST /api/v2/queues/q/tasks/{}/complete HTTP/1.1", TASKS.id(17))), "{head}");
        assert!(body.contains(&format!(r#""run_id":"{}""#, RUNS.id(4))), "{body}");
        assert!(parts(&Filter.request(address(), "q", (23, 4))).0.contains("%203 HTTP"));
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
        assert_eq!((&created[2]["args"]["group"], &created[0]["max_attempts"]), (&2.into(), &1.into()));
        assert_eq!(body(Claim)["run_ids"][1], RUNS.id(21));
        let report = &body(Complete)["reports"][1];
        let expected = (&TASKS.id(11).into(), &RUNS.id(21).into(), &"complete".into());
        assert_eq!((&report["task_id"], &report["run_id"], &report["action"]), expected);
        assert_eq!(body(Fail)["reports"][0]["error"]["type"], "ValueError");
    }
}
