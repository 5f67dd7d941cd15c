//! TLS of the real server and the real client: the contract behind it, whom clients trust, exchanged certificates, and what
//! is refused. Handshakes, versions, connections and stops are tested in `server/src/accept/tests/tls.rs`.

use std::fs;
use std::path::Path;

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
fn client(server: &Server, command: &[&str], flags: &[&str]) -> Ran {
    let url = url(server);
    run(&[command, &["--url", &url], flags].concat(), &[("TASKQUEUE_TOKEN", TOKEN)])
}

#[test]
fn a_client_trusts_a_pinned_key_and_says_what_to_do_about_others() {
    let (server, pin) = self_signed(Some(TOKEN), &[]);
    let pins = format!("{OTHER_PIN},{pin}");
    for trusted in [["--tls-pin", &pin], ["--tls-pin", &pins]] {
        client(&server, &["health"], &trusted).ok();
        client(&server, &["queue", "list"], &trusted).ok();
    }
    let certificate = server.database.file().with_extension("db.tls").join("cert.pem");
    client(&server, &["health"], &["--tls-ca", certificate.to_str().unwrap()]).ok();
    let refused: [(&[&str], i32, &[&str]); 5] = [
        (&["--tls-pin", OTHER_PIN], 3, &["another key than the pinned one", &pin, "compare"]),
        (&[], 3, &["is not trusted (no trusted authority has signed it)", &pin, "--tls-pin", "--tls-ca"]),
        (&["--tls-pin", "sha256:12"], 2, &["64 hexadecimal digits"]),
        (&["--tls-pin", &pin, "--tls-ca", "x"], 2, &["cannot be used with"]),
        (&["--tls-ca", "/dev/null"], 2, &["no PEM section CERTIFICATE"]),
    ];
    for (flags, code, expected) in refused {
        assert!(!client(&server, &["health"], flags).fails_with(code, expected).contains(TOKEN));
    }
    run(&["health", "--url", "http://127.0.0.1:1", "--tls-pin", &pin], &[]).fails_with(2, &["for https:// only"]);
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
    run(&["health"], &environment).ok();
    run(&["config", "show", "-o", "quiet"], &environment).ok_with(&[&format!("tls_pin={pin}")]);
    run(&["health", "--url", &url], &environment).fails_with(3, &["are ignored"]);
    run(&["health", "--url", &url], &[("XDG_CONFIG_HOME", home), ("TASKQUEUE_TLS_PIN", &pin)]).ok();
}

#[test]
fn a_worker_and_its_commands_work_behind_tls_with_a_pin() {
    let (server, pin) = self_signed(Some(TOKEN), &[]);
    server.create_each(1..=5, |_| json!({}));
    let runs = tempfile::tempdir().unwrap();
    let worker = ["loop", "--queue", "q", "--tls-pin", &pin, "--max-tasks", "5"];
    let command = format!("{} health -o quiet >&2", env!("CARGO_BIN_EXE_taskqueue"));
    client(&server, &worker, &["--run-dir", runs.path().to_str().unwrap(), "--", "sh", "-c", &command]).ok();
    (1..=5).for_each(|n| assert_eq!(server.task(n)["status"], "succeeded", "{}", server.task(n)));
}

#[test]
fn an_own_key_is_private_and_stays_over_restarts() {
    let (mut server, pin) = self_signed(None, &[]);
    let folder = server.database.file().with_extension("db.tls");
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
    run(&["queue", "list", "--url", &format!("http://{}", server.address)], &[]).fails_with(1, &["use https://"]);
}

#[test]
fn an_expired_certificate_is_warned_of_and_refused_by_clients() {
    let folder = tempfile::tempdir().unwrap();
    let files = PairFiles::make(folder.path(), "old", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let server = Server::launch(None, &files.flags());
    server.await_log_lines("has expired", 1);
    client(&server, &["health"], &["--tls-ca", files.certificate.to_str().unwrap()]).fails_with(3, &["it has expired"]);
}

/// People copy the pin from there.
#[test]
fn a_message_about_an_untrusted_key_has_the_pin_and_nothing_of_the_library_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = PairFiles::make(folder.path(), "own", |_| {});
    let server = Server::launch(None, &files.flags());
    let url = url(&server);
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
        client(&server, &["health"], &["--tls-pin", OTHER_PIN]),
        worker(&[]),
        worker(&["--tls-pin", OTHER_PIN]),
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
        let parts = ["(CA:TRUE)", "--tls-pin", "--tls-ca does not help", "basicConstraints=critical,CA:FALSE"];
        let message = client(&server, &["health"], flags).fails_with(3, &parts);
        let (_, pin) = message.split_once("its key is ").unwrap();
        let pin = pin.split(';').next().unwrap();
        client(&server, &["health"], &["--tls-pin", pin]).ok();
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
        files.exchange(|_| {});
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
    files.exchange(until(4000));
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
    put_in_place(&empty, "", 0o600);
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
        assert_refuses_with(&[&serving(&database)[..], &flags].concat(), &[], &[expected]);
    }
    set_mode(&pair.key, 0o640);
    let arguments = [&serving(&database)[..], &pair.flags()].concat();
    assert_refuses_with(&arguments, &[], &[&format!("run: chmod 600 {key}")]);

    let open = ["serve", "--listen", "0.0.0.0:0", "--database", &database, "--tls-self-signed"];
    assert_refuses_with(&open, &[], &["no token is configured"]);
    let wrong_arguments: [&[&str]; 3] = [
        &["--tls-cert", certificate],
        &["--tls-key", key],
        &["--tls-self-signed", "--tls-cert", certificate, "--tls-key", key],
    ];
    for wrong in wrong_arguments {
        run(&[&serving(&database)[..], wrong].concat(), &[]).fails(2);
    }
    let socket = format!("unix:{}", folder.path().join("socket").display());
    run(&["serve", "--listen", &socket, "--database", &database, "--tls-self-signed"], &[])
        .fails_with(2, &["Unix socket has no TLS"]);
    assert!(!Path::new(&database).exists(), "nothing was made for a server that did not start");
}

#[test]
fn a_waiting_claim_is_answered_behind_tls_and_ends_with_its_client() {
    let (server, _) = self_signed(None, &["--log-level", "debug"]);
    let claim = |run| server.begin_until_logged(&claim_request("default", run).waiting(25), WAITS);
    drop(claim(1));
    // The one that stays gets the task, also if the other was first.
    let mut staying = claim(2);
    server.create(1, json!({}));
    let response = staying.read_response(true).unwrap();
    assert_eq!((response.status, response.json()["run_id"].as_str()), (200, Some(run_id(2).as_str())), "{response:?}");
}
