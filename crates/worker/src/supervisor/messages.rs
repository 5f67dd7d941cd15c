//! The messages between worker and supervisor, and their encoding. The socket is in `channel.rs`.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    pub(crate) grace: Duration,
    /// The size of the command's terminal; `None` means pipes.
    pub(crate) window: Option<WindowSize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    NotStarted {
        errno: i32,
        is_of_command: bool,
    },
    /// The worker's side of the command's terminal is attached as an open file.
    Terminal,
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
