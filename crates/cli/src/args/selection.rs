//! Flags that select, order and show tasks or workers. The fields of `--columns` and `--sort` are paths, checked against the fields that
//! tasks have.

use std::time::Duration;

use clap::Args;
use taskqueue_client::{OrderField, Status, Task, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection};
use taskqueue_core::fields::{FIELDS, TaskField, paths_in};
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::json::Value;

use super::Format;
use super::values::{interval, order_field, status};
use super::worker::INTERVAL_DEFAULT;
use crate::failure::similar_names;
use crate::field_path::{DURATION, FieldPath, WAITED, json_text};

/// The largest page that a server gives.
pub(crate) const PAGE_LIMIT: u16 = 1000;

/// Returns the paragraph about columns in the help of `task list`.
pub(super) fn columns_help() -> String {
    let (objects, plain): (Vec<&TaskField>, Vec<&TaskField>) =
        FIELDS.iter().partition(|field| field.has_members() || field.head() != field.path);
    let names = |fields: &[&TaskField]| {
        let mut names: Vec<&str> = fields.iter().map(|field| field.head()).collect();
        names.dedup();
        names.join(", ")
    };
    format!(
        "Columns are the fields of a task: {}, and as a whole or with a member {}, such as args.model.layers, \
         last_run.worker.host or progress.step; 'args.*' is a column for each member that a task of the list has. Two \
         more are computed, in CSV as seconds: duration, of the latest run, and waited, from the creation to its start, \
         both until now where it goes on. A table shows progress as a percentage with the time that is left, where the \
         run reports step and total, or percent.",
        names(&plain),
        names(&objects)
    )
}

/// The conditions are combined with `and`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectionArgs {
    /// Only tasks with this status: pending, running, succeeded, failed or cancelled
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<Status>,

    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,

    /// Archived tasks, too
    #[arg(long)]
    pub(crate) include_archived: bool,
}

/// The conditions besides the status.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConditionArgs {
    /// Only tasks with exactly this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Only tasks whose name contains the letters of each word in this order, such as 'res50 cifar'
    #[arg(long, value_name = "WORDS")]
    pub(crate) fuzzy: Option<String>,

    /// Only tasks that match this filter, such as 'args.lr < 0.1 and "gpu" in routes'; all of the language:
    /// docs/reference/filter-language.md
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
}

impl SelectionArgs {
    /// Returns whether every task is selected, except that archived ones may be left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.status.is_none() && self.conditions.is_empty()
    }

    /// Returns the selection that the server gets.
    pub(crate) fn selection(&self) -> TaskSelection {
        let selection = self.conditions.selection().include_archived(self.include_archived);
        self.status.into_iter().fold(selection, TaskSelection::status)
    }

    /// Returns the selection with one more condition; `None` if the filter is wrong or becomes too long.
    pub(crate) fn narrowed(&self, condition: &str) -> Option<Self> {
        let filter = Some(self.conditions.filter_and(condition)?);
        Some(Self { conditions: ConditionArgs { filter, ..self.conditions.clone() }, ..self.clone() })
    }

    /// Returns the selection as one filter; `None` for a fuzzy search, for all tasks, and if the filter is wrong or becomes too long.
    pub(crate) fn as_filter(&self) -> Option<String> {
        let ConditionArgs { name, fuzzy, filter } = &self.conditions;
        let status = self.status_filter();
        let name = name.as_ref().map(|name| format!("name == {}", json_text(&Value::Str(name.into()))));
        let parts: Vec<String> = [status, name].into_iter().flatten().collect();
        match filter {
            _ if fuzzy.is_some() => None,
            Some(filter) if parts.is_empty() => TaskFilter::parse(filter).is_ok().then(|| filter.clone()),
            None if parts.is_empty() => None,
            _ => self.conditions.filter_and(&parts.join(" and ")),
        }
    }

    fn status_filter(&self) -> Option<String> {
        self.status.map(|status| format!("status == \"{}\"", status.as_str()))
    }

    /// Returns the filter and the state as one filter, as they were typed.
    pub(crate) fn as_typed(&self) -> String {
        match (&self.conditions.filter, self.status_filter()) {
            (Some(filter), Some(status)) => format!("({filter}) and {status}"),
            (Some(filter), None) => filter.clone(),
            (None, status) => status.unwrap_or_default(),
        }
    }
}

impl ConditionArgs {
    /// Returns the filter with one more condition; `None` if it is wrong, which only the server explains, or becomes too long.
    pub(crate) fn filter_and(&self, condition: &str) -> Option<String> {
        let both = match &self.filter {
            // In brackets it could become another one.
            Some(filter) if TaskFilter::parse(filter).is_err() => return None,
            Some(filter) => format!("({filter}) and {condition}"),
            None => condition.to_owned(),
        };
        TaskFilter::parse(&both).is_ok().then_some(both)
    }

    fn is_empty(&self) -> bool {
        self.name.is_none() && self.fuzzy.is_none() && self.filter.is_none()
    }

    pub(crate) fn selection(&self) -> TaskSelection {
        let selection = self.name.iter().fold(TaskSelection::all(), TaskSelection::name);
        let selection = self.fuzzy.iter().fold(selection, TaskSelection::name_fuzzy);
        self.filter.iter().fold(selection, TaskSelection::filter)
    }
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    /// The columns of tables and CSV, such as id,status,args.lr,result.loss
    #[arg(long, value_name = "FIELDS", value_parser = columns)]
    columns: Option<Box<[FieldPath]>>,

