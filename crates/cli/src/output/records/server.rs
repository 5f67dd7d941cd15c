//! What is known of the server and of the way to it.

use anstyle::AnsiColor;
use taskqueue_client::Health;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::time::Timestamp;

use crate::config::Setting;
use crate::output::{Cell, Column, Record};

/// How a server is.
#[derive(Debug)]
pub(crate) struct HealthRecord<'a> {
    /// Where it is.
    pub(crate) url: &'a str,
    /// What it said.
    pub(crate) health: Health,
}

impl HealthRecord<'_> {
    fn word(&self) -> &'static str {
        if self.health.is_ok { "ok" } else { "error" }
    }
}

impl Record for HealthRecord<'_> {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("status"), Column::text("api_version"), Column::text("url")];

    const FIELDS: &'static [&'static str] = &["status", "api_version", "url"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let colour = if self.health.is_ok { AnsiColor::Green } else { AnsiColor::Red };
        vec![Cell::new(self.word()).coloured(colour), Cell::new(&self.health.api_version), Cell::new(self.url)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .text("status", self.word())
            .text("api_version", &self.health.api_version)
            .text("url", self.url)
            .end();
    }

    fn key(&self) -> String {
        self.word().to_owned()
    }
}

/// One value of the configuration and where it comes from. The token is not among the values.
#[derive(Debug)]
pub(crate) struct SettingRecord<'a>(pub(crate) &'a Setting);

impl Record for SettingRecord<'_> {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("NAME"), Column::text("VALUE"), Column::shrinking("SOURCE")];

    const FIELDS: &'static [&'static str] = &["name", "value", "source"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(&self.0.name), Cell::new(&self.0.value), Cell::new(&self.0.source)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let Setting { name, value, source } = self.0;
        ObjectWriter::append_to(out).text("name", name).text("value", value).text("source", source).end();
    }

    fn key(&self) -> String {
        format!("{}={}", self.0.name, self.0.value)
    }
}
