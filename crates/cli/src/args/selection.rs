//! Flags that select tasks or workers.

use clap::Args;
use taskqueue_client::{OrderField, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection};
use taskqueue_core::fields::{FIELDS, TaskField};
use taskqueue_core::task::Status;

use super::columns::{Columns, Sort, SortKeys, columns, sort};
use super::connection::Format;
use super::live::WatchArgs;
use super::values::{TaskRef, order_field, status, task_ref};
use crate::field_path::FieldPath;

/// The largest page that a server gives.
const PAGE_LIMIT: u16 = 1000;

const LIST_HELP: &str = "\
Examples:
  taskqueue task list --status failed
  taskqueue task list --filter 'args.lr < 0.1 and \"gpu\" in routes' --sort -priority
  taskqueue task list --columns id,status,args.lr,result.loss --sort result.loss,-args.lr
  taskqueue task list --columns 'id,args.*,duration' --sort -duration
  taskqueue task list --status succeeded --output csv --columns id,args.lr,result.loss > losses.csv
  taskqueue task list --status failed --output quiet    # only ids, for scripts
  taskqueue task list --status running --columns id,progress,progress.loss
  taskqueue task list --include-archived --filter 'archived == true'
  taskqueue task list --watch

Tables show the newest 100 tasks unless --limit or --all is given, and say when there are more.
All other formats print every task that matches, unless --limit is given.

{COLUMNS}

--sort puts numbers first, then text, then false and true, then lists and objects, and tasks
without a value last; a minus reverses the order of numbers among themselves, of texts among
themselves, and so on. Several keys are separated by commas: the next one orders tasks that are equal
by those before. To sort by several, or by args, metadata, result, last_error, last_run, progress,
routes, duration or waited, all tasks that match are loaded.

CSV has a header line and quotes as in RFC 4180. Values keep every character; texts that a
spreadsheet would run as a formula, because they begin with = + - @ or a tab, get an apostrophe in
front. --raw-csv prints them without it, for programs.";

pub(super) fn list_help() -> String {
    let (objects, plain): (Vec<&TaskField>, Vec<&TaskField>) =
        FIELDS.iter().partition(|field| field.has_members() || field.head() != field.path);
    let names = |fields: &[&TaskField]| {
        let mut names: Vec<&str> = fields.iter().map(|field| field.head()).collect();
        names.dedup();
        names.join(", ")
    };
    let columns = format!(
        "Columns are the fields of a task: {}, and as a whole or with a member {}, such as args.model.layers, \
         last_run.worker.host or progress.step; 'args.*' is a column for each member that a task of the list has. Two \
         more are computed, in CSV as seconds: duration, of the latest run, and waited, from the creation to its start, \
         both until now where it goes on. A table shows progress as a percentage with the time that is left, where the \
         run reports step and total, or percent.",
        names(&plain),
        names(&objects)
    );
    LIST_HELP.replace("{COLUMNS}", &columns)
}

pub(super) const COUNT_HELP: &str = "\
Examples:
  taskqueue task count
  taskqueue task count --status pending --output quiet    # only the number
  taskqueue task count --group-by status
  taskqueue task count --group-by routes,status --filter 'args.lr < 0.1'";

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
    /// Whether every task is selected, except that archived ones may be left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.status.is_none() && self.conditions.is_empty()
    }

    pub(crate) fn selection(&self) -> TaskSelection {
        let selection = self.conditions.selection().include_archived(self.include_archived);
        match self.status {
            Some(status) => selection.status(status),
            None => selection,
        }
    }
}

impl ConditionArgs {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.fuzzy.is_none() && self.filter.is_none()
    }

    pub(crate) fn selection(&self) -> TaskSelection {
        let mut selection = TaskSelection::all();
        if let Some(name) = &self.name {
            selection = selection.name(name);
        }
        if let Some(words) = &self.fuzzy {
            selection = selection.name_fuzzy(words);
        }
        if let Some(filter) = &self.filter {
            selection = selection.filter(filter);
        }
        selection
    }
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    /// The columns of tables and CSV, such as id,status,args.lr,result.loss
    #[arg(long, value_name = "FIELDS", value_parser = columns)]
    columns: Option<Columns>,

    /// Sort by these fields, such as result.loss,-args.lr; a minus sorts largest first [default: -created_at]
    #[arg(long, value_name = "[-]FIELDS", value_parser = sort, allow_hyphen_values = true,
          conflicts_with_all = ["order_by", "ascending"])]
    sort: Option<SortKeys>,

    /// The same as --sort=-FIELD, for the fields that a server can sort by
    #[arg(long, value_name = "FIELD", value_parser = order_field, hide = true)]
    order_by: Option<OrderField>,

    /// Reverses --order-by
    #[arg(long, hide = true)]
    ascending: bool,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

impl ListArgs {
    /// The fields that the user named.
    pub(crate) fn fields(&self) -> Option<&[FieldPath]> {
        self.columns.as_ref().map(|columns| columns.0.as_slice())
    }

    /// Whether the columns depend on which members the tasks have.
    pub(crate) fn has_wildcard(&self) -> bool {
        self.fields().is_some_and(|fields| fields.iter().any(FieldPath::is_wildcard))
    }

    /// The order, if only this program can sort by it; else it is empty.
    pub(crate) fn own_sort(&self) -> &[Sort] {
        self.sort.as_ref().filter(|keys| keys.of_server().is_none()).map_or(&[], |keys| keys.0.as_slice())
    }

    /// The request for pages that hold at most `max_items` tasks together, in the order of the server.
    pub(crate) fn query(&self, max_items: Option<u64>) -> TaskQuery {
        let query = TaskQuery::of(self.selection.selection()).limit(page_limit(max_items));
        let sort = self.sort.as_ref().and_then(SortKeys::of_server);
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
    /// What a person looks through.
    const TABLE_DEFAULT: u64 = 100;

    /// None means all. Programs get everything unless they ask for less: a file that is silently cut is a wrong one.
    pub(crate) fn max_items(self, format: Format) -> Option<u64> {
        match format {
            _ if self.all => None,
            Format::Table => Some(self.limit.unwrap_or(Self::TABLE_DEFAULT)),
            Format::Json | Format::Jsonl | Format::Csv | Format::Quiet => self.limit,
        }
    }
}

/// As large as needed and allowed.
fn page_limit(max_items: Option<u64>) -> u16 {
    max_items.and_then(|count| u16::try_from(count).ok()).map_or(PAGE_LIMIT, |count| count.min(PAGE_LIMIT))
}

/// Tasks that are named by id, or selected.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_ref, required_unless_present_any = ["status", "name", "fuzzy", "filter"],
          conflicts_with_all = ["status", "name", "fuzzy", "filter", "include_archived"])]
    pub(crate) ids: Vec<TaskRef>,

    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
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
}
