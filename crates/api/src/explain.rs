//! Why a task is not claimed: the answer, with a sentence for each reason.

use std::borrow::BorrowMut;

use taskqueue_core::explain::{self, Reason};
use taskqueue_core::json::{ObjectWriter, Value, write_array, write_string};
use taskqueue_core::{Route, Status, TaskId};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable};
use crate::schema;

/// An explanation why a task is not claimed, as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// A claim may take it now.
    pub claimable: bool,
    /// The one that weighs most first.
    pub reasons: Vec<ExplainedReason>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedReason {
    pub code: String,
    /// The reason for people.
    pub message: String,
    /// `None` if this version does not know it.
    pub reason: Option<Reason>,
}

/// Why a task is not claimed.
#[derive(ToSchema)]
#[schema(as = Explanation)]
pub struct ExplanationSchema {
    /// Whether a claim may take it now: no reason but `no_worker` and `waiting_turn` applies.
    pub claimable: bool,
    /// The one that weighs most first.
    pub reasons: Vec<ReasonSchema>,
}

/// One reason. Which of the other fields it has depends on the code.
#[derive(ToSchema)]
#[schema(as = Reason)]
pub struct ReasonSchema {
    #[schema(schema_with = code)]
    pub code: String,
    /// The same for people.
    pub message: String,
    /// Of `not_pending`: the status of the task.
    #[schema(value_type = Option<schema::TaskStatus>, nullable = false)]
    pub status: Option<String>,
    /// Of `not_pending`, if the task is running: when its run renewed the lease last, or began.
    #[schema(value_type = Option<schema::Timestamp>, nullable = false)]
    pub last_heard_at: Option<String>,
    /// Of `queue_at_limit`: how many tasks of the queue may be running.
    #[schema(value_type = Option<i64>, nullable = false, minimum = 0)]
    pub max_running: Option<u64>,
    /// Of `route_at_limit` and `no_worker`: the routes of the task.
    #[schema(value_type = Option<Vec<schema::Route>>, nullable = false)]
    pub routes: Option<Vec<String>>,
    /// Of `dependency_cycle`: the task that it waits for, the one that this waits for, and so on; the last one waits for it.
    #[schema(value_type = Option<Vec<schema::TaskId>>, nullable = false, max_items = 100)]
    pub tasks: Option<Vec<String>>,
    /// Of `dependencies`: those that have not succeeded, at most 100.
    #[schema(nullable = false, max_items = 100)]
    pub unmet: Option<Vec<UnmetSchema>>,
    /// Of `not_before`: when it can be claimed.
    #[schema(value_type = Option<schema::Timestamp>, nullable = false)]
    pub until: Option<String>,
    /// Of `waiting_turn`: how many tasks come first on its best route, counted up to 1,000.
    #[schema(value_type = Option<i64>, nullable = false, minimum = 1, maximum = 1000)]
    pub ahead: Option<u64>,
}

/// A task that another one waits for.
#[derive(ToSchema)]
#[schema(as = UnmetDependency)]
pub struct UnmetSchema {
    /// Its id.
    pub id: schema::TaskId,
    /// Its status, or `missing`.
    #[schema(example = "running")]
    pub status: String,
}

fn code() -> utoipa::openapi::schema::Object {
    let codes = [
        "not_pending",
        "queue_paused",
        "queue_at_limit",
        "route_at_limit",
        explain::DEPENDENCY_CYCLE,
        "dependencies",
        "not_before",
        "no_worker",
        "waiting_turn",
    ];
    schema::words(codes, "What it is.").build()
}

/// Appends an explanation as JSON.
pub fn write_explanation(out: &mut Vec<u8>, explanation: &explain::Explanation) {
    ObjectWriter::append_to(out)
        .boolean("claimable", explanation.claimable)
        .field("reasons", |out| write_array(out, &explanation.reasons, write_reason))
        .end();
}

fn write_reason(out: &mut Vec<u8>, reason: &Reason) {
    let object = ObjectWriter::append_to(out).text("code", reason.code()).text("message", &reason.message());
    write_members(object, reason).end();
}

