//! `taskqueue top`: the selected queue, pane and task, the latest snapshot and the history, all of it pure, and
//! the loop that shows it. The requests and their result are in `fetch.rs`, the drawing in `draw/`.

mod draw;
mod fetch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ratatui::Frame;
use taskqueue_client::{QueueName, TaskId};
use tokio::sync::Mutex;

use self::fetch::{Detail, History, Pane, Query, QueueCounts, Readers, Snapshot, TaskOutput};
use crate::args::{OutputArgs, QueueArg, TopArgs};
use crate::config::{ClientContext, Retrying};
use crate::failure::Failure;
use crate::live::{self, DrawContext, Key, View};

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    live::require_terminal("taskqueue top", "taskqueue task count --group-by status --output json")?;
    let output = OutputArgs::TABLE;
    let context = ClientContext::open(&args.connection, &QueueArg::default(), output, Retrying::Never)?;
    context.run(None, async |context| {
        let view = TopView::new(context.url.clone(), context.queue.clone());
        // At most one refresh runs at a time, so this is never waited for.
        let readers = Arc::new(Mutex::new(Readers::default()));
        live::run(view, args.interval, |query| {
            fetch::snapshot(context.client.clone(), args.queues.clone(), query, Arc::clone(&readers))
        })
        .await
    })
}

#[derive(Debug)]
struct TopView {
    url: String,
    pane: Pane,
    snapshot: Option<Snapshot>,
    selected: QueueName,
    /// The chosen row of the pane; none while the keys choose a queue.
    marked: Option<MarkedTask>,
    open: Option<OpenOutput>,
    histories: BTreeMap<QueueName, History>,
}

/// A task in a row of the pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarkedTask {
    id: TaskId,
    /// Its place: the next one is chosen when it is gone.
    row: usize,
}

/// The task whose output is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenOutput {
    queue: QueueName,
    id: TaskId,
    /// The number of the latest lines that are below the screen.
    scroll: usize,
}

impl TopView {
    /// Selects the queue `preferred` first, if the server has it.
    fn new(url: String, preferred: QueueName) -> Self {
        let (pane, histories) = (Pane::default(), BTreeMap::new());
        Self { url, pane, snapshot: None, selected: preferred, marked: None, open: None, histories }
    }

    fn queues(&self) -> &[QueueCounts] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.queues)
    }

    /// The index of the selected queue in `queues`.
    fn selected_index(&self) -> Option<usize> {
        self.queues().iter().position(|queue| queue.name == self.selected)
    }

    fn selected_queue(&self) -> Option<&QueueCounts> {
        self.selected_index().and_then(|index| self.queues().get(index))
    }

    /// The rows of the open pane; none until they were requested.
    fn detail(&self) -> Option<&Detail> {
        let detail = self.snapshot.as_ref()?.detail.as_ref()?;
        (detail.queue == self.selected && detail.rows.pane() == self.pane).then_some(detail)
    }

    /// The output that is shown; none until it was requested.
    fn output(&self) -> Option<&TaskOutput> {
        let output = self.snapshot.as_ref()?.output.as_ref()?;
        (self.open.as_ref()?.id == output.id).then_some(output)
    }

    fn marked_row(&self) -> Option<usize> {
        let MarkedTask { id, row } = self.marked?;
        let tasks = self.row_tasks();
        // Two workers may report the same task.
        let is_still_there = tasks.get(row) == Some(&Some(id));
        if is_still_there { Some(row) } else { tasks.iter().position(|task| *task == Some(id)) }
    }

    fn row_tasks(&self) -> Vec<Option<TaskId>> {
        self.detail().map(|detail| detail.rows.tasks()).unwrap_or_default()
    }

    /// Marks the nearest row with a task: `row` itself, one of those behind it, or one before it.
    fn mark(&mut self, row: usize) {
        let tasks = self.row_tasks();
        let at = |row: usize| tasks.get(row).copied().flatten().map(|id| MarkedTask { id, row });
        let (behind, before) = (row..tasks.len(), 0..row.min(tasks.len()));
        self.marked = behind.into_iter().find_map(at).or_else(|| before.rev().find_map(at));
    }

    fn open_marked(&mut self) {
        match self.marked {
            Some(MarkedTask { id, .. }) => self.open = Some(OpenOutput { queue: self.selected.clone(), id, scroll: 0 }),
            None => self.mark(0),
        }
    }

    fn scroll(&mut self, key: Key) {
        let most = self.output().map_or(0, |output| output.lines.len().saturating_sub(1));
        let Some(open) = &mut self.open else { return };
        match key {
            Key::Up => open.scroll = (open.scroll + 1).min(most),
            Key::Down => open.scroll = open.scroll.saturating_sub(1),
            _ => {}
        }
    }

    fn change_pane(&mut self, places: usize) {
        self.pane = self.pane.step(places);
        self.marked = None;
    }

    fn select(&mut self, index: usize) {
        let last = self.queues().len().saturating_sub(1);
        if let Some(name) = self.queues().get(index.min(last)).map(|queue| queue.name.clone()) {
            self.selected = name;
        }
    }
}

