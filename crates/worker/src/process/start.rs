//! Starts the command of a run: the request to its supervisor, its pipes or its terminal, and the errors of a start. Also runs
//! short commands of the worker's own, such as a query about GPUs: they have a supervisor like every command, because other
//! children of this process are killed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use super::RunningCommand;
use super::output::{Output, OutputSource, WindowResizer};
use crate::handler::RunControl;
use crate::supervisor::channel::{NotStarted, Reply, Request, StartRequest, WindowSize};
use crate::telemetry::RunProcesses;

/// The variable with the run id.
pub const RUN_ID_VARIABLE: &str = "TASKQUEUE_RUN_ID";

pub(crate) const TOKEN: &str = "TASKQUEUE_TOKEN";
pub const TLS_PIN: &str = "TASKQUEUE_TLS_PIN";
pub const TLS_CA: &str = "TASKQUEUE_TLS_CA";

/// The variable with the path of the project file that names the URL.
pub const URL_FILE_VARIABLE: &str = "TASKQUEUE_URL_FILE";

/// The seconds that a run of the task may be active, if it limits that. Not the limit of an outer run, if there is one.
pub(crate) const TIMEOUT: &str = "TASKQUEUE_TIMEOUT_SECONDS";

/// The place in a trace (W3C Trace Context). Each run has its own, whatever the worker was started with.
pub(crate) const TRACE: &str = "TRACEPARENT";

/// The variables that commands do not inherit from the worker, nor does what it starts for itself: secrets and where they are
/// (systemd puts them into `CREDENTIALS_DIRECTORY`), whom the worker trusts, the time limit and the trace of what the worker was
/// started in, and what is between the worker and its service manager. `TASKQUEUE_TOKEN_FILE` is a variable of the server, and of
/// scripts around workers.
pub(crate) const REMOVED_VARIABLES: [&str; 12] = [
    TOKEN,
    "TASKQUEUE_TOKEN_FILE",
    "CREDENTIALS_DIRECTORY",
    URL_FILE_VARIABLE,
    TLS_PIN,
    TLS_CA,
    TIMEOUT,
    TRACE,
    "TRACESTATE",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// A command to run.
#[derive(Debug)]
pub(crate) struct CommandSpec {
    /// Its window follows from the output.
    pub(crate) start: StartRequest,
    pub(crate) output: Output,
    /// Learns which processes are those of the run.
    pub(crate) processes: RunProcesses,
}

/// The reason for which a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}: no such command")]
    NotFound(String),
    /// The file is a directory, lacks the permission, or is not a program.
    #[error("{0}: cannot be executed: {1}")]
    NotExecutable(String, io::Error),
    #[error("the arguments or the environment of the command are too long for this system")]
    TooLong,
    /// For example too many processes.
    #[error("the command could not be started: {0}")]
    Other(io::Error),
}

impl StartError {
    pub(crate) fn of(program: &OsString, NotStarted { error, is_of_command }: NotStarted) -> Self {
        if is_of_command { Self::new(program, error) } else { Self::Other(error) }
    }

    /// From the error of executing the program. The same error of anything else says nothing about the program.
    pub(crate) fn new(program: &OsString, error: io::Error) -> Self {
        // Errors of execve(2) for a file that is not a program. They are permanent.
        const NOT_A_PROGRAM: [i32; 3] =
            [Errno::NOEXEC.raw_os_error(), Errno::NAMETOOLONG.raw_os_error(), Errno::LOOP.raw_os_error()];
        let name = program.to_string_lossy().into_owned();
        match error.kind() {
            // The file exists, so its interpreter is missing.
            io::ErrorKind::NotFound if Path::new(program).is_file() => Self::NotExecutable(name, error),
            io::ErrorKind::NotFound => Self::NotFound(name),
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => Self::NotExecutable(name, error),
            io::ErrorKind::ArgumentListTooLong => Self::TooLong,
            _ if error.raw_os_error().is_some_and(|number| NOT_A_PROGRAM.contains(&number)) => {
                Self::NotExecutable(name, error)
            }
            _ => Self::Other(error),
        }
    }
}