/// Adds what belongs to a reason besides its code and its message.
pub fn write_members<B: BorrowMut<Vec<u8>>>(object: ObjectWriter<B>, reason: &Reason) -> ObjectWriter<B> {
    match reason {
        Reason::QueuePaused => object,
        Reason::NotPending { status, last_heard_at } => {
            let object = object.text("status", status.as_str());
            last_heard_at.iter().fold(object, |object, at| object.time("last_heard_at", *at))
        }
        Reason::QueueAtLimit { max_running } => object.integer("max_running", *max_running),
        Reason::RouteAtLimit { routes } | Reason::NoWorker { routes } => {
            object.field("routes", |out| write_array(out, routes, |out, route| write_string(out, route.as_str())))
        }
        Reason::DependencyCycle { tasks } => {
            object.field("tasks", |out| write_array(out, tasks, |out, id| write_string(out, id.as_str())))
        }
        Reason::Dependencies { unmet } => object.field("unmet", |out| {
            write_array(out, unmet, |out, (id, status)| {
                ObjectWriter::append_to(out)
                    .text("id", id.as_str())
                    .text("status", explain::status_word(*status))
                    .end();
            });
        }),
        Reason::NotBefore { until } => object.time("until", *until),
        Reason::WaitingTurn { ahead } => object.integer("ahead", *ahead),
    }
}

impl Explanation {
    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        let explanation = ObjectReader::of(value, "explanation")?;
        let reasons = explanation.list("reasons")?.iter().map(read_reason).collect::<Result<_, _>>()?;
        Ok(Self { claimable: explanation.boolean("claimable")?, reasons })
    }
}

fn read_reason(value: &Value<'_>) -> Result<ExplainedReason, Unreadable> {
    let reason = ObjectReader::of(value, "reason")?;
    let known = match reason.text("code")? {
        "not_pending" => Some(Reason::NotPending {
            status: reason.parsed("status", Status::parse)?,
            last_heard_at: if reason.has("last_heard_at") { Some(reason.time("last_heard_at")?) } else { None },
        }),
        "queue_paused" => Some(Reason::QueuePaused),
        "queue_at_limit" => Some(Reason::QueueAtLimit { max_running: reason.count("max_running")? }),
        "route_at_limit" => Some(Reason::RouteAtLimit { routes: reason.parsed_list("routes", Route::parse)? }),
        explain::DEPENDENCY_CYCLE => {
            Some(Reason::DependencyCycle { tasks: reason.parsed_list("tasks", TaskId::parse)? })
        }
        "dependencies" => {
            let unmet = reason.list("unmet")?.iter().map(read_unmet).collect::<Result<_, _>>()?;
            Some(Reason::Dependencies { unmet })
        }
        "not_before" => Some(Reason::NotBefore { until: reason.time("until")? }),
        "no_worker" => Some(Reason::NoWorker { routes: reason.parsed_list("routes", Route::parse)? }),
        "waiting_turn" => Some(Reason::WaitingTurn { ahead: reason.count("ahead")? }),
        _ => None,
    };
    let (code, message) = (reason.text("code")?.to_owned(), reason.text("message")?.to_owned());
    Ok(ExplainedReason { code, message, reason: known })
}

fn read_unmet(value: &Value<'_>) -> Result<(TaskId, Option<Status>), Unreadable> {
    let unmet = ObjectReader::of(value, "dependency")?;
    let status = |word: &str| if word == explain::MISSING { Some(None) } else { Status::parse(word).map(Some) };
    Ok((unmet.parsed("id", TaskId::parse)?, unmet.parsed("status", status)?))
}

#[cfg(test)]
mod tests {
    use taskqueue_core::json;
    use taskqueue_core::time::Timestamp;

    use super::*;
    use crate::tests::{check, text};

