//! `--columns` and `--sort` of task lists: fields of a task by their paths, checked against the fields that tasks have.

use taskqueue_client::{OrderField, Task};
use taskqueue_core::fields::{TaskField, paths_in};

use crate::field_path::{DURATION, FieldPath, WAITED};
use crate::similar_names::similar_names;

/// The field that has the same members in every task.
const ERROR: &str = "last_error";
/// What a list computes of them, in seconds.
const COMPUTED: [&str; 2] = [DURATION, WAITED];

#[derive(Clone, Debug)]
pub(crate) struct Columns(pub(crate) Vec<FieldPath>);

pub(super) fn columns(text: &str) -> Result<Columns, String> {
    text.split(',').map(|path| task_field(path.trim())).collect::<Result<_, _>>().map(Columns)
}

/// One key of an order.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) field: FieldPath,
    pub(crate) descending: bool,
}

/// The keys of an order, the first one first.
#[derive(Clone, Debug)]
pub(crate) struct SortKeys(pub(crate) Vec<Sort>);

impl SortKeys {
    /// The server's own order, which does not need all tasks to be loaded. It has one key.
    pub(crate) fn of_server(&self) -> Option<(OrderField, bool)> {
        match self.0.as_slice() {
            [sort] => OrderField::parse(&sort.field.head).map(|field| (field, sort.descending)),
            _ => None,
        }
    }
}

pub(super) fn sort(text: &str) -> Result<SortKeys, String> {
    let key = |text: &str| {
        let (descending, path) = text.strip_prefix('-').map_or((false, text), |path| (true, path));
        let field = task_field(path)?;
        if field.is_wildcard() {
            return Err(format!("{path} is no field to sort by; name one of its members"));
        }
        Ok(Sort { field, descending })
    };
    text.split(',').map(|text| key(text.trim())).collect::<Result<_, _>>().map(SortKeys)
}

fn task_field(path: &str) -> Result<FieldPath, String> {
    let field = FieldPath::new(path);
    let (name, members) = field.steps().split_first().map_or(("", [].as_slice()), |(name, rest)| (name, rest));
    if field.steps().iter().any(String::is_empty) {
        return Err("write fields as id,status,args.lr,result.loss".to_owned());
    }
    if !Task::FIELDS.contains(&name) && !COMPUTED.contains(&name) {
        let known = [Task::FIELDS, &COMPUTED].concat();
        return Err(unknown(path, &known, &format!("; a member of the args is args.{path}")));
    }
    // Those that are not in the table may have any members: a newer server may send more of them.
    let is_plain = COMPUTED.contains(&name) || TaskField::find(name).is_some_and(|field| !field.has_members());
    match members.first() {
        Some(_) if is_plain => Err(format!("{name} has no members")),
        Some(member) if name == ERROR && member != "*" => {
            let known: Vec<&str> =
                paths_in(ERROR).into_iter().filter_map(|path| path.split_once('.')).map(|(_, member)| member).collect();
            if known.contains(&member.as_str()) { Ok(field) } else { Err(unknown(member, &known, " in last_error")) }
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
    use taskqueue_core::fields::FIELDS;

    use super::*;

    #[test]
    fn every_field_of_a_task_is_known_here() {
        let heads: Vec<&str> = FIELDS.iter().map(TaskField::head).collect();
        assert!(Task::FIELDS.iter().all(|name| heads.contains(name)));
        for path in FIELDS.iter().map(|field| field.path).chain(["progress.step", "retry_delay.seconds"]) {
            assert!(Task::FIELDS.contains(&path.split('.').next().unwrap()), "{path}");
            assert!(task_field(path).is_ok(), "{path}");
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
            ("duration.x", "has no members"),
            ("durations", "did you mean duration?"),
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
        let by = |text: &str| {
            let keys = sort(text)?;
            let order = keys.of_server().map(|(field, _)| field);
            let keys: Vec<_> = keys.0.into_iter().map(|sort| (sort.field.head, sort.descending)).collect();
            Ok::<_, String>((keys, order))
        };
        let key = |path: &str, descending| (path.to_owned(), descending);
        assert_eq!(by("-result.loss"), Ok((vec![key("result.loss", true)], None)));
        assert_eq!(by("priority"), Ok((vec![key("priority", false)], Some(OrderField::Priority))));
        let several = vec![key("priority", false), key("args.lr", true), key("duration", false)];
        assert_eq!(by("priority, -args.lr,duration"), Ok((several, None)));
        for text in ["--id", "", "id,", "args.*"] {
            assert!(by(text).is_err(), "{text}");
        }
        assert!(columns("id,args.*,last_error.*").is_ok());
    }
}
