//! Flags that select tasks or workers.

use clap::Args;
use taskqueue_client::{OrderField, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection};
use taskqueue_core::ids::TaskId;
use taskqueue_core::task::Status;

use super::live::WatchArgs;
use super::values::{order_field, status, task_id};

/// The largest page that a server gives.
const PAGE_LIMIT: u16 = 1000;

/// The conditions are combined with `and`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectionArgs {
    /// Only tasks with this status: pending, running, succeeded, failed or cancelled
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<Status>,

    /// Only tasks with exactly this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Only tasks whose name contains the letters of each word in this order, such as 'res50 cifar'
    #[arg(long, value_name = "WORDS")]
    pub(crate) fuzzy: Option<String>,

    /// Only tasks that match this filter, such as 'args.lr < 0.1 and "gpu" in routes'
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
}

impl SelectionArgs {
    pub(crate) fn selection(&self) -> TaskSelection {
        let mut selection = TaskSelection::all();
        if let Some(status) = self.status {
            selection = selection.status(status);
        }
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

    /// Sort by this field, largest or newest first [default: created_at]
    #[arg(long, value_name = "FIELD", value_parser = order_field)]
    pub(crate) order_by: Option<OrderField>,

    /// Sort smallest or oldest first
    #[arg(long)]
    pub(crate) ascending: bool,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

impl ListArgs {
    pub(crate) fn query(&self) -> TaskQuery {
        let query = TaskQuery::of(self.selection.selection()).limit(self.limit.page_limit());
        let field = self.order_by.unwrap_or(OrderField::CreatedAt);
        if self.ascending { query.ascending_by(field) } else { query.descending_by(field) }
    }
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct LimitArgs {
    /// Show at most this many [default: 100]
    #[arg(long, value_name = "COUNT", conflicts_with = "all", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Show all
    #[arg(long)]
    all: bool,
}

impl LimitArgs {
    /// The same as that of the API.
    const DEFAULT: u64 = 100;

    /// None means all.
    pub(crate) fn max_items(self) -> Option<u64> {
        if self.all { None } else { Some(self.limit.unwrap_or(Self::DEFAULT)) }
    }

    fn page_limit(self) -> u16 {
        self.max_items().and_then(|count| u16::try_from(count).ok()).map_or(PAGE_LIMIT, |count| count.min(PAGE_LIMIT))
    }
}

/// Tasks that are named by id, or selected.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_id, required_unless_present_any = ["status", "name", "fuzzy", "filter"],
          conflicts_with_all = ["status", "name", "fuzzy", "filter"])]
    pub(crate) ids: Vec<TaskId>,

    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkerSelectionArgs {
    /// Only workers that match this filter, such as 'status == "busy" and route == "gpu"'
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
}

impl WorkerSelectionArgs {
    pub(crate) fn selection(&self) -> WorkerSelection {
        self.filter.as_ref().map_or_else(WorkerSelection::all, |filter| WorkerSelection::all().filter(filter))
    }

    pub(crate) fn query(&self, limit: LimitArgs) -> WorkerQuery {
        WorkerQuery::of(self.selection()).limit(limit.page_limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_large_as_needed_and_allowed() {
        let cases = [
            (None, false, 100),
            (Some(7), false, 7),
            (Some(1000), false, 1000),
            (Some(5000), false, 1000),
            (None, true, 1000),
        ];
        for (limit, all, expected) in cases {
            assert_eq!(LimitArgs { limit, all }.page_limit(), expected, "{limit:?} {all}");
        }
    }
}
