//! What the error of a call means for a run. Claims, heartbeats and reports use the same table.

use taskqueue_client::{Code, Error, ErrorCode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Nothing is decided: the server was not reached, was busy or broken, or a proxy answered. Call again.
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
            _ if is_about_content(*status) => Self::Rejected,
            _ => Self::Retryable,
        }
    }

    /// Whether a claim that failed with this error ends the worker: the configuration is wrong, and repeating the claim cannot
    /// succeed.
    pub(crate) fn ends_claiming(error: &Error) -> bool {
        let Error::Api { status, code, .. } = error else { return matches!(error, Error::ServerTooOld { .. }) };
        let is_about_run_id = matches!(code, Code::Known(ErrorCode::StaleRun | ErrorCode::RunIdConflict));
        is_final(*status) && !is_about_run_id
    }
}

/// Whether repeating the call cannot help. Proxies answer 408 and 429 when the call should be repeated later.
fn is_final(status: u16) -> bool {
    status < 500 && !matches!(status, 408 | 429)
}

/// Malformed, too large or invalid.
fn is_about_content(status: u16) -> bool {
    matches!(status, 400 | 413 | 422)
}

#[cfg(test)]
mod tests {
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
}
