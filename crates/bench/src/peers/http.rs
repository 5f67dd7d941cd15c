//! The two peers that speak our API: this server, and labtasker-server. The load is that of the other measurements.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::daemon::Daemon;
use super::{Rates, Setting};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::fill;
use crate::load::{self, Load, Measured};
use crate::number::Numbers;
use crate::operation::Phase;
use crate::process::Server;
use crate::request;

const WARM_UP: Duration = Duration::from_millis(200);

/// This server, on SQLite.
pub(super) async fn taskqueue(setting: &Setting<'_>) -> Outcome<Rates> {
    let server = Server::taskqueue(&setting.args.subject.server, setting.folder.join("bench.db").as_os_str())?;
    measure(setting, server.address, server.pid()).await
}

/// labtasker-server, on SQLite.
pub(super) async fn labtasker(setting: &Setting<'_>) -> Outcome<Rates> {
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

async fn measure(setting: &Setting<'_>, address: SocketAddr, pid: u32) -> Outcome<Rates> {
    let numbers: Rc<Numbers> = Rc::default();
    let load = |phase| Load {
        address,
        pid,
        phase,
        connections: setting.connections,
        warm_up: WARM_UP,
        duration: Duration::from_secs_f64(setting.args.seconds),
        rate: None,
        known: 0..0,
    };
    let creations = faultless(load::run(load(Phase::Create), numbers.clone(), Rc::default()).await?)?;
    // As many as were created in that time: pairs that are faster end early, and are counted until then.
    let tasks = (creations * setting.args.seconds).max(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of tasks")]
    fill::fill(address, Phase::ClaimComplete.queue(), tasks as u64, numbers.clone()).await?;
    let requests = faultless(load::run(load(Phase::ClaimComplete), numbers, Rc::default()).await?)?;
    Ok(Rates { creations, pairs: requests / 2.0 })
}

/// Requests per second, if all were answered as they should be.
fn faultless(measured: Measured) -> Outcome<f64> {
    match measured.errors.iter().next() {
        None => Ok(measured.rate()),
        Some((code, count)) => Err(Failure::new(format!("{code} x {count}"))),
    }
}
