//! A supervisor with a run, as the worker sees it: it is told what to start and when to end, and tells how that went.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use super::supervisor_pool::Supervisor;
use crate::supervisor::channel::{Inbox, send};
use crate::supervisor::messages::{Message, Reply, Request};

/// A run below its supervisor. When this is dropped, the run is killed.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    supervisor: Supervisor,
    socket: UnixStream,
    inbox: Inbox,
}

impl RunningCommand {
    /// Has a run started by a supervisor that is idle, or by a new one.
    pub(crate) async fn begin(start: &Request, files: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let frame = start.frame();
        while let Some(supervisor) = Supervisor::idle() {
            // One that was killed while it was idle has not read all of the frame, and so has started nothing.
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
        Ok(Self { supervisor, socket, inbox: Inbox::default() })
    }

    /// Passes an order on.
    pub(crate) async fn order(&mut self, order: &Request) -> io::Result<()> {
        self.socket.write_all(&order.frame()).await
    }

    /// What the supervisor says next. Nothing is lost when this is dropped.
    ///
    /// # Errors
    ///
    /// When the supervisor is gone.
    pub(crate) async fn reply(&mut self) -> io::Result<Reply> {
        let Self { socket, inbox, .. } = self;
        loop {
            if let Some(reply) = inbox.next()? {
                return Ok(reply);
            }
            if !socket.async_io(Interest::READABLE, || inbox.fill(socket.as_fd())).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The files that came with the last reply.
    pub(crate) fn take_files(&mut self) -> Vec<OwnedFd> {
        self.inbox.take_files()
    }

    /// The run is over, and nothing is left of it: the supervisor may have another.
    pub(crate) fn over(self) {
        self.supervisor.keep(self.socket);
    }
}
