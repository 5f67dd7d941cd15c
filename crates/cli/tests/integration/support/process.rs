//! The real binary as a child process: started on a free port and an own database, stopped politely or not at all politely.
//! A server dies with the value that owns it. Which kind of database it has is decided by the module
//! beside this one, `database`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;
use taskqueue_test_postgres::{eventually, patient};
use tempfile::TempDir;

use super::super::database::Database;
use super::ran::shown;
use super::{Connection, Ran, Request, Response, SharedServer, assert_general_rules};

/// The log line of a server with `--log-level debug` when a claim starts to wait.
pub(crate) const WAITS: &str = "a claim found nothing and waits";

/// The same for a heartbeat whose answer is held.
pub(crate) const HELD: &str = "a heartbeat is held";

/// How long a child may take to print its address or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections are kept only after complete requests of this size: a server may close one whose body it did not read.
const KEEPABLE_REQUEST_BYTES: usize = 8192;

/// A child process whose standard output arrives line by line; its end is the end of the output.
pub(crate) struct Process {
    child: Child,
    /// Locked only because a receiver cannot be shared, and servers are.
    stdout: Mutex<Receiver<String>>,
}

impl Process {
    fn spawn(mut command: Command, stderr: Stdio) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("the binary starts");
        let output = child.stdout.take().unwrap();
        let (sender, stdout) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, stdout: Mutex::new(stdout) }
    }

    /// Waits for the end of the process; returns its status and the lines of output that were not read yet.
    fn wait(&mut self) -> (ExitStatus, Vec<String>) {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = Vec::new();
        loop {
            match self.stdout.get_mut().unwrap().recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => return (self.child.wait().unwrap(), lines),
                Err(RecvTimeoutError::Timeout) => panic!("the process does not end; its output: {lines:?}"),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs the binary to its end.
pub(crate) fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    let mut command = binary();
    command.args(arguments).envs(environment.iter().copied());
    finish(command)
}

/// Runs the binary to its end, by way of another program.
pub(crate) fn run_inside(wrapper: &[&str], arguments: &[&str]) -> Ran {
    let mut command = binary();
    command.args(arguments);
    finish(inside(wrapper, &command))
}

fn finish(command: Command) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let (shown, stderr) = (shown(&command), directory.path().join("stderr"));
    let (status, lines) = Process::spawn(command, appending(&stderr)).wait();
    let stdout = lines.into_iter().map(|line| line + "\n").collect();
    Ran { command: shown, code: status.code(), stdout, stderr: fs::read_to_string(stderr).unwrap() }
}

/// A command run by another one, which gets its program and arguments behind its own.
fn inside(wrapper: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(wrapper[0]);
    outer.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// Arguments of a server on a free port and this database, for `run`.
pub(crate) fn serving(database: &str) -> Vec<&str> {
    vec!["serve", "--listen", "127.0.0.1:0", "--database", database]
}

/// The command ends with status 1, an empty standard output and one line on standard error, which is returned. A server may have
/// said before that it starts.
#[track_caller]
pub(crate) fn assert_refuses(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    assert_refuses_with(arguments, environment, &[])
}

/// The same, with all of these parts in the line.
#[track_caller]
pub(crate) fn assert_refuses_with(arguments: &[&str], environment: &[(&str, &str)], parts: &[&str]) -> String {
    let mut ran = run(arguments, environment);
    assert!(!ran.stderr.contains("panicked"), "{environment:?}: {ran:?}");
    let refusal = ran.stderr.lines().filter(|line| !line.contains(" INFO taskqueue starts "));
    ran.stderr = refusal.collect::<Vec<_>>().join("\n");
    ran.refuses_with(1, parts)
}

/// The binary in an environment that configures nothing.
fn binary() -> Command {
    configured_by_nothing(Command::new(env!("CARGO_BIN_EXE_taskqueue")))
}

/// The same with a memory limit. This limit is only reported to the process; Linux does not enforce it, the test checks it.
/// The limit that Linux enforces counts addresses, of which an allocator has twice as
/// many of; it ends a process that runs away.
fn binary_within(memory_bytes: u64) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--rss={memory_bytes}")).arg(format!("--data={}", 2 * memory_bytes));
    command.arg("--").arg(env!("CARGO_BIN_EXE_taskqueue"));
    configured_by_nothing(command)
}

