//! The socket between worker and supervisor: its messages, their frames, and the open files that are sent with them.

use std::ffi::OsString;
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
use serde::{Deserialize, Serialize};

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

/// The size of a frame's length field.
pub(crate) const PREFIX_BYTES: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Without a window, standard output and standard error are attached as open files.
    Start(StartRequest),
    /// Send SIGTERM to all processes of the run, and SIGKILL after the grace time.
    Stop,
    /// Send SIGKILL to all processes of the run.
    Kill,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartRequest {
    pub(crate) argv: Vec<OsString>,
    /// Variables that are removed from the environment first.
    pub(crate) remove: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The time that it has to end after SIGTERM.
    pub(crate) grace: Duration,
    /// The size of the command's terminal; `None` means pipes. Set when it is started: it follows from the output.
    pub(crate) window: Option<WindowSize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The command could not be started, because of itself or not.
    NotStarted { errno: i32, is_of_command: bool },
    /// The worker's side of the command's terminal is attached as an open file.
    Terminal,
    /// No process of the run is left.
    Ended(RunEnd),
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

/// The reason for which a command was not started.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) error: io::Error,
    /// Executing the command gave the error. Any other one, such as that of opening a terminal, says nothing about the command.
    pub(crate) is_of_command: bool,
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self { error, is_of_command: false }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    /// As wait(2) gave it; `None` if the command could not be killed, or if its end is unknown.
    pub(crate) status: Option<i32>,
    /// The command ended after it was asked to.
    pub(crate) was_stopped: bool,
    /// A note of the processes that could not be killed, or that the supervisor was killed. Such a supervisor is not reused.
    pub(crate) note: Option<String>,
}

/// Encodes a message: a length, and that many bytes of JSON.
pub(crate) fn frame(message: &impl Serialize) -> Vec<u8> {
    // Serialising plain data does not fail.
    let content = serde_json::to_vec(message).unwrap_or_default();
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), content.as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use serde::de::DeserializeOwned;

    use super::*;

    #[track_caller]
    fn assert_round_trip<M: Serialize + DeserializeOwned + std::fmt::Debug + PartialEq>(message: &M) {
        let parse = |content: &[u8]| serde_json::from_slice::<M>(content).ok();
        let frame = frame(message);
        let (prefix, content) = frame.split_at(PREFIX_BYTES);
        assert_eq!(u32::from_le_bytes(prefix.try_into().unwrap()) as usize, content.len());
        assert_eq!(parse(content).as_ref(), Some(message));
        for length in 0..content.len() {
            assert_eq!(parse(&content[..length]), None, "{message:?} cut to {length} bytes");
        }
        assert_eq!(parse(&[content, &[0]].concat()), None, "{message:?} with a byte too much");
    }

    #[test]
    fn every_message_is_decoded_and_no_part_of_one() {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        for window in [None, Some(WindowSize { rows: 24, columns: u16::MAX })] {
            assert_round_trip(&Request::Start(StartRequest {
                argv: vec![text(b"sh"), text(b""), text(b"\xff\n")],
                remove: vec![text(b"A")],
                environment: vec![(text(b"B"), text(b"=b")), (text(b"C"), text(b""))],
                grace: Duration::from_millis(1500),
                window,
            }));
        }
        assert_round_trip(&Request::Stop);
        assert_round_trip(&Request::Kill);
        for is_of_command in [false, true] {
            assert_round_trip(&Reply::NotStarted { errno: 2, is_of_command });
        }
        assert_round_trip(&Reply::Terminal);
        for (status, note) in [(Some(-1), None), (None, Some("7 (state D)".to_owned()))] {
            assert_round_trip(&Reply::Ended(RunEnd { status, was_stopped: status.is_none(), note }));
        }
    }
}
