//! What valid but costly requests may do to others: nothing much. The real binary under attack, by 64 requests at
//! once, while another client measures, on both databases. One file per family of attacks. A new one implements
//! `harness::Attack`: its data and its requests.
//!
//! `TASKQUEUE_COST_ROWS` sets the number of small tasks of `many_rows.rs`, and `TASKQUEUE_COST_SECONDS` how long an
//! attack lasts. More of both, by hand, with a release build:
//! `TASKQUEUE_COST_ROWS=1000000 TASKQUEUE_COST_SECONDS=30 cargo test --release -p taskqueue --test measured cost::`

mod bulk_updates;
mod fuzzy_names;
mod harness;
mod large_batches;
mod large_documents;
mod many_rows;
mod probes;

use super::support;
