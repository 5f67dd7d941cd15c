//! What the latest run of a task printed: its end at once, what follows while it runs, and the whole of it as a file. How a text looks
//! is decided in `show/ansi.rs`. The id of a run is its owner's secret, so a page knows a run by a digest of it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use sha2::{Digest, Sha256};
use taskqueue_core::limits::{OUTPUT_OFFSET_MAX, OUTPUT_PARTS};
use taskqueue_core::{QueueName, Refusal, RunId, Status, Task, TaskId};
use taskqueue_store::StoreError;
use taskqueue_store::command::Output;

use super::run::WorkerView;
use crate::answer::{self, hex_digits};
use crate::layout::PageResult;
use crate::problem::Problem;
use crate::show::ansi::{Resume, TextLook, screen};
use crate::show::{Html, bytes, number, sentence};
use crate::state::Dashboard;
use crate::visit::Visit;

/// What is shown of an output at once: its end.
const SHOWN_BYTES: u64 = 64 * 1024;
/// What is cut off to begin with a whole line.
const LINE_BYTES: usize = 4 * 1024;

/// The output of a task, as its page shows it.
pub(super) struct OutputView {
    pub(super) tail: Option<Tail>,
    /// Why there is none, or what is missing of it.
    pub(super) note: String,
    /// Where the run was.
    pub(super) place: Option<String>,
}

/// The end of an output.
pub(super) struct Tail {
    pub(super) run: String,
    attempt: i64,
    pub(super) shown: Shown,
    /// The first byte that is kept.
    kept_from: u64,
    /// The first byte that is shown.
    from: u64,
    pub(super) end: u64,
    ended: bool,
}

impl Tail {
    /// What these pieces of a run add from an offset on.
    fn of(last: &Output, pieces: &[Output], kept_from: u64, from: u64, look: TextLook) -> Self {
        let end = pieces.last().map_or(last.start, Output::end);
        let (run, shown) = (digest(last.run_id), show(pieces, from, look));
        Self { run, attempt: last.attempt, shown, kept_from, from, end, ended: last.ended }
    }
}

/// A part of an output, and where to go on.
pub(super) struct Shown {
    pub(super) lines: Html,
    pub(super) last: Html,
    pub(super) next: u64,
    pub(super) look: TextLook,
}

impl OutputView {
    pub(super) async fn read(dashboard: &Arc<Dashboard>, task: &Task, worker: &WorkerView) -> Result<Self, Problem> {
        let place: Vec<&str> = [worker.said("host"), worker.said("folder")].into_iter().flatten().collect();
        let place = (!place.is_empty()).then(|| place.join(" · "));
        let reader = OutputReader { dashboard: Arc::clone(dashboard), queue: task.queue.clone(), id: task.id };
        let tail = if dashboard.host.task_output_bytes() == 0 { None } else { reader.tail().await? };
        let note = match &tail {
            Some(tail) => note(tail, task),
            None if dashboard.host.task_output_bytes() == 0 => {
                "This server keeps no output: it was started with --task-output-bytes 0.".to_owned()
            }
            None => match task.lifecycle.status {
                Status::Pending => "It has not printed anything yet.",
                Status::Running => "No output was sent so far.",
                Status::Succeeded | Status::Failed | Status::Cancelled => "No output was sent.",
            }
            .to_owned(),
        };
        Ok(Self { tail, note, place })
    }
}

/// Returns what a reader has to know to take the output for no more than it is.
fn note(tail: &Tail, task: &Task) -> String {
    let mut notes = Vec::new();
    if task.lifecycle.status == Status::Running && tail.ended {
        notes.push(format!("of attempt {}: the current run has printed nothing yet", tail.attempt));
    }
    notes.extend((tail.kept_from > 0).then(|| format!("the first {} are not kept", bytes(tail.kept_from))));
    if tail.from > tail.kept_from {
        notes.push(format!("the last {} are shown, the download has all of it", bytes(tail.end - tail.from)));
    }
    if notes.is_empty() { String::new() } else { sentence(&notes.join("; ")) }
}

/// Reads the output of one task.
#[derive(Clone)]
struct OutputReader {
    dashboard: Arc<Dashboard>,
    queue: QueueName,
    id: TaskId,
}

