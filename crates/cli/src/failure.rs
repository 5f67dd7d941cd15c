//! Errors of commands. Each has a message of one line, which may name what was meant instead of a misspelt name; `main` chooses the exit code.
//! A failed call to the server becomes a message that says what to do, in the words of the command line: for an unknown queue it suggests
//! similar names, for an invalid filter it shows the position.

use std::fmt::Display;
use std::io;
use std::path::Path;

use taskqueue_client::{Error, ErrorCode, SHOWN_AUTHORITY, UNEXPECTED_KEY, UNTRUSTED_CERTIFICATE};
use taskqueue_core::json::{Found, elements, lookup};
use taskqueue_core::shell::CommandLine;
use taskqueue_core::words;
use unicode_width::UnicodeWidthStr;

use crate::config::{ClientContext, Source, command_line};
use crate::output::escape;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line, the environment or the configuration is wrong.
    Usage(String),
    /// The request was refused or failed. The text says what to do.
    Refused(String),
    /// The request was refused, with an excerpt that shows where the mistake is.
    RefusedAt { message: String, excerpt: String },
    /// The server was not reached, or its answer was lost.
    Unreachable(String),
    /// The user ended the command. The text says how far it came.
    Interrupted(String),
    /// Not every task was processed. The summary is already printed.
    Unfinished,
    /// The exit code of a child process that did the work and printed its own messages.
    ChildExit(u8),
    /// The reader of standard output closed it, as `head` does. Not an error.
    BrokenPipe,
}

impl Failure {
    /// The message to print; none if everything is already printed.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Usage(message) | Self::Refused(message) | Self::Unreachable(message) | Self::Interrupted(message) => {
                Some(message)
            }
            Self::RefusedAt { message, .. } => Some(message),
            Self::Unfinished | Self::ChildExit(_) | Self::BrokenPipe => None,
        }
    }

    pub(crate) fn excerpt(&self) -> Option<&str> {
        if let Self::RefusedAt { excerpt, .. } = self { Some(excerpt) } else { None }
    }

    /// Returns what makes the refusal `WHAT: ERROR` of an error.
    pub(crate) fn because<E: Display>(what: impl Display) -> impl Fn(E) -> Self {
        move |error| Self::Refused(format!("{what}: {error}"))
    }

    /// Returns what makes the refusal of a file that cannot be read of an error.
    pub(crate) fn cannot_read<E: Display>(name: impl Display) -> impl Fn(E) -> Self {
        Self::because(format!("cannot read {name}"))
    }

    /// Returns what makes the refusal of a place that cannot be written of an error.
    pub(crate) fn cannot_write<E: Display>(path: &Path) -> impl Fn(E) -> Self {
        Self::because(format!("cannot write {}", path.display()))
    }

    /// An error of writing to standard output.
    pub(crate) fn from_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Refused(format!("standard output cannot be written: {error}")),
        }
    }
}

