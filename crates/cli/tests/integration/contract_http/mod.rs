//! The part of the contract that no database has to do with: HTTP itself, browsers, tokens, logs, probes, the schema. So it runs on
//! SQLite only; `contract` runs on both.

mod addresses;
mod authentication;
mod browsers;
mod discovery;
mod hostile;
mod http_details;
mod json_handling;
mod logs;
mod metrics;
mod probes;
mod query_parameters;
mod tokens;

use super::{database, support};
