//! The bodies of the worker protocol: claim, heartbeat, complete, fail and unclaim.

use taskqueue_core::ids::{Route, RunId};
use taskqueue_core::json::{JsonObject, Value};
use taskqueue_core::task::Failure;

use super::error::{At, Findings};
use super::members::Members;
use super::{Body, field};
use crate::ErrorCode;

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What the worker claims for.
    pub route: Route,
    /// The token it chose.
    pub run_id: RunId,
}

impl Body for Claim {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["route", "run_id"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        let mut body = Members::of(value, At::Root("body"), Self::FIELDS, findings)?;
        let (route, run_id) = (body.required("route", field::route), body.required("run_id", field::run_id));
        Some(Self { route: route?, run_id: run_id? })
    }
}

/// A heartbeat or an unclaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReference {
    /// The claimant's token.
    pub run_id: RunId,
}

impl Body for RunReference {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        let mut body = Members::of(value, At::Root("body"), Self::FIELDS, findings)?;
        Some(Self { run_id: body.required("run_id", field::run_id)? })
    }
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The claimant's token.
    pub run_id: RunId,
    /// What came out.
    pub result: JsonObject,
}

impl Body for Complete {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id", "result"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        let mut body = Members::of(value, At::Root("body"), Self::FIELDS, findings)?;
        let (run_id, result) = (body.required("run_id", field::run_id), body.required("result", field::object));
        Some(Self { run_id: run_id?, result: result? })
    }
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// The claimant's token.
    pub run_id: RunId,
    /// What went wrong.
    pub failure: Failure,
}

impl Fail {
    /// The members of `error`.
    pub const ERROR_FIELDS: &'static [&'static str] = &["type", "message", "traceback"];
}

impl Body for Fail {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id", "error"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        let mut body = Members::of(value, At::Root("body"), Self::FIELDS, findings)?;
        let (run_id, failure) = (body.required("run_id", field::run_id), body.required("error", failure));
        Some(Self { run_id: run_id?, failure: failure? })
    }
}

fn failure(value: &Value<'_>, at: &At<'_>, findings: &mut Findings) -> Option<Failure> {
    let mut error = Members::of(value, *at, Fail::ERROR_FIELDS, findings)?;
    let (kind, message) = (error.required("type", field::text), error.required("message", field::text));
    let traceback = error.optional("traceback", field::text_or_null).flatten();
    Some(Failure { kind: kind?, message: message?, traceback })
}
