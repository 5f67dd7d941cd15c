//! The socket between worker and supervisor: whole frames, and the open files that come with them. What the frames say is in
//! `wire.rs`.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::messages::{Message, PREFIX_BYTES, Reply, Request};

/// Most frames fit into this.
const READ_BYTES: usize = 8 * 1024;

/// Standard output and standard error.
const MOST_FILES: usize = 2;

/// What has arrived and was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Inbox {
    /// Reads once. Says whether the other side is still there.
    pub(crate) fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut receive =
            || recvmsg(socket, &mut [IoSliceMut::new(&mut buffer)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let received = retry_on_intr(&mut receive)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        self.bytes.extend_from_slice(&buffer[..received]);
        Ok(received > 0)
    }

    /// The next message, if all of it is there.
    pub(crate) fn next<M: Message>(&mut self) -> io::Result<Option<M>> {
        let Some((prefix, rest)) = self.bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let message = M::parse(content).ok_or_else(|| io::Error::other("worker and supervisor differ"))?;
        self.bytes.drain(..PREFIX_BYTES + length);
        if self.bytes.is_empty() {
            // A command may have had megabytes of arguments.
            self.bytes.shrink_to(READ_BYTES);
        }
        Ok(Some(message))
    }

    /// The files that came with the last message.
    pub(crate) fn take_files(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.files)
    }
}

/// Sends what the socket takes at once. The files go with the first byte.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files for one message"));
    }
    Ok(retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL))?)
}

/// The supervisor's side. It blocks.
#[derive(Debug)]
pub(super) struct Channel {
    worker: UnixStream,
    /// Has a byte when a child has ended.
    woken: UnixStream,
    inbox: Inbox,
}

impl Channel {
    pub(super) fn new(worker: UnixStream, woken: UnixStream) -> io::Result<Self> {
        woken.set_nonblocking(true)?;
        Ok(Self { worker, woken, inbox: Inbox::default() })
    }

    /// Waits for the next request. Nothing when the worker is gone.
    pub(super) fn next(&mut self) -> io::Result<Option<Request>> {
        loop {
            match self.inbox.next()? {
                Some(request) => return Ok(Some(request)),
                None if self.inbox.fill(self.worker.as_fd())? => {}
                None => return Ok(None),
            }
        }
    }

    /// A request that has arrived already.
    pub(super) fn arrived(&mut self) -> io::Result<Option<Request>> {
        self.inbox.next()
    }

    pub(super) fn take_files(&mut self) -> Vec<OwnedFd> {
        self.inbox.take_files()
    }

    /// Waits until a child has ended, a request has come, or the time is over.
    ///
    /// # Errors
    ///
    /// Also when the worker is gone.
    pub(super) fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        let mut sources = [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.worker, PollFlags::IN)];
        match poll(&mut sources, longest.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [is_woken, is_asked] = sources.map(|source| !source.revents().is_empty());
        if is_woken {
            // However often: what has ended is found by asking for it.
            let _ = rustix::io::read(&self.woken, &mut [0; 64]);
        }
        if is_asked && !self.inbox.fill(self.worker.as_fd())? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    pub(super) fn reply(&mut self, reply: &Reply, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let frame = reply.frame();
        let sent = send(self.worker.as_fd(), &frame, files)?;
        self.worker.write_all(&frame[sent..])
    }
}
