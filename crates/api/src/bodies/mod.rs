//! Request bodies: from bytes to the types of `core`, strictly (decisions.md sections 3 and 4). Every body lists its
//! fields once, unknown ones are refused, and all errors are collected before the most special code is chosen.

mod bulk_update;
mod create_task;
mod error;
mod field;
mod members;
mod runs;
mod update_task;
mod worker_report;

use taskqueue_core::json::{self, ParseError, Value};

use crate::ErrorCode;

pub use bulk_update::BulkUpdate;
pub use error::{Invalid, RequestError, Step};
pub use runs::{Claim, Complete, Fail, RunReference};

use error::Findings;

/// A request body.
pub trait Body: Sized {
    /// The code of a body that is invalid in no special way.
    const CODE: ErrorCode;

    /// The names of its fields, in the contract's order.
    const FIELDS: &'static [&'static str];

    /// Reads the body. What it finds wrong goes into `findings`; nothing is returned without a finding.
    #[doc(hidden)]
    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self>;
}

/// Reads a body from its bytes.
pub fn decode<B: Body>(bytes: &[u8]) -> Result<B, Invalid> {
    if bytes.is_empty() {
        return Err(missing::<B>());
    }
    read(&json::parse(bytes).map_err(unreadable)?)
}

/// Reads a body from JSON that is parsed already, for those who take something out of it first.
pub fn read<B: Body>(value: &Value<'_>) -> Result<B, Invalid> {
    let mut findings = Findings::new(B::CODE);
    let body = B::read(value, &mut findings);
    findings.into_result(body)
}

/// The error of a body of another media type than JSON.
pub fn not_json<B: Body>() -> Invalid {
    Invalid::body(B::CODE, "send Content-Type: application/json")
}

fn missing<B: Body>() -> Invalid {
    let message = format!("send a JSON object with the fields {}", B::FIELDS.join(", "));
    Invalid::body(B::CODE, message)
}

/// The error of a body that is no JSON.
pub fn unreadable(error: ParseError) -> Invalid {
    match error {
        ParseError::Malformed { message, byte } => {
            let message = format!("send well-formed JSON: {message} (at byte {byte})");
            Invalid::body(ErrorCode::InvalidRequest, message)
        }
        ParseError::TooDeep => Invalid { code: ErrorCode::JsonTooDeep, errors: Vec::new() },
    }
}

#[cfg(test)]
mod tests;
