//! The two peers with our API: this server, and labtasker-server. The load is that of the other measurements.

use std::net::SocketAddr;
use std::rc::Rc;

use super::daemon::Daemon;
use super::{Rates, Setting};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::fill;
use crate::load::{self, Load};
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::process::Server;
use crate::request;

/// This server, on SQLite.
pub(super) async fn taskqueue(setting: &Setting<'_>) -> Result<Rates> {
    let server = Server::on_sqlite(&setting.args.server.binary, &setting.folder)?;
    measure(setting, server.address, server.pid()).await
}

/// labtasker-server, on SQLite.
pub(super) async fn labtasker(setting: &Setting<'_>) -> Result<Rates> {
    let program = setting.args.peers_dir.join("venv/bin/labtasker-server");
    let program = program.canonicalize().unwrap_or(program);
    let folder = setting.folder.canonicalize()?;
    let daemon = Daemon::start(&program, &folder, |command, port| {
        command.args(["serve", "--connection", "http", "--host", "127.0.0.1", "--port", &port.to_string()]);
        command.arg("--database").arg(folder.join("bench.db")).arg("--labtasker-root").arg(&folder);
    });
    let daemon = daemon.await?;
    let mut client = Client::connect(daemon.address).await?;
    for phase in [Phase::Create, Phase::ClaimComplete] {
        let answer = client.send(&request::create_queue(daemon.address, phase.queue())).await?;
        if answer.status != 201 {
            return Err(Failure::new(format!("a queue could not be created: {}", answer.status)));
        }
    }
    measure(setting, daemon.address, daemon.pid()).await
}

async fn measure(setting: &Setting<'_>, address: SocketAddr, pid: u32) -> Result<Rates> {
    let numbers: Rc<Numbers> = Rc::default();
    let load = |phase| Load::on(address, pid, phase, setting.connections, setting.args.seconds);
    let creations = load::run(load(Phase::Create), numbers.clone(), Rc::default()).await?.require_no_errors()?.rate();
    // As many as were created in that time: pairs that are faster end early, and are counted until then.
    let tasks = (creations * setting.args.seconds).max(1.0);
    fill::fill(address, Phase::ClaimComplete.queue(), tasks as u64, numbers.clone()).await?;
    let measured = load::run(load(Phase::ClaimComplete), numbers, Rc::default()).await?.require_no_errors()?;
    Ok(Rates { creations, pairs: measured.rate() / 2.0 })
}
