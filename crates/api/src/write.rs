//! Writes answers as compact JSON, straight into bytes: this is the hot path, and args, metadata, result and routes are
//! already JSON text. The fields come in the order of the contract's tables; the schemas say the same in `schema`.

use taskqueue_core::filter::LastErrorFields;
use taskqueue_core::grouping::GroupPage;
use taskqueue_core::ids::{QueueName, RunId};
use taskqueue_core::json::{write_integer, write_string};
use taskqueue_core::observation::Observation;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;
use taskqueue_core::view::TaskView;

use crate::details::Details;
use crate::error_code::ErrorCode;

/// Bytes of a task resource without its JSON texts, roughly: enough to seldom grow the buffer.
const TASK_FRAME_BYTES: usize = 640;

/// About how many bytes a task will take.
pub fn task_bytes(task: &Task) -> usize {
    TASK_FRAME_BYTES + task.bytes()
}

/// Appends the task resource: exactly the 17 fields of the contract.
pub fn task(out: &mut Vec<u8>, task: &TaskView<'_>) {
    raw(out, "{\"id\":");
    plain(out, task.id.as_str());
    raw(out, ",\"queue\":");
    plain(out, task.queue);
    raw(out, ",\"status\":");
    plain(out, task.status.as_str());
    raw(out, ",\"name\":");
    optional(out, task.name, write_string);
    raw(out, ",\"args\":");
    raw(out, task.args);
    raw(out, ",\"metadata\":");
    raw(out, task.metadata);
    raw(out, ",\"priority\":");
    write_integer(out, task.priority);
    raw(out, ",\"attempt\":");
    write_integer(out, task.attempt);
    raw(out, ",\"max_attempts\":");
    write_integer(out, task.max_attempts);
    raw(out, ",\"routes\":");
    raw(out, task.routes);
    raw(out, ",\"result\":");
    raw(out, task.result);
    raw(out, ",\"last_error\":");
    optional(out, task.last_error, last_error);
    raw(out, ",\"last_route\":");
    optional(out, task.last_route, plain);
    raw(out, ",\"created_at\":");
    time(out, task.created_at);
    raw(out, ",\"updated_at\":");
    time(out, task.updated_at);
    raw(out, ",\"started_at\":");
    optional(out, task.started_at, time);
    raw(out, ",\"finished_at\":");
    optional(out, task.finished_at, time);
    out.push(b'}');
}

fn last_error(out: &mut Vec<u8>, error: LastErrorFields<'_>) {
    raw(out, "{\"type\":");
    write_string(out, error.kind);
    raw(out, ",\"message\":");
    write_string(out, error.message);
    raw(out, ",\"traceback\":");
    optional(out, error.traceback, write_string);
    raw(out, ",\"occurred_at\":");
    time(out, error.occurred_at);
    raw(out, ",\"attempt\":");
    write_integer(out, error.attempt);
    raw(out, ",\"run_id\":");
    plain(out, error.run_id);
    out.push(b'}');
}

/// What a page of tasks begins with.
const FIRST_TASK: &str = "{\"items\":[";

/// Appends the next task of a page to what [`end_of_tasks`] will end.
pub fn next_task(out: &mut Vec<u8>, next: &TaskView<'_>) {
    raw(out, if out.is_empty() { FIRST_TASK } else { "," });
    task(out, next);
}

/// Ends a page of tasks. It may have none.
pub fn end_of_tasks(out: &mut Vec<u8>, next_cursor: Option<&str>) {
    raw(out, if out.is_empty() { FIRST_TASK } else { "" });
    out.push(b']');
    end_of_page(out, next_cursor);
}

/// Appends the answer to a claim.
pub fn claimed(out: &mut Vec<u8>, claimed: &Task, run_id: RunId, lease_expires_at: Timestamp) {
    raw(out, "{\"task\":");
    task(out, &claimed.view());
    raw(out, ",\"run_id\":");
    plain(out, run_id.as_str());
    raw(out, ",\"lease_expires_at\":");
    time(out, lease_expires_at);
    out.push(b'}');
}

/// Appends the answer to a heartbeat.
pub fn lease(out: &mut Vec<u8>, lease_expires_at: Timestamp) {
    raw(out, "{\"lease_expires_at\":");
    time(out, lease_expires_at);
    out.push(b'}');
}

