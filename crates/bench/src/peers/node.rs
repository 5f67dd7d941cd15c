//! The peers that are libraries of Node.js: a small script puts and takes tasks and prints how many per second.
//! Instead of connections they have calls under way at once, and workers that take as many tasks at once.

use std::path::Path;
use std::process::Command;

use taskqueue_test_postgres::Cluster;

use super::daemon::Daemon;
use super::{Rates, Setting};
use crate::failure::{Failure, Result};
use crate::request;

/// BullMQ, on a Redis that syncs its log before it answers.
pub(super) async fn bullmq(setting: &Setting<'_>) -> Result<Rates> {
    let daemon = Daemon::start(Path::new("redis-server"), &setting.folder, |command, port| {
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir", "."]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    });
    let daemon = daemon.await?;
    run(setting, include_str!("bullmq.mjs"), &daemon.address.port().to_string())
}

/// graphile-worker, on a PostgreSQL of its own with the settings that it comes with.
pub(super) fn graphile_worker(setting: &Setting<'_>) -> Result<Rates> {
    let cluster = Cluster::private();
    let database = cluster.database();
    run(setting, include_str!("graphile_worker.mjs"), &database.url())
}

/// Runs a script and reads the two figures that it prints.
fn run(setting: &Setting<'_>, script: &str, server: &str) -> Result<Rates> {
    let packages = setting.args.peers_dir.join("node");
    let packages = packages.canonicalize().map_err(|_| Failure::new("its packages are not installed".to_owned()))?;
    let mut command = Command::new("node");
    command.args(["--input-type=module", "--eval", script, "--"]).arg(packages).arg(server);
    command.args([setting.connections.to_string(), setting.args.seconds.to_string()]);
    command.arg(request::args().replace('#', "0"));
    let output = command.output().map_err(|error| Failure::new(format!("node does not start: {error}")))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    rates(&stdout).ok_or_else(|| Failure::new(format!("{stdout}{}", String::from_utf8_lossy(&output.stderr))))
}

/// The figures in the last line of the output.
fn rates(stdout: &str) -> Option<Rates> {
    let figures: serde_json::Value = serde_json::from_str(stdout.lines().last()?).ok()?;
    Some(Rates { creations: figures["creations"].as_f64()?, pairs: figures["pairs"].as_f64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_stand_in_the_last_line() {
        let stdout = "a warning\n{\"creations\":12.5,\"pairs\":3}\n";
        assert_eq!(rates(stdout), Some(Rates { creations: 12.5, pairs: 3.0 }));
        assert_eq!(rates("Error: nothing"), None);
        assert_eq!(rates(""), None);
    }
}