impl View for TopView {
    type Query = Query;
    type Snapshot = Snapshot;

    const KEYS: &[(&str, &str)] = &[
        ("up down", "choose a queue (also k, j)"),
        ("tab", "next pane (also left, right)"),
        ("enter l", "choose a task, show its output"),
    ];

    fn query(&self) -> Query {
        let output = self.open.as_ref().map(|open| (open.queue.clone(), open.id));
        Query { queue: self.selected_queue().map(|queue| queue.name.clone()), pane: self.pane, output }
    }

    fn update(&mut self, snapshot: Snapshot, at: Instant) {
        let index = self.selected_index().unwrap_or(0);
        for queue in &snapshot.queues {
            self.histories.entry(queue.name.clone()).or_default().record(queue.counts, at);
        }
        self.histories.retain(|name, _| snapshot.queues.iter().any(|queue| queue.name == *name));
        // The rows are not requested while the output covers them; the old ones are better than none.
        let old_detail = self.snapshot.take().and_then(|old| old.detail);
        let detail = if snapshot.output.is_some() { old_detail } else { snapshot.detail };
        self.snapshot = Some(Snapshot { detail, ..snapshot });
        if let Some(MarkedTask { row, .. }) = self.marked.filter(|_| self.open.is_none() && self.detail().is_some()) {
            self.mark(self.marked_row().unwrap_or(row));
        }
        // The selected queue was deleted: select the one that is now at its index.
        if self.selected_index().is_none() {
            self.select(index);
        }
    }

    fn handle_key(&mut self, key: Key) {
        if self.open.is_some() {
            return self.scroll(key);
        }
        let index = self.selected_index().unwrap_or(0);
        match (key, self.marked_row()) {
            // To the next row with a task above it; behind it there is always one, or none.
            (Key::Up, Some(row)) => {
                self.mark(self.row_tasks().iter().take(row).rposition(Option::is_some).unwrap_or(row))
            }
            (Key::Down, Some(row)) => self.mark(row + 1),
            (Key::Up | Key::Down, None) if self.marked.is_some() => {}
            (Key::Up, None) => self.select(index.saturating_sub(1)),
            (Key::Down, None) => self.select(index + 1),
            (Key::Open, _) => self.open_marked(),
            (Key::NextPane, _) => self.change_pane(1),
            (Key::PreviousPane, _) => self.change_pane(Pane::ALL.len() - 1),
            _ => {}
        }
    }

