//! `--columns` and `--sort` of task lists: fields of a task by their paths, checked against the fields that tasks have.

use taskqueue_client::{OrderField, Task};

use crate::field_path::FieldPath;
use crate::similar_names::similar_names;

/// The members of `last_error`.
const ERROR_FIELDS: [&str; 6] = ["type", "message", "traceback", "occurred_at", "attempt", "run_id"];
/// Fields without members. Those that are in no list may have any: a newer server may send more of them.
const PLAIN_FIELDS: [&str; 20] = [
    "id",
    "queue",
    "status",
    "name",
    "priority",
    "attempt",
    "max_attempts",
    "routes",
    "last_route",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "progress_updated_at",
    "progress_attempt",
    "not_before",
    "timeout_seconds",
    "dependencies",
    "on_dependency_failure",
    "archived",
];

#[derive(Clone, Debug)]
pub(crate) struct Columns(pub(crate) Vec<FieldPath>);

pub(super) fn columns(text: &str) -> Result<Columns, String> {
    text.split(',').map(|path| task_field(path.trim())).collect::<Result<_, _>>().map(Columns)
}

#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) field: FieldPath,
    pub(crate) descending: bool,
}

impl Sort {
    /// The field of the server's own order, which does not need all tasks to be loaded.
    pub(crate) fn order_field(&self) -> Option<OrderField> {
        OrderField::parse(&self.field.head)
    }
}

pub(super) fn sort(text: &str) -> Result<Sort, String> {
    let (descending, path) = text.strip_prefix('-').map_or((false, text), |path| (true, path));
    Ok(Sort { field: task_field(path)?, descending })
}

fn task_field(path: &str) -> Result<FieldPath, String> {
    let field = FieldPath::new(path);
    let (name, members) = field.steps().split_first().map_or(("", [].as_slice()), |(name, rest)| (name, rest));
    if field.steps().iter().any(String::is_empty) {
        return Err("write fields as id,status,args.lr,result.loss".to_owned());
    }
    if !Task::FIELDS.contains(&name) {
        return Err(unknown(path, Task::FIELDS, &format!("; a member of the args is args.{path}")));
    }
    match members.first() {
        Some(_) if PLAIN_FIELDS.contains(&name) => Err(format!("{name} has no members")),
        Some(member) if name == "last_error" && !ERROR_FIELDS.contains(&member.as_str()) => {
            Err(unknown(member, &ERROR_FIELDS, " in last_error"))
        }
        _ => Ok(field),
    }
}

fn unknown(name: &str, known: &[&str], note: &str) -> String {
    match similar_names(name, known).as_slice() {
        [] => format!("there is no field {name}{note}; the fields are {}", known.join(", ")),
        similar => format!("there is no field {name}; did you mean {}?", similar.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_task_is_known_here() {
        for name in PLAIN_FIELDS.iter().chain(&[
            "args",
            "metadata",
            "result",
            "last_error",
            "last_run",
            "progress",
            "progress.step",
            "retry_delay.seconds",
        ]) {
            assert!(Task::FIELDS.contains(&name.split('.').next().unwrap()), "{name}");
            assert!(task_field(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn fields_that_no_task_has_are_refused_with_those_that_are_meant() {
        let cases = [
            ("stauts", "did you mean status?"),
            ("lr", "a member of the args is args.lr"),
            ("last_error.mesage", "did you mean message?"),
            ("last_error.x", "there is no field x in last_error"),
            ("status.x", "status has no members"),
            ("progres.step", "did you mean progress,"),
            ("progress_updated_at.x", "has no members"),
            ("args.", "args.lr"),
            ("", "args.lr"),
            ("id,,status", "args.lr"),
        ];
        for (text, expected) in cases {
            let message = columns(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn a_minus_sorts_largest_first_and_fields_of_the_server_are_recognised() {
        let by = |text| sort(text).map(|sort| (sort.field.head.clone(), sort.descending, sort.order_field()));
        assert_eq!(by("-result.loss"), Ok(("result.loss".to_owned(), true, None)));
        assert_eq!(by("priority"), Ok(("priority".to_owned(), false, Some(OrderField::Priority))));
        assert!(by("--id").is_err());
    }
}
