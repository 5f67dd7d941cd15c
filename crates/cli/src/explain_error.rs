//! Turns a failed call into a message of one line that says what to do. For an unknown queue it suggests similar names, for
//! an invalid filter it shows the position.

use taskqueue_client::{Error, ErrorCode, JsonObject};
use taskqueue_core::json::{Found, lookup};
use unicode_width::UnicodeWidthStr;

use crate::client_context::ClientContext;
use crate::config::Source;
use crate::failure::Failure;
use crate::output::escape;

const SUGGESTIONS_MAX: usize = 3;

/// From 0 (nothing in common) to 1 (equal).
const SIMILARITY_MIN: f64 = 0.6;

/// `filter` is the filter expression of the command. May ask the server for its queues.
pub(crate) async fn explain(context: &ClientContext, error: Error, filter: Option<&str>) -> Failure {
    match error.code() {
        Some(ErrorCode::QueueNotFound) => unknown_queue(context, &error).await,
        Some(ErrorCode::InvalidFilter) => invalid_filter(&error, filter),
        Some(ErrorCode::Unauthorized) => {
            Failure::Refused(unauthorized(context.token_source.as_ref(), context.withheld_note.as_deref()))
        }
        _ => to_failure(&context.url, &error),
    }
}

/// Which token was refused, or that none was sent. `withheld_note` explains why, although there is one.
fn unauthorized(sent: Option<&Source>, withheld_note: Option<&str>) -> String {
    let way_out = "give the server's token with --token-file or TASKQUEUE_TOKEN, see taskqueue config show";
    match (sent, withheld_note) {
        (Some(source), _) => format!("the server does not accept the token of {source} (unauthorized); {way_out}"),
        (None, Some(note)) => format!("the server needs a token (unauthorized); {note}"),
        (None, None) => format!("the server needs a token (unauthorized); {way_out}"),
    }
}

/// The message for an error, without asking the server for more.
pub(crate) fn to_failure(url: &str, error: &Error) -> Failure {
    match error {
        Error::Transport { message, may_have_arrived: false } => Failure::Unreachable(format!(
            "no server at {url} ({}); start one with: taskqueue serve, or name another with --url",
            root_cause(message)
        )),
        Error::Transport { message, .. } => {
            Failure::Unreachable(format!("the server at {url} does not answer: {message}; try again"))
        }
        Error::OutcomeUnknown { cause, .. } if matches!(**cause, Error::Transport { .. }) => {
            Failure::Unreachable(error.to_string())
        }
        Error::Protocol { .. } => Failure::Refused(format!("{error}; is {url} a taskqueue server?")),
        _ => Failure::Refused(match advice(error.code()) {
            Some(advice) => format!("{error}; {advice}"),
            None => error.to_string(),
        }),
    }
}

/// The last cause of a chain of transport errors. Those before it only say that there was a connection.
pub(crate) fn root_cause(message: &str) -> &str {
    message.rsplit(": ").next().unwrap_or(message)
}

/// What to do about a refusal, where its message does not say it.
fn advice(code: Option<ErrorCode>) -> Option<&'static str> {
    Some(match code? {
        ErrorCode::TaskNotFound => "see taskqueue task list",
        ErrorCode::TaskRunning => "wait for it or cancel it first",
        ErrorCode::TaskStateConflict => "see its status with taskqueue task get",
        ErrorCode::TaskIdConflict => "choose another --id",
        ErrorCode::QueueNotEmpty => "delete its tasks too with --cascade",
        ErrorCode::QueueHasRunningTasks => "cancel its running tasks first",
        ErrorCode::DatabaseBusy => "try again",
        ErrorCode::DatabaseUnavailable => "see taskqueue health",
        _ => return None,
    })
}

async fn unknown_queue(context: &ClientContext, error: &Error) -> Failure {
    // If the queues cannot be listed, the first error is still the important one.
    let queues = context.client.queues().await.unwrap_or_default();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let wanted = detail_text(error, "queue").unwrap_or_else(|| context.queue.to_string());
    let similar = similar_names(&wanted, &names);
    let advice = if similar.is_empty() {
        format!("create it with: taskqueue queue create {wanted}")
    } else {
        format!("did you mean {}? Or create it with: taskqueue queue create {wanted}", similar.join(", "))
    };
    Failure::Refused(format!("there is no queue {wanted} (queue_not_found); {advice}"))
}

/// The names that `wanted` may be a misspelling of, most similar first.
fn similar_names<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let similarity = |name: &str| strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
    let mut similar: Vec<(f64, &str)> = names.iter().map(|name| (similarity(name), *name)).collect();
    similar.retain(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    similar.into_iter().map(|(_, name)| name).take(SUGGESTIONS_MAX).collect()
}

fn invalid_filter(error: &Error, filter: Option<&str>) -> Failure {
    let message = error.to_string();
    let column = details(error).and_then(|details| match lookup(details.as_str(), &["column"]) {
        Some(Found::Int(column)) => usize::try_from(column).ok(),
        _ => None,
    });
    match (filter, column) {
        (Some(filter), Some(column)) => Failure::RefusedAt { message, excerpt: excerpt(filter, column) },
        _ => Failure::Refused(message),
    }
}

/// The filter and a mark under the character at `column`, counted from 1. Line ends are shown as escapes.
fn excerpt(filter: &str, column: usize) -> String {
    let before: String = filter.chars().take(column.saturating_sub(1)).collect();
    format!("  {}\n  {}^", escape(filter), " ".repeat(escape(&before).width()))
}

fn details(error: &Error) -> Option<&JsonObject> {
    if let Error::Api { details, .. } = error { Some(details) } else { None }
}

fn detail_text(error: &Error, name: &str) -> Option<String> {
    match lookup(details(error)?.as_str(), &[name])? {
        Found::Str(text) => Some(text.to_text().into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_first_and_distant_ones_not_at_all() {
        let names = ["default", "gpu", "gpu-large", "nightly", "Nightly-2"];
        let cases = [
            ("defualt", vec!["default"]),
            ("nigthly", vec!["nightly", "Nightly-2"]),
            ("GPU", vec!["gpu"]),
            ("gpularge", vec!["gpu-large"]),
            ("something", vec![]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(similar_names(wanted, &names), expected, "{wanted}");
        }
    }

    #[test]
    fn a_refused_token_and_a_missing_one_are_told_apart() {
        let wrong = unauthorized(Some(&Source::Environment("TASKQUEUE_TOKEN")), None);
        assert!(
            wrong.starts_with("the server does not accept the token of environment TASKQUEUE_TOKEN (unauth"),
            "{wrong}"
        );
        assert!(unauthorized(None, None).starts_with("the server needs a token (unauthorized); give "));
        assert_eq!(unauthorized(None, Some("why")), "the server needs a token (unauthorized); why");
    }

    #[test]
    fn the_mark_stands_under_the_character_also_behind_wide_ones() {
        assert_eq!(excerpt("stats == 1", 1), "  stats == 1\n  ^");
        assert_eq!(excerpt("name == \"漢\" ad", 13), "  name == \"漢\" ad\n               ^");
        assert_eq!(excerpt("a\nb", 3), "  a\\nb\n     ^");
    }
}