    fn go_back(&mut self) -> bool {
        self.open.take().is_some() || self.marked.take().is_some()
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
        draw::draw(self, frame, context);
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::Health;

    use super::*;
    use crate::commands::queue::StatusCounts;
    use crate::commands::top::fetch::Rows;
    use crate::live::tests::task;

    fn name(text: &str) -> QueueName {
        QueueName::parse(text).unwrap()
    }

    /// A snapshot of queues with these numbers of pending tasks, without detail.
    fn snapshot(queues: &[(&str, u64)]) -> Snapshot {
        let queue = |(queue, pending): &(&str, u64)| {
            let counts = StatusCounts([*pending, 0, 0, 0, 0]);
            QueueCounts { name: name(queue), counts, has_workers: true, settings: None }
        };
        Snapshot {
            health: Health { is_ok: true, api_version: "2".to_owned() },
            version: None,
            queues: queues.iter().map(queue).collect(),
            queues_left_out: 0,
            detail: None,
            output: None,
        }
    }

    fn view(queues: &[&str]) -> TopView {
        let mut view = TopView::new("http://x".to_owned(), name("default"));
        let queues: Vec<(&str, u64)> = queues.iter().map(|queue| (*queue, 1)).collect();
        view.update(snapshot(&queues), Instant::now());
        view
    }

    fn queried(view: &TopView) -> Option<String> {
        view.query().queue.map(|queue| queue.to_string())
    }

    #[test]
    fn nothing_is_asked_of_a_queue_before_it_is_known_to_exist() {
        let view = TopView::new("http://x".to_owned(), name("default"));
        assert_eq!(queried(&view), None);
    }

    #[test]
    fn the_view_begins_with_the_configured_queue_or_else_the_first() {
        assert_eq!(queried(&view(&["a", "default", "z"])).as_deref(), Some("default"));
        assert_eq!(queried(&view(&["a", "z"])).as_deref(), Some("a"));
        assert_eq!(queried(&view(&[])), None);
    }

    #[test]
    fn keys_select_queues_and_stop_at_the_ends() {
        let mut view = view(&["a", "b", "c"]);
        let mut after = |key| {
            view.handle_key(key);
            queried(&view).unwrap()
        };
        assert_eq!([Key::Down, Key::Down, Key::Down, Key::Up].map(&mut after), ["b", "c", "c", "b"]);
        assert_eq!([Key::Up, Key::Up].map(&mut after), ["a", "a"]);
    }

    #[test]
    fn a_selection_follows_its_queue_and_goes_to_the_neighbour_of_one_that_is_gone() {
        let mut view = view(&["a", "b", "c"]);
        view.handle_key(Key::Down);
        view.update(snapshot(&[("a", 1), ("aa", 1), ("b", 1), ("c", 1)]), Instant::now());
        assert_eq!(queried(&view).as_deref(), Some("b"));
        view.update(snapshot(&[("a", 1), ("aa", 1), ("c", 1)]), Instant::now());
        assert_eq!(queried(&view).as_deref(), Some("c"));
        view.update(snapshot(&[]), Instant::now());
        assert_eq!(queried(&view), None);
        assert!(view.histories.is_empty());
    }

    #[test]
    fn tab_goes_through_the_panes_both_ways() {
        let mut view = view(&["a"]);
        view.handle_key(Key::NextPane);
        assert_eq!(view.query().pane, Pane::Running);
        view.handle_key(Key::PreviousPane);
        view.handle_key(Key::PreviousPane);
        assert_eq!(view.query().pane, Pane::Failed);
    }

    #[test]
    fn details_of_another_queue_or_pane_are_not_shown() {
        let mut view = view(&["a", "b"]);
        let detail = Detail { queue: name("a"), rows: Rows::Routes(vec![]) };
        view.update(Snapshot { detail: Some(detail), ..snapshot(&[("a", 1), ("b", 1)]) }, Instant::now());
        assert!(view.detail().is_some());
        view.handle_key(Key::NextPane);
        assert!(view.detail().is_none());
        view.handle_key(Key::PreviousPane);
        view.handle_key(Key::Down);
        assert!(view.detail().is_none());
    }

    /// A view of the running tasks with these numbers.
    fn running(numbers: &[u64]) -> TopView {
        let mut view = view(&["default", "other"]);
        view.pane = Pane::Running;
        view.update(with_rows(numbers), Instant::now());
        view
    }

    fn with_rows(numbers: &[u64]) -> Snapshot {
        let rows = Rows::Running(numbers.iter().map(|number| task(*number)).collect());
        Snapshot { detail: Some(Detail { queue: name("default"), rows }), ..snapshot(&[("default", 1), ("other", 1)]) }
    }

    fn press(view: &mut TopView, keys: &[Key]) {
        keys.iter().for_each(|key| view.handle_key(*key));
    }

    #[test]
    fn a_task_is_chosen_then_opened_and_closed_in_the_same_steps() {
        let mut view = running(&[1, 2, 3]);
        press(&mut view, &[Key::Open, Key::Down, Key::Down, Key::Down, Key::Up]);
        assert_eq!(view.marked_row(), Some(1));
        assert_eq!(queried(&view).as_deref(), Some("default"), "the keys move the mark and not the queue");
        assert_eq!(view.query().output, None);
        press(&mut view, &[Key::Open]);
        assert_eq!(view.query().output, Some((name("default"), task(2).id)));
        press(&mut view, &[Key::Open, Key::Down, Key::NextPane]);
        assert_eq!(view.query().output, Some((name("default"), task(2).id)), "nothing changes behind it");
        assert!(view.go_back() && view.query().output.is_none());
        assert_eq!(view.marked_row(), Some(1));
        assert!(view.go_back() && view.marked_row().is_none());
        assert!(!view.go_back(), "now the key leaves the view");
    }

    #[test]
    fn the_mark_stays_on_its_task_and_goes_to_the_next_when_that_is_gone() {
        let mut view = running(&[1, 2, 3]);
        press(&mut view, &[Key::Open, Key::Down]);
        view.update(with_rows(&[7, 8, 1, 2]), Instant::now());
        assert_eq!(view.marked_row(), Some(3));
        view.update(with_rows(&[7, 8]), Instant::now());
        assert_eq!(view.marked_row(), Some(1));
        view.update(with_rows(&[]), Instant::now());
        assert_eq!(view.marked_row(), None);
        press(&mut view, &[Key::Open]);
        assert_eq!((view.marked_row(), view.query().output), (None, None), "there is nothing to choose");
        press(&mut view, &[Key::NextPane, Key::Open]);
        assert_eq!(view.query().output, None);
    }
}
