//! `task list --sort` by a field that the server cannot sort by: loads all tasks that match and sorts them here.

use taskqueue_client::{Task, TaskQuery};

use crate::args::{Format, Sort};
use crate::client_context::ClientContext;
use crate::commands::print_pages::Printed;
use crate::failure::{CommandError, Failure};
use crate::field_path::{FieldPath, SortKey, read_record};
use crate::output::Record;
use crate::progress::Progress;

/// With a limit, at most this many tasks more than needed are held in memory.
const SURPLUS: usize = 1000;

#[derive(Debug)]
pub(super) struct SortedTasks {
    tasks: Vec<(SortKey, Task)>,
    /// How many tasks match, also beyond the limit.
    pub(super) total: u64,
}

/// The first `max_items` tasks in this order. Equal ones keep the order of the server, newest first.
pub(super) async fn load(
    context: &ClientContext,
    query: TaskQuery,
    sort: &Sort,
    max_items: Option<u64>,
) -> Result<SortedTasks, CommandError> {
    let mut walk = context.client.walk_tasks(&context.queue, query);
    let progress = Progress::spinner("loading");
    let most = max_items.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let (mut tasks, mut total) = (Vec::new(), 0);
    while let Some(task) = walk.next().await? {
        tasks.push((sort.field.sort_key(&read_record(&task.json())), task));
        total += 1;
        if tasks.len() >= most.saturating_add(SURPLUS) {
            keep_first(&mut tasks, most, sort.descending);
        }
        progress.set_message(|| format!("{total} tasks"));
    }
    keep_first(&mut tasks, most, sort.descending);
    Ok(SortedTasks { tasks, total })
}

/// Stable: what came first stays first among equals, also when it is called again with more behind.
fn keep_first<T>(items: &mut Vec<(SortKey, T)>, most: usize, descending: bool) {
    items.sort_by(|a, b| a.0.compare(&b.0, descending));
    items.truncate(most);
}

impl SortedTasks {
    pub(super) fn print(&self, context: &ClientContext, fields: Option<&[FieldPath]>) -> Result<Printed, Failure> {
        let mut listing = context.printer.listing_of::<Task>(fields);
        self.tasks.iter().try_for_each(|(_, task)| listing.push(task))?;
        let count = listing.count();
        listing.finish()?;
        Ok(Printed { count, is_cut: self.total > count && context.printer.format() == Format::Table })
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::filter::Number;

    use super::*;

    #[test]
    fn what_is_kept_is_the_beginning_of_the_whole_order() {
        let keys = [5, 1, 4, 1, 3, 5, 9, 2, 6];
        let items = keys.iter().enumerate().map(|(index, key)| (SortKey::Number(Number::Int(*key)), index));
        for (descending, expected) in [(false, [1, 3, 7, 4]), (true, [6, 8, 0, 5])] {
            let mut all: Vec<(SortKey, usize)> = items.clone().collect();
            let mut few = Vec::new();
            for item in all.clone() {
                few.push(item);
                if few.len() >= 6 {
                    keep_first(&mut few, 4, descending);
                }
            }
            keep_first(&mut few, 4, descending);
            keep_first(&mut all, 4, descending);
            let indexes = |items: &[(SortKey, usize)]| items.iter().map(|(_, index)| *index).collect::<Vec<_>>();
            assert_eq!((indexes(&few), indexes(&all)), (expected.to_vec(), expected.to_vec()));
        }
    }
}
