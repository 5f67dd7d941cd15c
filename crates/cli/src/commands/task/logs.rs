//! `task logs`: prints what is kept of the output of a task, and with `--follow` asks for what comes next until the task has ended. The server
//! holds a request until there is something; while a task waits to be tried again, or has printed nothing yet, it is asked about now and then.
//! Here is also what an answer means: how far the output was read, which `taskqueue top` asks, too, and the last lines of it.

use std::time::Duration;

use taskqueue_client::{Error, ErrorCode, Output, Status, Task, TaskId, Timestamp, capabilities};
use taskqueue_core::words;
use tokio::time::{Instant, sleep};

use super::concurrent_calls::Outage;
use super::named_tasks;
use crate::args::{Format, LogsArgs};
use crate::config::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::output::{LogPrinter, LogStyle, log_place};

pub(super) async fn run(context: &ClientContext, args: &LogsArgs) -> Result<(), CommandError> {
    let mut logs = Logs::new(context, args, named_tasks::id(context, &args.id).await?)?;
    if args.follow {
        return Follow::new(logs).run().await;
    }
    match logs.print_kept().await {
        Ok(()) => {}
        Err(CommandError::Call(error)) if is_without_output(&error) => logs.tell_nothing_is_kept().await?,
        Err(error) => return Err(error),
    }
    Ok(logs.printer.finish()?)
}

/// The output of a task that is being printed.
struct Logs<'s> {
    context: &'s ClientContext,
    id: TaskId,
    printer: LogPrinter,
    cursor: Cursor,
    /// The end of what was printed of this run.
    printed: Option<u64>,
    /// How many lines of what is kept are wanted; nothing when they are printed, or if all are wanted.
    tail: Option<usize>,
}

impl<'s> Logs<'s> {
    fn new(context: &'s ClientContext, args: &LogsArgs, id: TaskId) -> Result<Self, Failure> {
        let format = context.printer.format;
        let style = style(format, args).map_err(|message| Failure::Usage(message.to_owned()))?;
        let printer = LogPrinter::new(style, format != Format::Quiet);
        Ok(Self { context, id, printer, cursor: Cursor::default(), printed: None, tail: args.tail })
    }

    /// Prints what is kept, or its last lines.
    async fn print_kept(&mut self) -> Result<(), CommandError> {
        let (mut held, mut pushed_out) = (Vec::new(), 0);
        if self.tail.is_some() {
            // An earlier try may have failed half-way; it has printed nothing.
            self.cursor = Cursor::default();
        }
        loop {
            let answer = self.context.client.output(&self.context.queue, self.id, self.cursor.offset, None).await?;
            let output = answer.value;
            match self.cursor.accept(&output) {
                Step::AnotherRun => {
                    held.clear();
                    self.begin_run(output.attempt)?;
                    continue;
                }
                Step::Next { missing, is_first: true } => pushed_out = missing,
                Step::Next { .. } => {}
            }
            let is_last = output.text.is_empty();
            held.push(output);
            if self.tail.is_none() {
                self.print_held(&mut held, std::mem::take(&mut pushed_out)).await?;
            }
            if is_last {
                break;
            }
        }
        if let Some(lines) = self.tail.take() {
            let ending = held.last().cloned().filter(|_| lines == 0);
            let is_cut = keep_last_lines(&mut held, lines);
            held.extend(ending);
            self.print_held(&mut held, if is_cut { 0 } else { pushed_out }).await?;
        }
        Ok(())
    }

    /// Prints pieces of one run with what is missing between them.
    async fn print_held(&mut self, held: &mut Vec<Output>, pushed_out: u64) -> Result<(), CommandError> {
        if pushed_out > 0 {
            self.tell_pushed_out(pushed_out).await?;
        }
        Ok(held.drain(..).try_for_each(|piece| self.print(&piece))?)
    }

    fn print(&mut self, piece: &Output) -> Result<(), Failure> {
        let missing = self.printed.replace(piece.end).map_or(0, |end| piece.start.saturating_sub(end));
        if missing > 0 {
            self.printer.missing(missing)?;
        }
        self.printer.piece(piece)
    }

