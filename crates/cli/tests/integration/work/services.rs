//! A worker as a service: the manager hears when it is up and when it stops, and its commands do not hear of the manager.

use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;
use serde_json::json;

use super::server::Server;
use super::support::Setup;
use crate::support::heard;

#[test]
fn systemd_hears_that_the_worker_has_reached_its_server_and_that_it_stops() {
    let server = Server::start();
    let setup = Setup::new(&server);
    let path = setup.folder().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let setup = setup.env("NOTIFY_SOCKET", path.to_str().unwrap()).env("WATCHDOG_USEC", "60000000");
    let mut worker = setup.sh("env > variables; echo done > done", &[]);
    assert_eq!(heard(&socket), format!("READY=1\nSTATUS=claiming from q/default of {}", server.url()));
    server.create(1, json!({}));
    worker.wait_for_file("done");
    let variables = worker.read("variables");
    assert!(!variables.contains("NOTIFY_SOCKET") && !variables.contains("WATCHDOG_USEC"), "{variables}");
    worker.signal(Signal::TERM);
    assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=stopping");
    worker.finish_well();
}
