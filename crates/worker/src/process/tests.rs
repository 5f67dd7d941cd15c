//! Tests with real child processes.

mod ending;
mod output;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustix::process::{getpid, set_child_subreaper};
use taskqueue_core::ids::RunId;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

use super::{Supervisor, *};
use crate::sent_output::RunOutput;
use crate::supervisor::channel::StartRequest;
use crate::telemetry::RunProcesses;

/// A test that waits this long has failed.
const LONG: Duration = Duration::from_secs(60);

/// The supervisor of these tests: the test program, started to run only this test. As a normal test it does nothing.
#[test]
fn supervise() {
    if std::env::args_os().next().is_some_and(|name| name == crate::supervisor::NAME) {
        crate::supervisor::supervise().unwrap();
    }
}

fn exited(code: i32) -> ExitStatus {
    ExitStatus::from_raw(code << 8)
}

fn killed_by(signal: i32) -> ExitStatus {
    ExitStatus::from_raw(signal)
}

/// A command of a test.
struct Trial {
    folder: TempDir,
    run_id: RunId,
    spec: CommandSpec,
    control: watch::Sender<RunControl>,
    relayed: mpsc::Receiver<Chunk>,
    grace: Duration,
}

fn fresh_run_id() -> RunId {
    let random = getrandom::u64().unwrap();
    RunId::parse(&format!("r_{:012}", random % 1_000_000_000_000)).unwrap()
}

fn arguments(argv: &[&str]) -> Vec<OsString> {
    argv.iter().map(OsString::from).collect()
}

impl Trial {
    fn new(argv: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (relay, relayed) = mpsc::channel(1024);
        let log = folder.path().join("task/run/output.log");
        let output = Output { log, log_cap_bytes: 1 << 20, relay, sent: RunOutput::off(), label: None, terminal: None };
        let run_id = fresh_run_id();
        // Scripts find the folder of their test in this variable.
        let folder_variable = ("FOLDER".into(), folder.path().into());
        let environment = vec![folder_variable, (RUN_ID_VARIABLE.into(), run_id.as_str().into())];
        let start = StartRequest { argv: arguments(argv), environment, remove: Vec::new(), grace: LONG, window: None };
        let spec = CommandSpec { start, output, processes: RunProcesses::default() };
        Self { folder, run_id, spec, control: watch::Sender::new(RunControl::Continue), relayed, grace: LONG }
    }

    fn shell(script: &str) -> Self {
        Self::new(&["sh", "-c", script])
    }

    fn begin(self) -> Begun {
        set_child_subreaper(Some(getpid())).unwrap();
        let start = StartRequest { grace: self.grace, ..self.spec.start };
        let (spec, control) = (CommandSpec { start, ..self.spec }, self.control.subscribe());
        let run = async move { super::run(spec, control).await };
        Begun { folder: self.folder, control: self.control, relayed: self.relayed, run: tokio::spawn(run) }
    }

    async fn run(self) -> Finished {
        self.begin().finish().await
    }
}

struct Begun {
    folder: TempDir,
    control: watch::Sender<RunControl>,
    relayed: mpsc::Receiver<Chunk>,
    run: tokio::task::JoinHandle<Result<CommandEnd, StartError>>,
}

impl Begun {
    /// The number that a script has written into a file of its folder.
    async fn number(&self, file: &str) -> i32 {
        let path = self.folder.path().join(file);
        let read = || std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'));
        until(file, || read().is_some()).await;
        read().unwrap().trim().parse().unwrap()
    }

    /// Asks the run to end, and waits for that.
    async fn ended_by(self, control: RunControl) -> Finished {
        self.control.send_replace(control);
        self.finish().await
    }

    async fn finish(mut self) -> Finished {
        let ended = tokio::time::timeout(LONG, &mut self.run).await.expect("the run does not end").unwrap();
        let mut chunks = Vec::new();
        while let Ok(chunk) = self.relayed.try_recv() {
            chunks.push(chunk);
        }
        let log = std::fs::read_to_string(self.folder.path().join("task/run/output.log")).ok();
        Finished { folder: self.folder, result: ended, chunks, log }
    }
}

struct Finished {
    folder: TempDir,
    result: Result<CommandEnd, StartError>,
    chunks: Vec<Chunk>,
    log: Option<String>,
}

impl Finished {
    #[track_caller]
    fn end(&self) -> &CommandEnd {
        self.result.as_ref().unwrap()
    }

    /// How the command ended, and whether it was asked to.
    #[track_caller]
    fn status(&self) -> (ExitStatus, bool) {
        (self.end().status, self.end().was_stopped)
    }

    fn relayed(&self, stream: Stream) -> String {
        let chunks = self.chunks.iter().filter(|chunk| chunk.stream == stream);
        String::from_utf8(chunks.flat_map(|chunk| chunk.bytes.clone()).collect()).unwrap()
    }

    fn number(&self, file: &str) -> i32 {
        std::fs::read_to_string(self.folder.path().join(file)).unwrap().trim().parse().unwrap()
    }
}

/// Waits until the condition holds.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "timed out waiting for: {what}");
        tokio::time::timeout(Duration::from_millis(2), std::future::pending::<()>()).await.unwrap_err();
    }
}

fn is_alive(pid: i32) -> bool {
    proc::all().iter().any(|entry| entry.pid == pid && entry.is_alive)
}

/// Whether a process was started with this value of a variable in its environment.
fn started_with(pid: i32, variable: &str, value: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|pair| pair == format!("{variable}={value}").as_bytes())
}
