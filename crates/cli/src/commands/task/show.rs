//! `task get`, `task explain`, `task list` and `task count`: the commands that show tasks. `task list --watch` is a live view of the list, with
//! changed tasks highlighted or, with `--output jsonl`, a line for each change.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use taskqueue_client::{Explanation, Page, QueueName, Reason, Status, Task, TaskId, TaskQuery, TaskSelection};
use taskqueue_core::dependency::DEPENDENCY_FAILED;
use taskqueue_core::words;
use tokio::time::sleep_until;

use super::named_tasks;
use crate::args::{CountArgs, Format, ListArgs, SelectionArgs, Sort};
use crate::commands::queue::{Printed, note_cut, print_count, print_items};
use crate::config::{ClientContext, command_line, server_command_line};
use crate::explained_reasons::{Known, Speaker};
use crate::failure::{CommandError, Failure};
use crate::field_path::{FieldPath, SortKey};
use crate::live::{self, Controls, DIMMED, DrawContext, Key, RefreshSchedule, Table, View, clock, is_refusal};
use crate::output::{self, Listing, Printer, Progress, Record, expanded, field_cells, field_columns, worker_place};

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
        match named_tasks::existing(&context.client, &context.queue, *id).await? {
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
    match context.printer.format {
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
    let format = context.printer.format;
    if args.fields().is_some() && !matches!(format, Format::Table | Format::Csv) {
        let message = "--columns is for --output table and csv; the other formats have all fields or only the id";
        return Err(Failure::Usage(message.to_owned()).into());
    }
    let max_items = args.limit.max_items(format);
    let selection = args.selection.selection();
    // The columns of a wildcard depend on which members the tasks have.
    let has_wildcard = args.fields().is_some_and(|fields| fields.iter().any(FieldPath::is_wildcard));
    let (printed, total) = if args.own_sort().is_empty() && !has_wildcard {
        let walk = context.client.walk(&context.queue, args.query(max_items));
        let push = |listing: &mut Listing<'_>, task: &Task| listing.push(task);
        (print_items::<_, Task>(context, walk, max_items, args.fields(), push).await?, None)
    } else {
        let loaded = load(context, args).await?;
        (loaded.print(context, args.fields())?, loaded.total)
    };
    if printed.is_cut {
        let count = async {
            if let Some(total) = total { Ok(total) } else { context.client.count(&context.queue, &selection).await }
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

/// Loads as many tasks as are shown, in the order that is asked for. Equal ones keep the order of the server, newest first.
async fn load<'s>(context: &ClientContext, args: &'s ListArgs) -> Result<LoadedTasks<'s>, CommandError> {
    let (sort, now, max_items) = (args.own_sort(), output::now(), args.limit.max_items(context.printer.format));
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
        Ok(Printed { count, is_cut: self.has_more && context.printer.format == Format::Table })
    }

    /// Says that a key does not order anything: its name may be wrong.
    fn note_absent_keys(&self) {
        let keys = self.absent.iter().filter(|field| field.steps.len() > 1).map(|field| field.head.as_str());
        let keys: Vec<&str> = keys.collect();
        if !keys.is_empty() && !self.tasks.is_empty() {
            output::note(&format!("no task that matches has {}, by which they were to be sorted", keys.join(" or ")));
        }
    }
}

/// The largest page: a refresh is one request.
const LIMIT_MAX: u64 = 1000;

pub(super) async fn watch(context: &ClientContext, args: &ListArgs) -> Result<(), CommandError> {
    let every = args.watch.unwrap_or_default();
    // The same number in both formats: it is what is watched, not what is printed.
    let limit = args.limit.max_items(Format::Table);
    let is_too_long = limit.is_none_or(|count| count > LIMIT_MAX);
    let format = context.printer.format;
    let refusal = match format {
        _ if is_too_long => Some(format!("--watch shows at most {LIMIT_MAX} tasks; use a smaller --limit")),
        _ if !args.own_sort().is_empty() => Some(
            "--watch does not load all tasks, so it sorts by fields such as priority or finished_at only".to_owned(),
        ),
        Format::Jsonl if args.fields().is_some() => {
            Some("--columns is for tables; the lines of --output jsonl have all fields".to_owned())
        }
        Format::Jsonl | Format::Table => None,
        Format::Json | Format::Csv | Format::Quiet => {
            Some("--watch shows a table, or with --output jsonl a line for each task that is new or changed".to_owned())
        }
    };
    if let Some(refusal) = refusal {
        return Err(Failure::Usage(refusal).into());
    }
    let query = args.query(limit);
    if format == Format::Jsonl {
        return print_changes(context, query, every).await;
    }
    live::require_terminal("--watch", "--watch with --output jsonl")?;
    let view = WatchView::new(context.queue.clone(), args.fields().map(<[FieldPath]>::to_vec));
    live::run(view, every, |()| {
        let (client, queue, query) = (context.client.clone(), context.queue.clone(), query.clone());
        async move { client.page(&queue, &query).await }
    })
    .await
}

/// Prints each task when it is new or has changed. While the server is unreachable this retries; a refusal ends it, because scripts have to
/// notice.
async fn print_changes(context: &ClientContext, query: TaskQuery, every: Duration) -> Result<(), CommandError> {
    let controls = Controls::new(every);
    let mut schedule = RefreshSchedule::new(Instant::now());
    let (mut before, mut is_warned) = (Vec::new(), false);
    loop {
        if let Some(due) = schedule.due(&controls) {
            sleep_until(due.into()).await;
        }
        schedule.begin(Instant::now());
        let outcome = context.client.page(&context.queue, &query).await;
        schedule.end(outcome.is_ok(), Instant::now());
        match outcome {
            Ok(page) => {
                print_changed(&context.printer, &before, &page.items)?;
                before = page.items;
            }
            Err(error) if is_refusal(&error) => return Err(error.into()),
            // Once per outage.
            Err(error) if !is_warned => {
                let url = &context.url;
                output::warning(&format!("the server at {url} does not answer: {error}; waiting for it"));
            }
            Err(_) => {}
        }
        is_warned = schedule.failures > 0;
    }
}

fn print_changed(printer: &Printer, before: &[Task], tasks: &[Task]) -> Result<(), Failure> {
    let changed = changed(before, tasks);
    let mut listing = printer.listing::<Task>();
    tasks.iter().filter(|task| changed.contains(&task.id)).try_for_each(|task| listing.push(task))?;
    listing.finish().map(drop)
}

/// Returns the tasks of `now` that are not in `before` or differ. Another order is no change.
fn changed(before: &[Task], now: &[Task]) -> HashSet<TaskId> {
    let before: HashMap<TaskId, &Task> = before.iter().map(|task| (task.id, task)).collect();
    now.iter().filter(|task| before.get(&task.id) != Some(task)).map(|task| task.id).collect()
}

const FEW_KEYS: &str = "q leave  ? keys  space pause";

/// The live view: the table of `task list` with changed tasks highlighted.
#[derive(Debug)]
struct WatchView {
    queue: QueueName,
    /// The columns that the user named.
    named: Option<Vec<FieldPath>>,
    /// These columns, with those that the latest page has in place of wildcards.
    fields: Option<Vec<FieldPath>>,
    /// The latest page.
    page: Option<Page<Task>>,
    /// Tasks that are new or different since the page before.
    changed: HashSet<TaskId>,
    /// How many tasks are above the screen.
    scroll: usize,
}

impl WatchView {
    fn new(queue: QueueName, named: Option<Vec<FieldPath>>) -> Self {
        Self { queue, fields: named.clone(), named, page: None, changed: HashSet::new(), scroll: 0 }
    }

    fn tasks(&self) -> &[Task] {
        self.page.as_ref().map_or(&[], |page| &page.items)
    }

    fn draw_tasks(&self, frame: &mut Frame<'_>, area: Rect, context: &DrawContext<'_>) {
        if self.tasks().is_empty() {
            let text = if self.page.is_some() { "no tasks" } else { "connecting" };
            return frame.render_widget(Line::styled(text, DIMMED), area);
        }
        // Scrolling stops when the last task is visible.
        let first = |rows: usize, height| self.scroll.min(rows.saturating_sub(height));
        let is_changed = |row: usize| self.changed.contains(&self.tasks()[row].id);
        self.table(context).draw_from(first, is_changed, frame, area, context.theme);
    }

    /// Returns the table of `task list`.
    fn table(&self, context: &DrawContext<'_>) -> Table<'_> {
        match &self.fields {
            Some(fields) => {
                let rows = self.tasks().iter().map(|task| field_cells(fields, task, context.clock)).collect();
                Table::new(&field_columns(fields), rows, &[])
            }
            None => Table::of(self.tasks(), context.clock),
        }
    }

    /// Returns the number of tasks, the queue, and the time of the data.
    fn footer_notes(&self, context: &DrawContext<'_>) -> Vec<String> {
        let more = self.page.as_ref().is_some_and(|page| page.next_cursor.is_some());
        let count = match self.tasks().len() {
            1 if !more => "1 task".to_owned(),
            count => format!("{count}{} tasks", if more { "+" } else { "" }),
        };
        let age = context.connection.age(context.now).unwrap_or_default();
        let fetched_at = context.clock.plus_seconds(-i64::try_from(age.as_secs()).unwrap_or(0));
        vec![format!("{count} in {}", self.queue), clock(fetched_at)]
    }
}

impl View for WatchView {
    type Query = ();
    type Snapshot = Page<Task>;

    const KEYS: &[(&str, &str)] = &[("up down", "scroll (also k, j)")];

    fn query(&self) {}

    fn update(&mut self, page: Page<Task>, _at: Instant) {
        // On the first page every task would be new.
        let changed = self.page.as_ref().map(|before| changed(&before.items, &page.items));
        self.changed = changed.unwrap_or_default();
        self.scroll = self.scroll.min(page.items.len().saturating_sub(1));
        let tasks: Vec<&Task> = page.items.iter().collect();
        self.fields = self.named.as_ref().map(|named| expanded(named, &tasks));
        self.page = Some(page);
    }

    fn handle_key(&mut self, key: Key) {
        match key {
            Key::Up => self.scroll = self.scroll.saturating_sub(1),
            Key::Down => self.scroll = (self.scroll + 1).min(self.tasks().len().saturating_sub(1)),
            _ => {}
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
        let [_, tasks] = live::draw_edges(frame, context, 0, &self.footer_notes(context), FEW_KEYS);
        self.draw_tasks(frame, tasks, context);
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{JsonObject, Status};
    use taskqueue_core::filter::Number;

    use super::*;
    use crate::live::tests::{at_test_time, screen, task};

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

    #[test]
    fn tasks_that_are_new_or_different_have_changed_and_others_not() {
        let different = Task { attempt: 7, ..task(1) };
        let ids = |tasks: &[Task]| tasks.iter().map(|task| task.id).collect::<HashSet<_>>();
        assert_eq!(changed(&[], &[task(1), task(2)]), ids(&[task(1), task(2)]));
        assert_eq!(changed(&[task(1), task(2)], &[task(2), task(1)]), ids(&[]));
        assert_eq!(changed(&[task(1), task(2)], &[different, task(2), task(3)]), ids(&[task(1), task(3)]));
        assert_eq!(changed(&[task(1)], &[]), ids(&[]));
    }

    fn page(items: Vec<Task>) -> Page<Task> {
        Page { items, next_cursor: None }
    }

    fn view(pages: Vec<Page<Task>>) -> WatchView {
        let mut view = WatchView::new(QueueName::parse("default").unwrap(), None);
        pages.into_iter().for_each(|page| view.update(page, Instant::now()));
        view
    }

    fn shown(view: &WatchView, width: u16, height: u16) -> Vec<String> {
        at_test_time(Instant::now(), |context| screen(width, height, |frame| view.draw(frame, context)))
    }

    #[test]
    fn the_table_is_that_of_task_list_with_a_footer() {
        let running = Task { status: Status::Running, name: Some("warm\u{1b}up".into()), attempt: 1, ..task(2) };
        let view = view(vec![Page { next_cursor: Some("c".to_owned()), ..page(vec![task(1), running]) }]);
        let expected = [
            "ID              STATUS   NAME          PRIORITY  ATTEMPT  ROUTES   CREATED  UPDATED  ARGS",
            "t_000000000001  pending  -                    0      0/3  default  60s ago  60s ago  {}",
            r"t_000000000002  running  warm\u{1b}up         0      1/3  default  60s ago  60s ago  {}",
            "",
            "every 2s  2+ tasks in default  08:00:00 UTC  q leave  ? keys  space pause",
        ];
        assert_eq!(shown(&view, 100, 5), expected);
    }

    #[test]
    fn a_narrow_screen_shows_fewer_columns() {
        let view = view(vec![page(vec![task(1)])]);
        let expected = [
            "ID              STATUS   NAME  UPDATED",
            "t_000000000001  pending  -     60s ago",
            "every 2s  1 task in default  08:00:00 UT",
        ];
        assert_eq!(shown(&view, 40, 3), expected);
    }

    #[test]
    fn the_columns_are_those_that_were_named() {
        let named = ["id", "args.lr"].map(FieldPath::new).to_vec();
        let mut view = WatchView::new(QueueName::parse("default").unwrap(), Some(named));
        let args = JsonObject::from_canonical(r#"{"lr":0.25}"#);
        view.update(page(vec![Task { args, name: Some("first".into()), ..task(1) }]), Instant::now());
        assert_eq!(shown(&view, 40, 4)[..2], ["id              args.lr", "t_000000000001  0.25"]);
    }

    #[test]
    fn what_changed_is_marked_for_one_refresh_and_the_first_refresh_marks_nothing() {
        let changed = Task { attempt: 1, ..task(2) };
        let first = page(vec![task(1), task(2)]);
        let second = page(vec![task(1), changed.clone(), task(3)]);
        assert!(view(vec![first.clone()]).changed.is_empty());
        assert_eq!(view(vec![first.clone(), second.clone()]).changed, HashSet::from([changed.id, task(3).id]));
        assert!(view(vec![first, second.clone(), second]).changed.is_empty());
    }

    #[test]
    fn scrolling_ends_where_the_list_ends() {
        let mut view = view(vec![page((1..=9).map(task).collect())]);
        let first = |view: &WatchView| shown(view, 100, 5)[1].chars().take(14).collect::<String>();
        assert_eq!(first(&view), task(1).id.as_str());
        view.handle_key(Key::Down);
        assert_eq!(first(&view), task(2).id.as_str());
        (0..20).for_each(|_| view.handle_key(Key::Down));
        assert_eq!(first(&view), task(7).id.as_str());
        view.update(page(vec![task(1)]), Instant::now());
        assert_eq!(first(&view), task(1).id.as_str());
        view.handle_key(Key::Up);
        assert_eq!(view.scroll, 0);
    }

    #[test]
    fn an_empty_list_says_so() {
        assert_eq!(shown(&view(vec![page(vec![])]), 40, 3)[0], "no tasks");
        assert_eq!(shown(&view(vec![]), 40, 3)[0], "connecting");
    }
}
