//! The rules as other crates see them: laws that hold for all values and histories, and tables that say what is decided.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod any_action;
mod exact_limits;
mod filter_properties;
mod json_properties;
mod lifecycle_properties;
mod prelude;
mod samples;
mod selection;
mod stored_size;
mod waiting;

// `any_action` and `samples` are compiled into the unit tests, too, where these are modules of the crate.
use taskqueue_core::{definition, ids, json, lifecycle, observation, refusal, task, time};
