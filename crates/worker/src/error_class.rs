//! What an error of a call means for a run. One table for claims, heartbeats and reports, so that they agree.

use taskqueue_client::{Code, Error, ErrorCode};

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Nothing is decided: the server was not reached, was busy or broken, or something in between answered. Ask again.
    Open,
    /// The run is over or belongs to somebody else.
    Revoked,
    /// The server knows the run, but will not take what was said about it, however often it is asked: a result that is
    /// too large, say.
    Refused,
}

impl ErrorClass {
    /// The verdict about a run that exists.
    ///
    /// Refusals that are about neither the run nor what was said about it decide nothing: the token, the host or the path may be
    /// mended, and until then a result is not thrown away.
    pub(crate) fn of(error: &Error) -> Self {
        use ErrorCode as C;
        let Error::Api { status, code, .. } = error else { return Self::Open };
        match code {
            _ if !is_final(*status) => Self::Open,
            Code::Known(C::StaleRun | C::RunFinalized | C::RunIdConflict) => Self::Revoked,
            // A running task cannot be deleted: it was cancelled first, and its run with it.
            Code::Known(C::TaskNotFound | C::QueueNotFound) => Self::Revoked,
            _ if is_about_content(*status) => Self::Refused,
            _ => Self::Open,
        }
    }

    /// Whether a claim that failed so should end the worker: what is wrong is the configuration, and trying again
    /// cannot mend it.
    pub(crate) fn ends_claiming(error: &Error) -> bool {
        let Error::Api { status, code, .. } = error else { return false };
        let of_this_run = matches!(code, Code::Known(ErrorCode::StaleRun | ErrorCode::RunIdConflict));
        is_final(*status) && !of_this_run
    }
}

/// Whether a status is meant to last. Proxies say 408 and 429 when they mean "later".
fn is_final(status: u16) -> bool {
    status < 500 && !matches!(status, 408 | 429)
}

/// Whether a status is about what was sent: malformed, too large, invalid.
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
        for (status, code, verdict, ends) in [
            (409, "stale_run", ErrorClass::Revoked, false),
            (409, "run_finalized", ErrorClass::Revoked, true),
            (404, "task_not_found", ErrorClass::Revoked, true),
            (404, "queue_not_found", ErrorClass::Revoked, true),
            (422, "task_data_too_large", ErrorClass::Refused, true),
            (413, "request_too_large", ErrorClass::Refused, true),
            (422, "json_too_deep", ErrorClass::Refused, true),
            (422, "invalid_request", ErrorClass::Refused, true),
            (400, "from_a_newer_server", ErrorClass::Refused, true),
            (401, "unauthorized", ErrorClass::Open, true),
            (403, "forbidden", ErrorClass::Open, true),
            (404, "not_found", ErrorClass::Open, true),
            (405, "method_not_allowed", ErrorClass::Open, true),
            (409, "task_state_conflict", ErrorClass::Open, true),
            (409, "from_a_newer_server", ErrorClass::Open, true),
            (409, "run_id_conflict", ErrorClass::Revoked, false),
            (429, "slow_down", ErrorClass::Open, false),
            (503, "database_busy", ErrorClass::Open, false),
            (500, "internal_error", ErrorClass::Open, false),
            (503, "queue_not_found", ErrorClass::Open, false),
        ] {
            assert_eq!(ErrorClass::of(&api(status, code)), verdict, "{status} {code}");
            assert_eq!(ErrorClass::ends_claiming(&api(status, code)), ends, "{status} {code}");
        }
    }

    #[test]
    fn garbage_and_silence_decide_nothing() {
        let silence = Error::Transport { message: String::new(), may_have_arrived: true };
        let garbage = Error::Protocol { status: 404, message: String::new() };
        let unknown = Error::OutcomeUnknown { call: "", advice: "", cause: Box::new(api(503, "database_busy")) };
        for error in [silence, garbage, unknown] {
            assert_eq!(ErrorClass::of(&error), ErrorClass::Open, "{error:?}");
            assert!(!ErrorClass::ends_claiming(&error), "{error:?}");
        }
    }
}
