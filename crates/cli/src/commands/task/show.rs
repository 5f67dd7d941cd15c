//! `task get`, `task explain`, `task list` and `task count`: the commands that show tasks.

use std::cmp::Ordering;

use taskqueue_client::{Explanation, Reason, Status, Task, TaskId, TaskSelection};
use taskqueue_core::dependency::DEPENDENCY_FAILED;
use taskqueue_core::words;

use super::named_tasks;
use crate::args::{CountArgs, Format, ListArgs, SelectionArgs, Sort};
use crate::client_context::{ClientContext, command_line, server_command_line};
use crate::commands::print_pages::{Printed, note_cut, print_count, print_items};
use crate::explained_reasons::{Known, Speaker};
use crate::failure::{CommandError, Failure};
use crate::field_path::{FieldPath, SortKey};
use crate::output::{self, Record, worker_place};
use crate::progress::Progress;

/// Says that the task waits for itself: nothing else of it tells why it is pending. Servers that cannot explain do not say so.
async fn note_cycle(context: &ClientContext, task: &Task) {
    if task.status != Status::Pending || task.scheduling.dependencies.is_empty() {
        return;
    }
    let Ok(explanation) = context.client.explain_task(&context.queue, task.id).await else { return };
    let cycle = explanation.reasons.iter().find(|reason| matches!(reason.reason, Some(Reason::DependencyCycle { .. })));
    cycle.into_iter().for_each(|reason| output::warning(&format!("{}: {}", task.id, reason.message)));
}

