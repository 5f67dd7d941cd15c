//! Flags that say which tasks or workers a command is about.

use clap::Args;
use taskqueue_client::{OrderField, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection};
use taskqueue_core::ids::TaskId;
use taskqueue_core::task::Status;

use super::live::WatchArgs;
use super::values::{order_field, status, task_id};

/// The largest page that a server gives.
const PAGE_LIMIT: u16 = 1000;

/// Which tasks; what is given must hold together.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectionArgs {
    /// Only tasks of this status: pending, running, succeeded, failed or cancelled
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<Status>,

    /// Only tasks of exactly this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Only tasks whose name has the letters of each word in this order, such as 'res50 cifar'
    #[arg(long, value_name = "WORDS")]
    pub(crate) fuzzy: Option<String>,

    /// Only tasks for which this holds, such as 'args.lr < 0.1 and "gpu" in routes'
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
}

impl SelectionArgs {
    /// Whether nothing is selected, which means everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.status.is_none() && self.name.is_none() && self.fuzzy.is_none() && self.filter.is_none()
    }

    /// The selection as the client sends it.
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

/// Which tasks, in which order, and how many of them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    /// Order by this field, largest or newest first [default: created_at]
    #[arg(long, value_name = "FIELD", value_parser = order_field)]
    pub(crate) order_by: Option<OrderField>,

    /// Smallest or oldest first
    #[arg(long)]
    pub(crate) ascending: bool,

    #[command(flatten)]
    pub(crate) extent: ExtentArgs,

    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

impl ListArgs {
    /// The query of the first page.
    pub(crate) fn query(&self) -> TaskQuery {
        let query = TaskQuery::of(self.selection.selection()).limit(self.extent.page_limit());
        let field = self.order_by.unwrap_or(OrderField::CreatedAt);
        if self.ascending { query.ascending_by(field) } else { query.descending_by(field) }
    }
}

/// How many items of a list.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ExtentArgs {
    /// Show at most so many [default: 100]
    #[arg(long, value_name = "COUNT", conflicts_with = "all", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Show all, however many there are
    #[arg(long)]
    all: bool,
}

impl ExtentArgs {
    /// How many items are shown without a flag: what the API gives, too.
    const DEFAULT: u64 = 100;

    /// How many items to show at most; nothing means all.
    pub(crate) fn wanted(self) -> Option<u64> {
        if self.all { None } else { Some(self.limit.unwrap_or(Self::DEFAULT)) }
    }

    /// How many items to ask for at once.
    fn page_limit(self) -> u16 {
        self.wanted().and_then(|wanted| u16::try_from(wanted).ok()).map_or(PAGE_LIMIT, |wanted| wanted.min(PAGE_LIMIT))
    }
}

/// Which tasks to change or to wait for: those named, or those selected.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_id, required_unless_present_any = ["status", "name", "fuzzy", "filter"],
          conflicts_with_all = ["status", "name", "fuzzy", "filter"])]
    pub(crate) ids: Vec<TaskId>,

    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
}

/// Which workers.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkerSelectionArgs {
    /// Only workers for which this holds, such as 'status == "busy" and route == "gpu"'
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
}

impl WorkerSelectionArgs {
    /// The selection as the client sends it.
    pub(crate) fn selection(&self) -> WorkerSelection {
        self.filter.as_ref().map_or_else(WorkerSelection::all, |filter| WorkerSelection::all().filter(filter))
    }

    /// The query of the first page.
    pub(crate) fn query(&self, extent: ExtentArgs) -> WorkerQuery {
        WorkerQuery::of(self.selection()).limit(extent.page_limit())
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
            assert_eq!(ExtentArgs { limit, all }.page_limit(), expected, "{limit:?} {all}");
        }
    }
}