    /// Begins the output of another run.
    fn begin_run(&mut self, attempt: i64) -> Result<(), Failure> {
        self.printed = None;
        self.printer.begin_run()?;
        self.printer.note(&format!("attempt {attempt} begins"))
    }

    /// Says that older output is gone, and where it is. That this is not known is no reason to print nothing.
    async fn tell_pushed_out(&mut self, bytes: u64) -> Result<(), CommandError> {
        let place = self.place().await;
        let verb = if bytes == 1 { "is" } else { "are" };
        let words = format!("{} of older output {verb} no longer kept{place}", words::count(bytes, "byte"));
        Ok(self.printer.note(&words)?)
    }

    /// Says that nothing is kept, because of the server or of the task.
    async fn tell_nothing_is_kept(&mut self) -> Result<(), CommandError> {
        self.require_feature().await?;
        let task = self.context.client.task(&self.context.queue, self.id).await?;
        let words = match task.status {
            Status::Pending => format!("{} is pending and has printed nothing yet", self.id),
            Status::Running => format!("{} is running, and nothing that it printed has arrived yet", self.id),
            status => format!("nothing is kept of what {} printed; it is {}", self.id, status.as_str()),
        };
        let place = log_place(&task).map(|place| format!("; {place}")).unwrap_or_default();
        self.printer.note(&format!("{words}{place}"))?;
        Ok(self.printer.piece(&nothing(&task))?)
    }

    /// Refuses if the server keeps no output at all.
    async fn require_feature(&self) -> Result<(), CommandError> {
        if self.context.client.require_extensions().await?.has(capabilities::OUTPUT) {
            return Ok(());
        }
        let (url, place) = (&self.context.url, self.place().await);
        Err(Failure::Refused(format!("the server at {url} keeps no output: it runs with --task-output-bytes 0{place}"))
            .into())
    }

    /// Returns where the whole log is, behind a semicolon; nothing if that is not known.
    async fn place(&self) -> String {
        let task = self.context.client.task(&self.context.queue, self.id).await.ok();
        task.as_ref().and_then(log_place).map(|place| format!("; {place}")).unwrap_or_default()
    }
}

/// Returns what programs get of a task of which nothing is kept.
fn nothing(task: &Task) -> Output {
    Output { attempt: task.attempt, start: 0, end: 0, text: String::new(), ended: task.status != Status::Running }
}

/// Returns whether the server keeps no output of the task.
fn is_without_output(error: &Error) -> bool {
    error.code() == Some(ErrorCode::OutputNotFound)
}

fn style(format: Format, args: &LogsArgs) -> Result<LogStyle, &'static str> {
    match format {
        Format::Csv => Err("output is no table; use --output json or jsonl"),
        Format::Json if args.follow => Err("--follow does not end with one JSON value; use --output jsonl"),
        Format::Json | Format::Jsonl if args.raw => Err("--raw is for the text; --output json has it as it is, too"),
        Format::Json => Ok(LogStyle::Json),
        Format::Jsonl => Ok(LogStyle::Jsonl),
        Format::Table | Format::Quiet if args.raw => Ok(LogStyle::Raw),
        Format::Table | Format::Quiet => Ok(LogStyle::Lines { draws: args.follow }),
    }
}

/// The place up to which the output of a task was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Everything before it was read or is not kept.
    pub(crate) offset: u64,
    /// The attempt whose output is read; nothing before the first answer.
    attempt: Option<i64>,
    /// Whether the run was over when it was read last.
    pub(crate) has_ended: bool,
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The text comes next.
    Next {
        /// So many bytes before it are not there.
        missing: u64,
        /// Whether they are the first of the run: pushed out, and nothing that a reader has seen.
        is_first: bool,
    },
    /// It is the output of another run, which is to be read from its beginning.
    AnotherRun,
}

