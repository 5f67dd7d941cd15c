//! The settings of a queue.

use anstyle::AnsiColor;
use taskqueue_client::{QueueName, QueueSettings, Status};
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record};
use crate::scheduling_view::seconds_in_words;

#[derive(Debug)]
pub(crate) struct SettingsRecord<'a> {
    pub(crate) queue: &'a QueueName,
    pub(crate) settings: &'a QueueSettings,
}

impl SettingsRecord<'_> {
    fn kept(&self, status: Status) -> Cell {
        let seconds = self.settings.retention.seconds(status);
        Cell::new(seconds.map_or_else(|| "for ever".to_owned(), seconds_in_words))
    }
}

fn limit(most: Option<u64>) -> Cell {
    Cell::new(most.map_or_else(|| "no limit".to_owned(), |most| most.to_string()))
}

impl Record for SettingsRecord<'_> {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::text("queue"),
        Column::text("paused"),
        Column::number("max running"),
        Column::shrinking("max running by route"),
        Column::text("succeeded tasks are kept"),
        Column::text("failed tasks are kept"),
        Column::text("cancelled tasks are kept"),
    ];

    const FIELDS: &'static [&'static str] = &[
        "paused",
        "max_running",
        "route_limits",
        "retention.succeeded_seconds",
        "retention.failed_seconds",
        "retention.cancelled_seconds",
    ];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let QueueSettings { paused, max_running, route_limits, .. } = self.settings;
        let paused = if *paused { Cell::new("yes").coloured(AnsiColor::Yellow) } else { Cell::new("no") };
        let routes: Vec<String> = route_limits.iter().map(|(route, most)| format!("{route}={most}")).collect();
        vec![
            Cell::new(self.queue.as_str()),
            paused,
            limit(*max_running),
            if routes.is_empty() { limit(None) } else { Cell::new(routes.join(", ")) },
            self.kept(Status::Succeeded),
            self.kept(Status::Failed),
            self.kept(Status::Cancelled),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.settings.to_json().as_bytes());
    }

    fn key(&self) -> String {
        self.queue.to_string()
    }
}
