//! The server over the model store: routes and pages without a network, and over real sockets what only those show.
#![allow(clippy::unwrap_used, reason = "a test may end by panic")]

mod batches;
mod budgets;
mod disconnects;
mod http_service;
mod lease_scan;
mod openapi;
mod pages;
mod request_log;
mod requests;
mod support;
mod upkeep;
mod waiting;
mod waiting_output;
