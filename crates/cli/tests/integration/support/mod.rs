//! The harness: the server process, a small HTTP/1.1 client, shortcuts for the API and the checks that every answer must pass.
//! No rule of a single endpoint lives here.

mod api;
mod check;
mod fake_server;
mod files;
mod http;
mod process;
mod ran;
mod requests;
mod shared;
mod tls;

pub(crate) use api::*;
pub(crate) use check::*;
pub(crate) use fake_server::*;
pub(crate) use files::*;
pub(crate) use http::*;
pub(crate) use process::*;
pub(crate) use ran::Ran;
pub(crate) use requests::*;
pub(crate) use shared::*;
pub(crate) use tls::*;
