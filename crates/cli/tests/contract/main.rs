//! The contract, tested from outside: the real binary, plain HTTP, one module per topic of `api-v2.md` and `decisions.md`.
//! What needs minutes of waiting (lease expiry, outage credit) is tested elsewhere with a passed-in clock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authentication;
mod bulk_updates;
mod claims;
mod concurrency;
mod counts;
mod creation;
mod cursors;
mod discovery;
mod durability;
mod errors;
mod filter_dynamic;
mod filter_grammar;
mod filter_refusals;
mod filter_typed;
mod fuzzy;
mod hostile;
mod http_details;
mod identifiers;
mod json_handling;
mod lifecycle;
mod listing;
mod logs;
mod order_of_checks;
mod query_parameters;
mod queues;
mod runs;
mod startup;
mod support;
mod task_fields;
mod updates;
mod workers;
