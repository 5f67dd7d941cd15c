//! From a failed call to one line that says what to do next. Unknown queues are compared with those that exist, and a wrong
//! filter is shown with a mark under the place.

use taskqueue_client::{Error, ErrorCode, JsonObject};
use taskqueue_core::json::{Found, lookup};
use unicode_width::UnicodeWidthStr;

use crate::failure::Failure;
use crate::output::escape;
use crate::session::Session;

/// How many queues are offered instead of one that does not exist.
const NEAR_QUEUES: usize = 3;

/// Names that have this much in common (1 is all) are near.
const NEAR: f64 = 0.6;

/// What to tell about a failed call. `filter` is the expression that the command was given.
pub(crate) async fn explain(session: &Session, error: Error, filter: Option<&str>) -> Failure {
    match error.code() {
        Some(ErrorCode::QueueNotFound) => unknown_queue(session, &error).await,
        Some(ErrorCode::InvalidFilter) => wrong_filter(&error, filter),
        Some(ErrorCode::Unauthorized) => Failure::Refused(match &session.withheld_note {
            Some(note) => format!("{error}; {note}"),
            None => format!(
                "{error}; give the server's token with --token-file or TASKQUEUE_TOKEN, see taskqueue config show"
            ),
        }),
        _ => plain(&session.url, &error),
    }
}

/// What needs no further looking.
pub(crate) fn plain(url: &str, error: &Error) -> Failure {
    match error {
        Error::Transport { message, may_have_arrived: false } => Failure::Unreachable(format!(
            "no server at {url} ({}); start one with: taskqueue serve, or name another with --url",
            innermost(message)
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

/// The last cause of a chain of errors: those before it only say that there was a connection to be made.
fn innermost(message: &str) -> &str {
    message.rsplit(": ").next().unwrap_or(message)
}

/// What to do about a refusal whose message does not say it.
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

async fn unknown_queue(session: &Session, error: &Error) -> Failure {
    // If the queues cannot be listed, the first error is still the one to tell.
    let queues = session.client.queues().await.unwrap_or_default();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let wanted = text_in(error, "queue").unwrap_or_else(|| session.queue.to_string());
    let near = near_names(&wanted, &names);
    let advice = if near.is_empty() {
        format!("create it with: taskqueue queue create {wanted}")
    } else {
        format!("did you mean {}? Or create it with: taskqueue queue create {wanted}", near.join(", "))
    };
    Failure::Refused(format!("there is no queue {wanted} (queue_not_found); {advice}"))
}

/// The names that `wanted` may be a misspelling of, nearest first.
fn near_names<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
    let mut near: Vec<(f64, &str)> = names.iter().map(|name| (likeness(name), *name)).collect();
    near.retain(|(likeness, _)| *likeness >= NEAR);
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.into_iter().map(|(_, name)| name).take(NEAR_QUEUES).collect()
}

fn wrong_filter(error: &Error, filter: Option<&str>) -> Failure {
    let message = error.to_string();
    let column = details(error).and_then(|details| match lookup(details.as_str(), &["column"]) {
        Some(Found::Int(column)) => usize::try_from(column).ok(),
        _ => None,
    });
    match (filter, column) {
        (Some(filter), Some(column)) => Failure::RefusedAt { message, excerpt: marked(filter, column) },
        _ => Failure::Refused(message),
    }
}

/// The expression and a mark under the character at `column`, counted from 1. Line ends in it are shown as escapes.
fn marked(filter: &str, column: usize) -> String {
    let before: String = filter.chars().take(column.saturating_sub(1)).collect();
    format!("  {}\n  {}^", escape(filter), " ".repeat(escape(&before).width()))
}

fn details(error: &Error) -> Option<&JsonObject> {
    if let Error::Api { details, .. } = error { Some(details) } else { None }
}

fn text_in(error: &Error, name: &str) -> Option<String> {
    match lookup(details(error)?.as_str(), &[name])? {
        Found::Str(text) => Some(text.to_text().into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_first_and_distant_ones_not_at_all() {
        let names = ["default", "gpu", "gpu-large", "nightly", "Nightly-2"];
        let cases = [
            ("defualt", vec!["default"]),
            ("nigthly", vec!["nightly", "Nightly-2"]),
            ("GPU", vec!["gpu"]),
            ("gpularge", vec!["gpu-large"]),
            ("something", vec![]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(near_names(wanted, &names), expected, "{wanted}");
        }
    }

    #[test]
    fn the_mark_stands_under_the_character_also_behind_wide_ones() {
        assert_eq!(marked("stats == 1", 1), "  stats == 1\n  ^");
        assert_eq!(marked("name == \"漢\" ad", 13), "  name == \"漢\" ad\n               ^");
        assert_eq!(marked("a\nb", 3), "  a\\nb\n     ^");
    }
}
