//! TLS of the real server and the real client: the contract behind it, whom clients trust, exchanged certificates, and what
//! is refused. The limits of handshakes and connections are tested in `server/src/accept/tests/tls.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustls::version::{TLS12, TLS13};
use serde_json::json;
use taskqueue_test_postgres::eventually;

use super::certificates::{PairFiles, shown_certificate};
use super::database::Database;
use super::support::*;

const TOKEN: &str = "a-token-for-tls";
/// Nobody's.
const OTHER_PIN: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// A server with a key that it made, the queue `q` and its pin.
fn self_signed(token: Option<&str>, arguments: &[&str]) -> (Server, String) {
    let server = Server::launch(token, &[&["--tls-self-signed"], arguments].concat());
    let line = server.next_line();
    let (command, pin) = line.split_once(" --tls-pin ").expect("the pin");
    assert_eq!(command, format!("taskqueue health --url https://{}", server.address));
    server.create_queue("q");
    (server, pin.to_owned())
}

fn url(server: &Server) -> String {
    format!("https://{}", server.address)
}

/// Runs a client command that reaches the server, or not, with these flags.
fn client(server: &Server, command: &[&str], flags: &[&str]) -> Exit {
    let url = url(server);
    run(&[command, &["--url", &url], flags].concat(), &[("TASKQUEUE_TOKEN", TOKEN)])
}

#[test]
fn the_contract_holds_behind_tls() {
    let (server, _) = self_signed(Some(TOKEN), &[]);
    let large = "x".repeat(900_000);
    server.create(1, json!({"args": {"text": large}}));
    assert_eq!(server.task(1)["args"]["text"], json!(large));
    server.act(server.claimed(1), "complete", 1).expect(204);
    for n in 2..200 {
        server.create(n, json!({"priority": n}));
    }
    assert_eq!(server.list("limit=100")["items"].as_array().unwrap().len(), 100);
    server.send(&Request::new("GET", "/api/v2/queues").header("Authorization", "Bearer wrong")).expect(401);
    for version in [&TLS12, &TLS13] {
        let mut connection = Connection::tls(&server.address, version).unwrap();
        for _ in 0..20 {
            assert_eq!(connection.exchange(&Request::new("GET", "/health")).unwrap().status, 200);
        }
    }
}

#[test]
fn a_waiting_claim_is_answered_behind_tls_and_ends_with_its_client() {
    let (server, _) = self_signed(None, &["--log-level", "debug"]);
    let claim = |run| {
        let body = json!({"route": "default", "run_id": run_id(run)});
        Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=25").json(body)
    };
    let mut leaving = server.connect();
    leaving.write(&claim(1).to_bytes()).unwrap();
    server.await_log_lines(WAITS, 1);
    drop(leaving);
    // The one that stays gets the task, also if the other was first.
    let mut staying = server.connect();
    staying.write(&claim(2).to_bytes()).unwrap();
    server.await_log_lines(WAITS, 2);
    server.create(1, json!({}));
    let response = staying.read_response(true).unwrap();
    assert_eq!((response.status, response.json()["run_id"].as_str()), (200, Some(run_id(2).as_str())), "{response:?}");
}

#[test]
fn a_client_trusts_a_pinned_key_and_says_what_to_do_about_others() {
    let (server, pin) = self_signed(Some(TOKEN), &[]);
    let pins = format!("{OTHER_PIN},{pin}");
    for trusted in [["--tls-pin", &pin], ["--tls-pin", &pins]] {
        let exit = client(&server, &["health"], &trusted);
        assert_eq!(exit.code, Some(0), "{exit:?}");
        assert_eq!(client(&server, &["queue", "list"], &trusted).code, Some(0));
    }
    let certificate = server.database.file().with_extension("db.tls").join("cert.pem");
    assert_eq!(client(&server, &["health"], &["--tls-ca", certificate.to_str().unwrap()]).code, Some(0));
    let refused: [(&[&str], i32, &[&str]); 5] = [
        (&["--tls-pin", OTHER_PIN], 3, &["another key than the pinned one", &pin, "compare"]),
        (&[], 3, &["is not trusted (no trusted authority has signed it)", &pin, "--tls-pin", "--tls-ca"]),
        (&["--tls-pin", "sha256:12"], 2, &["64 hexadecimal digits"]),
        (&["--tls-pin", &pin, "--tls-ca", "x"], 2, &["cannot be used with"]),
        (&["--tls-ca", "/dev/null"], 2, &["no PEM section CERTIFICATE"]),
    ];
    for (flags, code, expected) in refused {
        let exit = client(&server, &["health"], flags);
        assert_eq!(exit.code, Some(code), "{flags:?} {exit:?}");
        assert!(expected.iter().all(|part| exit.stderr.contains(part)), "{flags:?} {}", exit.stderr);
        assert!(!exit.stderr.contains(TOKEN));
    }
    let plain = run(&["health", "--url", "http://127.0.0.1:1", "--tls-pin", &pin], &[]);
    assert!(plain.code == Some(2) && plain.stderr.contains("for https:// only"), "{plain:?}");
}

