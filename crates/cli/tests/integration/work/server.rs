//! The server of a test: the real binary on a port that it keeps when it is started again, with the queue `q`. Asked by
//! plain HTTP, one connection per call.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::until;

/// How long an answer may take; the longest waits of these tests are for a server that is stopped.
const ANSWER: Duration = Duration::from_secs(30);

/// The file with the log of a server that has one.
const LOG: &str = "log";

pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) token: Option<&'static str>,
    folder: TempDir,
    child: Child,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::launch(None, false)
    }

    pub(crate) fn with_token(token: &'static str) -> Self {
        Self::launch(Some(token), false)
    }

    /// A server that logs everything; see [`Self::log`].
    pub(crate) fn with_log() -> Self {
        Self::launch(None, true)
    }

    fn launch(token: Option<&'static str>, has_log: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, address) = serve(&folder, "127.0.0.1:0", token, has_log);
        Self { address, token, folder, child }
    }

    /// What a server with a log has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap()
    }

    /// Sends a signal to the server and does not wait for its effect.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed server again, where it was.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.address) = serve(&self.folder, &self.address, self.token, false);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One call with any outcome: status and body. Paths begin inside the queue `q`.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let token = self.token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(ANSWER)).unwrap();
        write!(
            connection,
            "{method} /api/v2/queues/q{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
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

    #[track_caller]
    pub(crate) fn requeue(&self, n: usize) {
        self.done("POST", &of_task(n, "/requeue"), &Value::Null);
    }

    #[track_caller]
    pub(crate) fn delete(&self, n: usize) {
        self.done("DELETE", &of_task(n, ""), &Value::Null);
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

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn serve(folder: &TempDir, address: &str, token: Option<&str>, has_log: bool) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskqueue"));
    command.env_clear().env("HOME", folder.path()).current_dir(folder.path());
    command.args(["serve", "--listen", address, "--queue", "q"]);
    if has_log {
        command.args(["--log-level", "debug", "--log-requests"]).stderr(File::create(folder.path().join(LOG)).unwrap());
    } else {
        command.args(["--log-level", "error"]);
    }
    command.envs(token.map(|token| ("TASKQUEUE_TOKEN", token)));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (child, url.trim_end().trim_start_matches("http://").to_owned())
}

pub(crate) fn task_id(n: usize) -> String {
    format!("t_{n:012}")
}

fn of_task(n: usize, rest: &str) -> String {
    format!("/tasks/{}{rest}", task_id(n))
}
