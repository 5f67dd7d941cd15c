//! Reads the lines of a JSON Lines file on a separate thread, so that reading and parsing go on while requests run. A bounded
//! channel limits the lines in memory. What a line means stands in `task_line.rs`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::thread;

use tokio::sync::mpsc::{self, Receiver, Sender};

use super::task_line::{LineReader, LineTask};
use crate::failure::Failure;
use crate::json_args::STANDARD_INPUT;

const LINES_BUFFERED: usize = 256;
/// The server takes tasks of 1 MiB, which escapes can make six times as long.
const LINE_BYTES_MAX: u64 = 8 * 1_048_576;

#[derive(Debug)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: u64,
    /// The offset of its end in the file.
    pub(super) end: u64,
    /// The task, or an error message.
    pub(super) task: Result<LineTask, String>,
}

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) receiver: Receiver<Result<Line, Failure>>,
    /// The length of the file; none for a pipe.
    pub(super) bytes: Option<u64>,
}

/// Starts to read a file, or standard input.
pub(super) fn read(path: &Path, reader: LineReader) -> Result<Lines, Failure> {
    let name = path.display().to_string();
    let (source, bytes): (Box<dyn Read + Send>, _) = if path.as_os_str() == STANDARD_INPUT {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(path).map_err(|error| Failure::cannot_read(&name, error))?;
        let bytes = file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
        (Box::new(file), bytes)
    };
    let (sender, receiver) = mpsc::channel(LINES_BUFFERED);
    let reading = thread::Builder::new().name("tq-lines".into()).spawn(move || {
        if let Err(error) = send_lines(BufReader::new(source), reader, &sender) {
            // The receiver is closed if the command has failed already.
            drop(sender.blocking_send(Err(Failure::cannot_read(name, error))));
        }
    });
    reading.map_err(|error| Failure::Refused(format!("cannot start a thread: {error}")))?;
    Ok(Lines { receiver, bytes })
}

fn send_lines(
    mut source: impl BufRead,
    mut reader: LineReader,
    sender: &Sender<Result<Line, Failure>>,
) -> io::Result<()> {
    let (mut number, mut end, mut text) = (0, 0, Vec::new());
    loop {
        text.clear();
        let read = source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text)? as u64;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        end += read;
        if read == LINE_BYTES_MAX && !text.ends_with(b"\n") {
            return Err(io::Error::other(format!("line {number} is longer than {LINE_BYTES_MAX} bytes")));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let line = Line { number, end, task: reader.read(&text) };
        if sender.blocking_send(Ok(line)).is_err() {
            return Ok(());
        }
    }
}