fn configured_by_nothing(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["TASKQUEUE_", "RUST_", "PG"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// How a server is started, besides its database and its token.
#[derive(Default)]
struct Launch {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    memory_bytes: Option<u64>,
    /// Where it is started, unless where the tests are.
    folder: Option<PathBuf>,
}

impl Launch {
    fn of(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let arguments = arguments.iter().map(|&text| text.to_owned()).collect();
        let environment = environment.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        Self { arguments, environment, ..Self::default() }
    }
}

/// A running server with its database and a pool of connections to it.
pub(crate) struct Server {
    pub(crate) address: String,
    is_encrypted: bool,
    pub(crate) token: Option<String>,
    launch: Launch,
    process: Process,
    connections: Mutex<Vec<Connection>>,
    directory: TempDir,
    // After the process, which must not see its database go.
    pub(crate) database: Arc<Database>,
}

impl Server {
    /// A server without queues and without a token.
    pub(crate) fn start() -> Self {
        Self::launch(None, &[])
    }

    /// A server with the empty queue `q`, which other tests had before and get afterwards.
    pub(crate) fn with_queue() -> SharedServer {
        SharedServer::take()
    }

    /// A server with the empty queue `q` for one test alone: to stop it, to read its log, its metrics or its database.
    pub(crate) fn alone() -> Self {
        let server = Self::start();
        server.create_queue("q");
        server
    }

    /// A server that wants the token; requests carry it unless they have an `Authorization` header of their own.
    pub(crate) fn with_token(token: &str) -> Self {
        Self::launch(Some(token), &[])
    }

    pub(crate) fn with_arguments(arguments: &[&str]) -> Self {
        Self::launch(None, arguments)
    }

    pub(crate) fn launch(token: Option<&str>, arguments: &[&str]) -> Self {
        Self::launch_on(Arc::new(Database::new()), token, arguments)
    }

    /// A server on a database that others may have, too.
    pub(crate) fn launch_on(database: Arc<Database>, token: Option<&str>, arguments: &[&str]) -> Self {
        Self::begin(database, token, Launch::of(arguments, &[]), &[], None)
    }

    /// A server that is started in this folder.
    pub(crate) fn launch_in(folder: &Path, token: Option<&str>, arguments: &[&str]) -> Self {
        let launch = Launch { folder: Some(folder.to_owned()), ..Launch::of(arguments, &[]) };
        Self::begin(Arc::new(Database::new()), token, launch, &[], None)
    }

    /// A server in an environment of its own.
    pub(crate) fn with_environment(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::begin(Arc::new(Database::new()), None, Launch::of(arguments, environment), &[], None)
    }

    /// A server that may use so much memory and no more.
    #[allow(dead_code, reason = "for the measured tests")]
    pub(crate) fn within(memory_bytes: u64, environment: &[(&str, &str)]) -> Self {
        let launch = Launch { memory_bytes: Some(memory_bytes), ..Launch::of(&[], environment) };
        Self::begin(Arc::new(Database::new()), None, launch, &[], None)
    }

    /// A server that logs every request to `stderr`.
    pub(crate) fn logging_to(stderr: impl Into<Stdio>) -> Self {
        let launch = Launch::of(&["--log-level", "info", "--log-requests"], &[]);
        Self::begin(Arc::new(Database::new()), None, launch, &[], Some(stderr.into()))
    }

    /// A server with the queue `q` that another program starts and stays beside; the process is still the server's.
    pub(crate) fn started_by(wrapper: &[&str]) -> Self {
        let server = Self::begin(Arc::new(Database::new()), None, Launch::default(), wrapper, None);
        server.create_queue("q");
        server
    }

    fn begin(
        database: Arc<Database>,
        token: Option<&str>,
        launch: Launch,
        wrapper: &[&str],
        stderr: Option<Stdio>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let stderr = stderr.unwrap_or_else(|| appending(&directory.path().join("stderr")));
        let command = serve(&database, token, &launch);
        let command = if wrapper.is_empty() { command } else { inside(wrapper, &command) };
        let process = Process::spawn(command, stderr);
        let (token, connections) = (token.map(str::to_owned), Mutex::default());
        let (address, is_encrypted) = (String::new(), false);
        let mut server = Self { address, is_encrypted, token, launch, process, connections, directory, database };
        server.read_address();
        server
    }

    /// Where it is reached without TLS.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Reads the line of output with the address of the server.
    fn read_address(&mut self) {
        let line = self.process.stdout.get_mut().unwrap().recv_timeout(PATIENCE);
        let line =
            line.unwrap_or_else(|_| panic!("no base URL on standard output; standard error:\n{}", self.stderr()));
        self.is_encrypted = line.starts_with("https://");
        let address = line.strip_prefix("http://").or_else(|| line.strip_prefix("https://"));
        self.address = address.unwrap_or(&line).to_owned();
    }

    /// Everything that the server wrote to standard error so far, earlier starts included.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.stderr_file()).unwrap_or_default()).into_owned()
    }

    /// How many lines of its log contain the text.
    pub(crate) fn count_log_lines(&self, text: &str) -> usize {
        self.stderr().lines().filter(|line| line.contains(text)).count()
    }

    /// Waits until this many lines of its log contain the text.
    #[track_caller]
    pub(crate) fn await_log_lines(&self, text: &str, times: usize) {
        eventually(text, || self.count_log_lines(text) >= times);
    }

    /// Closes the connections that are kept for the next requests. The server closes those that nobody uses for a while.
    pub(super) fn disconnect(&self) {
        self.connections.lock().unwrap().clear();
    }

    /// The folders that go with the server.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        [self.directory.path()].into_iter().chain(self.database.folder())
    }

    fn stderr_file(&self) -> PathBuf {
        self.directory.path().join("stderr")
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.child.id()
    }

    /// Sends a signal by name and does not wait for its effect.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.process_id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end of the process; returns its status and further lines of output.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Vec<String>) {
        self.disconnect();
        self.process.wait()
    }

    /// Stops the server with SIGTERM.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait().0
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.signal("KILL");
        self.wait();
    }

    /// Starts a stopped server again, on the same database and another port.
    pub(crate) fn start_again(&mut self) {
        let command = serve(&self.database, self.token.as_deref(), &self.launch);
        self.process = Process::spawn(command, appending(&self.stderr_file()));
        self.read_address();
    }

    /// Starts a stopped server again where it was.
    pub(crate) fn start_again_where_it_was(&mut self) {
        let arguments = &mut self.launch.arguments;
        if !arguments.iter().any(|argument| argument == "--listen") {
            arguments.extend(["--listen".to_owned(), self.address.clone()]);
        }
        self.start_again();
    }

    pub(crate) fn restart(&mut self) {
        self.restart_by("TERM");
    }

    /// Ends the server with this signal, and starts it again.
    pub(crate) fn restart_by(&mut self, signal: &str) {
        self.signal(signal);
        self.wait();
        self.start_again();
    }

    pub(crate) fn connect(&self) -> Connection {
        self.new_connection().expect("the server accepts connections")
    }

    fn new_connection(&self) -> io::Result<Connection> {
        if self.is_encrypted { Connection::tls(&self.address, &TLS13) } else { Connection::tcp(&self.address) }
    }

    /// The next line of standard output behind the address.
    pub(crate) fn next_line(&self) -> String {
        self.process.stdout.lock().unwrap().recv_timeout(PATIENCE).expect("one more line of output")
    }

    /// Sends a request on a kept connection and checks what every answer must satisfy.
    #[track_caller]
    pub(crate) fn send(&self, request: &Request) -> Response {
        self.try_send(request).unwrap_or_else(|error| panic!("{error} for {} {}", request.method, request.target))
    }

    /// Like `send`, for servers that may die meanwhile.
    #[track_caller]
    pub(crate) fn try_send(&self, request: &Request) -> io::Result<Response> {
        let mut request = request.clone();
        if let Some(token) = self.token.as_ref().filter(|_| !request.has_header("Authorization")) {
            request = request.header("Authorization", &format!("Bearer {token}"));
        }
        let kept = self.connections.lock().unwrap().pop();
        let mut connection = kept.map_or_else(|| self.new_connection(), Ok)?;
        let response = connection.exchange(&request)?;
        assert_general_rules(&response, &request.target);
        let closing = response.header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let incomplete = request.has_header("Content-Length");
        if !closing && !incomplete && request.to_bytes().len() <= KEEPABLE_REQUEST_BYTES {
            self.connections.lock().unwrap().push(connection);
        }
        Ok(response)
    }
}