#[test]
fn the_pin_comes_from_the_environment_or_the_file_that_names_the_server_and_is_shown() {
    let (server, pin) = self_signed(None, &[]);
    let (folder, url) = (tempfile::tempdir().unwrap(), url(&server));
    let home = folder.path().to_str().unwrap();
    let settings = folder.path().join("taskqueue/config.toml");
    fs::create_dir(settings.parent().unwrap()).unwrap();
    fs::write(&settings, format!("url = '{url}'\ntls_pin = '{pin}'")).unwrap();
    let environment = [("XDG_CONFIG_HOME", home)];
    let health = run(&["health"], &environment);
    assert_eq!(health.code, Some(0), "{health:?}");
    let shown = run(&["config", "show", "-o", "quiet"], &environment);
    assert!(shown.stdout.contains(&format!("tls_pin={pin}")), "{shown:?}");
    let ignored = run(&["health", "--url", &url], &environment);
    assert!(ignored.code == Some(3) && ignored.stderr.contains("are ignored"), "{ignored:?}");
    let variable = run(&["health", "--url", &url], &[("XDG_CONFIG_HOME", home), ("TASKQUEUE_TLS_PIN", &pin)]);
    assert_eq!(variable.code, Some(0), "{variable:?}");
}

#[test]
fn a_worker_and_its_commands_work_behind_tls_with_a_pin() {
    let (server, pin) = self_signed(Some(TOKEN), &[]);
    for n in 1..=5 {
        server.create(n, json!({}));
    }
    let runs = tempfile::tempdir().unwrap();
    let worker = ["loop", "--queue", "q", "--tls-pin", &pin, "--max-tasks", "5"];
    let command = format!("{} health -o quiet >&2", env!("CARGO_BIN_EXE_taskqueue"));
    let exit = client(&server, &worker, &["--run-dir", runs.path().to_str().unwrap(), "--", "sh", "-c", &command]);
    assert_eq!(exit.code, Some(0), "{exit:?}");
    for n in 1..=5 {
        assert_eq!(server.task(n)["status"], "succeeded", "{}", server.task(n));
    }
}

#[test]
fn an_own_key_is_private_and_stays_over_restarts() {
    let (mut server, pin) = self_signed(None, &[]);
    let folder = server.database.file().with_extension("db.tls");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("key.pem"))), (0o700, 0o600));
    let before = shown_certificate(&server.address);
    server.restart();
    assert!(server.next_line().ends_with(&pin));
    assert_eq!(shown_certificate(&server.address), before);
    // A lost certificate is made again for the same key.
    fs::remove_file(folder.join("cert.pem")).unwrap();
    server.restart();
    assert!(server.next_line().ends_with(&pin));
}

#[test]
fn plain_http_is_told_to_use_https_and_the_client_says_so() {
    let (server, _) = self_signed(None, &[]);
    let response = Connection::tcp(&server.address).unwrap().exchange(&Request::new("GET", "/health")).unwrap();
    assert_eq!((response.status, response.code().as_str()), (400, "invalid_request"));
    let exit = run(&["queue", "list", "--url", &format!("http://{}", server.address)], &[]);
    assert!(exit.code == Some(1) && exit.stderr.contains("use https://"), "{exit:?}");
}

