//! The harness: workers with their own folders. All processes of a worker are recognised by their `HOME`, and are killed when the
//! `Worker` is dropped.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::processes::{self, Process};
use super::server::{Server, task_id};
use crate::support::Ran;

/// The tests may run with ignored signals (in a background script), and ignored signals are inherited.
const DEFAULT_SIGNALS: &str = "--default-signal=HUP,INT,QUIT,TERM";

/// Longer than anything here takes, unless it hangs: also than a call that is lost, which is given up after 30 seconds.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(10);

/// Waits for something that comes soon.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        thread::park_timeout(LOOK);
    }
}

/// How a worker is started.
pub(crate) struct Setup {
    command: Command,
    folder: Arc<TempDir>,
    has_own_pace: bool,
}

impl Setup {
    /// A worker for the queue `q` of this server, in an environment that configures nothing else.
    pub(crate) fn new(server: &Server) -> Self {
        Self::within(server, Arc::new(tempfile::tempdir().unwrap()))
    }

    fn within(server: &Server, folder: Arc<TempDir>) -> Self {
        let mut command = Command::new("env");
        command.args([DEFAULT_SIGNALS, env!("CARGO_BIN_EXE_taskqueue")]);
        command.env_clear().env("HOME", folder.path()).env("PATH", "/usr/bin:/bin").current_dir(folder.path());
        command.env("TASKQUEUE_URL", server.url()).env("TASKQUEUE_QUEUE", "q");
        command.envs(server.token.map(|token| ("TASKQUEUE_TOKEN", token)));
        command.args(["loop", "--run-dir", "runs"]);
        Self { command, folder, has_own_pace: false }
    }

    /// With the heartbeats of a worker outside tests.
    pub(crate) fn at_its_own_pace(mut self) -> Self {
        self.has_own_pace = true;
        self
    }

