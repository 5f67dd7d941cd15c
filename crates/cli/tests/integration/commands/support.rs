//! The harness: a server on a free port with the queue `q`, and the binary run against it in an empty folder with an
//! environment that configures nothing else.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use taskqueue_core::time::Timestamp;
use tempfile::TempDir;

use crate::support::{self, Connection, Request, Response, encode, in_queue};

pub(crate) use crate::support::Ran;

/// How long a time in an answer is.
const TIME_BYTES: usize = "2026-01-02T03:04:05.678901Z".len();

/// Ids of tasks.
pub(crate) const A: &str = "t_aaaaaaaaaaaa";
pub(crate) const B: &str = "t_bbbbbbbbbbbb";
pub(crate) const C: &str = "t_cccccccccccc";

/// The binary in an environment that configures nothing, in `folder`.
pub(crate) fn binary(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskqueue"));
    command.env_clear().env("HOME", folder).current_dir(folder);
    command
}

/// Runs a prepared command to its end.
pub(crate) fn finish(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ran::new(command, output)
}

/// Runs a command line in an empty folder, in an environment that configures nothing.
pub(crate) fn run_alone(line: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    finish(binary(folder.path()).args(line.split(' ')))
}

/// Starts a prepared command that reads nothing and whose output the test reads.
pub(crate) fn start(command: &mut Command) -> Child {
    start_reading(command, Stdio::null())
}

