//! What a server offers beyond the contract, and its health. Unknown fields of requests are refused, so a client that wants to
//! use an extension asks first (docs/decisions/0033).

use taskqueue_core::json::{ObjectWriter, Value, write_array, write_string};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable};

listed_texts! {
    /// The extensions that this version has completely, sorted. A name is added here when everything that it stands for works
    /// on every backend.
    FEATURES;
    /// Tasks that have ended can be archived: lists and counts leave them out.
    ARCHIVE = "archive";
    /// Many creations, claims or reports in one request.
    BATCH = "batch";
    /// All tasks that match a filter can be cancelled, requeued or deleted with one request.
    BULK_ACTIONS = "bulk-actions";
    /// Tasks may have `not_before` and `retry_delay`; fail and unclaim may say how long a task waits.
    DELAY = "delay";
    /// Tasks may wait for others: `dependencies`, `on_dependency_failure`.
    DEPENDENCIES = "dependencies";
    /// Tasks can be asked why they are not claimed.
    EXPLAIN = "explain";
    /// Updates accept `args_patch` and `metadata_patch`.
    MERGE_UPDATES = "merge-updates";
    /// Runs may send what they print, and it can be read.
    OUTPUT = "output";
    /// Runs may say how far they are, and tasks show it.
    PROGRESS = "progress";
    /// Queues have settings: pause, limits and retention.
    QUEUE_SETTINGS = "queue-settings";
    /// Claims accept `worker`, and tasks show `last_run`.
    RUN_INFO = "run-info";
    /// Queues show what is going on in them, and what happened over time.
    STATS = "stats";
    /// Workers may say what they measure, and observations show it.
    TELEMETRY = "telemetry";
    /// Tasks may limit the time of their runs.
    TIMEOUT = "timeout";
    /// Claims, heartbeats and reads of output follow `Prefer: wait=N`.
    WAIT = "wait";
}

/// The extensions of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, ToSchema)]
pub struct Capabilities {
    /// Their names, sorted.
    #[schema(example = json!(["merge-updates"]))]
    pub features: Vec<String>,
}

impl Capabilities {
    /// Returns whether the server has an extension, such as [`MERGE_UPDATES`].
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|name| name == feature)
    }

    /// The first extension of this version that the server lacks. Output does not count: a server may be told to keep none.
    pub fn first_missing(&self) -> Option<&'static str> {
        FEATURES.into_iter().find(|feature| *feature != OUTPUT && !self.has(feature))
    }

    /// Appends the capabilities of this version, without those that are turned off.
    pub fn write(out: &mut Vec<u8>, turned_off: &[&str]) {
        let features = FEATURES.into_iter().filter(|feature| !turned_off.contains(feature));
        ObjectWriter::append_to(out).field("features", |out| write_array(out, features, write_string)).end();
    }

    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        let capabilities = ObjectReader::of(value, "capabilities")?;
        Ok(Self { features: capabilities.parsed_list("features", |name| Some(name.to_owned()))? })
    }
}

/// The health of the server and its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub is_ok: bool,
    /// The version of the API, `2`.
    pub api_version: String,
}

impl Health {
    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        let health = ObjectReader::of(value, "health")?;
        let is_ok = health.text("status")? == "ok" && health.text("database")? == "ok";
        Ok(Self { is_ok, api_version: health.text("api_version")?.to_owned() })
    }
}

/// A server that works.
#[derive(ToSchema)]
#[schema(as = Health)]
pub struct Healthy {
    /// `ok`
    #[schema(pattern = "^ok$")]
    pub status: String,
    /// `2`
    #[schema(pattern = "^2$")]
    pub api_version: String,
    /// `ok`
    #[schema(pattern = "^ok$")]
    pub database: String,
}

impl Healthy {
    pub const JSON: &'static str = r#"{"status":"ok","api_version":"2","database":"ok"}"#;
}

/// A server whose database does not work.
#[derive(ToSchema)]
pub struct Unhealthy {
    /// `error`
    #[schema(pattern = "^error$")]
    pub status: String,
    /// `2`
    #[schema(pattern = "^2$")]
    pub api_version: String,
    /// `error`
    #[schema(pattern = "^error$")]
    pub database: String,
}

impl Unhealthy {
    pub const JSON: &'static str = r#"{"status":"error","api_version":"2","database":"error"}"#;
}

/// A server that answers, or that takes requests: which of both is the question of the path.
#[derive(ToSchema)]
pub struct Probe {
    /// `ok`
    #[schema(pattern = "^ok$")]
    pub status: String,
}

impl Probe {
    pub const JSON: &'static str = r#"{"status":"ok"}"#;
}
