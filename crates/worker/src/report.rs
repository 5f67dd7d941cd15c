//! What a worker says of its runs: heartbeats, progress and final reports, as messages that are sent alone or together, and what
//! the error of such a call means for the run. Claims, heartbeats and reports use the same classes of errors.

use taskqueue_client::{Claim, Code, Error, ErrorCode, Failure, QueueName, RunAction, RunKey, RunReport, TraceParent};
use taskqueue_core::limits::{BATCH_ITEMS, REQUEST_BODY_BYTES};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The key of the run that a claim began.
pub(crate) fn run_of(queue: &QueueName, claim: &Claim) -> RunKey {
    RunKey { trace: Some(trace_of(claim)), ..RunKey::new(queue, claim.task.id, claim.run_id) }
}

/// The member of a task's metadata in which its creator says which trace it belongs to.
const TRACE_MEMBER: &str = "traceparent";

/// The trace of a run: that of the task, or a new one.
pub(crate) fn trace_of(claim: &Claim) -> TraceParent {
    let creator = claim.task.metadata.text(TRACE_MEMBER).and_then(|text| TraceParent::parse(&text));
    TraceParent::of_run(claim.run_id, creator)
}

/// Renews the lease of a run.
pub(crate) const HEARTBEAT: RunAction = RunAction::Heartbeat { progress: None };
/// Gives the task of a run back, uncharged.
pub(crate) const GIVE_BACK: RunReport = RunReport::Unclaim { delay: None };

/// The next step after an error.
pub(crate) enum AfterError {
    Retry(RunReport, Error),
    /// Send this report at once.
    ReportInstead(RunReport),
    GiveUp(Error),
}

