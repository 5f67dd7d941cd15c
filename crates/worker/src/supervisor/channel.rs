//! The socket between worker and supervisor: frames, and the open files that are sent with them. The content of the frames is in
//! `messages.rs`.

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
use serde::de::DeserializeOwned;

use super::messages::{PREFIX_BYTES, Reply, Request, frame};

/// Most frames fit into this.
const READ_BYTES: usize = 8 * 1024;

/// Standard output and standard error.
const MOST_FILES: usize = 2;

/// Received bytes and files that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl ReceiveBuffer {
    /// Reads once. Returns `false` when the other side has closed the socket.
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

    /// The next message, if it is complete.
    pub(crate) fn next<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some((prefix, rest)) = self.bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(content)
            .map_err(|_| io::Error::other("worker and supervisor have different versions"))?;
        self.bytes.drain(..PREFIX_BYTES + length);
        if self.bytes.is_empty() {
            // The message may have had megabytes of arguments.
            self.bytes.shrink_to(READ_BYTES);
        }
        Ok(Some(message))
    }

    /// The files that came with the last message.
    pub(crate) fn take_files(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.files)
    }
}

/// Sends as many bytes as the socket accepts. The files are attached to the first byte.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files for one message"));
    }
    Ok(retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL))?)
}

/// The supervisor's side. Its calls block.
#[derive(Debug)]
pub(super) struct Channel {
    worker: UnixStream,
    /// Readable when a child has ended.
    child_ended: UnixStream,
    pub(super) received: ReceiveBuffer,
}

impl Channel {
    pub(super) fn new(worker: UnixStream, child_ended: UnixStream) -> io::Result<Self> {
        child_ended.set_nonblocking(true)?;
        Ok(Self { worker, child_ended, received: ReceiveBuffer::default() })
    }

    /// Waits for the next request; `None` when the worker has closed the socket.
    pub(super) fn next(&mut self) -> io::Result<Option<Request>> {
        loop {
            match self.received.next()? {
                Some(request) => return Ok(Some(request)),
                None if self.received.fill(self.worker.as_fd())? => {}
                None => return Ok(None),
            }
        }
    }

    /// Waits until a child has ended, bytes were received, or the time is over.
    ///
    /// # Errors
    ///
    /// Also when the worker has closed the socket.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut sources = [PollFd::new(&self.child_ended, PollFlags::IN), PollFd::new(&self.worker, PollFlags::IN)];
        match poll(&mut sources, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [has_child_ended, is_readable] = sources.map(|source| !source.revents().is_empty());
        if has_child_ended {
            // The number of bytes does not matter: `wait` finds every child that has ended.
            let _ = rustix::io::read(&self.child_ended, &mut [0; 64]);
        }
        if is_readable && !self.received.fill(self.worker.as_fd())? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    pub(super) fn reply(&mut self, reply: &Reply, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let frame = frame(reply);
        let sent = send(self.worker.as_fd(), &frame, files)?;
        self.worker.write_all(&frame[sent..])
    }
}