/// A command that runs, unless the next reply says that it could not be started.
pub(crate) struct StartedCommand {
    pub(crate) running: RunningCommand,
    pub(crate) sources: [Option<OutputSource>; 2],
    pub(crate) resizer: Option<WindowResizer>,
}

pub(crate) async fn start(
    start: StartRequest,
    terminal: Option<watch::Receiver<WindowSize>>,
) -> Result<StartedCommand, NotStarted> {
    if let Some(size) = terminal { on_terminal(start, size).await } else { piped(start).await }
}

async fn piped(start: StartRequest) -> Result<StartedCommand, NotStarted> {
    let ((stdout, child_stdout), (stderr, child_stderr)) = (io::pipe()?, io::pipe()?);
    let files = [child_stdout.as_fd(), child_stderr.as_fd()];
    let running = RunningCommand::start(&Request::Start(start), &files).await?;
    let sources = [Some(OutputSource::pipe(stdout.into())?), Some(OutputSource::pipe(stderr.into())?)];
    Ok(StartedCommand { running, sources, resizer: None })
}

async fn on_terminal(
    mut start: StartRequest,
    mut size: watch::Receiver<WindowSize>,
) -> Result<StartedCommand, NotStarted> {
    start.window = Some(*size.borrow_and_update());
    let mut running = RunningCommand::start(&Request::Start(start), &[]).await?;
    match running.reply().await {
        Ok(Reply::Terminal) => {}
        Ok(Reply::NotStarted { errno, is_of_command }) => return Err(running.not_started(errno, is_of_command)),
        _ => {
            running.kill_strays().await;
            return Err(io::Error::other("the supervisor of the run was killed").into());
        }
    }
    let pty = running.received.take_files().pop().ok_or_else(|| io::Error::other("the supervisor sent no terminal"))?;
    let resizer = WindowResizer { pty: pty.try_clone()?, size };
    Ok(StartedCommand { running, sources: [Some(OutputSource::terminal(pty)?), None], resizer: Some(resizer) })
}

/// The time that a command has to end when it is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(6);

/// Runs a command and returns what it prints on standard output, if it succeeds in time. More than `most_bytes` is not read.
///
/// # Errors
///
/// Why there is nothing to read, for people.
pub(crate) async fn capture_output(
    program: &Path,
    arguments: &[&str],
    limit: Duration,
    most_bytes: u64,
) -> Result<Vec<u8>, String> {
    let argv = std::iter::once(program.into()).chain(arguments.iter().map(Into::into)).collect();
    let remove = REMOVED_VARIABLES.map(Into::into).to_vec();
    let start = StartRequest { argv, remove, environment: Vec::new(), grace: Duration::ZERO, window: None };
    let (running, stdout) = start_captured(start).await.map_err(|error| format!("it cannot be started: {error}"))?;
    let (control, receiver) = watch::channel(RunControl::Continue);
    let (mut waiting, mut bytes) = (pin!(running.wait(receiver)), Vec::new());
    let work = async {
        // A command that prints more is stopped by its closed pipe.
        let read = pipe::Receiver::from_owned_fd(stdout.into())?.take(most_bytes).read_to_end(&mut bytes).await;
        read.map(drop).and(waiting.as_mut().await.map_err(|not_started| not_started.error))
    };
    match timeout(limit, work).await {
        Ok(Ok(end)) => match end.status.map(ExitStatus::from_raw) {
            Some(status) if status.success() => Ok(bytes),
            Some(status) => Err(format!("it failed: {status}")),
            None => Err("it was killed".to_owned()),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            control.send_replace(RunControl::Kill);
            drop(timeout(KILL_TIMEOUT, waiting).await);
            Err(format!("it did not end within {} s", limit.as_secs()))
        }
    }
}

async fn start_captured(start: StartRequest) -> io::Result<(RunningCommand, PipeReader)> {
    let ((stdout, child_stdout), nothing) = (io::pipe()?, File::options().write(true).open("/dev/null")?);
    let running = RunningCommand::start(&Request::Start(start), &[child_stdout.as_fd(), nothing.as_fd()]).await?;
    Ok((running, stdout))
}

/// The folders in which execvp(3) looks without a `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The kernel reads no more of the first line of a script.
const SCRIPT_LINE_BYTES: u64 = 256;

