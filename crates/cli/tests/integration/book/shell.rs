//! The shell of a page: one bash that keeps its variables and its folder from one command to the next, and further ones, as if
//! in other terminals, for what goes on running.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use super::pages::root;
use super::ports::Ports;
use super::process_group::ProcessGroup;

/// For one command, on a busy machine.
const COMMAND_LIMIT: Duration = Duration::from_secs(40);

/// For a server to end.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What a command left behind.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) struct Shell {
    // Dropped in this order: first what runs, then the folder.
    terminals: Vec<Terminal>,
    _bash: ProcessGroup,
    input: ChildStdin,
    codes: Receiver<String>,
    home: TempDir,
    /// What is not the page's: scripts, output, the PATH.
    behind: TempDir,
    started: usize,
}

impl Shell {
    /// A shell in an empty home folder. The address on which a server listens, and that a client calls, if a page names none, are
    /// given where everything else has precedence.
    pub(crate) fn start(ports: &mut Ports) -> Self {
        let (home, behind) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let address = format!("127.0.0.1:{}", ports.real("8000"));
        let configuration = home.path().join(".config/taskqueue");
        fs::create_dir_all(&configuration).unwrap();
        fs::write(configuration.join("config.toml"), format!("url = \"http://{address}\"\n")).unwrap();
        symlink(env!("CARGO_BIN_EXE_taskqueue"), behind.path().join("taskqueue")).unwrap();
        let mut bash = bash(home.path(), behind.path());
        bash.env("TASKQUEUE_LISTEN", address).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bash = bash.spawn().unwrap();
        let (input, output) = (bash.stdin.take().unwrap(), bash.stdout.take().unwrap());
        let (send, codes) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Self { terminals: Vec::new(), _bash: ProcessGroup::new(bash), input, codes, home, behind, started: 0 }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, command: &str) -> Result<Ran, String> {
        let files = self.next_files(command);
        let quoted = |path: &Path| format!("'{}'", path.display());
        let (script, out, err) = (quoted(&files.script), quoted(&files.out), quoted(&files.err));
        writeln!(self.input, ". {script} >{out} 2>{err} </dev/null; echo $?").map_err(|_| "the shell has ended")?;
        let code = self.codes.recv_timeout(COMMAND_LIMIT);
        let read =
            |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let (out, err) = (read(&files.out), read(&files.err));
        match code.ok().and_then(|code| code.parse().ok()) {
            Some(code) => Ok(Ran { code, out, err }),
            None => Err(format!("it did not end, or it ended the shell; it printed\n{out}{err}")),
        }
    }

    /// Starts a command that goes on running, with the variables and in the folder of the shell.
    pub(crate) fn start_terminal(&mut self, command: &str) -> Result<&mut Terminal, String> {
        let files = self.next_files(command);
        let state = files.script.with_extension("state");
        let ran = self.run(&format!("{{ export -p; echo \"cd '$PWD'\"; }} > '{}'", state.display()))?;
        assert_eq!(ran.code, 0, "{ran:?}");
        let mut terminal = bash(self.home.path(), self.behind.path());
        terminal.arg("-c").arg(format!(". '{}'; . '{}'", state.display(), files.script.display()));
        self.terminals.push(Terminal::start(terminal));
        Ok(self.terminals.last_mut().unwrap())
    }

    /// Ends the commands that go on running and satisfy the condition.
    pub(crate) fn stop(&mut self, condition: impl Fn(&Terminal) -> bool) {
        self.terminals.retain(|terminal| !condition(terminal));
    }

    fn next_files(&mut self, command: &str) -> Files {
        self.started += 1;
        let path = |kind: &str| self.behind.path().join(format!("{}.{kind}", self.started));
        let files = Files { script: path("sh"), out: path("out"), err: path("err") };
        fs::write(&files.script, command).unwrap();
        files
    }
}

struct Files {
    script: PathBuf,
    out: PathBuf,
    err: PathBuf,
}

/// A bash in an environment of its own, the leader of a group.
fn bash(home: &Path, behind: &Path) -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // Has the client for Python (scripts/install-test-needs).
    let python = root().join(target).join("test-needs/venv/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.env_clear()
        .env("HOME", home)
        .env("LANG", "C.UTF-8")
        .env("PATH", format!("{}:{}:{path}", behind.display(), python.display()));
    bash.args(["--noprofile", "--norc"]).current_dir(home).process_group(0);
    bash
}

/// A command that goes on running.
pub(crate) struct Terminal {
    pub(crate) group: ProcessGroup,
    /// The address of a server.
    pub(crate) address: Option<String>,
    pieces: Receiver<(Stream, Vec<u8>)>,
    out: Vec<u8>,
    err: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Out,
    Err,
}

impl Terminal {
    fn start(mut bash: Command) -> Self {
        let mut child = bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, pieces) = channel();
        relay(child.stdout.take().unwrap(), Stream::Out, send.clone());
        relay(child.stderr.take().unwrap(), Stream::Err, send);
        Self { group: ProcessGroup::new(child), address: None, pieces, out: Vec::new(), err: Vec::new() }
    }

    /// Waits until what was printed satisfies the condition, with standard output and standard error. False if it never does.
    pub(crate) fn wait_for(&mut self, mut condition: impl FnMut(&str, &str) -> bool) -> bool {
        let deadline = Instant::now() + COMMAND_LIMIT;
        loop {
            if condition(&String::from_utf8_lossy(&self.out), &String::from_utf8_lossy(&self.err)) {
                return true;
            }
            let Ok((stream, piece)) = self.pieces.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            else {
                return false;
            };
            match stream {
                Stream::Out => self.out.extend(piece),
                Stream::Err => self.err.extend(piece),
            }
        }
    }

    pub(crate) fn printed(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.out), String::from_utf8_lossy(&self.err))
    }

    /// Whether it ends in time.
    pub(crate) fn ends(&mut self) -> bool {
        self.group.wait(COMMAND_LIMIT).is_some()
    }
}

impl Drop for Terminal {
    /// Its addresses and files are free afterwards: nobody holds the other ends of the pipes any more.
    fn drop(&mut self) {
        self.group.signal(Signal::TERM);
        let deadline = Instant::now() + STOP_LIMIT;
        while self.pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

fn relay(mut from: impl Read + Send + 'static, stream: Stream, to: Sender<(Stream, Vec<u8>)>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read) = from.read(&mut buffer)
            && read > 0
            && to.send((stream, buffer[..read].to_vec())).is_ok()
        {}
    });
}

/// Whether bash would wait for more lines.
pub(crate) fn is_incomplete(command: &str) -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), command).unwrap();
    let checked = Command::new("bash").arg("-n").stdin(File::open(file.path()).unwrap()).output().unwrap();
    // A document whose end is missing is a warning only.
    command.trim_end().ends_with('\\') || !checked.status.success() || !checked.stderr.is_empty()
}
