//! What every answer must satisfy, the error envelope, and timestamps. `Server::send` applies the general rules by itself.

use serde_json::{Value, json};
use taskqueue_core::time::Timestamp;

use super::Response;

/// The header with the version of the server package (docs/reference/http-api.md §1.4).
pub(crate) const VERSION_HEADER: &str = "Taskqueue-Server-Version";

/// The one answer that is no JSON.
const METRICS: (&str, &str) = ("/metrics", "text/plain; version=0.0.4; charset=utf-8");

/// Rules for every answer: no failure of ours, the version header exactly under `/api/`, JSON, the error envelope.
#[track_caller]
pub(crate) fn assert_general_rules(response: &Response, target: &str) {
    assert!(response.status < 500, "a failure of the server: {response:?}");
    let versioned = target.starts_with("/api/") && response.status != 401;
    assert_eq!(response.header(VERSION_HEADER), versioned.then_some(env!("CARGO_PKG_VERSION")), "{response:?}");
    if response.status == 204 {
        assert_eq!(response.header("Content-Length"), None, "204 has no length: {response:?}");
        assert!(response.body.is_empty(), "204 has no body: {response:?}");
    } else {
        let is_metrics = target == METRICS.0 && response.status == 200;
        let expected = if is_metrics { METRICS.1 } else { "application/json" };
        assert_eq!(response.header("Content-Type"), Some(expected), "{response:?}");
    }
    if response.status >= 400 && !response.body.is_empty() {
        assert_envelope(response);
    }
}

/// The body is exactly `{error: {code, message, details}}` and shows nothing of our insides.
#[track_caller]
fn assert_envelope(response: &Response) {
    let body = response.json();
    let error = &body["error"];
    let message = error["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "the message says something: {response:?}");
    assert!(error["code"].is_string() && error["details"].is_object(), "{response:?}");
    let exact = json!({"error": {"code": error["code"], "message": message, "details": error["details"]}});
    assert_eq!(body, exact, "{response:?}");
    for inside in ["rusqlite", "postgres", "panicked at", ".rs:", "SQLITE_", "SQLSTATE", "/src/"] {
        assert!(!response.text().contains(inside), "{inside:?} is nobody's business: {response:?}");
    }
}

impl Response {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "expected {status}: {self:?}");
        self
    }

    /// A refusal with this status and code; gives its details.
    #[track_caller]
    pub(crate) fn assert_error(&self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.code().as_str()), (status, code), "expected {status} {code}: {self:?}");
        self.json()["error"]["details"].clone()
    }

    /// A refusal whose details have at least these members.
    #[track_caller]
    pub(crate) fn assert_details(&self, status: u16, code: &str, members: &Value) {
        let details = self.assert_error(status, code);
        for (name, value) in members.as_object().unwrap() {
            assert_eq!(&details[name], value, "details.{name}: {self:?}");
        }
    }

    /// A refusal whose details list an error at this location.
    #[track_caller]
    pub(crate) fn assert_location(&self, code: &str, location: &Value) {
        let details = self.assert_error(422, code);
        let errors = details["errors"].as_array().unwrap_or_else(|| panic!("details.errors is a list: {self:?}"));
        for error in errors {
            assert!(error["location"].is_array() && error["message"].is_string(), "{error} in {self:?}");
        }
        assert!(errors.iter().any(|error| &error["location"] == location), "no error at {location}: {self:?}");
    }
}

/// The members of a task that a list, a get or an action shows, and no others.
#[track_caller]
pub(crate) fn assert_task(task: &Value) {
    const FIELDS: &str = "args attempt created_at finished_at id last_error last_route max_attempts metadata name priority \
                          queue result routes started_at status updated_at";
    let mut names: Vec<&str> = task.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    // Beyond the contract, and only where a claim said who claims, a run how far it is, or somebody that the task waits or rests.
    const BEYOND: &str = "last_run progress progress_updated_at progress_attempt not_before dependencies \
                          on_dependency_failure retry_delay timeout_seconds archived";
    names.retain(|name| BEYOND.split(' ').all(|beyond| beyond != *name));
    assert_eq!(names.join(" "), FIELDS, "{task}");
    assert_waiting(task);
    let progress = ["progress", "progress_updated_at", "progress_attempt"].map(|name| task.get(name).is_some());
    assert!(progress == [true; 3] || progress == [false; 3], "all or none: {task}");
    if let Some(run) = task.get("last_run") {
        assert_last_run(run, &task["status"]);
    }
    let order = ["created_at", "started_at", "finished_at", "updated_at"];
    let times: Vec<i64> = order.iter().map(|&name| &task[name]).filter(|time| !time.is_null()).map(micros).collect();
    assert!(times.is_sorted(), "created <= started <= finished <= updated: {task}");
}

/// What a task waits for and whether it is archived is shown only where it is used.
#[track_caller]
fn assert_waiting(task: &Value) {
    if let Some(not_before) = task.get("not_before") {
        micros(not_before);
    }
    if let Some(dependencies) = task.get("dependencies") {
        let ids: Vec<&str> = dependencies.as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        assert!(!ids.is_empty() && ids.is_sorted_by(|a, b| a < b), "{task}");
    }
    assert!(task.get("on_dependency_failure").is_none_or(|choice| choice == "cancel"), "{task}");
    assert!(task.get("archived").is_none_or(|archived| archived == true), "{task}");
    assert!(task.get("timeout_seconds").is_none_or(Value::is_u64), "{task}");
    if let Some(delay) = task.get("retry_delay") {
        let names: Vec<&String> = delay.as_object().unwrap().keys().collect();
        assert_eq!(names, ["factor", "max_seconds", "seconds"], "{task}");
    }
}

/// A last run has exactly its three fields, and the id of a run that is over.
#[track_caller]
fn assert_last_run(run: &Value, status: &Value) {
    let names: Vec<&str> = run.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names.len(), 3, "{run}");
    assert!(run["attempt"].is_u64() && run["worker"].is_object(), "{run}");
    assert_eq!(run["run_id"].is_null(), status == "running", "an active run id is never shown: {run}");
}

/// Microseconds since 1970 of a timestamp, which must have the one allowed form.
#[track_caller]
pub(crate) fn micros(timestamp: &Value) -> i64 {
    let text = timestamp.as_str().unwrap_or_else(|| panic!("not a timestamp: {timestamp}"));
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000000Z", "{text}");
    Timestamp::parse(text).unwrap_or_else(|| panic!("no such time: {text}")).as_micros()
}

/// The same instant as a timestamp of another zone, `+HH:00` or `-HH:00`.
pub(crate) fn at_offset(micros_utc: i64, hours: i64) -> String {
    let local = Timestamp::from_micros(micros_utc + hours * 3_600_000_000).to_string();
    let sign = if hours < 0 { '-' } else { '+' };
    format!("{}{sign}{:02}:00", local.trim_end_matches('Z'), hours.abs())
}
