//! Tasks that are to be created, as the lines of a file or the combinations of a sweep give them, and those that make none. A file is read on a
//! thread of its own, so that reading and parsing go on while requests run; lines are handed on in groups, and a bounded channel limits the
//! groups in memory. What a line means stands in `taskqueue_api::task_line`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::{fmt, mem, thread};

use taskqueue_api::task_line::{LineError, LineReader, LineTask};
use taskqueue_client::{Creation, TaskId, Timestamp};
use taskqueue_core::batch_label::labelled;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::args::SchedulingArgs;
use crate::failure::Failure;
use crate::json_args::{STANDARD_INPUT, no_name};

/// The place that a task comes from, for messages: `line 7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Of the kind that the command has: `line` or `combination`.
    pub(super) kind: &'static str,
    /// Its place among the others of the same command.
    pub(super) number: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.number)
    }
}

/// A task that is to be created.
#[derive(Debug)]
pub(super) struct PlannedTask {
    pub(super) id: TaskId,
    /// Derived from the definition, not given by the user.
    pub(super) is_derived: bool,
    pub(super) creation: Creation,
    /// Its time is counted from when the command was started, so it is another one each time.
    pub(super) is_delayed: bool,
    pub(super) origin: Origin,
}

impl From<&PlannedTask> for Creation {
    fn from(task: &PlannedTask) -> Self {
        task.creation.clone()
    }
}

/// The label and the delay that a command gives to each of its tasks, where they do not say it themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskDefaults {
    /// Of the batch.
    pub(super) label: Option<String>,
    /// By `--delay`.
    pub(super) delayed_until: Option<Timestamp>,
}

impl TaskDefaults {
    pub(super) fn by(label: Option<&str>, scheduling: &SchedulingArgs, not_before: Option<Timestamp>) -> Self {
        let delayed_until = not_before.filter(|_| scheduling.delay.is_some());
        Self { label: label.map(str::to_owned), delayed_until }
    }

    pub(super) fn task(&self, id: TaskId, is_derived: bool, mut creation: Creation, origin: Origin) -> PlannedTask {
        creation.definition.metadata = labelled(creation.definition.metadata, self.label.as_deref());
        let is_delayed = creation.not_before.is_some() && creation.not_before == self.delayed_until;
        PlannedTask { id, is_derived, creation, is_delayed, origin }
    }
}

/// A line that makes no task.
#[derive(Debug)]
pub(super) struct WrongTask {
    pub(super) origin: Origin,
    pub(super) reason: String,
}

/// Tasks that are read and sent together.
#[derive(Debug, Default)]
pub(super) struct TaskGroup {
    pub(super) tasks: Vec<Result<PlannedTask, WrongTask>>,
    /// How far the command has come with them, for its progress bar.
    pub(super) end: u64,
    bytes: usize,
}

impl TaskGroup {
    /// Fewer than a request may have: the first tasks are under way soon, and one group is being read while others are sent.
    const TASKS_MAX: usize = 500;
    /// Many proxies take bodies of 1 MiB, and a request is a little longer than is counted here. A task that is larger is a group
    /// of its own.
    const BYTES_MAX: usize = 1_000_000;
    /// About what a request has of a task besides its definition: the id, a time, and the names of fields.
    const FRAME_BYTES: usize = 100;

    /// Adds a task. If it does not fit any more, it begins the next group, and the full one is returned.
    pub(super) fn push(&mut self, task: Result<PlannedTask, WrongTask>, end: u64) -> Option<Self> {
        let request_bytes = |planned: &PlannedTask| Self::FRAME_BYTES + planned.creation.definition.stored_bytes();
        let bytes = task.as_ref().map_or(0, request_bytes);
        let fits = self.tasks.len() < Self::TASKS_MAX && self.bytes + bytes <= Self::BYTES_MAX;
        let full = (!fits && !self.tasks.is_empty()).then(|| mem::take(self));
        self.tasks.push(task);
        self.bytes += bytes;
        self.end = end;
        full
    }
}

/// Further refusals are only counted.
const REFUSALS_SHOWN: u64 = 20;

/// Tasks that were refused and why, in the order of the lines or combinations, although answers come in another order.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pub(super) count: u64,
    printed: u64,
    /// Not printed yet, because of something before them whose answer is missing. No more than can still be printed.
    waiting: BTreeMap<u64, String>,
}

impl Refusals {
    pub(super) fn add(&mut self, origin: Origin, reason: impl FnOnce() -> String) {
        self.count += 1;
        let place = origin.number;
        let is_full = self.printed + self.waiting.len() as u64 >= REFUSALS_SHOWN;
        if is_full && self.waiting.last_key_value().is_none_or(|(last, _)| *last < place) {
            return;
        }
        self.waiting.insert(place, format!("{origin}: {}", reason()));
        if is_full {
            self.waiting.pop_last();
        }
    }