/// Shows one task with all its fields, or several. A missing one does not hide the others.
pub(super) async fn get(context: &ClientContext, ids: &[TaskId]) -> Result<(), CommandError> {
    if let [id] = ids {
        let task = context.client.task(&context.queue, *id).await?;
        context.printer.one(&task)?;
        note_cycle(context, &task).await;
        return Ok(());
    }
    let mut found = Vec::new();
    for id in ids {
        match named_tasks::existing(context, *id).await? {
            Some(task) => found.push(task),
            None => output::warning(&named_tasks::missing(*id)),
        }
    }
    context.printer.several(&found)?;
    for task in &found {
        note_cycle(context, task).await;
    }
    if found.len() == ids.len() { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// Says why a task is not claimed yet, a line for each reason, with what helps. The server says the reasons; the words for people are made
/// here, where the commands are known.
pub(super) async fn explain(context: &ClientContext, id: TaskId) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let explanation = context.client.explain_task(&context.queue, id).await?;
    match context.printer.format() {
        Format::Json | Format::Jsonl => Ok(context.printer.one(&explanation)?),
        Format::Csv | Format::Quiet => Ok(context.printer.list(&explanation.reasons)?),
        Format::Table => {
            let known = known(context, id, &explanation).await;
            let command = |words: &str| {
                let make = if words.starts_with("queue ") { server_command_line } else { command_line };
                make(context, words).to_string()
            };
            let (queue, now) = (&context.queue, output::now());
            let lines = Speaker { id, queue, known: &known, command: &command, now }.sentences(&explanation);
            lines.iter().try_for_each(|line| context.printer.text(&output::escape(line)))?;
            Ok(())
        }
    }
}

/// Returns what else there is to say of the task and of some that it waits for. Without it the explanation is as true, so a failure is no
/// error.
async fn known(context: &ClientContext, id: TaskId, explanation: &Explanation) -> Known {
    let unmet = explanation.reasons.iter().filter_map(|reason| match &reason.reason {
        Some(Reason::Dependencies { unmet }) => Some(unmet),
        _ => None,
    });
    let existing = unmet.flatten().filter(|(_, status)| status.is_some()).map(|(id, _)| *id);
    let mut known = Known::default();
    for other in existing.take(Known::SHOWN).chain([id]) {
        let Ok(Task { name, last_error, last_run, .. }) = context.client.task(&context.queue, other).await else {
            continue;
        };
        known.names.extend(name.map(|name| (other, name.to_string())));
        known.runs_on = last_run.filter(|_| other == id).and_then(|run| worker_place(&run.worker));
        let failure = last_error.map(|error| error.failure).filter(|failure| &*failure.kind == DEPENDENCY_FAILED);
        known.cancelled_because = failure.filter(|_| other == id).map(|failure| failure.message.to_string());
    }
    known
}

pub(super) async fn list(context: &ClientContext, args: &ListArgs) -> Result<(), CommandError> {
    let format = context.printer.format();
    if args.fields().is_some() && !matches!(format, Format::Table | Format::Csv) {
        let message = "--columns is for --output table and csv; the other formats have all fields or only the id";
        return Err(Failure::Usage(message.to_owned()).into());
    }
    let max_items = args.limit.max_items(format);
    let selection = args.selection.selection();
    let (printed, total) = if args.own_sort().is_empty() && !args.has_wildcard() {
        let walk = context.client.walk(&context.queue, args.query(max_items));
        (
            print_items::<_, Task>(context, walk, max_items, args.fields(), |listing, task| listing.push(task)).await?,
            None,
        )
    } else {
        let loaded = load(context, args, max_items).await?;
        (loaded.print(context, args.fields())?, loaded.total)
    };
    if printed.is_cut {
        let count = async {
            match total {
                Some(total) => Ok(total),
                None => context.client.count(&context.queue, &selection).await,
            }
        };
        note_cut(printed, "tasks", count).await;
    } else if printed.count == 0 {
        note_nothing(context, &args.selection).await;
    }
    Ok(())
}

/// Says why a list is empty: whether the queue is, or the selection, or whether all its tasks are archived.
async fn note_nothing(context: &ClientContext, selection: &SelectionArgs) {
    let queue = &context.queue;
    let others = match selection.is_empty() && selection.include_archived {
        true => Some(0),
        // The list itself was answered, so a failure of this request is not worth an error.
        false => context.client.count(queue, &TaskSelection::all().include_archived(true)).await.ok(),
    };
    output::note(&match others {
        Some(0) => format!("queue {queue} is empty"),
        Some(archived) if selection.is_empty() => {
            let tasks = words::count(archived, "task");
            format!("{tasks} of queue {queue}, all of them archived: --include-archived shows them")
        }
        Some(others) => format!("no task matches; queue {queue} has {}", words::count(others, "task")),
        None => format!("no task of queue {queue} matches"),
    });
}

pub(super) async fn count(context: &ClientContext, args: &CountArgs) -> Result<(), CommandError> {
    if !print_count(context, args.selection.selection(), args.group_by.as_deref()).await? {
        note_nothing(context, &args.selection).await;
    }
    Ok(())
}

/// With a limit, at most this many tasks more than needed are held in memory.
const SURPLUS: usize = 1000;

/// A list that is loaded before it is printed: one that `--sort` orders by what the server cannot sort by, for which all tasks that match are
/// loaded, or one whose columns depend on which members the tasks have.
#[derive(Debug)]
struct LoadedTasks<'s> {
    /// With what they are sorted by.
    tasks: Vec<(Vec<SortKey>, Task)>,
    /// How many tasks match, also beyond the limit; none if that is not known.
    total: Option<u64>,
    has_more: bool,
    /// Keys for which no task has a value.
    absent: Vec<&'s FieldPath>,
}

/// Loads the first `max_items` tasks in the order that is asked for. Equal ones keep the order of the server, newest first.
async fn load<'s>(
    context: &ClientContext,
    args: &'s ListArgs,
    max_items: Option<u64>,
) -> Result<LoadedTasks<'s>, CommandError> {
    let (sort, now) = (args.own_sort(), output::now());
    let query = args.query(max_items.filter(|_| sort.is_empty()));
    let mut walk = context.client.walk(&context.queue, query);
    let progress = Progress::spinner("loading");
    let most = max_items.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let (mut tasks, mut total, mut has_more) = (Vec::new(), 0, false);
    let mut absent: Vec<&FieldPath> = sort.iter().map(|key| &key.field).collect();
    while let Some(task) = walk.next().await? {
        if sort.is_empty() && tasks.len() >= most {
            has_more = true;
            break;
        }
        let json = task.json();
        let values = output::values(&task, &json, now);
        absent.retain(|field| field.value(&values).is_none());
        tasks.push((sort.iter().map(|key| key.field.sort_key(&values)).collect(), task));
        total += 1;
        if tasks.len() >= most.saturating_add(SURPLUS) {
            keep_first(&mut tasks, most, sort);
        }
        progress.set_message(|| format!("{total} tasks"));
    }
    keep_first(&mut tasks, most, sort);
    has_more |= total > tasks.len() as u64;
    Ok(LoadedTasks { tasks, total: (!sort.is_empty()).then_some(total), has_more, absent })
}

