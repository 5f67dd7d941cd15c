//! Names and values of headers that the contract gives a meaning, all lower case as HTTP libraries want them.

/// The version of the server's package; on answers under `/api/` to authorised callers
/// (docs/reference/http-api.md §1.4).
pub const SERVER_VERSION: &str = "taskqueue-server-version";

/// The oddities in what was accepted: codes, separated by commas (docs/reference/http-api.md §14.14).
pub const WARNINGS: &str = "taskqueue-warnings";

/// The media type of every body.
pub const JSON: &str = "application/json";

/// The authentication scheme, as `WWW-Authenticate` names it.
pub const BEARER: &str = "Bearer";

/// The name of a request in the log; of the caller's choice if it is safe (docs/reference/http-api.md §14.3).
pub const REQUEST_ID: &str = "x-request-id";

/// The wishes of a caller; `wait=N` with a claim (RFC 7240).
pub const PREFER: &str = "prefer";

/// The preferences that were followed.
pub const PREFERENCE_APPLIED: &str = "preference-applied";

/// The trace that a request belongs to (W3C Trace Context).
pub const TRACEPARENT: &str = "traceparent";
