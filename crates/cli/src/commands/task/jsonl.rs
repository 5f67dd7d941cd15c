//! Reads tasks from JSON Lines, on a thread of its own: reading and parsing go on while requests are under way, and no
//! more lines are held than fit into the channel.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::thread;

use taskqueue_api::bodies::{self, Invalid, Step};
use taskqueue_client::{Definition, TaskId};
use taskqueue_core::json::{self, Value};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::failure::Failure;
use crate::json_args::STANDARD_INPUT;
use crate::task_ids::DerivedIds;

/// Lines that wait to be sent.
const LINES_WAITING: usize = 256;
/// No line of this length is a task: the server takes 1 MiB, of which escapes may make six times as much.
const LINE_BYTES: u64 = 8 * 1_048_576;

/// A line that was read.
#[derive(Debug)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: u64,
    /// Bytes of the file up to its end.
    pub(super) end: u64,
    /// The task, or what is wrong with the line.
    pub(super) task: Result<(TaskId, Definition), String>,
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) receiver: Receiver<Result<Line, Failure>>,
    /// The length of the file, if it has one.
    pub(super) bytes: Option<u64>,
}

/// Begins to read a file, or standard input.
pub(super) fn read(path: &Path) -> Result<Lines, Failure> {
    let name = path.display().to_string();
    let (source, bytes): (Box<dyn Read + Send>, _) = if path.as_os_str() == STANDARD_INPUT {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(path).map_err(|error| Failure::Refused(format!("cannot read {name}: {error}")))?;
        let bytes = file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
        (Box::new(file), bytes)
    };
    let (sender, receiver) = mpsc::channel(LINES_WAITING);
    let reading = thread::Builder::new().name("tq-lines".into()).spawn(move || {
        let failed = |error| Failure::Refused(format!("cannot read {name}: {error}"));
        if let Err(error) = send_lines(BufReader::new(source), &sender) {
            // Nobody listens any more when the command has failed already.
            drop(sender.blocking_send(Err(failed(error))));
        }
    });
    reading.map_err(|error| Failure::Refused(format!("cannot start a thread: {error}")))?;
    Ok(Lines { receiver, bytes })
}

fn send_lines(mut source: impl BufRead, sender: &Sender<Result<Line, Failure>>) -> io::Result<()> {
    let mut ids = DerivedIds::default();
    let (mut number, mut end, mut text) = (0, 0, Vec::new());
    loop {
        text.clear();
        let read = source.by_ref().take(LINE_BYTES).read_until(b'\n', &mut text)? as u64;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        end += read;
        if read == LINE_BYTES && !text.ends_with(b"\n") {
            return Err(io::Error::other(format!("line {number} is longer than {LINE_BYTES} bytes")));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let line = Line { number, end, task: task_in(&text, &mut ids) };
        if sender.blocking_send(Ok(line)).is_err() {
            return Ok(());
        }
    }
}

/// The task in a line: a creation body that may have an `id`, too.
fn task_in(text: &[u8], ids: &mut DerivedIds) -> Result<(TaskId, Definition), String> {
    let mut value = json::parse(text).map_err(|error| describe(&bodies::unreadable(error)))?;
    let given = take_id(&mut value)?;
    let definition: Definition = bodies::read(&value).map_err(|invalid| describe(&invalid))?;
    let id = match given {
        Some(id) => id,
        None => ids.next(&definition),
    };
    Ok((id, definition))
}

fn take_id(value: &mut Value<'_>) -> Result<Option<TaskId>, String> {
    let Value::Object(members) = value else { return Ok(None) };
    let Some(at) = members.iter().position(|(key, _)| key == "id") else { return Ok(None) };
    let id = match members.remove(at).1 {
        Value::Str(text) => TaskId::parse(&text),
        _ => None,
    };
    id.map(Some).ok_or_else(|| "id: a task id is t_ and 12 of A-Z a-z 0-9 _ -".to_owned())
}

/// Everything that is wrong, each with its place.
fn describe(invalid: &Invalid) -> String {
    if invalid.errors.is_empty() {
        return format!("{} ({})", invalid.message(), invalid.code);
    }
    let errors: Vec<String> = invalid
        .errors
        .iter()
        .map(|error| {
            // The first step says that it is about the body, which a line is.
            let place: Vec<String> = error.location.iter().skip(1).map(step).collect();
            if place.is_empty() { error.message.to_string() } else { format!("{}: {}", place.join("."), error.message) }
        })
        .collect();
    format!("{} ({})", errors.join("; "), invalid.code)
}

fn step(step: &Step) -> String {
    match step {
        Step::Key(key) => key.clone(),
        Step::Index(index) => index.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: &str) -> Result<(String, i64), String> {
        let task = task_in(line.as_bytes(), &mut DerivedIds::default());
        task.map(|(id, definition)| (id.to_string(), definition.priority))
    }

    #[test]
    fn a_line_is_a_creation_body_with_or_without_an_id() {
        assert_eq!(task(r#"{"id":"t_abcdefghijkl","priority":5}"#), Ok(("t_abcdefghijkl".to_owned(), 5)));
        let derived = task(r#"{"priority":5}"#).unwrap();
        assert_eq!(task(" { \"priority\" : 5, \"max_attempts\": 3 }\r\n").unwrap(), derived);
        assert_ne!(task(r#"{"priority":6}"#).unwrap().0, derived.0);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let cases = [
            ("{", "JSON"),
            ("[]", "object"),
            (r#"{"id":"x"}"#, "id:"),
            (r#"{"id":7}"#, "id:"),
            (r#"{"priority":"high"}"#, "priority:"),
            (r#"{"args":{"a":99999999999999999999}}"#, "args.a:"),
            (r#"{"status":"pending"}"#, "status"),
        ];
        for (line, expected) in cases {
            let error = task(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