/// Appends a page of a list that is not one of tasks; `item` appends one of its items.
pub fn page<T>(out: &mut Vec<u8>, items: &[T], next_cursor: Option<&str>, item: impl Fn(&mut Vec<u8>, &T)) {
    raw(out, "{\"items\":");
    list(out, items, item);
    end_of_page(out, next_cursor);
}

/// Appends a count.
pub fn count(out: &mut Vec<u8>, count: u64) {
    raw(out, "{\"count\":");
    unsigned(out, count);
    out.push(b'}');
}

/// Appends a page of groups; `dimensions` are the words of `group_by` in the order asked for.
pub fn groups(out: &mut Vec<u8>, dimensions: &[&str], page: &GroupPage, next_cursor: Option<&str>) {
    raw(out, "{\"group_by\":");
    list(out, dimensions, |out, dimension| plain(out, dimension));
    raw(out, ",\"count\":");
    unsigned(out, page.count);
    raw(out, ",\"items\":");
    list(out, &page.groups, |out, group| {
        raw(out, "{\"key\":{");
        for (index, (dimension, value)) in dimensions.iter().zip(&group.key).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            plain(out, dimension);
            out.push(b':');
            write_string(out, value);
        }
        raw(out, "},\"count\":");
        unsigned(out, group.count);
        out.push(b'}');
    });
    end_of_page(out, next_cursor);
}

/// Appends what a bulk update did.
pub fn updated(out: &mut Vec<u8>, matched: u64, updated: u64) {
    raw(out, "{\"matched\":");
    unsigned(out, matched);
    raw(out, ",\"updated\":");
    unsigned(out, updated);
    out.push(b'}');
}

/// Appends a worker observation.
pub fn observation(out: &mut Vec<u8>, observation: &Observation) {
    raw(out, "{\"id\":");
    plain(out, observation.id.as_str());
    raw(out, ",\"queue\":");
    plain(out, observation.queue.as_str());
    raw(out, ",\"route\":");
    plain(out, observation.report.route.as_str());
    raw(out, ",\"status\":");
    plain(out, observation.report.status.as_str());
    raw(out, ",\"task_id\":");
    optional(out, observation.report.task_id, |out, id| plain(out, id.as_str()));
    raw(out, ",\"last_seen_at\":");
    time(out, observation.last_seen_at);
    raw(out, ",\"expires_at\":");
    time(out, observation.expires_at);
    // Beyond the contract: only workers that report metadata have the field.
    if !observation.report.metadata.is_empty_object() {
        raw(out, ",\"metadata\":");
        raw(out, observation.report.metadata.as_str());
    }
    out.push(b'}');
}

/// Appends a queue.
pub fn queue(out: &mut Vec<u8>, queue: &QueueName) {
    raw(out, "{\"name\":");
    plain(out, queue.as_str());
    out.push(b'}');
}

/// Appends all queues.
pub fn queues(out: &mut Vec<u8>, queues: &[QueueName]) {
    list(out, queues, queue);
}

/// Appends the error envelope.
pub fn error(out: &mut Vec<u8>, code: ErrorCode, message: &str, details: &Details) {
    raw(out, "{\"error\":{\"code\":");
    plain(out, code.as_str());
    raw(out, ",\"message\":");
    write_string(out, message);
    raw(out, ",\"details\":");
    details.write(out);
    raw(out, "}}");
}

fn end_of_page(out: &mut Vec<u8>, next_cursor: Option<&str>) {
    raw(out, ",\"next_cursor\":");
    optional(out, next_cursor, write_string);
    out.push(b'}');
}

fn list<T>(out: &mut Vec<u8>, items: &[T], item: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (index, each) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        item(out, each);
    }
    out.push(b']');
}

fn optional<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => raw(out, "null"),
    }
}

fn raw(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(json.as_bytes());
}

/// A string that is known to hold nothing that JSON escapes: names, identifiers and words of the contract.
fn plain(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    raw(out, text);
    out.push(b'"');
}

fn time(out: &mut Vec<u8>, at: Timestamp) {
    out.push(b'"');
    at.write(out);
    out.push(b'"');
}

fn unsigned(out: &mut Vec<u8>, value: u64) {
    write_integer(out, i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
