//! A temporary directory that is removed when the process ends, even if it is killed: a shell waits on a pipe and removes
//! the directory when the other end is closed.

use std::env;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::account;

/// Waits for the end of its input. A server that is stopping may create files again, so it tries more than once. It ignores
/// signals to the process group (Ctrl-C).
const REMOVE: &str = r#"trap '' HUP INT QUIT TERM; read -r _; n=0
until rm -rf "$1" || [ $n = 300 ]; do n=$((n + 1)); sleep 0.1; done"#;

/// What the programs in it print.
const LOG: &str = "log";

/// Owned by the account of the servers; removed when dropped.
pub(crate) struct Directory {
    path: PathBuf,
    remover: Child,
}

/// Files in memory, where a sync costs nothing. A server that is killed loses none of them, and no test cuts the power.
const IN_MEMORY: &str = "/dev/shm";
/// What must be free there. The data of a server is some hundred megabytes, and several run at once.
const IN_MEMORY_BYTES: u64 = 4 << 30;

impl Directory {
    /// For a server that somebody may measure.
    pub(crate) fn on_disk() -> Self {
        Self::in_first(None)
    }

    /// For tests, if there is enough memory; otherwise on disk.
    pub(crate) fn in_memory() -> Self {
        let free = rustix::fs::statvfs(IN_MEMORY).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
        Self::in_first((free >= IN_MEMORY_BYTES).then(|| IN_MEMORY.into()))
    }

    /// In this folder or that of temporary files, if the account of the servers gets there.
    fn in_first(folder: Option<PathBuf>) -> Self {
        let mut folders = folder.into_iter().chain([env::temp_dir()]);
        let parent = folders.find(|folder| account::can_enter(folder)).unwrap_or_else(|| "/tmp".into());
        // A short name: the path of a socket has 107 bytes at most.
        let made = tempfile::Builder::new().prefix("tq-pg-").tempdir_in(parent).expect("a temporary directory");
        let remover = Command::new("sh")
            .args(["-c", REMOVE, "sh"])
            .arg(made.path())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let directory = Self { path: made.keep(), remover };
        account::make_owner(&directory.path);
        directory
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs here, because the account may not see the current directory, and writes to the log.
    pub(crate) fn command(&self, program: PathBuf, death_signal: &str) -> Command {
        let log = OpenOptions::new().create(true).append(true).open(self.path.join(LOG));
        let log = log.expect("a log file in our directory");
        let mut command = account::command(program, death_signal);
        command.current_dir(&self.path).stdout(log.try_clone().expect("a second handle")).stderr(log);
        command
    }

    /// The last lines of the log; empty if it does not exist.
    pub(crate) fn last_lines(&self) -> String {
        let text = fs::read(self.path.join(LOG)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        // A failure is ignored: the files are temporary.
        let _ = self.remover.wait();
    }
}
