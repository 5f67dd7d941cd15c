//! The state of `taskqueue top`: keys choose a queue and a pane, snapshots change what is known. Pure; `draw/` shows it.

use std::collections::BTreeMap;
use std::time::Instant;

use ratatui::Frame;
use taskqueue_client::QueueName;

use super::draw;
use super::fetch::Query;
use super::rates::History;
use super::snapshot::{Detail, Pane, QueueCounts, Snapshot};
use crate::live::{Key, Moment, View};

/// What `top` shows and what people chose.
#[derive(Debug)]
pub(super) struct TopView {
    /// Where the server is.
    pub(super) url: String,
    pub(super) pane: Pane,
    pub(super) snapshot: Option<Snapshot>,
    selected: QueueName,
    histories: BTreeMap<QueueName, History>,
}

impl TopView {
    /// A view that begins with the queue `favourite`, if the server has it.
    pub(super) fn new(url: String, favourite: QueueName) -> Self {
        let (pane, histories) = (Pane::default(), BTreeMap::new());
        Self { url, pane, snapshot: None, selected: favourite, histories }
    }

    pub(super) fn queues(&self) -> &[QueueCounts] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.queues)
    }

    /// The place of the selected queue among those that are shown.
    pub(super) fn selected(&self) -> Option<usize> {
        self.queues().iter().position(|queue| queue.name == self.selected)
    }

    pub(super) fn selected_queue(&self) -> Option<&QueueCounts> {
        self.selected().and_then(|index| self.queues().get(index))
    }

    pub(super) fn history(&self, queue: &QueueName) -> Option<&History> {
        self.histories.get(queue)
    }

    /// What is known of the selected queue for the present pane; nothing until it was asked for.
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

    fn take(&mut self, snapshot: Snapshot, at: Instant) {
        let place = self.selected().unwrap_or(0);
        for queue in &snapshot.queues {
            self.histories.entry(queue.name.clone()).or_default().note(queue.counts, at);
        }
        self.histories.retain(|name, _| snapshot.queues.iter().any(|queue| queue.name == *name));
        self.snapshot = Some(snapshot);
        // The selected queue is gone: its neighbour takes its place.
        if self.selected().is_none() {
            self.select(place);
        }
    }

    fn press(&mut self, key: Key) {
        let place = self.selected().unwrap_or(0);
        match key {
            Key::Up => self.select(place.saturating_sub(1)),
            Key::Down => self.select(place + 1),
            Key::Next => self.pane = self.pane.step(1),
            Key::Previous => self.pane = self.pane.step(Pane::ALL.len() - 1),
            _ => {}
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, moment: &Moment<'_>) {
        draw::draw(self, frame, moment);
    }
}

#[cfg(test)]
mod tests;
