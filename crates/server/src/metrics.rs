//! What `GET /metrics` shows: all metrics are in `list.rs`. A scrape is computed at most once a second for each format, whoever
//! asks, and never by two at once. The handler is in `routes/discovery.rs`.

mod labels;
pub mod list;
mod requests;
mod snapshot;
mod text;

pub(crate) use self::requests::{PathTemplate, RequestCounts};
pub(crate) use self::snapshot::{MetricSources, Metrics, resident_bytes};
pub(crate) use self::text::TextFormat;