/// The same with a command that reads `input`.
pub(crate) fn start_reading(command: &mut Command, input: impl Into<Stdio>) -> Child {
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a prepared command that reads `input`.
pub(crate) fn finish_with(command: &mut Command, input: &str) -> Ran {
    let mut child = start_reading(command, Stdio::piped());
    // A command that refuses before it has read everything closes the pipe.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    Ran::new(command, child.wait_with_output().unwrap())
}

/// A server with the queue `q` and a folder for commands to run in.
pub(crate) struct Server {
    pub(crate) url: String,
    process: support::Server,
    token: Option<&'static str>,
    // After the process, which is started in it.
    pub(crate) folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::launch(None, &[])
    }

    pub(crate) fn with_token(token: &'static str) -> Self {
        Self::launch(Some(token), &[])
    }

    pub(crate) fn with_arguments(arguments: &[&str]) -> Self {
        Self::launch(None, arguments)
    }

    /// A server that can be started again under the same address.
    pub(crate) fn on_socket() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("unix:{}", folder.path().join("socket").display());
        let process = support::Server::with_arguments(&["--queue", "q", "--listen", &url]);
        Self { url, folder, process, token: None }
    }

    fn launch(token: Option<&'static str>, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = support::Server::launch_in(folder.path(), token, &[&["--queue", "q"], arguments].concat());
        Self { url: process.url(), process, token, folder }
    }

    /// A server with tasks of these ids.
    pub(crate) fn with_tasks(ids: &[&str]) -> Self {
        let server = Self::start();
        ids.iter().for_each(|id| server.submit(id, &[]));
        server
    }

    /// A server with the task `A`, which was submitted with these flags.
    pub(crate) fn with_task(flags: &[&str]) -> Self {
        let server = Self::start();
        server.submit(A, flags);
        server
    }

    /// A server with the task `A`, which run 1 has claimed.
    pub(crate) fn claimed() -> Self {
        let server = Self::with_tasks(&[A]);
        server.claim("default", 1);
        server
    }

    /// Starts a server on a socket that was stopped.
    pub(crate) fn start_again(&mut self) {
        self.process.start_again();
    }

    /// Ends the server.
    pub(crate) fn stop(&mut self) {
        self.process.kill();
    }

    /// The binary, configured for the server and the queue `q`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary(self.folder.path());
        command.env("TASKQUEUE_URL", &self.url).env("TASKQUEUE_QUEUE", "q").args(arguments);
        command.envs(self.token.map(|token| ("TASKQUEUE_TOKEN", token)));
        command
    }

    /// Runs a command line; blanks separate arguments.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.run_with(&line.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn run_with(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    pub(crate) fn run_reading(&self, line: &str, input: &str) -> Ran {
        finish_with(&mut self.command(&line.split(' ').collect::<Vec<_>>()), input)
    }

    /// Creates a task with this id, which is `t_` and 12 characters, as a command with these flags does.
    #[track_caller]
    pub(crate) fn submit(&self, id: &str, flags: &[&str]) {
        if flags.is_empty() {
            self.create(id, &json!({}));
        } else {
            self.run_with(&[&["task", "submit", "--id", id], flags].concat()).ok();
        }
    }

    /// Creates a task with this id and this body.
    #[track_caller]
    pub(crate) fn create(&self, id: &str, body: &Value) {
        self.exchange("PUT", &format!("tasks/{id}"), &body.to_string()).expect(201);
    }

    /// A task as the API shows it.
    #[track_caller]
    pub(crate) fn task(&self, id: &str) -> Value {
        self.exchange("GET", &format!("tasks/{id}"), "").expect(200).json()
    }

    /// How many tasks a filter selects.
    #[track_caller]
    pub(crate) fn count(&self, filter: &str) -> u64 {
        let path = format!("tasks/count?filter={}", encode(filter));
        self.exchange("GET", &path, "").expect(200).json()["count"].as_u64().unwrap()
    }

    /// Writes a file into the folder in which the commands run, for its owner only, as a file with a token must be.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        write(&path, text, 0o600);
        path
    }

    /// One request of a worker, for what no client command can do. Gives the status.
    pub(crate) fn post(&self, path: &str, body: &str) -> u16 {
        self.exchange(if path.starts_with("workers/") { "PUT" } else { "POST" }, path, body).status
    }

    /// The same with a path below that of a worker.
    pub(crate) fn post_to(&self, path: &str, body: &str) -> u16 {
        self.exchange("POST", path, body).status
    }

    /// One request for the queue `q`, for what a test prepares or looks at and does not test.
    fn exchange(&self, method: &str, path: &str, body: &str) -> Response {
        let connection = match self.url.strip_prefix("unix:") {
            Some(socket) => Connection::unix(Path::new(socket)),
            None => Connection::tcp(&self.process.address),
        };
        let request = Request::new(method, &in_queue(&format!("/{path}")));
        let request = if body.is_empty() { request } else { request.json(body) };
        connection.unwrap().exchange(&request).unwrap()
    }

    /// Claims the next task of a route; run ids end with three digits.
    pub(crate) fn claim(&self, route: &str, run: u32) {
        let body = format!(r#"{{"route":"{route}","run_id":"r_run000000{run:03}"}}"#);
        assert_eq!(self.post("tasks/claim", &body), 200);
    }

    /// Run 1 claims the next task of the route `default`, and says this of its worker.
    pub(crate) fn claim_as(&self, worker: &str) {
        let body = format!(r#"{{"route":"default","run_id":"r_run000000001","worker":{worker}}}"#);
        assert_eq!(self.post("tasks/claim", &body), 200);
    }

    /// Ends a run well.
    pub(crate) fn complete(&self, id: &str, run: u32) {
        let body = format!(r#"{{"run_id":"r_run000000{run:03}","result":{{"loss":0.5}}}}"#);
        assert_eq!(self.post(&format!("tasks/{id}/complete"), &body), 204);
    }

    /// Ends a run badly.
    pub(crate) fn fail(&self, id: &str, run: u32) {
        let error = r#"{"type":"ValueError","message":"bad seed","traceback":"line 1\nline 2"}"#;
        let body = format!(r#"{{"run_id":"r_run000000{run:03}","error":{error}}}"#);
        assert_eq!(self.post(&format!("tasks/{id}/fail"), &body), 204);
    }

    /// Claims the next task of a route, which is this one, and ends the run well.
    pub(crate) fn run_well(&self, route: &str, id: &str, run: u32) {
        self.claim(route, run);
        self.complete(id, run);
    }

    /// The same with a run that ends badly.
    pub(crate) fn run_badly(&self, route: &str, id: &str, run: u32) {
        self.claim(route, run);
        self.fail(id, run);
    }
}

/// Writes a file for those that its mode names.
pub(crate) fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// So many lines for `task submit --from`, with a number as the argument `n`.
pub(crate) fn numbered_lines(count: usize) -> String {
    (0..count).map(|n| format!("{{\"args\":{{\"n\":{n}}}}}\n")).collect()
}

/// Text with its times replaced: full ones and ages.
pub(crate) fn timeless(text: &str) -> String {
    let mut text = text.to_owned();
    let is_time = |part: &str| part.ends_with('Z') && Timestamp::parse(part).is_some();
    while let Some(at) = (0..text.len()).find(|at| text.get(*at..at + TIME_BYTES).is_some_and(is_time)) {
        text.replace_range(at..at + TIME_BYTES, "TIME");
    }
    ["1s ago", "2s ago", "3s ago", "4s ago", "5s ago"].iter().fold(text, |text, age| text.replace(age, "now   "))
}

/// The lines of a text with its times replaced, and without blanks at their ends.
pub(crate) fn lines(text: &str) -> Vec<String> {
    timeless(text).lines().map(|line| line.trim_end().replace("(now   )", "(now)")).collect()
}

impl Ran {
    /// A command that succeeded and printed these lines, but for times and blanks.
    #[track_caller]
    pub(crate) fn shows(self, expected: &[&str]) {
        assert_eq!(lines(&self.ok()), expected);
    }
}
