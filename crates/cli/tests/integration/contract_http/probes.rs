//! What a service manager asks and hears: `/livez`, `/readyz`, and the datagrams of `Type=notify` (docs/reference/http-api.md §11.4).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

#[test]
fn a_server_that_stops_is_not_ready_for_whoever_is_still_connected() {
    let mut server = Server::with_arguments(&["--log-level", "info"]);
    let mut connection = server.connect();
    // The server asks for the body when it has begun to answer, so the request is under way.
    let head = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    connection.write(head.as_bytes()).unwrap();
    assert_eq!(connection.read_head().unwrap().0, 100);
    server.signal("TERM");
    server.await_log_lines("stopping: no new connections", 1);
    connection.write(b"x").unwrap();
    let response = connection.read_response(true).unwrap();
    assert_eq!(response.assert_error(503, "server_stopping"), json!({}));
    assert_eq!(response.header("Retry-After"), Some("5"));
    drop(connection);
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_server_with_a_stop_delay_says_that_it_is_not_ready_and_goes_on_meanwhile() {
    let mut server = Server::with_arguments(&["--log-level", "info", "--stop-delay", "3s", "--queue", "q"]);
    let ask = |path: &str| server.connect().exchange(&Request::new("GET", path)).unwrap();
    ask("/readyz").expect(200);
    let began = Instant::now();
    server.signal("TERM");
    server.await_log_lines("stopping in 3 s", 1);
    assert_eq!(ask("/readyz").assert_error(503, "server_stopping"), json!({}));
    server.create(1, json!({}));
    ask("/livez").expect(200);
    assert_eq!(server.count_log_lines("stopping: no new connections"), 0, "{}", server.stderr());
    assert_eq!(server.wait().0.code(), Some(0));
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn a_second_signal_ends_the_delay_of_a_stop() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::with_arguments(&["--log-level", "info", "--stop-delay", "1h"]);
        server.signal("TERM");
        server.await_log_lines("stopping in 3600 s", 1);
        server.signal(signal);
        assert_eq!(server.wait().0.code(), Some(0), "{signal}");
    }
}

#[test]
fn systemd_hears_that_the_server_is_ready_and_that_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let name = format!("taskqueue-test-{}-{}", std::process::id(), folder.path().file_name().unwrap().display());
    let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
    for (socket, variable) in [
        (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
        (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}")),
    ] {
        let mut server = Server::with_environment(&[], &[("NOTIFY_SOCKET", &variable)]);
        assert_eq!(heard(&socket), format!("READY=1\nSTATUS=serving at http://{}", server.address));
        assert_eq!(server.terminate().code(), Some(0));
        assert!(heard(&socket).starts_with("STOPPING=1\n"));
    }
}

#[test]
fn the_watchdog_hears_that_the_server_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let mut server = Server::with_environment(&[], &environment);
    let signs = (0..100).map(|_| heard(&socket)).filter(|text| text == "WATCHDOG=1").take(3).count();
    assert_eq!(signs, 3);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_notify_socket_that_is_not_there_harms_nothing() {
    for socket in ["/nowhere/at/all", "@nobody-listens-here", "vsock:2:1", ""] {
        let mut server = Server::with_environment(&[], &[("NOTIFY_SOCKET", socket), ("WATCHDOG_USEC", "200000")]);
        server.create_queue("q");
        assert_eq!(server.terminate().code(), Some(0), "{socket}");
    }
}