    /// Blanks separate flags.
    pub(crate) fn flags(mut self, flags: &str) -> Self {
        self.command.args(flags.split_whitespace());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Starts the worker by another command, which is to become it.
    pub(crate) fn under(mut self, wrapper: &[&str]) -> Self {
        let mut command = Command::new("env");
        command.arg(DEFAULT_SIGNALS).args(wrapper).args(self.command.get_args().skip(1));
        command.env_clear().envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(self.folder.path());
        self.command = command;
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// With a file of this mode in the folder, and the folders above it.
    pub(crate) fn file(self, name: &str, text: &str, mode: u32) -> Self {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// Runs this script of the shell for each task, and waits until it has written to the file `begun`.
    #[track_caller]
    pub(crate) fn begin(self, script: &str) -> Worker {
        let worker = self.sh(script, &[]);
        worker.wait_for_file("begun");
        worker
    }

    /// Runs this script of the shell for each task, with the arguments.
    pub(crate) fn sh(self, script: &str, arguments: &[&str]) -> Worker {
        self.start(&[&["sh", "-c", script, "sh"], arguments].concat())
    }

    /// Runs this command for each task.
    pub(crate) fn start(mut self, command: &[&str]) -> Worker {
        let (stdout, stderr) = (self.appending("stdout"), self.appending("stderr"));
        self.command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        self.spawn(command)
    }

    /// The same with its output somewhere else.
    pub(crate) fn start_to(mut self, stdout: impl Into<Stdio>, command: &[&str]) -> Worker {
        let stderr = File::create(self.folder.path().join("stderr")).unwrap();
        self.command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        self.spawn(command)
    }

    /// The same with all of its output in the file of its standard error.
    pub(crate) fn start_to_one(mut self, command: &[&str]) -> Worker {
        let (stdout, stderr) = (self.appending("stderr"), self.appending("stderr"));
        self.command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        self.spawn(command)
    }

    fn appending(&self, name: &str) -> File {
        File::options().append(true).create(true).open(self.folder.path().join(name)).unwrap()
    }

    fn spawn(mut self, command: &[&str]) -> Worker {
        if !self.has_own_pace {
            self.command.args(["--heartbeat", "0.2"]);
        }
        let child = self.command.arg("--").args(command).spawn().unwrap();
        Worker { child, folder: self.folder }
    }
}

pub(crate) struct Worker {
    child: Child,
    folder: Arc<TempDir>,
}

impl Worker {
    /// Another worker that will have the same folder.
    pub(crate) fn successor(&self, server: &Server) -> Setup {
        Setup::within(server, Arc::clone(&self.folder))
    }

    /// Waits for the end of the worker.
    #[track_caller]
    pub(crate) fn finish(&mut self) -> Ran {
        let mut status = None;
        until(&format!("the end of the worker; it says:\n{}", self.stderr()), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let command = "a worker".to_owned();
        Ran { command, code: status.unwrap().code(), stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Waits for exit code 0 with no process left; returns standard error.
    #[track_caller]
    pub(crate) fn finish_well(&mut self) -> String {
        let said = self.finish().fails(0);
        self.assert_nothing_is_left();
        said
    }

    /// The same, with all of these parts in standard error.
    #[track_caller]
    pub(crate) fn finish_saying(&mut self, parts: &[&str]) -> String {
        let said = self.finish_well();
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing: {said}");
        }
        said
    }

    /// Asks the worker to stop; waits for its end as [`Self::finish_well`] does.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> String {
        self.signal(Signal::TERM);
        self.finish_well()
    }

    /// Lets a command that waits for the file `go` end; waits for the end of the worker as [`Self::finish_well`] does.
    #[track_caller]
    pub(crate) fn let_go(&mut self) -> String {
        self.write("go");
        self.finish_well()
    }

    pub(crate) fn keeper(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The process that does the work.
    #[track_caller]
    pub(crate) fn pid(&self) -> Pid {
        let keeper = self.keeper().as_raw_nonzero().get();
        let mut found = None;
        until("the worker below its keeper", || {
            found = processes::all().into_iter().find(|process| process.parent == keeper);
            found.is_some()
        });
        Pid::from_raw(found.unwrap().pid).unwrap()
    }

    /// Sends a signal as a person or a service does: to what was started, and not within 50 milliseconds of the one before,
    /// which would be the same request.
    pub(crate) fn signal(&self, signal: Signal) {
        let asked = Instant::now();
        until("the next moment", || asked.elapsed() > Duration::from_millis(60));
        kill_process(self.keeper(), signal).unwrap();
    }

    /// A file that commands make or look for.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    pub(crate) fn stdout(&self) -> String {
        self.read("stdout")
    }

    pub(crate) fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Waits until a command has made this file and written to it.
    #[track_caller]
    pub(crate) fn wait_for_file(&self, name: &str) -> String {
        until(&format!("the file {name}; the worker says:\n{}", self.stderr()), || !self.read(name).is_empty());
        self.read(name)
    }

    /// Waits until the worker has printed this.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, text: &str) {
        until(&format!("{text:?} on the standard error of the worker:\n{}", self.stderr()), || {
            self.stderr().contains(text)
        });
    }

    /// The folders of the runs of a task.
    pub(crate) fn runs(&self, n: usize) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.path("runs").join(task_id(n))).into_iter().flatten();
        folders.map(|entry| entry.unwrap().path()).collect()
    }

    /// How many reports wait for a server.
    pub(crate) fn undelivered(&self) -> usize {
        fs::read_dir(self.path("runs/undelivered")).into_iter().flatten().count()
    }

    /// Everything that is alive of this worker: itself, its keeper, and what they have started.
    pub(crate) fn alive(&self) -> Vec<Process> {
        processes::started_with("HOME", self.folder.path().to_str().unwrap())
    }

    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self) {
        let left = self.alive();
        assert!(left.is_empty(), "{left:?} is left; its standard error:\n{}", self.stderr());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        // Processes that the worker has not ended.
        let hidden = processes::in_folder(&self.folder.path().canonicalize().unwrap());
        for process in self.alive().into_iter().chain(hidden) {
            let _ = kill_process(Pid::from_raw(process.pid).unwrap(), Signal::KILL);
        }
    }
}
