//! The contract, tested from outside: the real binary, plain HTTP, one module per topic of `docs/reference/`. Every database
//! passes these tests: they are part of `sqlite` and of `postgres`. What no database has to do with is in `contract_http`.
//! What needs minutes of waiting (lease expiry, outage credit) is tested elsewhere with a passed-in clock.

mod archive;
mod batches;
mod bulk_actions;
mod bulk_updates;
mod check;
mod claims;
mod concurrency;
mod counts;
mod creation;
mod cursors;
mod delays;
mod dependencies;
mod durability;
mod errors;
mod explain;
mod filter_page;
mod hostile;
mod identifiers;
mod lifecycle;
mod listing;
mod metrics;
mod order_of_checks;
mod output;
mod progress;
mod queue_settings;
mod queues;
mod runs;
mod startup;
mod stats;
mod task_fields;
mod telemetry;
mod timeouts;
mod waiting;
mod workers;

use super::support;
