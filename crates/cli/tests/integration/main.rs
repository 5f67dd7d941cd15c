//! The product from outside: the real binary with real databases, shells and terminals. All of it is one program, because each
//! one links the whole product. What measures is in another, which nothing runs beside: `measured`.
//!
//! `contract` runs on both databases: it is a module of `sqlite` and of `postgres`, with a harness (`support`) whose servers have
//! that database. So its files name the harness by way of `super`, not of `crate`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "what runs on both databases is a module of each")]

mod book;
mod commands;
mod live;
mod postgres;
mod scale_out;
mod sqlite;
mod transfer;
mod work;

// For those that run on one database only, or say themselves which.
use sqlite::support;
