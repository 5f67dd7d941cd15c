//! The part of the contract that no database has to do with: HTTP itself, browsers, tokens, logs, probes, the schema. So it runs on
//! SQLite only; `contract` runs on both.

mod browsers;
mod discovery;
mod http_details;
mod logs;
mod probes;
mod query_parameters;
mod tokens;

use super::{database, support};
