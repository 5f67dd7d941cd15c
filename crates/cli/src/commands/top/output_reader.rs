//! Reads the output of the task that is shown, a little more with each refresh.

use std::collections::VecDeque;

use taskqueue_client::{Client, Error, ErrorCode, QueueName, TaskId};
use taskqueue_core::words;

use super::snapshot::TaskOutput;
use crate::commands::task::{Cursor, Step};
use crate::output::LogLines;

/// The lines that are kept for scrolling.
const LINES_MAX: usize = 2000;
/// Answers of one refresh, of 1 MiB each.
const ANSWERS_MAX: usize = 8;

pub(super) struct OutputReader {
    of: Option<(QueueName, TaskId)>,
    cursor: Cursor,
    open: LogLines,
    lines: VecDeque<String>,
}

impl Default for OutputReader {
    fn default() -> Self {
        Self { of: None, cursor: Cursor::default(), open: LogLines::new(false), lines: VecDeque::new() }
    }
}

impl OutputReader {
    /// Reads what is new of this task, or everything of another one.
    pub(super) async fn read(&mut self, client: &Client, queue: QueueName, id: TaskId) -> Result<TaskOutput, Error> {
        let of = Some((queue.clone(), id));
        if self.of != of {
            *self = Self { of, ..Self::default() };
        }
        let task = match client.task(&queue, id).await {
            Ok(task) => Some(task),
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => None,
            Err(error) => return Err(error),
        };
        for _ in 0..ANSWERS_MAX {
            match client.output(&queue, id, self.cursor.offset, None).await {
                Ok(answer) if answer.output.text.is_empty() && answer.output.end == self.cursor.offset => break,
                Ok(answer) => self.accept(&answer.output),
                Err(error) if is_missing(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let lines = self.lines.iter().cloned().chain(self.open.open_line(None)).collect();
        Ok(TaskOutput { id, task, lines })
    }

    fn accept(&mut self, output: &taskqueue_client::Output) {
        match self.cursor.accept(output) {
            Step::AnotherRun => return self.mark(&format!("attempt {} begins", output.attempt)),
            Step::Next { missing: 0, .. } => {}
            Step::Next { missing, is_first: true } => {
                self.mark(&format!("{} of older output are no longer kept", words::count(missing, "byte")));
            }
            Step::Next { missing, .. } => self.mark(&format!("{} are missing here", words::count(missing, "byte"))),
        }
        let lines = &mut self.lines;
        self.open.read(&output.text, |line| lines.push_back(line));
        lines.drain(..lines.len().saturating_sub(LINES_MAX));
    }

    /// A line of ours.
    fn mark(&mut self, words: &str) {
        self.lines.extend(self.open.end_line());
        self.lines.push_back(format!("[... {words} ...]"));
    }
}

/// Whether nothing is kept, or the task is gone.
fn is_missing(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::OutputNotFound | ErrorCode::TaskNotFound))
}

#[cfg(test)]
mod tests {
    use taskqueue_client::Output;

    use super::*;

    fn read(reader: &mut OutputReader, attempt: i64, start: u64, text: &str) {
        let end = start + text.len() as u64;
        reader.accept(&Output { attempt, start, end, text: text.to_owned(), ended: false });
    }

    #[test]
    fn pieces_become_lines_and_what_is_missing_is_marked() {
        let mut reader = OutputReader::default();
        read(&mut reader, 1, 100, "a\n 10%\r");
        read(&mut reader, 1, 107, "100%\nopen");
        read(&mut reader, 1, 120, "b\n");
        read(&mut reader, 2, 122, "x");
        read(&mut reader, 2, 0, "again\n");
        let expected = [
            "[... 100 bytes of older output are no longer kept ...]",
            "a",
            "100%",
            "open",
            "[... 4 bytes are missing here ...]",
            "b",
            "[... attempt 2 begins ...]",
            "again",
        ];
        assert_eq!(reader.lines, expected);
    }

    #[test]
    fn memory_does_not_grow_with_the_output() {
        let mut reader = OutputReader::default();
        read(&mut reader, 1, 0, &"x\n".repeat(3 * LINES_MAX));
        read(&mut reader, 1, 6 * LINES_MAX as u64, "last\n");
        assert_eq!((reader.lines.len(), reader.lines.back().map(String::as_str)), (LINES_MAX, Some("last")));
    }
}