/// If the server refuses the result of a success, the run is reported as failed, with that reason: otherwise the task would stay
/// running until its lease ends, and then run again.
pub(crate) fn after_error(report: RunReport, error: Error) -> AfterError {
    match (ErrorClass::of(&error), report) {
        (ErrorClass::Retryable, report) => AfterError::Retry(report, error),
        (ErrorClass::Rejected, RunReport::Complete { .. }) => AfterError::ReportInstead(RunReport::Fail {
            failure: Failure {
                kind: "ResultRefused".into(),
                message: format!("the command succeeded, but the server refused its result: {error}").into(),
                traceback: None,
            },
            retry: true,
            retry_after: None,
        }),
        (ErrorClass::Rejected | ErrorClass::RunOver, _) => AfterError::GiveUp(error),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Neither is decided: the server was not reached, was busy or broken, or a proxy answered. Call again.
    Retryable,
    /// The run is over or belongs to another worker.
    RunOver,
    /// The server refuses the content of the report, for example a result that is too large. Repeating it cannot succeed.
    Rejected,
}

impl ErrorClass {
    /// Classifies the error of a call about an existing run.
    ///
    /// A refusal that is about neither the run nor the content (a wrong token, host or path) is retryable: somebody may correct
    /// the configuration, and until then the result is kept.
    pub(crate) fn of(error: &Error) -> Self {
        use ErrorCode as C;
        let Error::Api { status, code, .. } = error else { return Self::Retryable };
        match code {
            _ if !is_final(*status) => Self::Retryable,
            Code::Known(C::StaleRun | C::RunFinalized | C::RunIdConflict) => Self::RunOver,
            // A running task cannot be deleted: it was cancelled first, and its run with it.
            Code::Known(C::TaskNotFound | C::QueueNotFound) => Self::RunOver,
            // Malformed, too large or invalid.
            _ if matches!(status, 400 | 413 | 422) => Self::Rejected,
            _ => Self::Retryable,
        }
    }

    /// Returns whether a claim that failed with this error ends the worker: the configuration is wrong, and repeating the claim cannot
    /// succeed.
    pub(crate) fn ends_claiming(error: &Error) -> bool {
        let Error::Api { status, code, .. } = error else { return matches!(error, Error::ServerTooOld { .. }) };
        let is_about_run_id = matches!(code, Code::Known(ErrorCode::StaleRun | ErrorCode::RunIdConflict));
        is_final(*status) && !is_about_run_id
    }
}

/// Returns whether repeating the call cannot help. Proxies answer 408 and 429 when the call should be repeated later.
fn is_final(status: u16) -> bool {
    status < 500 && !matches!(status, 408 | 429)
}

/// About how much a request takes at most, unless one report alone is larger: what a single request may have. So a network that is
/// too slow for more delivers as much as without batches. Escaping can double a text.
const REQUEST_BYTES: usize = REQUEST_BODY_BYTES / 2;
/// The bytes of a report besides its texts.
const FRAME_BYTES: usize = 160;

/// The time at which a message was sent, or its error.
pub(crate) type SendResult = Result<Instant, Error>;

/// One call about a run of the worker's queue.
pub(crate) struct RunMessage {
    pub(crate) run: RunKey,
    pub(crate) action: RunAction,
    pub(crate) answer: oneshot::Sender<SendResult>,
}

impl RunMessage {
    /// Returns a message, and its answer when it was sent.
    pub(crate) fn new(run: &RunKey, action: RunAction) -> (Self, impl Future<Output = SendResult> + use<>) {
        let (answer, sent) = oneshot::channel();
        let dropped = || Error::Transport { message: "the request was dropped".to_owned(), may_have_arrived: true };
        let answered = async move { sent.await.unwrap_or_else(|_| Err(dropped())) };
        (Self { run: run.clone(), action, answer }, answered)
    }

    pub(crate) fn answer(self, sent: SendResult) {
        // Whoever asked may be gone: a run that has ended needs no heartbeat.
        drop(self.answer.send(sent));
    }
}

/// Splits into what is sent with one request.
pub(crate) fn split_into_requests(items: Vec<RunMessage>) -> Vec<Vec<RunMessage>> {
    let (mut requests, mut bytes): (Vec<Vec<RunMessage>>, usize) = (Vec::new(), 0);
    for item in items {
        let item_bytes = FRAME_BYTES + item.action.bytes();
        bytes += item_bytes;
        match requests.last_mut().filter(|request| request.len() < BATCH_ITEMS && bytes <= REQUEST_BYTES) {
            Some(request) => request.push(item),
            None => {
                bytes = item_bytes;
                requests.push(vec![item]);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{RunId, TaskId};
    use taskqueue_core::json::JsonObject;

    use super::*;

    fn api(status: u16, code: &str) -> Error {
        Error::Api {
            status,
            code: code.into(),
            message: String::new(),
            details: JsonObject::empty(),
            retry_after: None,
        }
    }

    #[test]
    fn only_an_answer_about_the_run_decides_about_it() {
        for (status, code, class, ends) in [
            (409, "stale_run", ErrorClass::RunOver, false),
            (409, "run_finalized", ErrorClass::RunOver, true),
            (404, "task_not_found", ErrorClass::RunOver, true),
            (404, "queue_not_found", ErrorClass::RunOver, true),
            (422, "task_data_too_large", ErrorClass::Rejected, true),
            (413, "request_too_large", ErrorClass::Rejected, true),
            (422, "json_too_deep", ErrorClass::Rejected, true),
            (422, "invalid_request", ErrorClass::Rejected, true),
            (400, "from_a_newer_server", ErrorClass::Rejected, true),
            (401, "unauthorized", ErrorClass::Retryable, true),
            (403, "forbidden", ErrorClass::Retryable, true),
            (404, "not_found", ErrorClass::Retryable, true),
            (405, "method_not_allowed", ErrorClass::Retryable, true),
            (409, "task_state_conflict", ErrorClass::Retryable, true),
            (409, "from_a_newer_server", ErrorClass::Retryable, true),
            (409, "run_id_conflict", ErrorClass::RunOver, false),
            (429, "slow_down", ErrorClass::Retryable, false),
            (503, "database_busy", ErrorClass::Retryable, false),
            (500, "internal_error", ErrorClass::Retryable, false),
            (503, "queue_not_found", ErrorClass::Retryable, false),
        ] {
            assert_eq!(ErrorClass::of(&api(status, code)), class, "{status} {code}");
            assert_eq!(ErrorClass::ends_claiming(&api(status, code)), ends, "{status} {code}");
        }
    }

    #[test]
    fn garbage_and_silence_decide_nothing() {
        let silence = Error::Transport { message: String::new(), may_have_arrived: true };
        let garbage = Error::Protocol { status: 404, message: String::new(), from_taskqueue: false };
        let unknown = Error::OutcomeUnknown { call: "", advice: "", cause: Box::new(api(503, "database_busy")) };
        for error in [silence, garbage, unknown] {
            assert_eq!(ErrorClass::of(&error), ErrorClass::Retryable, "{error:?}");
            assert!(!ErrorClass::ends_claiming(&error), "{error:?}");
        }
        assert!(ErrorClass::ends_claiming(&Error::ServerTooOld { missing: "batch" }));
    }

    fn report(result_bytes: usize) -> RunMessage {
        let run = RunKey {
            queue: QueueName::parse("q").unwrap(),
            task_id: TaskId::parse("t_000000000001").unwrap(),
            run_id: RunId::parse("r_000000000001").unwrap(),
            trace: None,
        };
        let result = JsonObject::from_canonical(&format!("{{\"a\":\"{}\"}}", "x".repeat(result_bytes)));
        RunMessage { run, action: RunAction::End(RunReport::Complete { result }), answer: oneshot::channel().0 }
    }

    fn sizes(result_bytes: &[usize]) -> Vec<usize> {
        split_into_requests(result_bytes.iter().map(|bytes| report(*bytes)).collect()).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_request_has_no_more_than_a_thousand_and_no_more_bytes_than_a_single_one() {
        assert_eq!(sizes(&[1; 1001]), [1000, 1]);
        assert_eq!(sizes(&[1, 1, REQUEST_BYTES, 1, 1]), [2, 1, 2], "a large one is alone");
        assert_eq!(sizes(&[REQUEST_BYTES / 4; 7]), [3, 3, 1]);
    }
}