impl OutputReader {
    /// Returns what is kept from an offset on, up to a gap; nothing if nothing is kept.
    async fn read(&self, offset: u64) -> Result<Option<Output>, StoreError> {
        let most_bytes = self.dashboard.host.task_output_bytes();
        match self.dashboard.store().read_output(&self.queue, self.id, offset, most_bytes).await {
            Ok(output) => Ok(Some(output)),
            Err(StoreError::Refused(Refusal::OutputNotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The end of the output.
    async fn tail(&self) -> Result<Option<Tail>, StoreError> {
        let Some(last) = self.read(OUTPUT_OFFSET_MAX).await? else { return Ok(None) };
        let Some(first) = self.read(0).await? else { return Ok(None) };
        let wanted = last.start.saturating_sub(SHOWN_BYTES);
        let kept_from = first.start;
        let pieces = if first.end() > wanted && first.run_id == last.run_id {
            let mut pieces = vec![cut_before(first, wanted)];
            let behind = pieces[0].end();
            pieces.extend(self.pieces(behind, last.run_id).await?);
            pieces
        } else {
            self.pieces(wanted, last.run_id).await?
        };
        let from = pieces.first().map_or(last.start, |piece| piece.start);
        Ok(Some(Tail::of(&last, &pieces, kept_from, from, TextLook::default())))
    }

    /// Everything from an offset on, in pieces with gaps between them.
    async fn pieces(&self, mut offset: u64, run_id: RunId) -> Result<Vec<Output>, StoreError> {
        let mut pieces = Vec::new();
        // One more than there can be gaps.
        for _ in 0..=OUTPUT_PARTS {
            match self.read(offset).await? {
                Some(piece) if !piece.text.is_empty() && piece.run_id == run_id => {
                    offset = piece.end();
                    pieces.push(piece);
                }
                _ => break,
            }
        }
        Ok(pieces)
    }
}

/// A piece without what is before an offset, and without the rest of the line that begins before it.
fn cut_before(piece: Output, offset: u64) -> Output {
    let skipped = usize::try_from(offset.saturating_sub(piece.start)).unwrap_or(usize::MAX);
    if skipped == 0 {
        return piece;
    }
    let place = piece.text.ceil_char_boundary(skipped);
    let line = piece.text[place..].find('\n').filter(|length| *length < LINE_BYTES).map_or(0, |length| length + 1);
    let text = piece.text[place + line..].to_owned();
    Output { start: piece.start + (place + line) as u64, text, ..piece }
}

/// Shows pieces that begin at an offset with a look.
fn show(pieces: &[Output], offset: u64, look: TextLook) -> Shown {
    let mut shown = Shown { lines: Html::default(), last: Html::default(), next: offset, look };
    let mut position = offset;
    for piece in pieces {
        if piece.start > position {
            shown.end_line();
            shown.lines.span("gap", &format!("— {} are missing here —", bytes(piece.start - position)));
            shown.lines.markup("\n");
        }
        let part = screen(&piece.text, shown.look);
        shown.lines.append(&part.lines);
        let Resume { byte, look } = part.resume;
        (shown.last, shown.next, shown.look) = (part.last, piece.start + byte as u64, look);
        position = piece.end();
    }
    shown
}

impl Shown {
    fn end_line(&mut self) {
        if !self.last.is_empty() {
            let last = std::mem::take(&mut self.last);
            self.lines.append(&last);
            self.lines.markup("\n");
        }
    }
}

/// Returns what a page knows a run by.
fn digest(run_id: RunId) -> String {
    let digest = Sha256::new().chain_update("output of a run").chain_update(run_id.as_str()).finalize();
    hex_digits(&digest, 6)
}

/// Returns what was printed since a page has asked: `run`, `from` and `look` are what the last answer said, and `end` how far it went. Of
/// another run there is all of its end, with `output-reset`.
pub(crate) async fn follow(visit: Visit) -> PageResult {
    let reader = OutputReader { queue: visit.queue()?, id: visit.task_id()?, dashboard: visit.dashboard.clone() };
    let asked = |name: &str| visit.query.get(name).and_then(|value| value.parse::<u64>().ok());
    let Some(last) = reader.read(OUTPUT_OFFSET_MAX).await? else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let is_same = visit.query.get("run") == Some(digest(last.run_id).as_str());
    if is_same && asked("end") == Some(last.start) {
        return Ok(answered(StatusCode::NO_CONTENT, String::new(), &[("output-ended", last.ended.to_string())]));
    }
    let is_near = |from: &u64| is_same && from.saturating_add(SHOWN_BYTES) >= last.start;
    let (is_reset, tail) = match asked("from").filter(is_near) {
        Some(from) => {
            let look = TextLook::parse(visit.query.get("look").unwrap_or_default());
            (false, Some(Tail::of(&last, &reader.pieces(from, last.run_id).await?, 0, from, look)))
        }
        // It was too much since then, or another run.
        None => (true, reader.tail().await?),
    };
    let Some(Tail { run, shown, end, ended, .. }) = tail else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let body = format!("<pre><span>{}</span><span>{}</span></pre>", shown.lines, shown.last);
    let said = [
        ("output-run", run),
        ("output-next", shown.next.to_string()),
        ("output-look", shown.look.code()),
        ("output-end", end.to_string()),
        ("output-ended", ended.to_string()),
        ("output-reset", is_reset.to_string()),
    ];
    Ok(answered(StatusCode::OK, body, &said))
}

fn answered(status: StatusCode, body: String, said: &[(&'static str, String)]) -> Response {
    let mut response = answer::html(status, body);
    for (name, value) in said {
        let value = HeaderValue::try_from(value.as_str()).ok();
        response.headers_mut().extend(value.map(|value| (HeaderName::from_static(name), value)));
    }
    response
}

/// The whole of what is kept, as a file. Read piece by piece while it is sent.
pub(crate) async fn download(visit: Visit) -> PageResult {
    let reader = OutputReader { queue: visit.queue()?, id: visit.task_id()?, dashboard: visit.dashboard.clone() };
    let not_there = || Problem::not_found("output", "The task has printed nothing, or its output is no longer kept.");
    let first = reader.read(0).await?.ok_or_else(not_there)?;
    let disposition = format!("attachment; filename=\"{}-output.txt\"", reader.id);
    let run_id = first.run_id;
    let permit = reader.dashboard.download()?;
    let body = stream::unfold(Some((reader, first, 0, permit)), move |state| async move {
        let (reader, piece, position, permit) = state?;
        if piece.text.is_empty() || piece.run_id != run_id {
            return None;
        }
        let mark = match piece.start - position {
            0 => String::new(),
            missing if position == 0 => format!("[the first {} bytes are not kept]\n", number(missing)),
            missing => format!("\n[{} bytes are missing here]\n", number(missing)),
        };
        let end = piece.end();
        let sent = Ok(Bytes::from(mark + &piece.text));
        match reader.read(end).await {
            Ok(next) => Some((sent, next.map(|next| (reader, next, end, permit)))),
            // The browser sees that the file is not complete.
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(answer::file(Body::from_stream(body), "text/plain; charset=utf-8", &disposition))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, text: &str) -> Output {
        let run_id = RunId::parse("r_abcdefghijkl").unwrap();
        Output { run_id, attempt: 1, start, text: text.to_owned(), ended: false }
    }

    #[test]
    fn gaps_between_pieces_are_marked_and_the_last_line_stays_open() {
        let shown = show(&[piece(0, "one\ntw"), piece(106, "three\nfo")], 0, TextLook::default());
        let lines = "one\ntw\n<span class=\"gap\">— 100 B are missing here —</span>\nthree\n";
        assert_eq!((shown.lines.to_string().as_str(), shown.last.to_string().as_str()), (lines, "fo"));
        assert_eq!(shown.next, 112, "the line that has not ended is read again");
        let nothing = show(&[], 7, TextLook::default());
        assert_eq!((nothing.next, nothing.lines.is_empty()), (7, true));
    }

    #[test]
    fn a_tail_begins_with_a_whole_line_if_one_is_near() {
        assert_eq!(cut_before(piece(10, "abc\ndef\n"), 10), piece(10, "abc\ndef\n"));
        assert_eq!(cut_before(piece(10, "abc\ndef\n"), 12), piece(14, "def\n"));
        assert_eq!(cut_before(piece(10, "äbc"), 11), piece(12, "bc"));
        assert_eq!(cut_before(piece(10, "abc"), 99), piece(13, ""));
        let long = "x".repeat(10_000);
        assert_eq!(cut_before(piece(0, &long), 1_000).start, 1_000);
    }

    #[test]
    fn the_id_of_a_run_is_not_told() {
        let run_id = RunId::parse("r_abcdefghijkl").unwrap();
        assert!(!digest(run_id).contains("abcdefghijkl") && digest(run_id).len() == 12);
    }
}