#[test]
fn an_expired_certificate_is_warned_of_and_refused_by_clients() {
    let folder = tempfile::tempdir().unwrap();
    let files = PairFiles::make(folder.path(), "old", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let server = Server::launch(None, &files.flags());
    server.await_log_lines("has expired", 1);
    let exit = client(&server, &["health"], &["--tls-ca", files.certificate.to_str().unwrap()]);
    assert!(exit.code == Some(3) && exit.stderr.contains("it has expired"), "{exit:?}");
}

/// People copy the pin from there.
#[test]
fn a_message_about_an_untrusted_key_has_the_pin_and_nothing_of_the_library_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = PairFiles::make(folder.path(), "own", |_| {});
    let server = Server::launch(None, &files.flags());
    let (url, other_pin) = (url(&server), format!("sha256:{}", "0".repeat(64)));
    // A worker goes on trying, so it is ended when it has said what is wrong.
    let script = "log=$0; \"$@\" 2> $log & worker=$!; until grep -q sha256: $log; do sleep 0.05; done; \
                  kill $worker; wait $worker; cat $log >&2";
    let worker = |flags: &[&str]| {
        let log = folder.path().join("log");
        fs::write(&log, "").unwrap();
        let arguments = [&["loop", "--queue", "q", "--url", &url][..], flags, &["--", "true"]].concat();
        run_inside(&["bash", "-c", script, log.to_str().unwrap()], &arguments)
    };
    for exit in [
        client(&server, &["health"], &[]),
        client(&server, &["task", "submit", "--queue", "q"], &[]),
        client(&server, &["health"], &["--tls-pin", &other_pin]),
        worker(&[]),
        worker(&["--tls-pin", &other_pin]),
    ] {
        let (_, pin) = exit.stderr.split_once("sha256:").unwrap_or_else(|| panic!("{exit:?}"));
        let (digits, behind) = pin.split_at(64);
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{exit:?}");
        assert!(behind.starts_with([';', '\n']), "{exit:?}");
        for part in ["Other", "Untrusted", "\")"] {
            assert!(!exit.stderr.contains(part), "{part} in {exit:?}");
        }
    }
}

#[test]
fn a_self_signed_certificate_of_an_authority_is_explained_with_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    // As `openssl req -x509` makes it.
    let authority = |params: &mut rcgen::CertificateParams| {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    };
    let files = PairFiles::make(folder.path(), "own", authority);
    let server = Server::launch(None, &files.flags());
    let certificate = files.certificate.to_str().unwrap();
    for flags in [&["--tls-ca", certificate][..], &[]] {
        let exit = client(&server, &["health"], flags);
        assert_eq!(exit.code, Some(3), "{exit:?}");
        for part in ["(CA:TRUE)", "--tls-pin", "--tls-ca does not help", "basicConstraints=critical,CA:FALSE"] {
            assert!(exit.stderr.contains(part), "{part} is not in {exit:?}");
        }
        let (_, pin) = exit.stderr.split_once("its key is ").unwrap();
        let pin = pin.split(';').next().unwrap();
        assert_eq!(client(&server, &["health"], &["--tls-pin", pin]).code, Some(0), "{pin}");
    }
}

#[test]
fn an_exchanged_certificate_is_shown_without_a_failed_request_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = PairFiles::make(folder.path(), "pair", |_| {});
    let server = Server::launch(None, &[&files.flags()[..], &["--log-level", "info"]].concat());
    server.create_queue("q");
    let first = shown_certificate(&server.address);
    let new_connections = |_| {
        server.connect().exchange(&Request::new("GET", "/api/v2/queues")).unwrap().expect(200);
    };
    let kept_ones = |n| {
        server.create(n, json!({}));
    };
    meanwhile(&[&new_connections, &kept_ones], || {
        let next = PairFiles::make(folder.path(), "next", |_| {});
        fs::rename(&next.certificate, &files.certificate).unwrap();
        fs::rename(&next.key, &files.key).unwrap();
        eventually("the other certificate", || shown_certificate(&server.address) != first);
    });
    let second = shown_certificate(&server.address);
    fs::write(&files.key, "nonsense").unwrap();
    server.await_log_lines("cannot be used", 1);
    assert_eq!(shown_certificate(&server.address), second);
    assert_eq!(server.count_log_lines("cannot be used"), 1);
    let third = PairFiles::make(folder.path(), "third", |_| {});
    fs::copy(&third.certificate, &files.certificate).unwrap();
    fs::copy(&third.key, &files.key).unwrap();
    eventually("the third certificate", || shown_certificate(&server.address) != second);
}

