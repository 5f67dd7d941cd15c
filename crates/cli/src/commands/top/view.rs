//! The state of `taskqueue top`: the selected queue and pane, the latest snapshot and the history. Pure; `draw/` draws it.

use std::collections::BTreeMap;
use std::time::Instant;

use ratatui::Frame;
use taskqueue_client::QueueName;

use super::draw;
use super::fetch::Query;
use super::rates::History;
use super::snapshot::{Detail, Pane, QueueCounts, Snapshot};
use crate::live::{DrawContext, Key, View};

#[derive(Debug)]
pub(super) struct TopView {
    pub(super) url: String,
    pub(super) pane: Pane,
    pub(super) snapshot: Option<Snapshot>,
    selected: QueueName,
    histories: BTreeMap<QueueName, History>,
}

impl TopView {
    /// Selects the queue `preferred` first, if the server has it.
    pub(super) fn new(url: String, preferred: QueueName) -> Self {
        let (pane, histories) = (Pane::default(), BTreeMap::new());
        Self { url, pane, snapshot: None, selected: preferred, histories }
    }

    pub(super) fn queues(&self) -> &[QueueCounts] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.queues)
    }

    /// The index of the selected queue in `queues`.
    pub(super) fn selected_index(&self) -> Option<usize> {
        self.queues().iter().position(|queue| queue.name == self.selected)
    }

    pub(super) fn selected_queue(&self) -> Option<&QueueCounts> {
        self.selected_index().and_then(|index| self.queues().get(index))
    }

    pub(super) fn history(&self, queue: &QueueName) -> Option<&History> {
        self.histories.get(queue)
    }

    /// The rows of the open pane; none until they were requested.
    pub(super) fn detail(&self) -> Option<&Detail> {
        let detail = self.snapshot.as_ref()?.detail.as_ref()?;
        (detail.queue == self.selected && detail.rows.pane() == self.pane).then_some(detail)
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

    fn query(&self) -> Query {
        Query { queue: self.selected_queue().map(|queue| queue.name.clone()), pane: self.pane }
    }

    fn update(&mut self, snapshot: Snapshot, at: Instant) {
        let index = self.selected_index().unwrap_or(0);
        for queue in &snapshot.queues {
            self.histories.entry(queue.name.clone()).or_default().record(queue.counts, at);
        }
        self.histories.retain(|name, _| snapshot.queues.iter().any(|queue| queue.name == *name));
        self.snapshot = Some(snapshot);
        // The selected queue was deleted: select the one that is now at its index.
        if self.selected_index().is_none() {
            self.select(index);
        }
    }

    fn handle_key(&mut self, key: Key) {
        let index = self.selected_index().unwrap_or(0);
        match key {
            Key::Up => self.select(index.saturating_sub(1)),
            Key::Down => self.select(index + 1),
            Key::NextPane => self.pane = self.pane.step(1),
            Key::PreviousPane => self.pane = self.pane.step(Pane::ALL.len() - 1),
            _ => {}
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
        draw::draw(self, frame, context);
    }
}

#[cfg(test)]
mod tests;