    /// Sort by these fields, such as result.loss,-args.lr; a minus sorts largest first [default: -created_at]
    #[arg(long, value_name = "[-]FIELDS", value_parser = sort, allow_hyphen_values = true,
          conflicts_with_all = ["order_by", "ascending"])]
    sort: Option<Box<[Sort]>>,

    /// The same as --sort=-FIELD, for the fields that a server can sort by
    #[arg(long, value_name = "FIELD", value_parser = order_field, hide = true)]
    order_by: Option<OrderField>,

    /// Reverses --order-by
    #[arg(long, hide = true)]
    ascending: bool,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    /// Show the list until q is pressed and refresh it every 2 seconds, or every SECONDS; with --output jsonl print
    /// each task that is new or changed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = INTERVAL_DEFAULT, value_parser = interval,
          conflicts_with = "all")]
    pub(crate) watch: Option<Duration>,
}

impl ListArgs {
    /// Returns the fields that the user named.
    pub(crate) fn fields(&self) -> Option<&[FieldPath]> {
        self.columns.as_deref()
    }

    /// Returns the order, if only this program can sort by it; else it is empty.
    pub(crate) fn own_sort(&self) -> &[Sort] {
        self.sort.as_deref().filter(|keys| order_of_server(keys).is_none()).unwrap_or_default()
    }

    /// Returns the request for pages that hold at most `max_items` tasks together, in the order of the server.
    pub(crate) fn query(&self, max_items: Option<u64>) -> TaskQuery {
        let query = TaskQuery::of(self.selection.selection()).limit(page_limit(max_items));
        let sort = self.sort.as_deref().and_then(order_of_server);
        match sort.unwrap_or((self.order_by.unwrap_or(OrderField::CreatedAt), !self.ascending)) {
            (field, true) => query.descending_by(field),
            (field, false) => query.ascending_by(field),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct LimitArgs {
    /// Show at most this many [default: 100 in tables, all in other formats]
    #[arg(long, value_name = "COUNT", conflicts_with = "all", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Show all
    #[arg(long)]
    all: bool,
}

impl LimitArgs {
    /// As many as a person looks through.
    const TABLE_DEFAULT: u64 = 100;

    /// Returns how many are shown; `None` means all. Programs get everything unless they ask for less: a file that is silently cut is a wrong one.
    pub(crate) fn max_items(self, format: Format) -> Option<u64> {
        match format {
            _ if self.all => None,
            Format::Table => Some(self.limit.unwrap_or(Self::TABLE_DEFAULT)),
            Format::Json | Format::Jsonl | Format::Csv | Format::Quiet => self.limit,
        }
    }
}

/// Returns the size of a page: as large as needed and allowed.
fn page_limit(max_items: Option<u64>) -> u16 {
    max_items.and_then(|count| u16::try_from(count).ok()).map_or(PAGE_LIMIT, |count| count.min(PAGE_LIMIT))
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkerSelectionArgs {
    /// Only workers that match this filter, such as 'status == "busy" and route == "gpu"'; all of the language:
    /// docs/reference/filter-language.md
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
}

impl WorkerSelectionArgs {
    pub(crate) fn selection(&self) -> WorkerSelection {
        self.filter.as_ref().map_or_else(WorkerSelection::all, |filter| WorkerSelection::all().filter(filter))
    }

    pub(crate) fn query(&self, max_items: Option<u64>) -> WorkerQuery {
        WorkerQuery::of(self.selection()).limit(page_limit(max_items))
    }
}

/// The field that has the same members in every task.
const ERROR: &str = "last_error";
/// The fields that a list computes of them, in seconds.
const COMPUTED: [&str; 2] = [DURATION, WAITED];

fn columns(text: &str) -> Result<Box<[FieldPath]>, String> {
    text.split(',').map(|path| task_field(path.trim())).collect()
}

/// One key of an order.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) field: FieldPath,
    pub(crate) descending: bool,
}

/// Returns the server's own order, which does not need all tasks to be loaded. It has one key.
fn order_of_server(keys: &[Sort]) -> Option<(OrderField, bool)> {
    let [sort] = keys else { return None };
    OrderField::parse(&sort.field.head).map(|field| (field, sort.descending))
}

/// Reads the keys of an order, the first one first.
fn sort(text: &str) -> Result<Box<[Sort]>, String> {
    let key = |text: &str| {
        let (descending, path) = text.strip_prefix('-').map_or((false, text), |path| (true, path));
        let field = task_field(path)?;
        if field.is_wildcard() {
            return Err(format!("{path} is no field to sort by; name one of its members"));
        }
        Ok(Sort { field, descending })
    };
    text.split(',').map(|text| key(text.trim())).collect()
}

fn task_field(path: &str) -> Result<FieldPath, String> {
    let field = FieldPath::new(path);
    let (name, members) = field.steps.split_first().map_or(("", [].as_slice()), |(name, rest)| (name, rest));
    if field.steps.iter().any(String::is_empty) {
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
    use super::*;
    #[test]
    fn pages_are_as_large_as_needed_and_allowed() {
        for (max_items, expected) in [(Some(7), 7), (Some(1000), 1000), (Some(5000), 1000), (None, 1000)] {
            assert_eq!(page_limit(max_items), expected, "{max_items:?}");
        }
    }

    #[test]
    fn only_tables_are_cut_without_being_asked_to() {
        let cases = [(None, false, Some(100), None), (Some(7), false, Some(7), Some(7)), (None, true, None, None)];
        for (limit, all, table, other) in cases {
            let args = LimitArgs { limit, all };
            assert_eq!(args.max_items(Format::Table), table, "{args:?}");
            for format in [Format::Json, Format::Jsonl, Format::Csv, Format::Quiet] {
                assert_eq!(args.max_items(format), other, "{args:?} {format:?}");
            }
        }
    }

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
            let order = order_of_server(&keys).map(|(field, _)| field);
            let keys: Vec<_> = keys.into_iter().map(|sort| (sort.field.head, sort.descending)).collect();
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