#[test]
fn metrics_say_when_the_certificate_that_is_shown_expires() {
    let folder = tempfile::tempdir().unwrap();
    let until = |year| move |params: &mut rcgen::CertificateParams| params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let files = PairFiles::make(folder.path(), "pair", until(2020));
    let server = Server::launch(None, &files.flags());
    let expires = || {
        let text = server.send(&Request::new("GET", "/metrics")).expect(200).text();
        let value = text.lines().find_map(|line| line.strip_prefix("taskqueue_tls_certificate_expires_seconds "));
        value.map(|value| value.parse::<f64>().unwrap())
    };
    assert!(expires().unwrap() < 0.0, "it has expired");
    let next = PairFiles::make(folder.path(), "next", until(4000));
    fs::rename(&next.certificate, &files.certificate).unwrap();
    fs::rename(&next.key, &files.key).unwrap();
    server.signal("HUP");
    const CENTURY_SECONDS: f64 = 100.0 * 365.25 * 86_400.0;
    eventually("the other certificate is told", || expires().unwrap() > CENTURY_SECONDS);
}

#[test]
fn a_server_does_not_start_with_a_pair_that_it_cannot_use() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::new());
    let database = database.argument();
    let (pair, other) = (PairFiles::make(folder.path(), "a", |_| {}), PairFiles::make(folder.path(), "b", |_| {}));
    let [_, certificate, _, key] = pair.flags();
    let (other_key, empty) = (other.key.to_str().unwrap(), folder.path().join("empty"));
    fs::write(&empty, "").unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    let empty = empty.to_str().unwrap();
    let cases = [
        (certificate, other_key, "do not belong together"),
        (certificate, "/missing/key", "/missing/key"),
        ("/missing/cert", key, "/missing/cert"),
        (empty, key, "no PEM section CERTIFICATE"),
        (certificate, empty, "no PEM section PRIVATE KEY"),
        (certificate, certificate, "chmod 600"),
        ("/dev/null", key, "not a regular file"),
    ];
    for (certificate, key, expected) in cases {
        let flags = ["--tls-cert", certificate, "--tls-key", key];
        let refused = assert_refuses(&[&serving(&database)[..], &flags].concat(), &[]);
        assert!(refused.contains(expected), "{flags:?}: {refused}");
    }
    fs::set_permissions(&pair.key, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = assert_refuses(&[&serving(&database)[..], &pair.flags()].concat(), &[]);
    assert!(refused.contains(&format!("run: chmod 600 {key}")), "{refused}");

    let open = ["serve", "--listen", "0.0.0.0:0", "--database", &database, "--tls-self-signed"];
    assert!(assert_refuses(&open, &[]).contains("no token is configured"));
    let wrong_arguments: [&[&str]; 3] = [
        &["--tls-cert", certificate],
        &["--tls-key", key],
        &["--tls-self-signed", "--tls-cert", certificate, "--tls-key", key],
    ];
    for wrong in wrong_arguments {
        assert_eq!(run(&[&serving(&database)[..], wrong].concat(), &[]).code, Some(2), "{wrong:?}");
    }
    let socket = format!("unix:{}", folder.path().join("socket").display());
    let unix = run(&["serve", "--listen", &socket, "--database", &database, "--tls-self-signed"], &[]);
    assert!(unix.code == Some(2) && unix.stderr.contains("Unix socket has no TLS"), "{unix:?}");
    assert!(!Path::new(&database).exists(), "nothing was made for a server that did not start");
}

#[test]
fn a_stop_behind_tls_is_as_graceful_and_quick() {
    let (mut server, _) = self_signed(None, &[]);
    let (_idle, mut unfinished) = (server.connect(), std::net::TcpStream::connect(&server.address).unwrap());
    std::io::Write::write_all(&mut unfinished, b"\x16\x03\x01").unwrap();
    let mut waiting = server.connect();
    let body = json!({"route": "default", "run_id": run_id(1)});
    let claim = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=25").json(body);
    waiting.write(&claim.to_bytes()).unwrap();
    let begin = std::time::Instant::now();
    assert!(server.terminate().success());
    assert!(begin.elapsed() < Duration::from_secs(10));
}
