//! The columns that suit the tasks of a page, when none were chosen: args that differ, what came out, and how and where tasks ran.

use std::collections::HashSet;

use taskqueue_core::status::Status;

use super::rows::{Kind, Row, seen};
use crate::columns::{Column, Seen};

/// Args that are shown.
const ARGS: usize = 4;
/// Results that are shown.
const RESULTS: usize = 2;
/// Longer values are for the page of the task.
const SHORT_CHARS: usize = 32;

/// The columns that every row is read with, because they cannot be found among the values of its documents.
pub(super) fn standard() -> Vec<Column> {
    ["progress", "last_error.message", "attempt", "last_run.worker", "created_at", "started_at"]
        .into_iter()
        .filter_map(Column::parse)
        .collect()
}

/// The columns for these rows, which were read with the standard ones.
pub(super) fn choose(rows: &[Row]) -> Vec<Column> {
    let seen = seen(rows);
    let standard = standard();
    let is_there = |path: &str| {
        let place = standard.iter().position(|column| column.path() == path);
        place.is_some_and(|place| {
            rows.iter().any(|row| row.cells.get(place).is_some_and(|cell| cell.kind != Kind::Empty))
        })
    };
    let results = results(&seen);
    let mut paths: Vec<&str> = args(rows, &seen);
    paths.extend(is_there("progress").then_some("progress"));
    paths.extend(&results);
    // Errors stand in the column of the first result, where there is one.
    paths.extend((results.is_empty() && rows.iter().any(|row| row.error.is_some())).then_some("last_error.message"));
    paths.push("attempt");
    paths.extend(is_there("last_run.worker").then_some("last_run.worker"));
    // Of what runs, people want to know since when.
    let all_run = !rows.is_empty() && rows.iter().all(|row| row.status == Status::Running);
    paths.push(if all_run { "started_at" } else { "created_at" });
    paths.into_iter().filter_map(Column::parse).collect()
}

/// Short args of most tasks: those that differ between tasks, because they tell tasks apart, and if none do, any.
fn args<'s>(rows: &[Row], seen: &'s Seen) -> Vec<&'s str> {
    let cells = |path: &str| {
        let path = path.to_owned();
        rows.iter().flat_map(|row| &row.leaves).filter(move |leaf| leaf.path == path).map(|leaf| &leaf.cell)
    };
    let is_usable = |path: &&str| {
        2 * seen.tasks(path) >= rows.len()
            && cells(path).all(|cell| cell.kind != Kind::Json && cell.text.chars().count() <= SHORT_CHARS)
    };
    let differs = |path: &str| cells(path).map(|cell| cell.text.as_str()).collect::<HashSet<_>>().len() > 1;
    let usable: Vec<&str> = seen.most_frequent("args.").into_iter().filter(is_usable).collect();
    let (different, same): (Vec<&str>, Vec<&str>) = usable.into_iter().partition(|path| differs(path));
    let mut chosen = if different.is_empty() { same } else { different };
    chosen.truncate(ARGS);
    chosen.sort_unstable();
    chosen
}

/// Numbers first: they are what is compared.
fn results(seen: &Seen) -> Vec<&str> {
    let paths = seen.most_frequent("result.");
    let numbers: Vec<&str> = paths.iter().copied().filter(|path| seen.is_numeric(path)).take(RESULTS).collect();
    if numbers.is_empty() { paths.into_iter().take(1).collect() } else { numbers }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::task_view::TaskView;

    use super::super::rows::reader;
    use super::*;
    use crate::columns::tests::task;

    fn chosen(tasks: &[(&str, &str)]) -> Vec<String> {
        let read = reader(standard());
        let rows: Vec<Row> = tasks.iter().map(|(args, result)| read(&task(args, result)).0).collect();
        choose(&rows).iter().map(|column| column.path().to_owned()).collect()
    }

    #[test]
    fn args_that_differ_and_numbers_that_came_out_are_shown() {
        let common = r#""a":1,"b":1,"c":1,"d":1"#;
        let args = |lr: &str| format!(r#"{{{common},"list":[1],"long":"{}","lr":{lr}}}"#, "x".repeat(100));
        let (first, second) = (args("0.1"), args("0.2"));
        let columns = chosen(&[(&first, r#"{"note":"x"}"#), (&second, r#"{"loss":0.5,"note":"y"}"#)]);
        assert_eq!(columns, ["args.lr", "progress", "result.loss", "attempt", "last_run.worker", "created_at"]);
        assert_eq!(chosen(&[(&first, "{}")])[..5], ["args.a", "args.b", "args.c", "args.d", "progress"]);
    }

    #[test]
    fn what_runs_is_shown_with_its_start_and_anything_else_with_its_age() {
        let last = |statuses: &[Status]| {
            let read = reader(standard());
            let view = |status: &Status| TaskView { status: *status, ..task("{}", "{}") };
            let rows: Vec<Row> = statuses.iter().map(|status| read(&view(status)).0).collect();
            choose(&rows).last().map(|column| column.path().to_owned()).unwrap()
        };
        assert_eq!(last(&[Status::Running, Status::Running]), "started_at");
        assert_eq!(last(&[Status::Running, Status::Pending]), "created_at");
    }

    #[test]
    fn without_results_the_errors_have_a_column() {
        assert_eq!(
            chosen(&[("{}", "{}")]),
            ["progress", "last_error.message", "attempt", "last_run.worker", "created_at"]
        );
        assert_eq!(chosen(&[]), ["attempt", "created_at"]);
    }
}
