//! The HTTP server: the route table, the steps of every request around it, and the shell that serves it ([`run()`]):
//! listener, accept loop, connections, lease scan, upkeep, saving of activity. No backend, no SQL and no command line lives here.

mod accept;
pub mod auth;
mod background;
pub mod browser_check;
pub mod config;
mod connection;
mod dashboard_host;
mod endpoints;
mod error;
mod extract;
pub mod http_service;
mod idle_connections;
pub mod listener;
pub mod memory_budget;
pub mod memory_plan;
pub mod metrics;
mod pages;
mod path;
mod prefer;
mod readiness;
mod request_log;
mod respond;
mod router;
mod routes;
mod run;
pub mod state;
mod throttled_line;
pub mod tls;
mod waiting;

pub use config::{Config, Limits, Timeouts};
pub use listener::{ListenAddress, ListenError, Listener};
pub use run::{Listeners, answer_until, run};
pub use taskqueue_dashboard::Mode as DashboardMode;