    /// Returns the lines to print now: those before this place, in their order.
    pub(super) fn take_before(&mut self, place: u64) -> Vec<String> {
        let rest = self.waiting.split_off(&place);
        let lines: Vec<String> = std::mem::replace(&mut self.waiting, rest).into_values().collect();
        self.printed += lines.len() as u64;
        lines
    }

    /// Returns how many were only counted, once all lines are printed.
    pub(super) fn not_shown(&self) -> u64 {
        self.count - self.printed
    }
}

const GROUPS_BUFFERED: usize = 2;
/// Some hundred usual lines.
const READ_BYTES: usize = 128 * 1024;
/// The server takes tasks of 1 MiB, which escapes can make six times as long.
const LINE_BYTES_MAX: u64 = 8 * 1_048_576;

/// A file that is being read.
#[derive(Debug)]
pub(super) struct LineGroups {
    pub(super) receiver: Receiver<Result<TaskGroup, Failure>>,
    /// The length of a named file; `None` for a pipe and for standard input.
    pub(super) bytes: Option<u64>,
}

/// Starts to read a file, or standard input.
pub(super) fn read_lines(path: &Path, reader: LineReader, given: TaskDefaults) -> Result<LineGroups, Failure> {
    let name = path.display().to_string();
    let is_input = path.as_os_str() == STANDARD_INPUT;
    let file = if is_input { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
    let file = file.map_err(Failure::cannot_read(&name))?;
    let bytes = file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
    let (sender, receiver) = mpsc::channel(GROUPS_BUFFERED);
    let reading = thread::Builder::new().name("tq-lines".into()).spawn(move || {
        let source = BufReader::with_capacity(READ_BYTES, file);
        if let Err(error) = send_lines(source, bytes.is_some(), reader, &given, &sender) {
            // The receiver is closed if the command has failed already.
            drop(sender.blocking_send(Err(Failure::cannot_read(name)(error))));
        }
    });
    reading.map_err(Failure::because("cannot start a thread"))?;
    Ok(LineGroups { receiver, bytes: bytes.filter(|_| !is_input) })
}

/// Sends the lines in groups, which end when they are full. What a pipe gives slowly is not held back: its groups also end when the next line is not here
/// yet. A file has all its lines.
fn send_lines(
    mut source: BufReader<File>,
    is_file: bool,
    mut reader: LineReader,
    given: &TaskDefaults,
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

/// Hands a group on, if it has tasks. Returns false if the command has ended.
fn send(sender: &Sender<Result<TaskGroup, Failure>>, group: TaskGroup) -> bool {
    group.tasks.is_empty() || sender.blocking_send(Ok(group)).is_ok()
}

/// Replaces `text` by the next line, and returns its length; 0 at the end.
fn next_line(source: &mut impl BufRead, number: u64, text: &mut Vec<u8>) -> io::Result<u64> {
    text.clear();
    let read = source.take(LINE_BYTES_MAX).read_until(b'\n', text)? as u64;
    if read == LINE_BYTES_MAX && !text.ends_with(b"\n") {
        return Err(io::Error::other(format!("line {number} is longer than {LINE_BYTES_MAX} bytes")));
    }
    Ok(read)
}

fn planned(number: u64, task: Result<LineTask, LineError>, given: &TaskDefaults) -> Result<PlannedTask, WrongTask> {
    let origin = Origin { kind: "line", number };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn add(refusals: &mut Refusals, line: u64) {
        refusals.add(Origin { kind: "line", number: line }, || "no".to_owned());
    }

    #[test]
    fn refusals_are_printed_in_the_order_of_the_lines() {
        let mut refusals = Refusals::default();
        [7, 3, 12].into_iter().for_each(|line| add(&mut refusals, line));
        assert_eq!(refusals.take_before(5), ["line 3: no"]);
        add(&mut refusals, 5);
        assert_eq!(refusals.take_before(u64::MAX), ["line 5: no", "line 7: no", "line 12: no"]);
        assert_eq!((refusals.count, refusals.not_shown()), (4, 0));
    }

    #[test]
    fn the_first_are_shown_and_the_others_counted_in_whichever_order_they_come() {
        let mut refusals = Refusals::default();
        (1..=1000).rev().for_each(|line| add(&mut refusals, line));
        assert_eq!(refusals.waiting.len() as u64, REFUSALS_SHOWN);
        let lines = refusals.take_before(u64::MAX);
        let expected = (REFUSALS_SHOWN, "line 1: no", "line 20: no");
        assert_eq!((lines.len() as u64, lines[0].as_str(), lines[19].as_str()), expected);
        add(&mut refusals, 0);
        assert_eq!(refusals.take_before(u64::MAX), Vec::<String>::new());
        assert_eq!((refusals.count, refusals.not_shown()), (1001, 981));
    }
}