impl Cursor {
    /// Takes the next answer, and returns what it means.
    pub(crate) fn accept(&mut self, output: &Output) -> Step {
        let is_other_attempt = self.attempt.is_some_and(|attempt| attempt != output.attempt);
        // After a requeue attempts are counted anew. No run prints less than it had, and none goes on after its end.
        let is_other_run = output.end < self.offset || (self.has_ended && !output.ended);
        if is_other_attempt || is_other_run {
            *self = Self { attempt: Some(output.attempt), ..Self::default() };
            return Step::AnotherRun;
        }
        let step = Step::Next { missing: output.start.saturating_sub(self.offset), is_first: self.offset == 0 };
        *self = Self { offset: output.end, attempt: Some(output.attempt), has_ended: output.ended };
        step
    }
}

/// Leaves the last lines; the end of the text may be a line without an end. Returns whether something was left out.
fn keep_last_lines(pieces: &mut Vec<Output>, lines: usize) -> bool {
    pieces.retain(|piece| !piece.text.is_empty());
    let Some(last) = pieces.len().checked_sub(1) else { return false };
    if lines == 0 {
        pieces.clear();
        return true;
    }
    let mut seen = 0;
    for index in (0..=last).rev() {
        let text = &pieces[index].text;
        let is_final = |at: usize| index == last && at + 1 == text.len();
        for (at, _) in text.rmatch_indices('\n').filter(|(at, _)| !is_final(*at)) {
            seen += 1;
            if seen == lines {
                let rest = text[at + 1..].to_owned();
                pieces.drain(..index);
                pieces[0].start = pieces[0].end - rest.len() as u64;
                pieces[0].text = rest;
                return true;
            }
        }
    }
    false
}

/// Shorter than the time after which many proxies close a silent connection.
const WAIT_SECONDS: u32 = 30;
/// Between two requests that the server does not hold.
const PAUSE: Duration = Duration::from_millis(500);
/// The same for a task that is not running: it prints nothing before it is claimed.
const PENDING_PAUSE: Duration = Duration::from_secs(1);
/// Workers send the last bytes of a run behind its report. They are what everybody looks for.
const LATE_BYTES: Duration = Duration::from_secs(2);

/// The output of a task that is followed until the task has ended.
struct Follow<'s> {
    logs: Logs<'s>,
    outage: Outage,
    /// Whether what is kept was printed, of which `--tail` may leave out the most.
    has_begun: bool,
    /// When the run that is printed was claimed; it tells two runs of the same attempt apart.
    started_at: Option<Timestamp>,
    /// Whether another run may have begun unnoticed.
    is_unsure: bool,
    /// Whether the task had ended when it was looked at last, and nothing has come since.
    is_quiet: bool,
    /// What was said last about the wait.
    told: Option<&'static str>,
    is_feature_known: bool,
}

/// The next step after an answer.
enum NextRequest {
    AtOnce,
    After(Duration),
    Ended(Box<Task>),
}

impl<'s> Follow<'s> {
    fn new(logs: Logs<'s>) -> Self {
        Self {
            logs,
            outage: Outage::default(),
            has_begun: false,
            started_at: None,
            is_unsure: false,
            is_quiet: false,
            told: None,
            is_feature_known: false,
        }
    }

    async fn run(mut self) -> Result<(), CommandError> {
        let task = loop {
            self.outage.ask(Instant::now());
            let next = match self.step().await {
                Ok(next) => next,
                Err(error) => {
                    let (pause, note) = self.outage.after(&self.logs.context.url, error, Instant::now())?;
                    note.iter().try_for_each(|note| self.logs.printer.note(note))?;
                    self.is_unsure = true;
                    NextRequest::After(pause)
                }
            };
            match next {
                NextRequest::AtOnce => {}
                NextRequest::After(pause) => sleep(pause).await,
                NextRequest::Ended(task) => break task,
            }
        };
        self.logs.printer.begin_run()?;
        self.logs.printer.note(&ending(&task))?;
        Ok(self.logs.printer.finish()?)
    }

    /// Asks once and prints what is new.
    async fn step(&mut self) -> Result<NextRequest, CommandError> {
        let progressed = if self.has_begun { self.next_piece().await } else { self.first_pieces().await };
        match progressed {
            Err(CommandError::Call(error)) if is_without_output(&error) => self.without_output().await,
            other => other,
        }
    }

    async fn first_pieces(&mut self) -> Result<NextRequest, CommandError> {
        self.logs.print_kept().await?;
        self.outage.all_answered(Instant::now());
        self.has_begun = true;
        Ok(NextRequest::AtOnce)
    }