/// Finds the file that would be executed for this program.
///
/// # Errors
///
/// The program does not exist, or cannot be executed. A file that has the permission but is no program is not recognised.
pub fn find_program(program: &OsStr) -> Result<PathBuf, StartError> {
    find(program, std::env::var_os("PATH"))
}

fn find(program: &OsStr, path: Option<OsString>) -> Result<PathBuf, StartError> {
    if program.as_bytes().contains(&b'/') {
        let file = PathBuf::from(program);
        return check(&file).map(|()| file).map_err(|error| StartError::new(&program.to_owned(), error));
    }
    let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
    let mut refused = None;
    // An empty folder in PATH is the current one.
    let folders = std::env::split_paths(&path).filter(|_| !program.is_empty());
    for file in folders.map(|folder| folder.join(program)) {
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = Some(error),
            // A script whose interpreter is missing is not passed over by the kernel.
            Err(error) if file.is_file() => return Err(StartError::NotExecutable(file.display().to_string(), error)),
            Err(_) => {}
        }
    }
    let name = program.to_string_lossy().into_owned();
    Err(if let Some(error) = refused { StartError::NotExecutable(name, error) } else { StartError::NotFound(name) })
}

fn check(file: &Path) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Errno::ACCESS.into());
    }
    access(file, Access::EXEC_OK)?;
    if let Some(interpreter) = interpreter(file) { interpreter.metadata().map(drop) } else { Ok(()) }
}

/// The program that a script names in its first line. A program that cannot be read is not a script.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(SCRIPT_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_errors_of_executing_the_command_are_about_the_command() {
        let program = OsString::from("/no/such/file");
        let of =
            |errno: Errno, is_of_command| StartError::of(&program, NotStarted { error: errno.into(), is_of_command });
        assert!(matches!(of(Errno::NOENT, true), StartError::NotFound(_)));
        // A machine without /dev/ptmx or /proc, or one that does not allow to use them.
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::PERM, Errno::TOOBIG, Errno::NOEXEC] {
            assert!(matches!(of(errno, false), StartError::Other(_)), "{errno}");
        }
        assert!(!NotStarted::from(io::Error::from(Errno::NOENT)).is_of_command);
    }

    fn write(file: &Path, text: &str, mode: u32) {
        fs::write(file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Looks for a program in these folders and returns the outcome.
    fn outcome(program: impl AsRef<OsStr>, folders: &[&Path]) -> &'static str {
        match find(program.as_ref(), Some(std::env::join_paths(folders).unwrap())) {
            Ok(_) => "found",
            Err(StartError::NotFound(_)) => "not found",
            Err(StartError::NotExecutable(..)) => "not executable",
            Err(_) => "other",
        }
    }

    #[test]
    fn programs_are_found_as_the_system_finds_them() {
        let top = tempfile::tempdir().unwrap();
        let (first, second) = (top.path().join("first"), top.path().join("second"));
        fs::create_dir_all(first.join("folder")).unwrap();
        fs::create_dir(&second).unwrap();
        write(&first.join("plain"), "x", 0o600);
        write(&second.join("tool"), "#! /bin/sh -e\n", 0o700);
        write(&second.join("broken"), "#!/no/such/interpreter\n", 0o700);
        write(&first.join("later"), "x", 0o600);
        write(&second.join("later"), "#!/bin/sh", 0o700);
        let folders = [first.as_path(), second.as_path()];
        for (program, expected) in [
            ("tool", "found"),
            ("later", "found"),
            ("plain", "not executable"),
            ("broken", "not executable"),
            ("folder", "not executable"),
            ("nothing", "not found"),
            ("", "not found"),
        ] {
            assert_eq!(outcome(program, &folders), expected, "{program}");
        }
        for (program, expected) in [
            (second.join("tool"), "found"),
            (first.join("plain"), "not executable"),
            (first.join("folder"), "not executable"),
            (second.join("broken"), "not executable"),
            (second.join("tool/x"), "not executable"),
            (second.join("nothing"), "not found"),
        ] {
            assert_eq!(outcome(&program, &folders), expected, "{}", program.display());
        }
        assert!(find(OsStr::new("sh"), None).is_ok(), "without PATH there is a default");
    }
}
