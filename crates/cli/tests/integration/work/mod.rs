//! `taskqueue loop` as a black box: the real server, the real worker, real commands. The calls of a worker are tested in detail in the
//! crate `worker`, with a scripted server.

mod batches;
mod daemons;
mod disks;
mod environment;
mod fake_servers;
mod idle;
mod limits;
mod many_runs;
mod outages;
mod outcomes;
mod output;
mod places;
mod printing;
mod processes;
mod progress;
mod refusals;
mod revocation;
mod run_dirs;
mod server;
mod services;
mod signals;
mod support;
mod telemetry;
mod templates;
mod terminals;
mod traces;
