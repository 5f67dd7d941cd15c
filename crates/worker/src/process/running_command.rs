//! The command of a run below its supervisor, as the worker sees it: requests are sent to the supervisor, and replies come back.
//! What the supervisor does is in `supervisor/process_tree.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::supervisor_pool::{self, Supervisor};
use crate::stop::RunControl;
use crate::supervisor::channel::{ReceiveBuffer, send};
use crate::supervisor::messages::{Message, NotStarted, Reply, Request, RunEnd};

/// When this is dropped, the run is killed.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    supervisor: Supervisor,
    socket: UnixStream,
    received: ReceiveBuffer,
}

impl RunningCommand {
    /// Sends the start request to an idle supervisor, or to a new one.
    pub(crate) async fn start(request: &Request, files: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let frame = request.frame();
        while let Some(supervisor) = Supervisor::idle() {
            // An idle supervisor that was killed has not read the whole frame, and so has started nothing.
            if let Ok(running) = Self::send(supervisor, &frame, files).await {
                return Ok(running);
            }
        }
        let supervisor = spawn_blocking(Supervisor::start).await.map_err(io::Error::other)??;
        Self::send(supervisor, &frame, files).await
    }

    async fn send(mut supervisor: Supervisor, frame: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let mut socket = supervisor.take_socket()?;
        let sent = socket.async_io(Interest::WRITABLE, || send(socket.as_fd(), frame, files)).await?;
        socket.write_all(&frame[sent..]).await?;
        Ok(Self { supervisor, socket, received: ReceiveBuffer::default() })
    }

    /// Waits until no process of the run is alive. Passes on what the worker wants of it.
    ///
    /// # Errors
    ///
    /// When the command could not be started.
    pub(crate) async fn wait(mut self, mut control: watch::Receiver<RunControl>) -> Result<RunEnd, NotStarted> {
        let mut sent = RunControl::Continue;
        loop {
            tokio::select! {
                biased;
                reply = self.reply() => match reply {
                    Ok(Reply::Ended(mut end)) => {
                        if end.note.is_none() {
                            self.release();
                        }
                        end.was_stopped |= end.status.is_none();
                        return Ok(end);
                    }
                    Ok(Reply::NotStarted { errno, is_of_command }) => {
                        return Err(self.not_started(errno, is_of_command));
                    }
                    Ok(Reply::Terminal) => {}
                    Err(_) => break,
                },
                wanted = stronger(&mut control, sent) => {
                    sent = wanted;
                    let request = if wanted == RunControl::Kill { Request::Kill } else { Request::Stop };
                    // If the supervisor was killed, the next reply is an error.
                    drop(self.socket.write_all(&request.frame()).await);
                }
            }
        }
        self.kill_strays().await;
        let note = "the supervisor of the run was killed, and with it the run".to_owned();
        Ok(RunEnd { status: None, was_stopped: sent > RunControl::Continue, note: Some(note) })
    }

    /// The next reply. Nothing is lost when this future is dropped.
    ///
    /// # Errors
    ///
    /// When the supervisor has ended.
    pub(crate) async fn reply(&mut self) -> io::Result<Reply> {
        let Self { socket, received, .. } = self;
        loop {
            if let Some(reply) = received.next()? {
                return Ok(reply);
            }
            if !socket.async_io(Interest::READABLE, || received.fill(socket.as_fd())).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The pid of its supervisor.
    pub(crate) fn supervisor(&self) -> i32 {
        self.supervisor.pid()
    }

    /// The files that came with the last reply.
    pub(crate) fn take_files(&mut self) -> Vec<OwnedFd> {
        self.received.take_files()
    }

    /// The command could not be started; the supervisor can start another.
    pub(crate) fn not_started(self, errno: i32, is_of_command: bool) -> NotStarted {
        self.release();
        NotStarted { error: io::Error::from_raw_os_error(errno), is_of_command }
    }

    /// Kills the processes that a killed supervisor has left to this process.
    pub(crate) async fn kill_strays(self) {
        drop(self);
        supervisor_pool::kill_all_strays().await;
    }

    /// No process of the run is left: returns the supervisor to the pool.
    fn release(self) {
        self.supervisor.release(self.socket);
    }
}

/// Waits for a stronger request than the one that was sent. If the sender was dropped, none comes.
async fn stronger(control: &mut watch::Receiver<RunControl>, sent: RunControl) -> RunControl {
    let wanted = control.wait_for(|wanted| *wanted > sent).await.map(|wanted| *wanted);
    match wanted {
        Ok(wanted) => wanted,
        Err(_) => std::future::pending().await,
    }
}