    async fn next_piece(&mut self) -> Result<NextRequest, CommandError> {
        let (context, id, offset) = (self.logs.context, self.logs.id, self.logs.cursor.offset);
        // The next run prints from its beginning, so nothing of it may be behind this offset for long.
        let may_be_another = self.is_unsure || self.logs.cursor.has_ended;
        let wait_seconds = (!may_be_another).then_some(WAIT_SECONDS);
        let answer = context.client.output(&context.queue, id, offset, wait_seconds).await?;
        self.outage.all_answered(Instant::now());
        let output = answer.value;
        if !output.ended && (self.started_at.is_none() || self.is_unsure) && self.is_another_claim().await? {
            // The same output is of another run, as the task says.
            self.logs.cursor = Cursor::default();
            return self.begin_run(output.attempt);
        }
        match self.logs.cursor.accept(&output) {
            Step::AnotherRun => return self.begin_run(output.attempt),
            Step::Next { missing: 1.., is_first: true } => self.logs.tell_pushed_out(output.start).await?,
            Step::Next { .. } => {}
        }
        self.logs.print(&output)?;
        if !output.text.is_empty() {
            (self.is_quiet, self.told) = (false, None);
            return Ok(NextRequest::AtOnce);
        }
        if output.ended {
            return self.after_the_run().await;
        }
        // A wait without result takes long, and an answer without a wait was asked for to be sure.
        self.is_unsure = answer.wait_applied.is_some();
        Ok(if self.is_unsure || may_be_another { NextRequest::AtOnce } else { NextRequest::After(PAUSE) })
    }

    /// Looks at the task while its run prints. Returns whether it was claimed again since.
    async fn is_another_claim(&mut self) -> Result<bool, CommandError> {
        let task = self.task().await?;
        self.is_unsure = false;
        let before = self.started_at.replace(task.started_at.unwrap_or(task.created_at));
        Ok(before.is_some_and(|before| self.started_at != Some(before)))
    }

    fn begin_run(&mut self, attempt: i64) -> Result<NextRequest, CommandError> {
        (self.started_at, self.is_quiet, self.told) = (None, false, None);
        self.logs.begin_run(attempt)?;
        Ok(NextRequest::AtOnce)
    }

    /// Goes on when the run is over and everything that has arrived is printed.
    async fn after_the_run(&mut self) -> Result<NextRequest, CommandError> {
        let task = self.task().await?;
        if matches!(task.status, Status::Pending | Status::Running) {
            // Nothing follows in a line that the run left open.
            self.logs.printer.begin_run()?;
        }
        match task.status {
            Status::Pending => {
                self.wait_for("the run has ended; waiting until the task is claimed again", PENDING_PAUSE)
            }
            Status::Running => self.wait_for("the next attempt runs and has printed nothing yet", PAUSE),
            _ => Ok(self.at_the_end(task)),
        }
    }

    /// Goes on when nothing is kept of the task.
    async fn without_output(&mut self) -> Result<NextRequest, CommandError> {
        if !self.is_feature_known {
            self.logs.require_feature().await?;
            self.is_feature_known = true;
        }
        let task = self.task().await?;
        self.outage.all_answered(Instant::now());
        match task.status {
            Status::Pending => self.wait_for("the task is pending; waiting until it is claimed", PENDING_PAUSE),
            Status::Running => self.wait_for("the task is running and has printed nothing yet", PAUSE),
            _ if self.is_quiet => {
                self.logs.printer.note("nothing is kept of what it printed")?;
                Ok(NextRequest::Ended(Box::new(task)))
            }
            _ => Ok(self.at_the_end(task)),
        }
    }

    /// The task has ended: everything is printed if nothing comes for a moment.
    fn at_the_end(&mut self, task: Task) -> NextRequest {
        let was_quiet = std::mem::replace(&mut self.is_quiet, true);
        if was_quiet { NextRequest::Ended(Box::new(task)) } else { NextRequest::After(LATE_BYTES) }
    }

