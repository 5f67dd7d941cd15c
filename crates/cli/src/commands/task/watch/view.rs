//! The live view of `task list --watch`: the table of `task list` with changed tasks highlighted.

use std::collections::HashSet;
use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use taskqueue_client::{Page, QueueName, Task, TaskId};

use super::changes::changed;
use crate::field_path::FieldPath;
use crate::live::{self, DrawContext, Key, Table, View, clock};
use crate::output::{Record, expanded, field_cells, field_columns};

const KEYS: &[(&str, &str)] = &[("up down", "scroll (also k, j)")];
const FEW_KEYS: &str = "q leave  ? keys  space pause";

#[derive(Debug)]
pub(super) struct WatchView {
    queue: QueueName,
    /// The columns that the user named.
    named: Option<Vec<FieldPath>>,
    /// The same, with those that the latest page has in place of wildcards.
    fields: Option<Vec<FieldPath>>,
    /// The latest page.
    page: Option<Page<Task>>,
    /// Tasks that are new or different since the page before.
    changed: HashSet<TaskId>,
    /// How many tasks are above the screen.
    scroll: usize,
}

impl WatchView {
    pub(super) fn new(queue: QueueName, named: Option<Vec<FieldPath>>) -> Self {
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
        let (table, leave_out) = self.table(context);
        let (head, lines) = table.lines(area.width, leave_out, context.theme);
        let marked = lines.into_iter().zip(self.tasks()).map(|(line, task)| {
            if self.changed.contains(&task.id) { line.patch_style(context.theme.marked()) } else { line }
        });
        // Scrolling stops when the last task is visible.
        let height = usize::from(area.height.saturating_sub(1));
        let start = self.scroll.min(self.tasks().len().saturating_sub(height));
        for (line, row) in std::iter::once(head).chain(marked.skip(start)).zip(area.rows()) {
            frame.render_widget(line, row);
        }
    }

    /// The table of `task list`, and the columns that are left out where there is no room.
    fn table(&self, context: &DrawContext<'_>) -> (Table<'_>, &'static [&'static str]) {
        match &self.fields {
            Some(fields) => {
                let rows = self.tasks().iter().map(|task| field_cells(fields, task, context.clock)).collect();
                (Table::new(&field_columns(fields), rows), &[])
            }
            None => (Table::of(self.tasks(), context.clock), Task::LEAVE_OUT),
        }
    }

    /// The number of tasks, the queue, and the time of the data.
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
        let area = frame.area();
        if context.controls.shows_help {
            return live::help(frame, area, KEYS, context.theme);
        }
        let error = live::error_line(context.connection, context.now, context.theme);
        let [error_area, tasks, footer] = area.layout(&Layout::vertical([
            Constraint::Length(error.is_some().into()),
            Constraint::Fill(1),
            Constraint::Length(1),
        ]));
        frame.render_widget(error.unwrap_or_default(), error_area);
        self.draw_tasks(frame, tasks, context);
        frame.render_widget(
            live::footer(context.controls, context.theme, &self.footer_notes(context), FEW_KEYS),
            footer,
        );
    }
}

#[cfg(test)]
mod tests;
