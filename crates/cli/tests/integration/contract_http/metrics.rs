//! The address of their own that `--metrics-listen` gives to metrics (docs/reference/metrics.md).

use std::path::Path;

use super::support::*;

const INFO: [&str; 2] = ["--log-level", "info"];

/// A server with a token whose metrics have an address of their own, and that address as the log tells it.
fn with_own_address(listen: &str) -> (Server, String) {
    let server = Server::launch(Some("s3cret"), &[&INFO[..], &["--metrics-listen", listen]].concat());
    let address = logged_address(&server);
    (server, address)
}

fn logged_address(server: &Server) -> String {
    server.await_log_lines("serving metrics", 1);
    let log = server.stderr();
    let line = log.lines().find(|line| line.contains("serving metrics")).unwrap();
    let (_, address) = line.split_once("address=\"").unwrap_or_else(|| panic!("{line}"));
    address.split('"').next().unwrap().to_owned()
}

fn get(address: &str, request: &Request) -> Response {
    let mut connection = match address.strip_prefix("unix:") {
        Some(path) => Connection::unix(Path::new(path)).unwrap(),
        None => Connection::tcp(address.strip_prefix("http://").unwrap()).unwrap(),
    };
    connection.exchange(request).unwrap()
}

/// The value of a series in a scrape.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn an_address_of_their_own_gives_metrics_and_nothing_else_without_a_token() {
    let (mut server, address) = with_own_address("127.0.0.1:0");
    let scrape = get(&address, &Request::new("GET", "/metrics"));
    assert_eq!(scrape.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!scrape.text().contains("# EOF"), "{scrape:?}");
    let open_metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let scrape = get(&address, &Request::new("GET", "/metrics").header("Accept", open_metrics));
    assert_eq!(scrape.header("Content-Type"), Some(open_metrics));
    assert!(scrape.text().ends_with("# EOF\n"), "{scrape:?}");
    assert_eq!(get(&address, &Request::new("HEAD", "/metrics")).status, 200);
    get(&address, &Request::new("POST", "/metrics")).assert_error(405, "method_not_allowed");
    for path in ["/", "/health", "/openapi.json", "/api/v2/queues", "/api/v2/capabilities"] {
        get(&address, &Request::new("GET", path)).assert_error(404, "not_found");
    }
    let page = Request::new("GET", "/metrics").header("Origin", "http://evil.example");
    get(&address, &page).assert_error(403, "forbidden");
    // The API still asks for its token, for metrics too.
    let api = format!("http://{}", server.address);
    get(&api, &Request::new("GET", "/metrics")).assert_error(401, "unauthorized");
    assert_eq!(get(&api, &Request::new("GET", "/metrics").header("Authorization", "Bearer s3cret")).status, 200);
    server.signal("TERM");
    let (status, lines) = server.wait();
    assert!(status.success() && lines.is_empty(), "one line of output, the base URL: {lines:?}");
}

#[test]
fn metrics_can_have_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}", directory.path().join("metrics.sock").display());
    let (mut server, address) = with_own_address(&listen);
    assert_eq!(address, listen);
    let scrape = get(&address, &Request::new("GET", "/metrics")).expect(200);
    assert_eq!(value(&scrape.text(), "taskqueue_ready"), Some(1.0));
    server.terminate();
    assert!(!directory.path().join("metrics.sock").exists(), "the socket is removed");
}

#[test]
fn metrics_for_other_machines_are_a_warning() {
    let (server, address) = with_own_address("0.0.0.0:0");
    server.await_log_lines("everybody there can read the metrics", 1);
    let port = address.rsplit(':').next().unwrap();
    let mut connection = Connection::tcp(&format!("127.0.0.1:{port}")).unwrap();
    let mut request = Request::new("GET", "/metrics").to_bytes();
    let named = request.windows(9).position(|bytes| bytes == b"localhost").unwrap();
    request.splice(named..named + 9, *b"monitored.example");
    connection.write(&request).unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 200, "whatever they call this machine");
}

#[test]
fn an_address_that_cannot_be_had_is_refused() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("q.db");
    let serve = serving(database.to_str().unwrap());
    for listen in [server.address.as_str(), &format!("unix:{}", directory.path().display())] {
        assert_refuses_with(&[&serve[..], &["--metrics-listen", listen]].concat(), &[], &["--metrics-listen"]);
    }
    assert!(!database.exists(), "no file is left behind");
    run(&[&serve[..], &["--metrics-listen", "9464"]].concat(), &[]).fails(2);
}

#[test]
fn idle_scrapers_do_not_keep_others_out() {
    let (_server, address) = with_own_address("127.0.0.1:0");
    let address = address.strip_prefix("http://").unwrap();
    let _idle: Vec<Connection> = (0..40).map(|_| Connection::tcp(address).unwrap()).collect();
    let mut connection = Connection::tcp(address).unwrap();
    assert_eq!(connection.exchange(&Request::new("GET", "/metrics")).unwrap().status, 200);
}

#[test]
fn a_scrape_that_has_begun_is_answered_while_the_server_stops() {
    let mut server = Server::with_arguments(&INFO);
    let mut connection = server.connect();
    // A body that is not there yet keeps the request from being answered.
    let scrape = Request::new("GET", "/metrics").header("Content-Length", "2").body("xx").to_bytes();
    let (begin, end) = scrape.split_at(scrape.len() - 1);
    connection.write(&[&Request::new("GET", "/health").to_bytes(), begin].concat()).unwrap();
    // The server has read what was sent behind the first request.
    assert_eq!(connection.read_response(true).unwrap().status, 200);
    server.signal("TERM");
    server.await_log_lines("stopping", 1);
    connection.write(end).unwrap();
    let answer = connection.read_response(true).unwrap();
    assert_eq!((answer.status, value(&answer.text(), "taskqueue_ready")), (200, Some(0.0)));
    assert!(server.wait().0.success());
}
