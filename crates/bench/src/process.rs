//! Servers as child processes: started on a port of their own choice, asked for their health, stopped.
//! Also the folder for their databases, which goes when the measurement ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::failure::{Failure, Outcome};
use crate::operation::Phase;
use crate::{request, wire};

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// How long it took from its start to its first healthy answer.
    pub(crate) healthy_after: Duration,
    child: Child,
    /// Kept open, so that the server never writes into a closed pipe.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the server that is measured, with a queue for every phase.
    pub(crate) fn taskqueue(binary: &Path, database: &OsStr) -> Outcome<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--database"]).arg(database);
        for phase in Phase::value_variants() {
            command.args(["--queue", phase.queue()]);
        }
        Self::start(command)
    }

    /// Starts this program again as the reference.
    pub(crate) fn reference() -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("reference");
        Self::start(command)
    }

    fn start(mut command: Command) -> Outcome<Self> {
        let begin = Instant::now();
        let program = command.get_program().to_string_lossy().into_owned();
        let refused = |why: String| Failure::new(format!("{program} {why}"));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| refused(format!("cannot be started: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| refused("has no standard output".to_owned()))?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            drop(child.kill());
            child.wait()?;
            return Err(refused("did not say where it listens; see its log lines above".to_owned()));
        };
        while !is_healthy(address)? {
            std::thread::yield_now();
        }
        Ok(Self { address, healthy_after: begin.elapsed(), child, _stdout: stdout })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in good order.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        Command::new("kill").arg(self.pid().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already. Nobody needs what it would still have to say.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn is_healthy(address: SocketAddr) -> Outcome<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(&request::get(address, "/health"))?;
    let (mut answer, mut chunk) = (Vec::new(), [0; 1024]);
    while let count @ 1.. = stream.read(&mut chunk)? {
        answer.extend_from_slice(&chunk[..count]);
        if let Some(head) = wire::parse_head(&answer)? {
            return Ok(head.status == 200);
        }
    }
    Ok(false)
}

/// A folder for databases.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a new folder inside this one.
    pub(crate) fn new(parent: &Path) -> Outcome<Self> {
        let folder = parent.join(format!("taskqueue-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
        Ok(Self(folder))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the parent folder.
        drop(fs::remove_dir_all(&self.0));
    }
}