/// The error of a client command.
#[derive(Debug)]
pub(crate) enum CommandError {
    Failure(Failure),
    /// A failed call to the server, not yet turned into a message.
    Call(taskqueue_client::Error),
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<taskqueue_client::Error> for CommandError {
    fn from(error: taskqueue_client::Error) -> Self {
        Self::Call(error)
    }
}

const SUGGESTIONS_MAX: usize = 3;

/// From 0 (nothing in common) to 1 (equal).
const SIMILARITY_MIN: f64 = 0.6;

/// Returns the names that `wanted` may be a misspelling of, most similar first.
pub(crate) fn similar_names<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let similarity = |name: &str| strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
    let mut similar: Vec<(f64, &str)> = names.iter().map(|name| (similarity(name), *name)).collect();
    similar.retain(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    similar.into_iter().map(|(_, name)| name).take(SUGGESTIONS_MAX).collect()
}

/// `filter` is the filter expression of the command. May ask the server for its queues.
pub(crate) async fn explain(context: &ClientContext, error: Error, filter: Option<&str>) -> Failure {
    match error.code() {
        Some(ErrorCode::QueueNotFound) => explain_missing_queue(context, &error, true).await,
        Some(ErrorCode::InvalidFilter) => invalid_filter(&error, filter),
        Some(ErrorCode::Unauthorized) => {
            let sent = context.config.token.as_ref().map(|token| &token.source);
            Failure::Refused(unauthorized(sent, context.config.withheld_note().as_deref()))
        }
        _ => to_failure(context, &error),
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
pub(crate) fn to_failure(context: &ClientContext, error: &Error) -> Failure {
    failure(&context.url, |words| command_line(context, words), error)
}

/// `command` makes a command for the same server and queue.
fn failure(url: &str, command: impl Fn(&str) -> CommandLine, error: &Error) -> Failure {
    match error {
        Error::Transport { message, may_have_arrived: false } => unreachable(url, message),
        Error::Transport { message, .. } => no_answer(url, message),
        Error::OutcomeUnknown { call, advice, cause } => outcome_unknown(url, call, advice, cause),
        Error::Protocol { message, from_taskqueue, .. } => {
            let is_other = !from_taskqueue && !error.is_proxy_without_server();
            let advice = if is_other { "; name the server with --url" } else { "" };
            by_reach(error, format!("{}{advice}", invalid_answer(url, error, message, *from_taskqueue)))
        }
        Error::Api { .. } => Failure::Refused(refusal(url, command, error).unwrap_or_else(|| error.to_string())),
        Error::ServerTooOld { missing } => {
            let needed =
                concat!("taskqueue ", env!("CARGO_PKG_VERSION"), " or newer is needed there: upgrade the server");
            Failure::Refused(format!("the server at {url} has no {missing}; {needed}"))
        }
        _ => Failure::Refused(error.to_string()),
    }
}

/// Returns who gave an answer that is not valid, and what it is.
fn invalid_answer(url: &str, error: &Error, message: &str, from_taskqueue: bool) -> String {
    match from_taskqueue {
        true => format!("the answer of {url} is not valid: {message}"),
        false if error.is_proxy_without_server() => proxy_without_server(url, message),
        false => format!("what answers at {url} is no taskqueue server: {message}"),
    }
}

/// `message` says what the proxy answered.
pub(crate) fn proxy_without_server(url: &str, message: &str) -> String {
    format!("a proxy at {url} does not reach the server ({message})")
}

/// A server that only its proxy answers for was not reached.
fn by_reach(error: &Error, text: String) -> Failure {
    if error.is_proxy_without_server() { Failure::Unreachable(text) } else { Failure::Refused(text) }
}

/// That a change may have been done or not. Only what does not speak HTTP has surely done nothing, and is said as for any other
/// call.
fn outcome_unknown(url: &str, call: &str, advice: &str, cause: &Error) -> Failure {
    let unknown = |why: &str| format!("it is unknown whether the call to {call} was done: {why}; {advice}");
    match cause {
        Error::Transport { message, .. } if message.contains(NOT_HTTP) => no_answer(url, message),
        Error::Transport { message, .. } => {
            Failure::Unreachable(unknown(&format!("the server at {url} does not answer ({})", root_cause(message))))
        }
        Error::Protocol { message, from_taskqueue, .. } => {
            by_reach(cause, unknown(&invalid_answer(url, cause, message, *from_taskqueue)))
        }
        cause => Failure::Refused(unknown(&cause.to_string())),
    }
}

/// The words of the TLS library about an answer that is not TLS.
const NOT_TLS: &str = "InvalidContentType";

fn unreachable(url: &str, message: &str) -> Failure {
    if let Some(problem) = distrust(message) {
        return Failure::Unreachable(format!("{url}: {problem}"));
    }
    Failure::Unreachable(match url.strip_prefix("https://") {
        Some(rest) if message.contains(NOT_TLS) => {
            format!("the server at {url} does not speak TLS; use http://{rest}, or the address of the proxy with TLS")
        }
        _ => format!(
            "no server at {url} ({}); start one with: taskqueue serve, or name another with --url",
            root_cause(message)
        ),
    })
}

/// That the server could not prove who it is, and what to do about it; nothing for another error.
fn distrust(message: &str) -> Option<String> {
    let from = |marker| message.find(marker).map(|at| &message[at..]);
    if let Some(problem) = from(UNTRUSTED_CERTIFICATE) {
        let otherwise = if problem.contains(SHOWN_AUTHORITY) {
            "naming it with --tls-ca does not help; otherwise give the server a certificate with CA:FALSE (OpenSSL 3: openssl req -x509 \
             -addext basicConstraints=critical,CA:FALSE)"
        } else {
            "if its certificate comes from an authority of your own, name that with --tls-ca"
        };
        let pin = "if that is the pin that the server printed or logged when it started, give it with --tls-pin";
        return Some(format!("{problem}; {pin}; {otherwise}"));
    }
    let advice =
        "if the server has not got a new key (compare the pin that it printed), somebody else answers in its place";
    from(UNEXPECTED_KEY).map(|problem| format!("{problem}; {advice}"))
}

/// The words of the HTTP library about an answer that is not HTTP, such as one of TLS.
const NOT_HTTP: &str = "invalid HTTP version";

fn no_answer(url: &str, message: &str) -> Failure {
    Failure::Unreachable(match url.strip_prefix("http://") {
        Some(rest) if message.contains(NOT_HTTP) => {
            format!("the server at {url} does not speak plain HTTP; use https://{rest} if it is encrypted")
        }
        _ => format!("the server at {url} does not answer ({}); try again", root_cause(message)),
    })
}

/// The last cause of a chain of transport errors. Those before it only say that there was a connection.
pub(crate) fn root_cause(message: &str) -> &str {
    message.rsplit(": ").next().unwrap_or(message)
}

/// A refusal in the words of the command line, where the server's own words are those of its API.
fn refusal(url: &str, command: impl Fn(&str) -> CommandLine, error: &Error) -> Option<String> {
    let code = error.code()?;
    if let Some(fields) = wrong_fields(error) {
        return Some(format!("{fields} ({})", code.as_str()));
    }
    let text = |name| detail_text(error, name).unwrap_or_default();
    let number = |name| detail_number(error, name).unwrap_or_default();
    let (id, queue) = (text("task_id"), text("queue"));
    // The words of the server alone.
    let message = if let Error::Api { message, .. } = error { message.clone() } else { error.to_string() };
    let of_task = |words| command(words).argument(&id);
    let said = |problem: &str, advice: &str| Some(format!("{problem} ({}); {advice}", code.as_str()));
    match code {
        ErrorCode::TaskNotFound => said(&message, &format!("see {}", command("task list"))),
        ErrorCode::TaskRunning => {
            said(&format!("{id} is running"), &format!("wait for it, or cancel it first: {}", of_task("task cancel")))
        }
        // Of the actions that a state can refuse, only this one has a way out besides the server's words.
        ErrorCode::TaskStateConflict if text("status") == "succeeded" && message.contains("requeue") => {
            let advice = format!("to run it again under a new id: {}", of_task("task rerun"));
            said(&format!("{id} is succeeded, so it cannot be requeued"), &advice)
        }
        ErrorCode::TaskIdConflict => {
            let problem = format!("there is a task {id} already, with another definition");
            said(&problem, &format!("choose another --id, or see: {}", of_task("task get")))
        }
        ErrorCode::QueueNotEmpty => {
            let tasks = words::count(number("tasks"), "task");
            said(&format!("queue {queue} has {tasks}"), "--cascade deletes them, too")
        }
        ErrorCode::QueueHasRunningTasks => {
            let running = words::count(number("running"), "running task");
            let advice = format!("cancel them first: taskqueue task cancel --queue {queue} --status running");
            said(&format!("queue {queue} has {running}"), &advice)
        }
        ErrorCode::DatabaseBusy => said("the server is busy and nothing was done", "try again in a few seconds"),
        // It has certainly changed nothing, by the server's words.
        ErrorCode::DatabaseUnavailable if !message.contains("not known") && !message.contains("a part of this") => {
            said("the server's database does not work, and nothing was done", "see taskqueue health")
        }
        ErrorCode::RequestTooLarge | ErrorCode::TaskDataTooLarge => {
            said("a task has at most 1 MiB of data", "keep large data in a file and give its path")
        }
        ErrorCode::Forbidden if text("reason") == "foreign_host" => {
            let problem = format!("the server at {url} has no token, so it serves its own machine only");
            said(&problem, "use its address 127.0.0.1 there, or start it with a token or with --allow-host")
        }
        ErrorCode::Forbidden if text("reason").is_empty() => {
            let (problem, advice) = denial(url, &text("scope"), &queue);
            said(&problem, &advice)
        }
        ErrorCode::NotFound | ErrorCode::MethodNotAllowed => {
            let problem = format!("the server at {url} does not know this request");
            said(&problem, "its URL may have a wrong path, or the server is older than this program")
        }
        ErrorCode::InternalError => {
            said(&format!("the server made a mistake in request {}", text("request_id")), "its log says more")
        }
        _ => None,
    }
}

/// Returns what the token lacks, and who can help.
fn denial(url: &str, scope: &str, queue: &str) -> (String, String) {
    let scope = (!scope.is_empty()).then(|| format!("does not have the scope {scope}"));
    let queue = match queue {
        "" => None,
        "*" => Some("is not for all queues".to_owned()),
        name => Some(format!("is not for the queue {}", escape(name))),
    };
    let lacks: Vec<String> = scope.into_iter().chain(queue).collect();
    let lacks = if lacks.is_empty() { "does not open this".to_owned() } else { lacks.join(" and ") };
    let advice = format!("ask whoever runs {url} for one that does; taskqueue config show says which one is sent");
    (format!("the token {lacks}"), advice)
}

/// The fields of a request that are wrong and what to do about each; none if the error is another.
fn wrong_fields(error: &Error) -> Option<String> {
    let Found::Array(errors) = lookup(error.details()?.as_str(), &["errors"])? else { return None };
    let said: Vec<String> = elements(errors).filter_map(|error| wrong_field(&error)).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// `args.x: use a finite number`.
fn wrong_field(error: &Found<'_>) -> Option<String> {
    let Found::Object(error) = error else { return None };
    let (Found::Array(location), Found::Str(message)) = (lookup(error, &["location"])?, lookup(error, &["message"])?)
    else {
        return None;
    };
    // The first step is the part of the request, which the user never sees.
    let steps = elements(location).skip(1).map(|step| match step {
        Found::Str(key) => key.to_text().into_owned(),
        Found::Int(index) => index.to_string(),
        _ => String::new(),
    });
    let field = steps.collect::<Vec<_>>().join(".");
    let message = message.to_text();
    Some(if field.is_empty() { message.into_owned() } else { format!("{field}: {message}") })
}

/// The message about a queue that is missing, with the names that it may be a misspelling of. Not every command can use a new one.
pub(crate) async fn explain_missing_queue(context: &ClientContext, error: &Error, can_be_new: bool) -> Failure {
    // If the queues cannot be listed, the first error is still the important one.
    let queues = context.client.queues().await.unwrap_or_default();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let wanted = detail_text(error, "queue").unwrap_or_else(|| context.queue.to_string());
    let similar = similar_names(&wanted, &names).join(", ");
    let advice = match (similar.as_str(), can_be_new) {
        ("", true) => format!("create it with: taskqueue queue create {wanted}"),
        ("", false) => "taskqueue queue list shows all".to_owned(),
        (_, true) => format!("did you mean {similar}? Or create it with: taskqueue queue create {wanted}"),
        (_, false) => format!("did you mean {similar}?"),
    };
    Failure::Refused(format!("there is no queue {wanted} (queue_not_found); {advice}"))
}

fn invalid_filter(error: &Error, filter: Option<&str>) -> Failure {
    let message = error.to_string();
    let column = detail_number(error, "column").and_then(|column| usize::try_from(column).ok());
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

fn detail_text(error: &Error, name: &str) -> Option<String> {
    Some(error.details()?.text(name)?.into_owned())
}

/// A number in the details of an error.
pub(crate) fn detail_number(error: &Error, name: &str) -> Option<u64> {
    u64::try_from(error.details()?.integer(name)?).ok()
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{Code, JsonObject};

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
    fn wrong_fields_are_named() {
        let details =
            r#"{"errors":[{"location":["body","routes",1],"message":"use a"},{"location":["body"],"message":"b"}]}"#;
        let (code, details) = (Code::Known(ErrorCode::InvalidTask), JsonObject::from_canonical(details));
        let message = "correct the fields listed in details.errors".to_owned();
        let error = Error::Api { status: 422, code, message, details, retry_after: None };
        let expected = "routes.1: use a; b (invalid_task)".to_owned();
        let command = |_: &str| -> CommandLine { panic!("no command helps") };
        assert_eq!(failure("http://x", command, &error), Failure::Refused(expected));
    }

    #[test]
    fn who_gave_an_invalid_answer_is_told_apart() {
        let answer = |status, from_taskqueue| Error::Protocol { status, message: "why".to_owned(), from_taskqueue };
        let unknown = |cause| Error::OutcomeUnknown { call: "cancel the task", advice: "look", cause: Box::new(cause) };
        let command = |_: &str| -> CommandLine { panic!("no command helps") };
        let said = |error| failure("http://x", command, &error);
        let proxy = "a proxy at http://x does not reach the server (why)";
        for status in [502, 503, 504] {
            assert_eq!(said(answer(status, false)), Failure::Unreachable(proxy.to_owned()), "{status}");
        }
        let other = "what answers at http://x is no taskqueue server: why";
        for status in [200, 404, 500] {
            let expected = format!("{other}; name the server with --url");
            assert_eq!(said(answer(status, false)), Failure::Refused(expected), "{status}");
            let expected = "the answer of http://x is not valid: why".to_owned();
            assert_eq!(said(answer(status, true)), Failure::Refused(expected), "{status}");
        }
        let told = |story: &str| format!("it is unknown whether the call to cancel the task was done: {story}; look");
        assert_eq!(said(unknown(answer(504, false))), Failure::Unreachable(told(proxy)));
        assert_eq!(said(unknown(answer(200, false))), Failure::Refused(told(other)));
    }

    #[test]
    fn a_refused_token_and_a_missing_one_are_told_apart() {
        let wrong = unauthorized(Some(&Source::Environment("TASKQUEUE_TOKEN")), None);
        let expected = "the server does not accept the token of environment TASKQUEUE_TOKEN (unauth";
        assert!(wrong.starts_with(expected), "{wrong}");
        assert!(unauthorized(None, None).starts_with("the server needs a token (unauthorized); give "));
        assert_eq!(unauthorized(None, Some("why")), "the server needs a token (unauthorized); why");
    }

    #[test]
    fn what_a_token_lacks_is_said_with_who_to_ask() {
        let cases = [
            ("work", "", "the token does not have the scope work"),
            ("", "prod", "the token is not for the queue prod"),
            ("admin", "prod", "the token does not have the scope admin and is not for the queue prod"),
            ("read", "*", "the token does not have the scope read and is not for all queues"),
            ("", "", "the token does not open this"),
        ];
        for (scope, queue, expected) in cases {
            let (problem, advice) = denial("http://x", scope, queue);
            assert_eq!(problem, expected);
            assert!(advice.starts_with("ask whoever runs http://x"), "{advice}");
        }
    }

    #[test]
    fn the_mark_stands_under_the_character_also_behind_wide_ones() {
        assert_eq!(excerpt("stats == 1", 1), "  stats == 1\n  ^");
        assert_eq!(excerpt("name == \"漢\" ad", 13), "  name == \"漢\" ad\n               ^");
        assert_eq!(excerpt("a\nb", 3), "  a\\nb\n     ^");
    }
}
