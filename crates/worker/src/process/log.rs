//! The log file of a command: the first bytes of its output up to a limit, and the last ones. The beginning shows how the command was
//! set up, the end shows why it failed. Writing blocks. Also the last lines of an output as text, for the report of a failure.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use taskqueue_core::terminal::{Cell, LineSink, OutputLines};

use crate::run_dir::{FILE_MODE, FOLDER_MODE};

/// The file is created with the first byte: a run without output has none.
#[derive(Debug)]
pub(crate) struct OutputLog {
    path: PathBuf,
    cap_bytes: u64,
    file: Option<File>,
    written_bytes: u64,
    /// The output after the limit was reached.
    beyond: OutputTail,
    beyond_bytes: u64,
}

impl OutputLog {
    pub(crate) fn new(path: PathBuf, cap_bytes: u64) -> Self {
        Self { path, cap_bytes, file: None, written_bytes: 0, beyond: OutputTail::default(), beyond_bytes: 0 }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// After the limit is reached, nothing is written until `finish`.
    pub(crate) fn is_full(&self) -> bool {
        self.beyond_bytes > 0
    }

    /// Adds output beyond the limit.
    pub(crate) fn push_beyond(&mut self, bytes: &[u8]) {
        self.beyond.push(bytes);
        self.beyond_bytes += bytes.len() as u64;
    }

    /// Writes up to the limit. A line in the file says when it is reached.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.cap_bytes - self.written_bytes).unwrap_or(usize::MAX);
        let (fitting, beyond) = bytes.split_at(room.min(bytes.len()));
        self.append(fitting)?;
        self.written_bytes += fitting.len() as u64;
        if !beyond.is_empty() {
            if !self.is_full() {
                let (cap, kib) = (self.cap_bytes, TAIL_BYTES / 1024);
                let line =
                    format!("\n[taskqueue: this log has reached its limit of {cap} bytes; the rest is not kept, ");
                self.append(
                    format!("{line}apart from its last {kib} KiB, which are added when the run has ended]\n")
                        .as_bytes(),
                )?;
            }
            self.push_beyond(beyond);
        }
        Ok(())
    }

    /// Writes the last output if it was beyond the limit. Returns a note if something is missing.
    pub(crate) fn finish(&mut self) -> io::Result<Option<String>> {
        if !self.is_full() {
            return Ok(None);
        }
        let end = self.beyond.raw().to_vec();
        let missing = self.beyond_bytes - end.len() as u64;
        if missing > 0 {
            self.append(format!("[taskqueue: {missing} bytes of output are not kept here]\n").as_bytes())?;
        }
        self.append(&end)?;
        let (written, path) = (self.written_bytes, self.path.display());
        let note = format!(
            "{path} keeps the first {written} and the last {} bytes of the output, not the {missing} between",
            end.len()
        );
        Ok((missing > 0).then_some(note))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(open(&self.path)?),
        };
        file.write_all(bytes)
    }
}

fn open(path: &std::path::Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(FILE_MODE);
    match (options.open(path), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
            options.open(path)
        }
        (opened, _) => opened,
    }
}

/// Enough for a long stack trace.
pub(crate) const TAIL_BYTES: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct OutputTail {
    /// Up to twice `TAIL_BYTES`, so that old bytes are removed seldom.
    bytes: Vec<u8>,
    is_cut: bool,
}

impl OutputTail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let fresh = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        self.is_cut |= fresh.len() < bytes.len();
        self.bytes.extend_from_slice(fresh);
        if self.bytes.len() > 2 * TAIL_BYTES {
            self.bytes.drain(..self.bytes.len() - TAIL_BYTES);
            self.is_cut = true;
        }
    }

    pub(crate) fn raw(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(TAIL_BYTES)..]
    }

    /// Readable text: whole lines where possible, without terminal control sequences, and with the last state of a progress bar.
    pub(crate) fn text(&self) -> String {
        let raw = self.raw();
        let is_cut = self.is_cut || raw.len() < self.bytes.len();
        let line_start = raw.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let whole = match line_start {
            Some(start) if is_cut && start < raw.len() => &raw[start..],
            _ => raw,
        };
        let (mut reader, mut lines) = (OutputLines::new(TAIL_BYTES), PlainLines::default());
        reader.read(&String::from_utf8_lossy(whole), &mut lines);
        lines.add(reader.line());
        lines.0
    }
}

