//! On SQLite, where every server has a file of its own: what `postgres` runs, too, and what is about files, backups and TLS.

mod backup;
mod backup_with_secrets;
mod certificates;
pub(crate) mod clock;
#[path = "../contract/mod.rs"]
mod contract;
#[path = "../contract_http/mod.rs"]
mod contract_http;
mod database;
mod files;
mod migrate;
mod monitoring;
mod reloading;
mod restore;
mod startup_sqlite;
#[path = "../support/mod.rs"]
pub(crate) mod support;
mod tls;