    fn wait_for(&mut self, what: &'static str, pause: Duration) -> Result<NextRequest, CommandError> {
        self.is_quiet = false;
        if self.told.replace(what) != Some(what) {
            self.logs.printer.note(what)?;
        }
        Ok(NextRequest::After(pause))
    }

    async fn task(&self) -> Result<Task, CommandError> {
        Ok(self.logs.context.client.task(&self.logs.context.queue, self.logs.id).await?)
    }
}

/// Returns how the task ended.
fn ending(task: &Task) -> String {
    let error = task.last_error.as_ref().filter(|_| task.status == Status::Failed).map(|error| &error.failure);
    match error {
        Some(failure) => format!("{} failed: {}: {}", task.id, failure.kind, failure.message),
        None => format!("{} is {}", task.id, task.status.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(attempt: i64, start: u64, text: &str, ended: bool) -> Output {
        Output { attempt, start, end: start + text.len() as u64, text: text.to_owned(), ended }
    }

    #[test]
    fn what_is_missing_is_counted_and_what_was_pushed_out_is_told_apart() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.accept(&answer(1, 100, "abc", false)), Step::Next { missing: 100, is_first: true });
        assert_eq!(cursor.offset, 103);
        assert_eq!(cursor.accept(&answer(1, 103, "de", false)), Step::Next { missing: 0, is_first: false });
        assert_eq!(cursor.accept(&answer(1, 110, "x", false)), Step::Next { missing: 5, is_first: false });
        assert_eq!(cursor.accept(&answer(1, 111, "", true)), Step::Next { missing: 0, is_first: false });
    }

    #[test]
    fn another_run_is_read_from_its_beginning() {
        let read = || {
            let mut cursor = Cursor::default();
            cursor.accept(&answer(1, 0, "0123456789", false));
            cursor
        };
        let mut retried = read();
        assert_eq!(retried.accept(&answer(2, 10, "more", false)), Step::AnotherRun);
        assert_eq!(retried.accept(&answer(2, 0, "first", false)), Step::Next { missing: 0, is_first: true });
        let mut shorter = read();
        assert_eq!(shorter.accept(&answer(1, 4, "", false)), Step::AnotherRun, "requeued: the first attempt again");
        assert_eq!(shorter.offset, 0);
        let mut longer = read();
        longer.accept(&answer(1, 10, "", true));
        assert_eq!(longer.accept(&answer(1, 10, "late", true)), Step::Next { missing: 0, is_first: false });
        assert_eq!(longer.accept(&answer(1, 14, "new", false)), Step::AnotherRun, "the run had ended");
    }

    fn tail(texts: &[&str], lines: usize) -> (String, u64, bool) {
        let mut pieces = Vec::new();
        let mut start = 100;
        for text in texts {
            let end = start + text.len() as u64;
            pieces.push(Output { attempt: 1, start, end, text: (*text).to_owned(), ended: true });
            start = end;
        }
        let is_cut = keep_last_lines(&mut pieces, lines);
        let start = pieces.first().map_or(start, |piece| piece.start);
        (pieces.iter().map(|piece| piece.text.as_str()).collect(), start, is_cut)
    }

    #[test]
    fn the_last_lines_stay_wherever_the_pieces_are_cut() {
        let whole = "one\ntwo\nthree\n";
        for at in 0..=whole.len() {
            let pieces = [&whole[..at], &whole[at..]];
            assert_eq!(tail(&pieces, 2), ("two\nthree\n".to_owned(), 104, true), "{pieces:?}");
            assert_eq!(tail(&pieces, 3), (whole.to_owned(), 100, false), "{pieces:?}");
            assert_eq!(tail(&pieces, 1), ("three\n".to_owned(), 108, true), "{pieces:?}");
        }
        assert_eq!(tail(&["a\nb"], 1), ("b".to_owned(), 102, true));
        assert_eq!(tail(&["a\n\n"], 1), ("\n".to_owned(), 102, true));
        assert_eq!(tail(&["a\n"], 0), (String::new(), 102, true));
        assert_eq!(tail(&[], 5), (String::new(), 100, false));
        assert_eq!(tail(&["a\n"], usize::MAX), ("a\n".to_owned(), 100, false));
    }
}
