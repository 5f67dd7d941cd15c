//! Reads the lines of a JSON Lines file on a separate thread, so that reading and parsing go on while requests run. Lines are
//! handed on in groups, and a bounded channel limits the groups in memory. What a line means stands in `task_line.rs`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::thread;

use tokio::sync::mpsc::{self, Receiver, Sender};

use super::planned_task::{Origin, PlannedTask, TaskGroup, WrongTask};
use super::task_line::{LineReader, LineTask};
use crate::failure::Failure;
use crate::json_args::STANDARD_INPUT;

const GROUPS_BUFFERED: usize = 2;
/// About a group of usual lines.
const READ_BYTES: usize = 128 * 1024;
/// The server takes tasks of 1 MiB, which escapes can make six times as long.
const LINE_BYTES_MAX: u64 = 8 * 1_048_576;

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) receiver: Receiver<Result<TaskGroup, Failure>>,
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
    let (sender, receiver) = mpsc::channel(GROUPS_BUFFERED);
    let reading = thread::Builder::new().name("tq-lines".into()).spawn(move || {
        if let Err(error) = send_lines(BufReader::with_capacity(READ_BYTES, source), reader, &sender) {
            // The receiver is closed if the command has failed already.
            drop(sender.blocking_send(Err(Failure::cannot_read(name, error))));
        }
    });
    reading.map_err(|error| Failure::Refused(format!("cannot start a thread: {error}")))?;
    Ok(Lines { receiver, bytes })
}

/// A group ends when it is full, and when the next line is not here yet: what a pipe gives slowly is not held back.
fn send_lines(
    mut source: BufReader<impl Read>,
    mut reader: LineReader,
    sender: &Sender<Result<TaskGroup, Failure>>,
) -> io::Result<()> {
    let (mut number, mut end, mut text, mut group) = (0, 0, Vec::new(), TaskGroup::default());
    loop {
        let ends = group.is_full() || !source.buffer().contains(&b'\n');
        if ends && !group.tasks.is_empty() && sender.blocking_send(Ok(std::mem::take(&mut group))).is_err() {
            return Ok(());
        }
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
        if !text.trim_ascii().is_empty() {
            group.push(planned(number, reader.read(&text)), end);
        }
    }
}

fn planned(number: u64, task: Result<LineTask, String>) -> Result<PlannedTask, WrongTask> {
    let origin = Origin::Line(number);
    match task {
        Ok(LineTask { id, is_derived, definition }) => Ok(PlannedTask { id, is_derived, definition, origin }),
        Err(reason) => Err(WrongTask { origin, reason }),
    }
}
