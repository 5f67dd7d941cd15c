//! Reads tasks from a JSON Lines file on a separate thread, so that reading and parsing go on while requests run. A bounded
//! channel limits the lines in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::thread;

use taskqueue_api::body::{self, Invalid, Step};
use taskqueue_client::{Definition, TaskId};
use taskqueue_core::json::{self, Value};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::failure::Failure;
use crate::json_args::STANDARD_INPUT;
use crate::task_ids::DerivedIds;

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
    pub(super) task: Result<(TaskId, Definition), String>,
}

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) receiver: Receiver<Result<Line, Failure>>,
    /// The length of the file; none for a pipe.
    pub(super) bytes: Option<u64>,
}

/// Starts to read a file, or standard input.
pub(super) fn read(path: &Path) -> Result<Lines, Failure> {
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
        if let Err(error) = send_lines(BufReader::new(source), &sender) {
            // The receiver is closed if the command has failed already.
            drop(sender.blocking_send(Err(Failure::cannot_read(name, error))));
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
        let line = Line { number, end, task: parse_task(&text, &mut ids) };
        if sender.blocking_send(Ok(line)).is_err() {
            return Ok(());
        }
    }
}

/// Parses a line: a creation body that may also have an `id`.
fn parse_task(text: &[u8], ids: &mut DerivedIds) -> Result<(TaskId, Definition), String> {
    let mut value = json::parse(text).map_err(|error| describe(&body::unreadable(error)))?;
    let given = take_id(&mut value)?;
    let definition: Definition = body::read(&value).map_err(|invalid| describe(&invalid))?;
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

/// All errors, each with the path of its field.
fn describe(invalid: &Invalid) -> String {
    if invalid.errors.is_empty() {
        return format!("{} ({})", invalid.message(), invalid.code);
    }
    let errors: Vec<String> = invalid
        .errors
        .iter()
        .map(|error| {
            // The first step is always the body.
            let path: Vec<String> = error.location.iter().skip(1).map(step).collect();
            if path.is_empty() { error.message.to_string() } else { format!("{}: {}", path.join("."), error.message) }
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
        let task = parse_task(line.as_bytes(), &mut DerivedIds::default());
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
    fn errors_name_the_field() {
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
