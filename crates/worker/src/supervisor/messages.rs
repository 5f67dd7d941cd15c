//! The messages between worker and supervisor, and their encoding. The socket is in `channel.rs`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

/// The size of a frame's length field.
pub(crate) const PREFIX_BYTES: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Without a window, standard output and standard error are attached as open files.
    Start(StartRequest),
    /// Send SIGTERM to all processes of the run, and SIGKILL after the grace time.
    Stop,
    /// Send SIGKILL to all processes of the run.
    Kill,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartRequest {
    pub(crate) argv: Vec<OsString>,
    /// Variables that are removed from the environment first.
    pub(crate) remove: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) grace: Duration,
    /// The size of the command's terminal; `None` means pipes.
    pub(crate) window: Option<WindowSize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunEnd {
    /// As wait(2) gave it; `None` if the command could not be killed, or if its end is unknown.
    pub(crate) status: Option<i32>,
    /// The command ended after it was asked to.
    pub(crate) was_stopped: bool,
    /// A note of the processes that could not be killed, or that the supervisor was killed. Such a supervisor is not reused.
    pub(crate) note: Option<String>,
}

pub(crate) trait Message: Sized {
    fn write(&self, fields: &mut MessageWriter);
    fn read(fields: &mut MessageReader<'_>) -> Option<Self>;

    /// Encodes the message: a length, and that many bytes.
    fn frame(&self) -> Vec<u8> {
        let mut fields = MessageWriter(vec![0; PREFIX_BYTES]);
        self.write(&mut fields);
        let mut frame = fields.0;
        let length = u32::try_from(frame.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
        frame[..PREFIX_BYTES].copy_from_slice(&length.to_le_bytes());
        frame
    }

    /// Decodes the content of a frame; `None` if it is not a valid message.
    fn parse(content: &[u8]) -> Option<Self> {
        let mut fields = MessageReader(content);
        Self::read(&mut fields).filter(|_| fields.0.is_empty())
    }
}

impl Message for Request {
    fn write(&self, fields: &mut MessageWriter) {
        match self {
            Self::Start(start) => {
                fields.byte(0);
                fields.texts(&start.argv);
                fields.texts(&start.remove);
                let (names, values): (Vec<_>, Vec<_>) =
                    start.environment.iter().map(|(name, value)| (name, value)).unzip();
                fields.texts(&names);
                fields.texts(&values);
                fields.number(u64::try_from(start.grace.as_millis()).unwrap_or(u64::MAX));
                fields.byte(u8::from(start.window.is_some()));
                let window = start.window.unwrap_or(WindowSize { rows: 0, columns: 0 });
                fields.number(window.rows.into());
                fields.number(window.columns.into());
            }
            Self::Stop => fields.byte(1),
            Self::Kill => fields.byte(2),
        }
    }

    fn read(fields: &mut MessageReader<'_>) -> Option<Self> {
        match fields.byte()? {
            0 => {
                let (argv, remove) = (fields.texts()?, fields.texts()?);
                let environment = fields.texts()?.into_iter().zip(fields.texts()?).collect();
                let grace = Duration::from_millis(fields.number()?);
                let has_window = fields.byte()? == 1;
                let mut dimension = || u16::try_from(fields.number()?).ok();
                let window = WindowSize { rows: dimension()?, columns: dimension()? };
                Some(Self::Start(StartRequest {
                    argv,
                    remove,
                    environment,
                    grace,
                    window: has_window.then_some(window),
                }))
            }
            1 => Some(Self::Stop),
            2 => Some(Self::Kill),
            _ => None,
        }
    }
}

impl Message for Reply {
    fn write(&self, fields: &mut MessageWriter) {
        match self {
            Self::NotStarted { errno, is_of_command } => {
                fields.byte(0);
                fields.signed(*errno);
                fields.byte(u8::from(*is_of_command));
            }
            Self::Terminal => fields.byte(1),
            Self::Ended(RunEnd { status, was_stopped, note }) => {
                fields.byte(2);
                fields.byte(u8::from(status.is_some()));
                fields.signed(status.unwrap_or_default());
                fields.byte(u8::from(*was_stopped));
                fields.texts(note.as_slice());
            }
        }
    }

    fn read(fields: &mut MessageReader<'_>) -> Option<Self> {
        match fields.byte()? {
            0 => Some(Self::NotStarted { errno: fields.signed()?, is_of_command: fields.byte()? == 1 }),
            1 => Some(Self::Terminal),
            2 => {
                let (has_status, status) = (fields.byte()? == 1, fields.signed()?);
                let was_stopped = fields.byte()? == 1;
                let note = fields.texts()?.pop().map(|text| text.to_string_lossy().into_owned());
                Some(Self::Ended(RunEnd { status: has_status.then_some(status), was_stopped, note }))
            }
            _ => None,
        }
    }
}

pub(crate) struct MessageWriter(Vec<u8>);

impl MessageWriter {
    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    fn signed(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn texts(&mut self, texts: &[impl AsRef<OsStr>]) {
        self.number(texts.len() as u64);
        for text in texts {
            let bytes = text.as_ref().as_bytes();
            self.number(bytes.len() as u64);
            self.0.extend_from_slice(bytes);
        }
    }
}

/// Its methods return `None` where a field is missing.
pub(crate) struct MessageReader<'a>(&'a [u8]);

impl MessageReader<'_> {
    fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn signed(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn texts(&mut self) -> Option<Vec<OsString>> {
        (0..self.number()?).map(|_| self.text()).collect()
    }

    fn text(&mut self) -> Option<OsString> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(OsString::from_vec(text.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_round_trip<M: Message + std::fmt::Debug + PartialEq>(message: &M) {
        let frame = message.frame();
        let (prefix, content) = frame.split_at(PREFIX_BYTES);
        assert_eq!(u32::from_le_bytes(prefix.try_into().unwrap()) as usize, content.len());
        assert_eq!(M::parse(content).as_ref(), Some(message));
        for length in 0..content.len() {
            assert_eq!(M::parse(&content[..length]), None, "{message:?} cut to {length} bytes");
        }
        assert_eq!(M::parse(&[content, &[0]].concat()), None, "{message:?} with a byte too much");
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
