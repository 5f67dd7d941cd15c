//! What worker and supervisor say to each other, as bytes. How bytes and open files get across is in `channel.rs`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use crate::process::WindowSize;

/// How long the length of a frame is.
pub(crate) const PREFIX_BYTES: usize = 4;

/// What a supervisor is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Start a command. Without a window, its standard output and standard error come along as open files.
    Start(Start),
    /// Ask everything of the run to end; kill it after the grace time.
    Stop,
    /// Kill everything of the run.
    Kill,
}

/// A command that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) argv: Vec<OsString>,
    /// Variables that are taken from the environment.
    pub(crate) remove: Vec<OsString>,
    /// Variables that are added to it then.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) grace: Duration,
    /// The size of the terminal that the command is to have.
    pub(crate) window: Option<WindowSize>,
}

/// What a supervisor answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The command could not be started, for this reason (errno).
    NotStarted(i32),
    /// The command has a terminal; our side of it comes along as an open file.
    Terminal,
    /// The run is over.
    Ended(RunEnd),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunEnd {
    /// As wait(2) gave it; nothing if even the command could not be killed.
    pub(crate) status: Option<i32>,
    /// Whether the command had been asked to end when it did.
    pub(crate) was_stopped: bool,
    /// What could not be killed. A supervisor with such children gets no other run.
    pub(crate) unkillable: Option<String>,
}

/// Something that is said in one frame.
pub(crate) trait Message: Sized {
    fn write(&self, fields: &mut Writer);
    fn read(fields: &mut Reader<'_>) -> Option<Self>;

    /// The frame: a length, and that many bytes.
    fn frame(&self) -> Vec<u8> {
        let mut fields = Writer(vec![0; PREFIX_BYTES]);
        self.write(&mut fields);
        let mut frame = fields.0;
        let length = u32::try_from(frame.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
        frame[..PREFIX_BYTES].copy_from_slice(&length.to_le_bytes());
        frame
    }

    /// Nothing if the content of a frame is no such message.
    fn parse(content: &[u8]) -> Option<Self> {
        let mut fields = Reader(content);
        Self::read(&mut fields).filter(|_| fields.0.is_empty())
    }
}

impl Message for Request {
    fn write(&self, fields: &mut Writer) {
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

    fn read(fields: &mut Reader<'_>) -> Option<Self> {
        match fields.byte()? {
            0 => {
                let (argv, remove) = (fields.texts()?, fields.texts()?);
                let environment = fields.texts()?.into_iter().zip(fields.texts()?).collect();
                let grace = Duration::from_millis(fields.number()?);
                let has_window = fields.byte()? == 1;
                let mut side = || u16::try_from(fields.number()?).ok();
                let window = WindowSize { rows: side()?, columns: side()? };
                Some(Self::Start(Start { argv, remove, environment, grace, window: has_window.then_some(window) }))
            }
            1 => Some(Self::Stop),
            2 => Some(Self::Kill),
            _ => None,
        }
    }
}

impl Message for Reply {
    fn write(&self, fields: &mut Writer) {
        match self {
            Self::NotStarted(errno) => {
                fields.byte(0);
                fields.signed(*errno);
            }
            Self::Terminal => fields.byte(1),
            Self::Ended(RunEnd { status, was_stopped, unkillable }) => {
                fields.byte(2);
                fields.byte(u8::from(status.is_some()));
                fields.signed(status.unwrap_or_default());
                fields.byte(u8::from(*was_stopped));
                let unkillable: Vec<OsString> = unkillable.iter().map(OsString::from).collect();
                fields.texts(&unkillable);
            }
        }
    }

    fn read(fields: &mut Reader<'_>) -> Option<Self> {
        match fields.byte()? {
            0 => Some(Self::NotStarted(fields.signed()?)),
            1 => Some(Self::Terminal),
            2 => {
                let (has_status, status) = (fields.byte()? == 1, fields.signed()?);
                let was_stopped = fields.byte()? == 1;
                let unkillable = fields.texts()?.pop().map(|text| text.to_string_lossy().into_owned());
                Some(Self::Ended(RunEnd { status: has_status.then_some(status), was_stopped, unkillable }))
            }
            _ => None,
        }
    }
}

/// Appends fields.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
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

/// Takes fields off; each gives nothing where there is no such field.
pub(crate) struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
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
    fn assert_understood<M: Message + std::fmt::Debug + PartialEq>(message: &M) {
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
    fn every_message_is_understood_and_no_part_of_one() {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        for window in [None, Some(WindowSize { rows: 24, columns: u16::MAX })] {
            assert_understood(&Request::Start(Start {
                argv: vec![text(b"sh"), text(b""), text(b"\xff\n")],
                remove: vec![text(b"A")],
                environment: vec![(text(b"B"), text(b"=b")), (text(b"C"), text(b""))],
                grace: Duration::from_millis(1500),
                window,
            }));
        }
        assert_understood(&Request::Stop);
        assert_understood(&Request::Kill);
        assert_understood(&Reply::NotStarted(2));
        assert_understood(&Reply::Terminal);
        for (status, unkillable) in [(Some(-1), None), (None, Some("7 (state D)".to_owned()))] {
            assert_understood(&Reply::Ended(RunEnd { status, was_stopped: status.is_none(), unkillable }));
        }
    }
}