/// Lines without colours and control characters.
#[derive(Default)]
struct PlainLines(String);

impl PlainLines {
    fn add(&mut self, line: &[Cell<()>]) {
        self.0.extend(line.iter().map(|cell| cell.character));
    }
}

impl LineSink for PlainLines {
    type Look = ();

    fn look(&self) {}

    fn change_look(&mut self, _parameters: &str) {}

    fn end_line(&mut self, line: &[Cell<()>], is_too_long: bool) {
        self.add(line);
        self.0.push_str(if is_too_long { "" } else { "\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cap_bytes: u64, chunks: &[&[u8]]) -> (String, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task/run/output.log");
        let mut log = OutputLog::new(path.clone(), cap_bytes);
        for chunk in chunks {
            log.write(chunk).unwrap();
        }
        let note = log.finish().unwrap();
        (std::fs::read_to_string(path).unwrap(), note)
    }

    #[test]
    fn everything_is_kept_up_to_the_limit() {
        assert_eq!(written(8, &[b"one\n", b"two\n"]), ("one\ntwo\n".to_owned(), None));
    }

    #[test]
    fn beyond_the_limit_the_end_is_kept_and_the_gap_is_noted() {
        let flood = vec![b'x'; 100_000];
        let (text, note) = written(6, &[b"one\n", b"two\n", &flood, b"\nthe end\n"]);
        assert!(text.starts_with("one\ntw\n[taskqueue: this log has reached its limit of 6 bytes;"), "{text}");
        assert!(text.contains("[taskqueue: 83627 bytes of output are not kept here]\nxxx"), "{text}");
        assert!(text.ends_with("xxx\nthe end\n"));
        assert_eq!(
            text.len(),
            6 + TAIL_BYTES
                + text.lines().filter(|line| line.starts_with('[')).map(|line| line.len() + 1).sum::<usize>()
                + 1
        );
        assert!(
            note.unwrap().ends_with("keeps the first 6 and the last 16384 bytes of the output, not the 83627 between")
        );
    }

    #[test]
    fn a_little_beyond_the_limit_nothing_is_missing() {
        let (text, note) = written(4, &[b"one\ntwo\n"]);
        assert!(text.starts_with("one\n") && text.ends_with("]\ntwo\n") && note.is_none(), "{text}");
    }

    fn tail(bytes: &[u8]) -> String {
        let mut tail = OutputTail::default();
        bytes.chunks(1000).for_each(|chunk| tail.push(chunk));
        tail.text()
    }

    #[test]
    fn a_long_text_begins_with_a_whole_line() {
        let text: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
        let kept = tail(text.as_bytes());
        assert!(kept.starts_with("line ") && kept.ends_with("line 9999\n"), "{kept}");
        assert!(kept.len() <= TAIL_BYTES && kept.len() > TAIL_BYTES - 20);

        let mut at_once = OutputTail::default();
        at_once.push(text.as_bytes());
        assert_eq!(at_once.text(), kept);
    }

    #[test]
    fn a_text_is_kept_as_it_is_and_what_is_no_text_is_left_out_or_replaced() {
        for (printed, expected) in [
            (&b"one\n\ttwo\n"[..], "one\n\ttwo\n"),
            (b"", ""),
            (b"a\0b\x07c\xff\n", "abc\u{fffd}\n"),
            (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;url\x1b\\y\x1bMz", "red xyz"),
            (b"10%\r20%\r30%\r\ndone\r\n", "30%\ndone\n"),
            (&[b'x'; 100_000], &"x".repeat(TAIL_BYTES)),
        ] {
            assert_eq!(tail(printed), expected);
        }
    }
}
