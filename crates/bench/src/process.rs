//! Servers as child processes: started on a port of their own choice, asked for their health, stopped.
//! Also the folder for their databases.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tempfile::TempDir;

use crate::encryption::Endpoint;
use crate::failure::{Failure, Result};
use crate::operation::Phase;
use crate::{answer_parser, request};

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    is_encrypted: bool,
    /// How long it took from its start to its first healthy answer.
    pub(crate) healthy_after: Duration,
    child: Child,
    /// Kept open, so that the server never writes into a closed pipe.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the server that is measured on a SQLite database in this folder.
    pub(crate) fn on_sqlite(binary: &Path, folder: &Path) -> Result<Self> {
        Self::taskqueue(binary, folder.join("bench.db").as_os_str())
    }

    /// The same with TLS, with a key that the server makes.
    pub(crate) fn with_tls(binary: &Path, folder: &Path) -> Result<Self> {
        Self::with_arguments(binary, folder.join("bench.db").as_os_str(), &["--tls-self-signed"])
    }

    /// Starts the server that is measured, with a queue for every phase.
    pub(crate) fn taskqueue(binary: &Path, database: &OsStr) -> Result<Self> {
        Self::with_arguments(binary, database, &[])
    }

    fn with_arguments(binary: &Path, database: &OsStr, more: &[&str]) -> Result<Self> {
        let mut command = Command::new(binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--database"])
            .arg(database)
            .args(more);
        for phase in Phase::value_variants() {
            command.args(["--queue", phase.queue()]);
        }
        Self::start(command)
    }

    /// Starts the server that is measured, told that it may use so much memory.
    pub(crate) fn within(binary: &Path, database: &OsStr, memory_bytes: u64) -> Result<Self> {
        let mut command = Command::new("prlimit");
        command.arg(format!("--rss={memory_bytes}")).arg("--").arg(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--database"]).arg(database);
        Self::start(command)
    }

    /// Starts this program again as the reference.
    pub(crate) fn reference() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("reference");
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self> {
        let begin = Instant::now();
        let program = command.get_program().to_string_lossy().into_owned();
        let refused = |why: String| Failure::new(format!("{program} {why}"));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| refused(format!("cannot be started: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| refused("has no standard output".to_owned()))?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let (scheme, address) = line.trim().split_once("://").unwrap_or_default();
        let (is_encrypted, address) = (scheme == "https", address.parse().ok());
        let Some(address) = address else {
            drop(child.kill());
            child.wait()?;
            return Err(refused("did not say where it listens; see its log lines above".to_owned()));
        };
        // One with TLS says where it listens when it is ready; nothing of it is measured from its start on.
        while !is_encrypted && !is_healthy(address)? {
            std::thread::yield_now();
        }
        Ok(Self { address, is_encrypted, healthy_after: begin.elapsed(), child, _stdout: stdout })
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { address: self.address, is_encrypted: self.is_encrypted }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.pid().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn is_healthy(address: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(&request::get(address, "/health"))?;
    let (mut answer, mut chunk) = (Vec::new(), [0; 1024]);
    while let count @ 1.. = stream.read(&mut chunk)? {
        answer.extend_from_slice(&chunk[..count]);
        if let Some(head) = answer_parser::parse_head(&answer)? {
            return Ok(head.status == 200);
        }
    }
    Ok(false)
}

/// A folder for databases, which is removed when it is dropped.
pub(crate) fn scratch(parent: &Path) -> Result<TempDir> {
    fs::create_dir_all(parent)
        .and_then(|()| tempfile::Builder::new().prefix("taskqueue-bench-").tempdir_in(parent))
        .map_err(|error| Failure::new(format!("{}: {error}", parent.display())))
}
