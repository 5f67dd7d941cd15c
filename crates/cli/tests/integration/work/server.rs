//! The server of a test: that of `support` with the queue `q`, on a port that it keeps when it is started again. Asked one
//! connection per call.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::until;
use crate::support::{self, Request, in_queue};

pub(crate) use crate::support::task_id;

pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) token: Option<&'static str>,
    process: support::Server,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::launch(None, &[])
    }

    pub(crate) fn with_token(token: &'static str) -> Self {
        Self::launch(Some(token), &[])
    }

    /// A server with the tasks 1 to `count`, each without args and with a single attempt.
    pub(crate) fn with_tasks(count: usize) -> Self {
        let server = Self::start();
        (1..=count).for_each(|n| server.create_once(n, json!({})));
        server
    }

    /// A server that logs everything; see [`Self::log`].
    pub(crate) fn with_log() -> Self {
        Self::launch(None, &["--log-level", "debug", "--log-requests"])
    }

    fn launch(token: Option<&'static str>, arguments: &[&str]) -> Self {
        let process = support::Server::launch(token, &[&["--queue", "q"], arguments].concat());
        Self { address: process.address.clone(), token, process }
    }

    /// What a server with a log has logged so far.
    pub(crate) fn log(&self) -> String {
        self.process.stderr()
    }

    /// Sends a signal to the server and does not wait for its effect.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.process_id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts a killed server again, where it was.
    pub(crate) fn start_again(&mut self) {
        self.process.start_again_where_it_was();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One call with any outcome: status and body. Paths begin inside the queue `q`.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut request = Request::new(method, &in_queue(path));
        if !body.is_null() {
            request = request.json(body);
        }
        if let Some(token) = self.token {
            request = request.header("Authorization", &format!("Bearer {token}"));
        }
        let response = self.process.connect().exchange(&request).unwrap();
        (response.status, serde_json::from_slice(&response.body).unwrap_or(Value::Null))
    }

    #[track_caller]
    fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Creates task `n`.
    #[track_caller]
    pub(crate) fn create(&self, n: usize, body: Value) {
        self.done("PUT", &of_task(n, ""), &body);
    }

    /// Creates task `n` with these args and a single attempt.
    #[track_caller]
    pub(crate) fn create_once(&self, n: usize, args: Value) {
        self.create(n, json!({"args": args, "max_attempts": 1}));
    }

    #[track_caller]
    pub(crate) fn task(&self, n: usize) -> Value {
        self.done("GET", &of_task(n, ""), &Value::Null)
    }

    #[track_caller]
    pub(crate) fn cancel(&self, n: usize) {
        self.done("POST", &of_task(n, "/cancel"), &Value::Null);
    }

    /// Task `n` has this status and attempt; gives it.
    #[track_caller]
    pub(crate) fn assert_state(&self, n: usize, status: &str, attempt: u64) -> Value {
        let task = self.task(n);
        assert_eq!((&task["status"], &task["attempt"]), (&json!(status), &json!(attempt)), "{task}");
        task
    }

    /// How many tasks have this status.
    #[track_caller]
    pub(crate) fn count(&self, status: &str) -> u64 {
        self.done("GET", &format!("/tasks/count?status={status}"), &Value::Null)["count"].as_u64().unwrap()
    }

    /// The observations there are.
    #[track_caller]
    pub(crate) fn workers(&self) -> Vec<Value> {
        self.done("GET", "/workers", &Value::Null)["items"].as_array().unwrap().clone()
    }

    /// Waits until task `n` has this status; gives it.
    #[track_caller]
    pub(crate) fn wait_for(&self, n: usize, status: &str) -> Value {
        let mut task = Value::Null;
        until(&format!("{status} task {n}"), || {
            task = self.task(n);
            task["status"] == status
        });
        task
    }
}

fn of_task(n: usize, rest: &str) -> String {
    format!("/tasks/{}{rest}", task_id(n))
}