    fn reasons() -> Vec<(Reason, &'static str)> {
        let id = TaskId::parse("t_abcdefghijkl").unwrap();
        let routes = || vec![Route::parse("cpu").unwrap(), Route::parse("gpu").unwrap()];
        let unmet = vec![(id, None), (id, Some(Status::Running))];
        let until = Timestamp::parse("2026-01-31T12:00:00Z").unwrap();
        vec![
            (
                Reason::NotPending { status: Status::Failed, last_heard_at: None },
                r#"{"code":"not_pending","message":"the task is failed","status":"failed"}"#,
            ),
            (
                Reason::NotPending { status: Status::Running, last_heard_at: Some(until) },
                r#"{"code":"not_pending","message":"the task is running; its run was last heard of at 2026-01-31T12:00:00.000000Z","status":"running","last_heard_at":"2026-01-31T12:00:00.000000Z"}"#,
            ),
            (Reason::QueuePaused, r#"{"code":"queue_paused","message":"the queue is paused"}"#),
            (
                Reason::QueueAtLimit { max_running: 2 },
                r#"{"code":"queue_at_limit","message":"as many tasks of the queue are running as may be: 2","max_running":2}"#,
            ),
            (
                Reason::RouteAtLimit { routes: routes() },
                r#"{"code":"route_at_limit","message":"as many tasks are running as may be claimed for cpu, gpu","routes":["cpu","gpu"]}"#,
            ),
            (
                Reason::DependencyCycle { tasks: vec![] },
                r#"{"code":"dependency_cycle","message":"it waits for itself, so for ever","tasks":[]}"#,
            ),
            (
                Reason::DependencyCycle { tasks: vec![id, id] },
                r#"{"code":"dependency_cycle","message":"it waits for itself, so for ever: by way of t_abcdefghijkl, t_abcdefghijkl","tasks":["t_abcdefghijkl","t_abcdefghijkl"]}"#,
            ),
            (
                Reason::Dependencies { unmet },
                r#"{"code":"dependencies","message":"it waits for tasks that have not succeeded","unmet":[{"id":"t_abcdefghijkl","status":"missing"},{"id":"t_abcdefghijkl","status":"running"}]}"#,
            ),
            (
                Reason::Dependencies { unmet: vec![(id, None)] },
                r#"{"code":"dependencies","message":"it waits for the task t_abcdefghijkl, which is missing","unmet":[{"id":"t_abcdefghijkl","status":"missing"}]}"#,
            ),
            (
                Reason::NotBefore { until },
                r#"{"code":"not_before","message":"it cannot be claimed before 2026-01-31T12:00:00.000000Z","until":"2026-01-31T12:00:00.000000Z"}"#,
            ),
            (
                Reason::NoWorker { routes: routes() },
                r#"{"code":"no_worker","message":"no worker was seen lately for cpu, gpu","routes":["cpu","gpu"]}"#,
            ),
            (Reason::WaitingTurn { ahead: 1 }, r#"{"code":"waiting_turn","message":"1 task comes first","ahead":1}"#),
            (
                Reason::WaitingTurn { ahead: 1_000 },
                r#"{"code":"waiting_turn","message":"1000 tasks or more come first","ahead":1000}"#,
            ),
        ]
    }

    #[test]
    fn every_reason_has_a_code_a_sentence_and_its_own_fields() {
        for (reason, expected) in reasons() {
            let explanation = explain::Explanation { claimable: false, reasons: vec![reason.clone()] };
            let json = text(|out| write_explanation(out, &explanation));
            assert_eq!(json, format!(r#"{{"claimable":false,"reasons":[{expected}]}}"#));
            check::<ExplanationSchema>(&json);
            let read = Explanation::read(&json::parse(json.as_bytes()).unwrap()).unwrap();
            let shown = ExplainedReason { code: reason.code().into(), message: reason.message(), reason: Some(reason) };
            assert_eq!(read, Explanation { claimable: false, reasons: vec![shown] });
        }
        let none = text(|out| write_explanation(out, &explain::Explanation { claimable: true, reasons: vec![] }));
        assert_eq!(none, r#"{"claimable":true,"reasons":[]}"#);
    }

    #[test]
    fn a_reason_of_a_newer_server_is_shown_by_its_code_and_its_sentence() {
        let read = |text: &str| Explanation::read(&json::parse(text.as_bytes()).unwrap());
        let newer =
            read(r#"{"claimable":false,"reasons":[{"code":"moon","message":"it is full","phase":1}]}"#).unwrap();
        assert_eq!((&*newer.reasons[0].code, &*newer.reasons[0].message), ("moon", "it is full"));
        assert_eq!(newer.reasons[0].reason, None);
        for broken in [
            "{}",
            r#"{"claimable":false}"#,
            r#"{"claimable":1,"reasons":[]}"#,
            r#"{"claimable":false,"reasons":[{"code":"queue_paused"}]}"#,
            r#"{"claimable":false,"reasons":[{"code":"waiting_turn","message":"m","ahead":-1}]}"#,
            r#"{"claimable":false,"reasons":[{"code":"dependencies","message":"m","unmet":[{"id":"x","status":"missing"}]}]}"#,
        ] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
