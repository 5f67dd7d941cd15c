//! Shortcuts for the API: paths and identifiers by number, and the calls that most tests need in the queue `q`.
//! A shortcut that returns a `Value` has checked the success already.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::{IntoBody, Request, Response, Server, assert_task};

/// The five states of a task, in the order of the contract.
pub(crate) const STATES: [&str; 5] = ["pending", "running", "succeeded", "failed", "cancelled"];

/// The limit of a body and of stored data, in bytes.
pub(crate) const MIB: usize = 1_048_576;

/// An order in which the ids of a list are the order of their numbers.
pub(crate) const BY_ID: &str = "order_by=id&descending=false&limit=1000";

pub(crate) fn task_id(n: usize) -> String {
    format!("t_{n:012}")
}

thread_local! {
    /// What the ids of runs begin with in this thread, if it uses a server that other tests use, too.
    static RUNS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Gives the runs of this thread other ids than before. A server keeps ids of runs for a day after their queue has gone.
pub(super) fn renew_run_ids() {
    static USED: AtomicUsize = AtomicUsize::new(0);
    RUNS.set(Some(USED.fetch_add(1, Ordering::Relaxed)));
}

/// The work of a thread whose runs have the ids that they have in this one.
pub(crate) fn of_this_test<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let runs = RUNS.get();
    move || {
        RUNS.set(runs);
        work()
    }
}

/// The id of run `n` of this test.
pub(crate) fn run_id(n: usize) -> String {
    RUNS.get().map_or_else(|| format!("r_{n:012}"), |runs| format!("r_{runs:04}{n:08}"))
}

pub(crate) fn worker_id(n: usize) -> String {
    format!("w_{n:012}")
}

/// A path in the queue `q`.
pub(crate) fn in_queue(rest: &str) -> String {
    format!("/api/v2/queues/q{rest}")
}

/// A path of task `n` in the queue `q`.
pub(crate) fn of_task(n: usize, rest: &str) -> String {
    in_queue(&format!("/tasks/{}{rest}", task_id(n)))
}

/// A path of worker `n` in the queue `q`.
pub(crate) fn of_worker(n: usize) -> String {
    in_queue(&format!("/workers/{}", worker_id(n)))
}

/// Percent-encodes everything but the characters that never need it.
pub(crate) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The list of tasks of `q` with these query parameters, encoded.
pub(crate) fn tasks_where(parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    in_queue(&format!("/tasks?{}", pairs.join("&")))
}

/// The smallest valid body of a worker-protocol action.
pub(crate) fn action_body(action: &str, run: usize) -> Value {
    match action {
        "complete" => json!({"run_id": run_id(run), "result": {}}),
        "fail" => json!({"run_id": run_id(run), "error": {"type": "E", "message": "m"}}),
        _ => json!({"run_id": run_id(run)}),
    }
}

/// A worker report for the route `default` without a task.
pub(crate) fn idle() -> Value {
    json!({"route": "default", "status": "idle", "task_id": null})
}

/// Nested arrays inside one object: `{"a":[[...]]}` with this many containers in all.
pub(crate) fn nested(depth: usize) -> String {
    format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1))
}

/// The numbers of the tasks in a list answer.
pub(crate) fn numbers(page: &Value) -> Vec<usize> {
    let items = page["items"].as_array().unwrap_or_else(|| panic!("no items in {page}"));
    items.iter().map(|task| task["id"].as_str().unwrap()[2..].parse().unwrap()).collect()
}

/// Runs the closure in threads that start together; returns the results in thread order.
pub(crate) fn in_parallel<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (barrier, work) = (&Barrier::new(threads), &work);
    thread::scope(|scope| {
        let start = |n| {
            scope.spawn(of_this_test(move || {
                barrier.wait();
                work(n)
            }))
        };
        let handles: Vec<_> = (0..threads).map(start).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    })
}

/// Stops other threads when it is dropped, also by a panic: who waits for them would wait for ever.
pub(crate) struct StopAtTheEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs the work while each of the others runs repeatedly on another thread, with a counter, until the work has ended or
/// panicked.
pub(crate) fn meanwhile(others: &[&(dyn Fn(usize) + Sync)], work: impl FnOnce()) {
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        for other in others {
            scope.spawn(of_this_test(move || (0..).take_while(|_| !done.load(Ordering::Relaxed)).for_each(other)));
        }
        let _done = StopAtTheEnd(done);
        work();
    });
}

