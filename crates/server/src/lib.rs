//! The HTTP edge: the route table and what surrounds it, and the shell that serves it ([`run()`]): listener, accept
//! loop, connections, lease scan. No backend, no SQL and no command line lives here.

mod accept;
pub mod auth;
pub mod browser;
pub mod budget;
pub mod config;
mod connection;
pub mod edge;
mod error;
mod extract;
mod idle;
mod lease_scan;
pub mod listener;
pub mod memory;
pub mod openapi;
mod prefer;
mod query;
mod request_log;
mod respond;
mod router;
mod routes;
mod run;
pub mod state;
mod waiting;

pub use config::{Config, Timeouts};
pub use listener::{ListenAddress, ListenError, Listener};
pub use run::run;
