//! A peer's server as a child process: on a free port, ready once that port answers, killed when it is dropped.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::failure::{Failure, Result};

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Daemon {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Daemon {
    /// Starts a program; `arguments` gives it its port. Its output goes into a file of its folder.
    pub(super) async fn start(
        program: &Path,
        folder: &Path,
        arguments: impl FnOnce(&mut Command, u16),
    ) -> Result<Self> {
        let address = free_address()?;
        let log = folder.join("log");
        let mut command = Command::new(program);
        arguments(&mut command, address.port());
        let file = File::create(&log)?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn();
        let child = child.map_err(|error| Failure::new(format!("{} does not start: {error}", program.display())))?;
        let mut daemon = Self { child, address };
        let begin = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            if daemon.child.try_wait()?.is_some() || begin.elapsed() > START_TIMEOUT {
                let output = fs::read_to_string(&log).unwrap_or_default();
                return Err(Failure::new(format!("{} did not start: {output}", program.display())));
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(daemon)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A port that was free a moment ago. The peers cannot be asked to choose one themselves.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
