//! Reads the lines of a JSON Lines file on a separate thread, so that reading and parsing go on while requests run. Lines are
//! handed on in groups, and a bounded channel limits the groups in memory. What a line means stands in
//! `taskqueue_api::task_line`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::{mem, thread};

use taskqueue_api::task_line::{LineError, LineReader, LineTask};
use taskqueue_client::Creation;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::planned_task::{Given, Origin, PlannedTask, TaskGroup, WrongTask};
use crate::failure::Failure;
use crate::json_args::STANDARD_INPUT;
use crate::name_template::no_name;

const GROUPS_BUFFERED: usize = 2;
/// Some hundred usual lines.
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
pub(super) fn read(path: &Path, reader: LineReader, given: Given) -> Result<Lines, Failure> {
    let name = path.display().to_string();
    let (source, is_file, bytes): (Box<dyn Read + Send>, _, _) = if path.as_os_str() == STANDARD_INPUT {
        (Box::new(io::stdin()), is_standard_input_a_file(), None)
    } else {
        let file = File::open(path).map_err(|error| Failure::cannot_read(&name, error))?;
        let bytes = file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
        (Box::new(file), bytes.is_some(), bytes)
    };
    let (sender, receiver) = mpsc::channel(GROUPS_BUFFERED);
    let reading = thread::Builder::new().name("tq-lines".into()).spawn(move || {
        let source = BufReader::with_capacity(READ_BYTES, source);
        if let Err(error) = send_lines(source, is_file, reader, &given, &sender) {
            // The receiver is closed if the command has failed already.
            drop(sender.blocking_send(Err(Failure::cannot_read(name, error))));
        }
    });
    reading.map_err(|error| Failure::Refused(format!("cannot start a thread: {error}")))?;
    Ok(Lines { receiver, bytes })
}

fn is_standard_input_a_file() -> bool {
    let metadata = io::stdin().as_fd().try_clone_to_owned().and_then(|input| File::from(input).metadata());
    metadata.is_ok_and(|metadata| metadata.is_file())
}

/// A group ends when it is full. What a pipe gives slowly is not held back: its groups also end when the next line is not here
/// yet. A file has all its lines.
fn send_lines(
    mut source: BufReader<impl Read>,
    is_file: bool,
    mut reader: LineReader,
    given: &Given,
    sender: &Sender<Result<TaskGroup, Failure>>,
) -> io::Result<()> {
    let (mut number, mut end, mut text, mut group) = (0, 0, Vec::new(), TaskGroup::default());
    loop {
        let may_wait = !is_file && !source.buffer().contains(&b'\n');
        if may_wait && !send(sender, mem::take(&mut group)) {
            return Ok(());
        }
        number += 1;
        let read = match next_line(&mut source, number, &mut text) {
            Ok(read) if read > 0 => read,
            last => {
                send(sender, group);
                return last.map(drop);
            }
        };
        end += read;
        if text.trim_ascii().is_empty() {
            continue;
        }
        if let Some(full) = group.push(planned(number, reader.read(&text), given), end)
            && !send(sender, full)
        {
            return Ok(());
        }
    }
}

/// Hands a group on, if it has tasks. False if the command has ended.
fn send(sender: &Sender<Result<TaskGroup, Failure>>, group: TaskGroup) -> bool {
    group.tasks.is_empty() || sender.blocking_send(Ok(group)).is_ok()
}

/// Replaces `text` by the next line, and gives its length; 0 at the end.
fn next_line(source: &mut impl BufRead, number: u64, text: &mut Vec<u8>) -> io::Result<u64> {
    text.clear();
    let read = source.take(LINE_BYTES_MAX).read_until(b'\n', text)? as u64;
    if read == LINE_BYTES_MAX && !text.ends_with(b"\n") {
        return Err(io::Error::other(format!("line {number} is longer than {LINE_BYTES_MAX} bytes")));
    }
    Ok(read)
}

fn planned(number: u64, task: Result<LineTask, LineError>, given: &Given) -> Result<PlannedTask, WrongTask> {
    let origin = Origin::Line(number);
    match task {
        Ok(LineTask { id, is_derived, definition, not_before }) => {
            Ok(given.task(id, is_derived, Creation { definition, not_before }, origin))
        }
        Err(LineError::Line(reason)) => Err(WrongTask { origin, reason }),
        Err(LineError::Name(error)) => {
            Err(WrongTask { origin, reason: no_name(&error).message().unwrap_or_default().to_owned() })
        }
    }
}