#[track_caller]
fn checked(task: Value) -> Value {
    assert_task(&task);
    task
}

impl Server {
    #[track_caller]
    pub(crate) fn call(&self, method: &str, path: &str, body: impl IntoBody) -> Response {
        self.send(&Request::new(method, path).json(body))
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Response {
        self.call("GET", path, ())
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: impl IntoBody) -> Response {
        self.call("PUT", path, body)
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: impl IntoBody) -> Response {
        self.call("POST", path, body)
    }

    #[track_caller]
    pub(crate) fn patch(&self, path: &str, body: impl IntoBody) -> Response {
        self.call("PATCH", path, body)
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Response {
        self.call("DELETE", path, ())
    }

    #[track_caller]
    pub(crate) fn create_queue(&self, name: &str) {
        let response = self.put(&format!("/api/v2/queues/{name}"), ()).expect(201);
        assert_eq!(response.json(), json!({"name": name}));
    }

    /// Creates task `n`; gives the new task.
    #[track_caller]
    pub(crate) fn create(&self, n: usize, body: impl IntoBody) -> Value {
        checked(self.put(&of_task(n, ""), body).expect(201).json())
    }

    /// Creates task `n` in another queue than `q`.
    #[track_caller]
    pub(crate) fn create_in(&self, queue: &str, n: usize, body: impl IntoBody) -> Value {
        let path = format!("/api/v2/queues/{queue}/tasks/{}", task_id(n));
        checked(self.put(&path, body).expect(201).json())
    }

    #[track_caller]
    pub(crate) fn task(&self, n: usize) -> Value {
        checked(self.get(&of_task(n, "")).expect(200).json())
    }

    /// Claims for any route and queue, with any outcome.
    #[track_caller]
    pub(crate) fn claim_for(&self, queue: &str, route: &str, run: usize) -> Response {
        let body = json!({"route": route, "run_id": run_id(run)});
        self.post(&format!("/api/v2/queues/{queue}/tasks/claim"), body)
    }

    /// Claims for the route `default`; gives the whole answer.
    #[track_caller]
    pub(crate) fn claim(&self, run: usize) -> Value {
        let claim = self.claim_for("q", "default", run).expect(200).json();
        assert_task(&claim["task"]);
        claim
    }

    /// Claims for the route `default`; gives the number of the task.
    #[track_caller]
    pub(crate) fn claimed(&self, run: usize) -> usize {
        self.claim(run)["task"]["id"].as_str().unwrap()[2..].parse().unwrap()
    }

    /// A worker-protocol action with its smallest valid body.
    #[track_caller]
    pub(crate) fn act(&self, n: usize, action: &str, run: usize) -> Response {
        self.post(&of_task(n, &format!("/{action}")), action_body(action, run))
    }

    #[track_caller]
    pub(crate) fn cancel(&self, n: usize) -> Response {
        self.post(&of_task(n, "/cancel"), ())
    }

    #[track_caller]
    pub(crate) fn requeue(&self, n: usize) -> Response {
        self.post(&of_task(n, "/requeue"), ())
    }

    /// A claim for a route that waits until it finds a task; gives the number of the task.
    #[track_caller]
    pub(crate) fn claimed_in_time(&self, route: &str, run: usize) -> usize {
        let body = json!({"route": route, "run_id": run_id(run)});
        let request = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=25").json(body);
        let claim = self.send(&request).expect(200).json();
        claim["task"]["id"].as_str().unwrap()[2..].parse().unwrap()
    }

    /// Whether a claim for the route finds a task; if it does, the run gives it back.
    #[track_caller]
    pub(crate) fn finds_a_task(&self, route: &str, run: usize) -> bool {
        let response = self.claim_for("q", route, run);
        if response.status == 204 {
            return false;
        }
        let claim = response.expect(200).json();
        let path = in_queue(&format!("/tasks/{}/unclaim", claim["task"]["id"].as_str().unwrap()));
        self.post(&path, json!({"run_id": run_id(run)})).expect(204);
        true
    }

    /// The items of the answer to a batch of `q`.
    #[track_caller]
    pub(crate) fn batch(&self, verb: &str, body: impl IntoBody) -> Vec<Value> {
        let answer = self.post(&in_queue(&format!("/tasks/batch/{verb}")), body).expect(200).json();
        answer["items"].as_array().unwrap().clone()
    }

    /// Creates task `n` with the only route `only-n` and one attempt, and brings it into the state, with run `1000 + n`
    /// where the state needs a run. Gives the task.
    #[track_caller]
    pub(crate) fn create_in_state(&self, n: usize, state: &str) -> Value {
        let route = format!("only-{n}");
        self.create(n, json!({"routes": [route], "max_attempts": 1}));
        if matches!(state, "running" | "succeeded" | "failed") {
            self.claim_for("q", &route, 1000 + n).expect(200);
        }
        match state {
            "succeeded" => drop(self.act(n, "complete", 1000 + n).expect(204)),
            "failed" => drop(self.act(n, "fail", 1000 + n).expect(204)),
            "cancelled" => drop(self.cancel(n).expect(200)),
            _ => {}
        }
        let task = self.task(n);
        assert_eq!(task["status"], state);
        task
    }

    /// A server with the queue `q` that logs what starts to wait.
    pub(crate) fn with_debug_log() -> Self {
        let server = Self::with_arguments(&["--log-level", "debug"]);
        server.create_queue("q");
        server
    }

    /// Claims task `n` for run `n` by its own route; a repetition changes nothing. Gives the whole answer.
    #[track_caller]
    pub(crate) fn claim_own(&self, n: usize) -> Value {
        self.claim_for("q", &format!("for-{n}"), n).expect(200).json()
    }

    /// Creates task `n` with a route of its own, and claims it for run `n`.
    #[track_caller]
    pub(crate) fn create_running(&self, n: usize) -> Value {
        self.create(n, json!({"routes": [format!("for-{n}")]}));
        self.claim_own(n)
    }

    /// The numbers of all tasks that a query selects, over pages that are full except the last one.
    #[track_caller]
    pub(crate) fn walk(&self, query: &str, limit: usize) -> Vec<usize> {
        let pages: Vec<Vec<usize>> = self.pages(&format!("{query}&limit={limit}")).iter().map(numbers).collect();
        assert!(pages[..pages.len() - 1].iter().all(|page| page.len() == limit), "{query}");
        pages.concat()
    }

    /// All tasks that a query selects, by number.
    #[track_caller]
    pub(crate) fn tasks_by_number(&self, query: &str) -> HashMap<usize, Value> {
        let mut found = HashMap::new();
        for page in self.pages(query) {
            for (n, task) in numbers(&page).into_iter().zip(page["items"].as_array().unwrap()) {
                assert!(found.insert(n, task.clone()).is_none(), "task {n} is listed twice");
            }
        }
        found
    }

    /// All pages of tasks of `q`, each of them checked.
    #[track_caller]
    pub(crate) fn pages(&self, query: &str) -> Vec<Value> {
        let mut pages = vec![self.list(query)];
        while let Some(next) = pages.last().and_then(|page| page["next_cursor"].as_str()) {
            let page = self.list(&format!("{query}&cursor={}", encode(next)));
            pages.push(page);
        }
        pages
    }

    /// One page of tasks of `q`, each of them checked.
    #[track_caller]
    pub(crate) fn list(&self, query: &str) -> Value {
        let page = self.get(&in_queue(&format!("/tasks?{query}"))).expect(200).json();
        page["items"].as_array().unwrap().iter().for_each(assert_task);
        page
    }

    /// Everything that there is to see of the tasks in `q`.
    #[track_caller]
    pub(crate) fn snapshot(&self) -> Value {
        self.list(BY_ID)
    }

    /// The numbers on one page of tasks of `q`.
    #[track_caller]
    pub(crate) fn ids(&self, query: &str) -> Vec<usize> {
        numbers(&self.list(query))
    }

    /// The answer to a list of `q` by id with this filter.
    #[track_caller]
    pub(crate) fn filter(&self, filter: &str) -> Response {
        self.get(&in_queue(&format!("/tasks?{BY_ID}&filter={}", encode(filter))))
    }

    /// Checks a table of filters and the numbers of the tasks that they select.
    #[track_caller]
    pub(crate) fn assert_selections(&self, table: &[(&str, &[usize])]) {
        for (filter, expected) in table {
            assert_eq!(numbers(&self.filter(filter).expect(200).json()), *expected, "{filter}");
        }
    }
}