/// A file that standard error is appended to.
fn appending(path: &Path) -> Stdio {
    File::options().append(true).create(true).open(path).unwrap().into()
}

/// The command line of a server; `--listen`, `--log-level` and `--database` among the arguments replace what is usual here, and so
/// does the database of a file.
fn serve(database: &Database, token: Option<&str>, launch: &Launch) -> Command {
    let Launch { arguments, environment, memory_bytes, folder } = launch;
    let mut command = memory_bytes.map_or_else(binary, binary_within);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let patiently = |argument: &String| match argument.starts_with("postgres://") {
        true => patient(argument),
        false => argument.clone(),
    };
    command.arg("serve").args(arguments.iter().map(patiently));
    for usual in [["--log-level", "warn"], ["--listen", "127.0.0.1:0"]] {
        if !arguments.iter().any(|argument| argument == usual[0]) {
            command.args(usual);
        }
    }
    if !arguments.iter().any(|argument| argument == "--database" || argument == "--config") {
        database.name_to(&mut command);
    }
    command.envs(token.map(|token| ("TASKQUEUE_TOKEN", token)));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command
}

/// A server that reports to this socket as to systemd says three times from now on that it is alive.
pub(crate) fn assert_watchdog_hears(socket: &UnixDatagram) {
    // What was sent before.
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut [0; 4096]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    for _ in 0..3 {
        assert_eq!(heard(socket), "WATCHDOG=1");
    }
}

/// The next datagram on a socket that stands for systemd's.
#[track_caller]
pub(crate) fn heard(socket: &UnixDatagram) -> String {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).expect("a datagram");
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}
