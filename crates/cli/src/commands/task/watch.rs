//! `task list --watch`: a live view of the list, with changed tasks highlighted or, with `--output jsonl`, a line for each change.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use taskqueue_client::{Page, QueueName, Task, TaskId, TaskQuery};
use tokio::time::sleep_until;

use crate::args::{Format, ListArgs};
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::field_path::FieldPath;
use crate::live::{self, Controls, DrawContext, Key, RefreshSchedule, Table, View, clock, is_refusal};
use crate::output::{self, Printer, expanded, field_cells, field_columns};

/// The largest page: a refresh is one request.
const LIMIT_MAX: u64 = 1000;

pub(super) async fn run(context: &ClientContext, args: &ListArgs) -> Result<(), CommandError> {
    let every = args.watch.unwrap_or_default();
    // The same number in both formats: it is what is watched, not what is printed.
    let limit = args.limit.max_items(Format::Table);
    let is_too_long = limit.is_none_or(|count| count > LIMIT_MAX);
    let format = context.printer.format();
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
            return frame.render_widget(Line::styled(text, context.theme.dimmed()), area);
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
    use taskqueue_client::Status;

    use super::*;
    use crate::live::tests::{at_test_time, screen, task};

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
        assert_eq!(
            shown(&view, 100, 5),
            [
                "ID              STATUS   NAME          PRIORITY  ATTEMPT  ROUTES   CREATED  UPDATED  ARGS",
                "t_000000000001  pending  -                    0      0/3  default  60s ago  60s ago  {}",
                r"t_000000000002  running  warm\u{1b}up         0      1/3  default  60s ago  60s ago  {}",
                "",
                "every 2s  2+ tasks in default  08:00:00 UTC  q leave  ? keys  space pause",
            ]
        );
    }

    #[test]
    fn a_narrow_screen_shows_fewer_columns() {
        let view = view(vec![page(vec![task(1)])]);
        assert_eq!(
            shown(&view, 40, 3),
            [
                "ID              STATUS   NAME  UPDATED",
                "t_000000000001  pending  -     60s ago",
                "every 2s  1 task in default  08:00:00 UT",
            ]
        );
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
