//! The client commands, tested from outside: the real binary against a real server, what it prints and how it exits.
//! What the server itself does is tested in `contract`.

mod actions;
mod archiving;
mod configuration;
mod counting;
mod destinations;
mod errors;
mod explaining;
mod holding_server;
mod listing;
mod logs;
mod lost_answers;
mod manual;
mod output;
mod progress;
mod queue_settings;
mod queue_stats;
mod queues;
mod reporting_progress;
pub(crate) mod running;
mod scheduling;
mod server_settings;
mod submitting;
mod submitting_batches;
mod support;
mod sweeping;
mod terminal;
mod updating;
mod waiting;
