//! Requests that several files of tests send, and requests whose answers are read later.

use serde_json::{Value, json};

use super::{Connection, IntoBody, Request, Response, STATES, Server, SharedServer, in_queue, of_task, run_id};

/// A claim for a route in the queue `q`.
pub(crate) fn claim_request(route: &str, run: usize) -> Request {
    Request::new("POST", &in_queue("/tasks/claim")).json(json!({"route": route, "run_id": run_id(run)}))
}

/// What a run of task `n` prints, from this offset on.
pub(crate) fn output_request(n: usize, run: usize, offset: usize, text: &str) -> Request {
    let body = json!({"run_id": run_id(run), "offset": offset, "text": text});
    Request::new("POST", &of_task(n, "/output")).json(body)
}

impl Request {
    /// The same request, which may wait for its answer (`Prefer: wait=N`).
    pub(crate) fn waiting(self, seconds: u32) -> Self {
        self.header("Prefer", &format!("wait={seconds}"))
    }
}

/// The number of the task that a claim was answered with.
#[track_caller]
pub(crate) fn claimed_task(claim: &Response) -> usize {
    claim.json()["task"]["id"].as_str().unwrap()[2..].parse().unwrap()
}

impl Server {
    /// A shared server with task 1.
    pub(crate) fn with_task() -> SharedServer {
        let server = Self::with_queue();
        server.create(1, json!({}));
        server
    }

    /// A shared server whose task 1 runs as run 1.
    pub(crate) fn with_run() -> SharedServer {
        let server = Self::with_queue();
        server.create_running(1);
        server
    }

    /// A connection on which these bytes were sent.
    pub(crate) fn begin_with(&self, bytes: &[u8]) -> Connection {
        let mut connection = self.connect();
        connection.write(bytes).unwrap();
        connection
    }

    /// The connection that will have the answer to this request.
    pub(crate) fn begin_request(&self, request: &Request) -> Connection {
        self.begin_with(&request.to_bytes())
    }

    /// The same, and waits until the server logs this text once more: that the request waits.
    #[track_caller]
    pub(crate) fn begin_until_logged(&self, request: &Request, text: &str) -> Connection {
        let before = self.count_log_lines(text);
        let connection = self.begin_request(request);
        self.await_log_lines(text, before + 1);
        connection
    }

    /// The server still reads and writes, and nothing in it has panicked.
    #[track_caller]
    pub(crate) fn assert_alive(&self) {
        assert_eq!(self.get("/health").expect(200).json()["status"], "ok");
        self.put(&of_task(999_999, ""), json!({})).expect(201);
        self.delete(&of_task(999_999, "")).expect(204);
        assert!(!self.stderr().contains("panicked"), "{}", self.stderr());
    }

    /// Creates these tasks, each with the body for its number.
    #[track_caller]
    pub(crate) fn create_each<B: IntoBody>(&self, numbers: impl IntoIterator<Item = usize>, body: impl Fn(usize) -> B) {
        for n in numbers {
            self.create(n, body(n));
        }
    }

    /// Creates a task in each of the five states, from number `first` on.
    #[track_caller]
    pub(crate) fn create_in_states(&self, first: usize) {
        for (n, state) in (first..).zip(STATES) {
            self.create_in_state(n, state);
        }
    }

    /// What a count of the tasks of `q` answers.
    #[track_caller]
    pub(crate) fn count(&self, query: &str) -> Value {
        self.get(&in_queue(&format!("/tasks/count?{query}"))).expect(200).json()
    }
}
