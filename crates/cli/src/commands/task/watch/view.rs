//! The screen of `task list --watch`: the same table as `task list`, with what changed since the last look marked.

use std::collections::HashSet;
use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use taskqueue_client::{Page, QueueName, Task, TaskId};

use super::changes::changed;
use crate::live::{self, Key, Moment, Table, View, clock};

/// What is left out of the table where there is no room.
const LEAVE_OUT: &[&str] = &["PRIORITY", "CREATED", "ROUTES", "ARGS", "ATTEMPT", "UPDATED"];
const KEYS: &[(&str, &str)] = &[("up down", "scroll (also k, j)")];
const FEW_KEYS: &str = "q leave  ? keys  space pause";

/// The list and what changed in it.
#[derive(Debug)]
pub(super) struct WatchView {
    queue: QueueName,
    /// The latest page; nothing before the first.
    page: Option<Page<Task>>,
    /// Tasks that were not there or different in the page before.
    changed: HashSet<TaskId>,
    /// How many tasks are scrolled away at the top.
    scrolled: usize,
}

impl WatchView {
    pub(super) fn new(queue: QueueName) -> Self {
        Self { queue, page: None, changed: HashSet::new(), scrolled: 0 }
    }

    fn tasks(&self) -> &[Task] {
        self.page.as_ref().map_or(&[], |page| &page.items)
    }

    fn draw_tasks(&self, frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>) {
        if self.tasks().is_empty() {
            let told = if self.page.is_some() { "no tasks" } else { "connecting" };
            return frame.render_widget(Line::styled(told, moment.theme.quiet()), area);
        }
        let (head, lines) = Table::of(self.tasks(), moment.clock).lines(area.width, LEAVE_OUT, moment.theme);
        let marked = lines.into_iter().zip(self.tasks()).map(|(line, task)| {
            if self.changed.contains(&task.id) { line.patch_style(moment.theme.marked()) } else { line }
        });
        // The last page of tasks stays full.
        let height = usize::from(area.height.saturating_sub(1));
        let start = self.scrolled.min(self.tasks().len().saturating_sub(height));
        for (line, row) in std::iter::once(head).chain(marked.skip(start)).zip(area.rows()) {
            frame.render_widget(line, row);
        }
    }

    /// How many tasks there were, of which queue, and when.
    fn told(&self, moment: &Moment<'_>) -> Vec<String> {
        let more = self.page.as_ref().is_some_and(|page| page.next_cursor.is_some());
        let count = match self.tasks().len() {
            1 if !more => "1 task".to_owned(),
            count => format!("{count}{} tasks", if more { "+" } else { "" }),
        };
        let age = moment.contact.age(moment.now).unwrap_or_default();
        let asked_at = moment.clock.plus_seconds(-i64::try_from(age.as_secs()).unwrap_or(0));
        vec![format!("{count} in {}", self.queue), clock(asked_at)]
    }
}

impl View for WatchView {
    type Query = ();
    type Snapshot = Page<Task>;

    fn query(&self) {}

    fn take(&mut self, page: Page<Task>, _at: Instant) {
        // Everything is new at first, which says nothing.
        let changed = self.page.as_ref().map(|before| changed(&before.items, &page.items));
        self.changed = changed.unwrap_or_default();
        self.scrolled = self.scrolled.min(page.items.len().saturating_sub(1));
        self.page = Some(page);
    }

    fn press(&mut self, key: Key) {
        match key {
            Key::Up => self.scrolled = self.scrolled.saturating_sub(1),
            Key::Down => self.scrolled = (self.scrolled + 1).min(self.tasks().len().saturating_sub(1)),
            _ => {}
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, moment: &Moment<'_>) {
        let area = frame.area();
        if moment.controls.help {
            return live::help(frame, area, KEYS, moment.theme);
        }
        let trouble = live::trouble(moment.contact, moment.now, moment.theme);
        let [alarm, tasks, footer] = area.layout(&Layout::vertical([
            Constraint::Length(trouble.is_some().into()),
            Constraint::Fill(1),
            Constraint::Length(1),
        ]));
        frame.render_widget(trouble.unwrap_or_default(), alarm);
        self.draw_tasks(frame, tasks, moment);
        frame.render_widget(live::footer(moment.controls, moment.theme, &self.told(moment), FEW_KEYS), footer);
    }
}

#[cfg(test)]
mod tests;