/// Sorts and cuts. What came first stays first among equals, also when it is called again with more behind.
fn keep_first<T>(items: &mut Vec<(Vec<SortKey>, T)>, most: usize, sort: &[Sort]) {
    items.sort_by(|a, b| compare(&a.0, &b.0, sort));
    items.truncate(most);
}

fn compare(a: &[SortKey], b: &[SortKey], sort: &[Sort]) -> Ordering {
    let keys = a.iter().zip(b).zip(sort);
    keys.map(|((a, b), key)| a.compare(b, key.descending)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl LoadedTasks<'_> {
    fn print(&self, context: &ClientContext, fields: Option<&[FieldPath]>) -> Result<Printed, Failure> {
        let tasks: Vec<&Task> = self.tasks.iter().map(|(_, task)| task).collect();
        let fields = fields.map(|fields| output::expanded(fields, &tasks));
        let mut listing = context.printer.listing_of::<Task>(fields.as_deref());
        tasks.iter().try_for_each(|task| listing.push(*task))?;
        let count = listing.finish()?;
        self.note_absent_keys();
        Ok(Printed { count, is_cut: self.has_more && context.printer.format() == Format::Table })
    }

    /// Says that a key does not order anything: its name may be wrong.
    fn note_absent_keys(&self) {
        let keys = self.absent.iter().filter(|field| field.steps().len() > 1).map(|field| field.head.as_str());
        let keys: Vec<&str> = keys.collect();
        if !keys.is_empty() && !self.tasks.is_empty() {
            output::note(&format!("no task that matches has {}, by which they were to be sorted", keys.join(" or ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::filter::Number;

    use super::*;

    fn keys(descending: &[bool]) -> Vec<Sort> {
        descending.iter().map(|descending| Sort { field: FieldPath::new("x"), descending: *descending }).collect()
    }

    fn number(number: i64) -> SortKey {
        SortKey::Number(Number::Int(number))
    }

    #[test]
    fn what_is_kept_is_the_beginning_of_the_whole_order() {
        let numbers = [5, 1, 4, 1, 3, 5, 9, 2, 6];
        let items = numbers.iter().enumerate().map(|(index, key)| (vec![number(*key)], index));
        for (descending, expected) in [(false, [1, 3, 7, 4]), (true, [6, 8, 0, 5])] {
            let sort = keys(&[descending]);
            let mut all: Vec<(Vec<SortKey>, usize)> = items.clone().collect();
            let mut few = Vec::new();
            for item in all.clone() {
                few.push(item);
                if few.len() >= 6 {
                    keep_first(&mut few, 4, &sort);
                }
            }
            keep_first(&mut few, 4, &sort);
            keep_first(&mut all, 4, &sort);
            let indexes = |items: &[(Vec<SortKey>, usize)]| items.iter().map(|(_, index)| *index).collect::<Vec<_>>();
            assert_eq!((indexes(&few), indexes(&all)), (expected.to_vec(), expected.to_vec()));
        }
    }

    #[test]
    fn a_further_key_orders_what_is_equal_by_those_before() {
        let pairs = [(1, 5), (2, 1), (1, 7), (2, 9), (1, 5)];
        let mut items: Vec<_> =
            pairs.iter().enumerate().map(|(at, (a, b))| (vec![number(*a), number(*b)], at)).collect();
        keep_first(&mut items, usize::MAX, &keys(&[false, true]));
        assert_eq!(items.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [2, 0, 4, 3, 1]);
    }
}
