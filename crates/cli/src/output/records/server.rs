//! What is known of the server and of the way to it; its tokens, as they stand in its file, and a new one; and the workers that it has
//! heard of, also in a wide form with what they measured.

use anstyle::AnsiColor;
use taskqueue_api::worker::write_observation;
use taskqueue_client::{Health, JsonObject, Observation, WorkerStatus};
use taskqueue_core::json::{ObjectWriter, write_array, write_string};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;
use taskqueue_core::words::telemetry::{Measure, Telemetry};

use crate::config::Setting;
use crate::files::hex;
use crate::output::{Cell, Columns, Record, columns};
use crate::tokens_file::FileToken;

/// The health of a server.
#[derive(Debug)]
pub(crate) struct HealthRecord<'a> {
    /// Its address.
    pub(crate) url: &'a str,
    /// Its answer.
    pub(crate) health: Health,
}

impl HealthRecord<'_> {
    fn word(&self) -> &'static str {
        if self.health.is_ok { "ok" } else { "error" }
    }
}

impl Record for HealthRecord<'_> {
    const COLUMNS: Columns = columns![text "status", text "api_version", text "url"];

    const FIELDS: &'static str = "status,api_version,url";

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
}

/// One value of the configuration and where it comes from. The token is not among the values.
impl Record for Setting {
    const COLUMNS: Columns = columns![text "NAME", text "VALUE", shrinking "SOURCE"];

    const FIELDS: &'static str = "name,value,source";

    fn write_json(&self, out: &mut Vec<u8>) {
        let Self { name, value, source } = self;
        ObjectWriter::append_to(out).text("name", name).text("value", value).text("source", source).end();
    }

    fn key(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// A token of a file, without the token.
impl Record for FileToken {
    const COLUMNS: Columns = columns![text "NAME", text "SCOPES", text "QUEUES", text "EXPIRES"];

    const FIELDS: &'static str = "name,scopes,queues,expires_at";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let expires = match self.expires_at {
            None => Cell::new("never").dimmed(),
            Some(end) if end <= now => Cell::new(format!("expired {}", words::age(end, now))).coloured(AnsiColor::Red),
            Some(end) => Cell::new(words::age(end, now)),
        };
        vec![Cell::new(&self.name), Cell::new(scopes(self).join(",")), Cell::new(queues(self).join(",")), expires]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        members(ObjectWriter::append_to(out), self).end();
    }
}

/// A new token, which is shown this once.
pub(crate) struct NewTokenRecord<'a> {
    pub(crate) token: &'a str,
    pub(crate) entry: &'a FileToken,
}

impl Record for NewTokenRecord<'_> {
    const FIELDS: &'static str = "name,token,sha256";

    fn write_json(&self, out: &mut Vec<u8>) {
        let object = members(ObjectWriter::append_to(out).text("token", self.token), self.entry);
        object.text("lines", &self.entry.to_string()).end();
    }

    fn key(&self) -> String {
        self.token.to_owned()
    }
}

fn scopes(token: &FileToken) -> Vec<&str> {
    token.grant.scopes.named().map(|scope| scope.as_str()).collect()
}

fn queues(token: &FileToken) -> Vec<&str> {
    token.grant.queues.iter().map(|pattern| pattern.as_str()).collect()
}

/// Writes what the file says of a token.
fn members<'o>(object: ObjectWriter<&'o mut Vec<u8>>, token: &FileToken) -> ObjectWriter<&'o mut Vec<u8>> {
    let end = token.expires_at.map(|end| end.to_string());
    object
        .text("name", &token.name)
        .text("sha256", &hex(&token.digest))
        .field("scopes", |out| write_array(out, scopes(token), write_string))
        .field("queues", |out| write_array(out, queues(token), write_string))
        .text_or_null("expires_at", end.as_deref())
}

/// The place of the column EXPIRES, which the wide form has no room for.
const EXPIRES: usize = 5;

impl Record for Observation {
    // Workers of one machine differ at the end of WHERE, so it is not cut as much as others are.
    const COLUMNS: Columns = columns![
        text "ID", text "STATUS", shrinking "ROUTE", text "TASK", text "LAST SEEN", text "EXPIRES",
        shrinking_to "WHERE" 20
    ];

    const LEAVE_OUT: &'static [&'static str] = &["EXPIRES", "LAST SEEN", "ROUTE", "TASK", "WHERE"];

    const FIELDS: &'static str =
        "id,queue,route,status,task_id,last_seen_at,expires_at,metadata.host,metadata.slot,metadata.pid";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(self.id.as_str()),
            status_cell(self),
            Cell::new(self.report.route.as_str()),
            Cell::optional(self.report.task_id.as_ref().map(|id| id.as_str())),
            Cell::new(words::age(self.last_seen_at, now)),
            Cell::new(words::age(self.expires_at, now)),
            Cell::optional(worker_place(&self.report.metadata)),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self);
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}

/// An observation with what the worker measured.
#[derive(Debug)]
pub(crate) struct WideWorker<'o>(pub(crate) &'o Observation);

impl Record for WideWorker<'_> {
    const COLUMNS: Columns = columns![
        text "ID", text "STATUS", shrinking "ROUTE", text "TASK", text "LAST SEEN", shrinking "WHERE", number "CPU",
        number "MEMORY", with_values "GPUS" 12, with_values "TELEMETRY" 12, text "MEASURED"
    ];

    const LEAVE_OUT: &'static [&'static str] = &["MEASURED", "LAST SEEN", "ROUTE", "TELEMETRY", "TASK", "WHERE"];

    const FIELDS: &'static str = "id,queue,route,status,task_id,last_seen_at,expires_at,metadata.host,metadata.slot,metadata.pid,\
         telemetry.cpu_percent,telemetry.memory_bytes,telemetry.gpus,telemetry_updated_at";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let worker = self.0;
        let seen = worker.telemetry.as_ref().map(|telemetry| Telemetry::of(telemetry.value.as_str()));
        let seen = seen.unwrap_or_default();
        let text = |measure: Option<Measure>| Cell::optional(measure.map(|measure| measure.text));
        let gpus = seen.gpus.iter().map(|gpu| format!("{}: {}", gpu.index, gpu.words(" "))).collect::<Vec<_>>();
        let gpus = Some(gpus.join(", ")).filter(|gpus| !gpus.is_empty());
        let mut cells = worker.cells(now);
        cells.remove(EXPIRES);
        cells.extend([
            text(seen.cpu),
            text(seen.memory),
            Cell::optional(gpus),
            Cell::optional(seen.other),
            Cell::optional(worker.telemetry.as_ref().map(|telemetry| words::age(telemetry.updated_at, now))),
        ]);
        cells
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self.0);
    }
}

fn status_cell(worker: &Observation) -> Cell {
    let colour = match worker.report.status {
        WorkerStatus::Busy => AnsiColor::Cyan,
        WorkerStatus::Idle => AnsiColor::Green,
    };
    Cell::new(worker.report.status.as_str()).coloured(colour)
}

/// `gpu-3, slot 0, pid 4711`: as far as the worker says. Other workers than ours say what they like.
pub(crate) fn worker_place(metadata: &JsonObject) -> Option<String> {
    let host = metadata.text("host")?;
    let number = |name: &str| metadata.integer(name).map(|number| format!(", {name} {number}")).unwrap_or_default();
    let name = metadata.text("name").map(|name| format!(" ({name})")).unwrap_or_default();
    Some(format!("{host}{name}{}{}", number("slot"), number("pid")))
}
