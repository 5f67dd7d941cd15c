//! Error messages and exit codes: 1 refused, 2 wrong usage, 3 not reached.

use std::net::TcpListener;

use super::support::{Ran, Server, binary, finish, run_alone};
use crate::support::FakeServer;

#[test]
fn an_unknown_queue_is_compared_with_those_that_exist() {
    let server = Server::start();
    for queue in ["nightly", "nightly-2", "other"] {
        server.run(&format!("queue create {queue}")).ok();
    }
    for (line, name, advice) in [
        (
            "task list -q",
            "nigthly",
            "did you mean nightly, nightly-2? Or create it with: taskqueue queue create nigthly",
        ),
        ("task list -q", "zzz", "create it with: taskqueue queue create zzz"),
        // Nobody creates a queue to delete it.
        ("queue delete", "zzz", "taskqueue queue list shows all"),
        ("queue delete --cascade --yes", "zzz", "taskqueue queue list shows all"),
        ("queue delete", "nigthly", "did you mean nightly, nightly-2?"),
    ] {
        let message = server.run(&format!("{line} {name}")).fails(1);
        assert_eq!(message, format!("error: there is no queue {name} (queue_not_found); {advice}\n"), "{line}");
    }
}

#[test]
fn a_server_that_is_not_there_is_exit_code_3_and_how_to_start_one() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for line in ["task list", "health", "queue create x", "task cancel t_aaaaaaaaaaaa"] {
        run_at(&url, line).refuses_with(3, &[&url, "taskqueue serve"]);
    }
    run_at("unix:nowhere.sock", "health").fails_with(3, &["unix:nowhere.sock"]);
}

#[test]
fn a_wrong_filter_is_shown_with_a_mark_under_the_place() {
    let server = Server::start();
    let message = server.run_with(&["task", "list", "--filter", "priority > 1 and stats == 'x'"]).fails(1);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 3, "{message}");
    assert!(lines[0].contains("invalid_filter") && lines[0].contains("status"), "{message}");
    assert_eq!(lines[1..], ["  priority > 1 and stats == 'x'", "                   ^"]);
    let message = server.run_with(&["worker", "count", "--filter", "route = 'x'"]).fails(1);
    assert!(message.lines().nth(2).is_some_and(|line| line.ends_with('^')), "{message}");
    server.run_with(&["task", "cancel", "--yes", "--filter", "("]).fails_with(1, &["invalid_filter"]);
}

#[test]
fn a_refusal_names_the_task_what_it_is_and_the_way_out_once() {
    let server = Server::claimed();
    let running = "error: t_aaaaaaaaaaaa is running (task_running); wait for it, or cancel it first: \
                   taskqueue task cancel --queue q t_aaaaaaaaaaaa\n";
    assert_eq!(server.run("task update t_aaaaaaaaaaaa --priority 1").fails(1), running);
    server
        .run("task requeue t_aaaaaaaaaaaa")
        .fails_with(1, &["t_aaaaaaaaaaaa is running, so it cannot be requeued; cancel it first"]);
    server.complete("t_aaaaaaaaaaaa", 1);
    server
        .run("task cancel t_aaaaaaaaaaaa")
        .fails_with(1, &["t_aaaaaaaaaaaa is succeeded, so it cannot be cancelled: it has already ended"]);
    let done = server.run("task requeue t_aaaaaaaaaaaa").fails(1);
    let expected = "error: t_aaaaaaaaaaaa is succeeded, so it cannot be requeued (task_state_conflict); to run it again under \
                    a new id: taskqueue task rerun --queue q t_aaaaaaaaaaaa\n";
    assert_eq!(done, expected);
    let taken = server.run("task submit --id t_aaaaaaaaaaaa --priority 1").fails(1);
    let expected = "error: there is a task t_aaaaaaaaaaaa already, with another definition (task_id_conflict); choose \
                    another --id, or see: taskqueue task get --queue q t_aaaaaaaaaaaa\n";
    assert_eq!(taken, expected);
}

#[test]
fn addresses_are_taken_as_people_write_them_or_explained() {
    let server = Server::start();
    let address = server.url.strip_prefix("http://").unwrap();
    let port = address.rsplit(':').next().unwrap();
    let health = |url: &str| finish(binary(server.folder.path()).arg("health").env("TASKQUEUE_URL", url));
    for url in [address, &format!("localhost:{port}"), &format!("{}/api/v2", server.url), &format!("{address}/api/v2/")]
    {
        assert!(health(url).ok().contains("ok"), "{url}");
    }
    health(&format!("https://{address}")).fails_with(3, &["does not speak TLS; use http://127.0.0.1"]);
    // How TLS says that this is not its protocol.
    let encrypted = answering(b"\x15\x03\x01\x00\x02\x02\x46");
    health(&encrypted.url()).fails_with(3, &["does not speak plain HTTP; use https://127.0.0.1"]);
    health("queue.example:8000").fails_with(2, &["http://queue.example:8000", "https://queue.example:8000"]);
    let path = run_at(&format!("{}/wrong", server.url), "queue list").refuses_with(1, &["wrong path"]);
    assert!(!path.contains("GET"), "{path}");
}

#[test]
fn a_busy_server_is_explained_without_the_words_of_its_api() {
    let busy = answering(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 0\r\nContent-Length: 80\r\n\
          Connection: close\r\n\r\n\
          {\"error\":{\"code\":\"database_busy\",\"message\":\"wait for Retry-After\",\"details\":{}}}",
    );
    let message = run_at(&busy.url(), "queue list").fails(1);
    let expected = "error: the server is busy and nothing was done (database_busy); try again in a few seconds\n";
    assert_eq!(message, expected);
    assert_eq!(busy.count("GET "), 3);
}

#[test]
fn wrong_usage_is_exit_code_2_and_names_the_help_of_the_command() {
    for (line, expected) in [
        ("task list --limit 0", "taskqueue task list --help"),
        ("task list --url ftp://x", "http://"),
        ("task submit --arg novalue", "KEY=VALUE"),
        ("task submit --args [1]", "JSON object"),
        ("task update t_aaaaaaaaaaaa", "what to change"),
    ] {
        run_alone(line).refuses_with(2, &[expected]);
    }
}

#[test]
fn something_that_is_no_taskqueue_server_is_recognised() {
    let other = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    let message = run_at(&other.url(), "queue list").fails(1);
    let expected = format!(
        "error: what answers at {} is no taskqueue server: status 200 with the text \"hello\", which is not JSON; name the \
         server with --url\n",
        other.url()
    );
    assert_eq!(message, expected);
}

/// Something that answers each request with these bytes.
fn answering(answer: &'static [u8]) -> FakeServer {
    FakeServer::start(move |_| Some(answer.to_vec()))
}

/// Runs a command line against what answers at this URL.
fn run_at(url: &str, line: &str) -> Ran {
    run_alone(&format!("{line} --url {url}"))
}

/// Commands that ask the server in different ways.
const COMMANDS: [&str; 6] =
    ["health", "task list", "task submit", "task cancel t_aaaaaaaaaaaa", "queue create x", "task count"];

#[test]
fn a_proxy_that_does_not_reach_the_server_is_no_other_program() {
    let proxy = answering(
        b"HTTP/1.1 502 Bad Gateway\r\nServer: nginx/1.25\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>",
    );
    let url = proxy.url();
    let expected = format!("a proxy at {url} does not reach the server (status 502 with a web page from nginx/1.25)");
    for line in COMMANDS {
        run_at(&url, line).fails_with(3, &[&expected]);
    }
}

#[test]
fn another_program_at_the_url_is_named_without_a_chain_of_causes() {
    let page = answering(
        b"HTTP/1.1 404 Not Found\r\nServer: nginx/1.25\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>",
    );
    let shell = answering(b"SSH-2.0-OpenSSH_9.2\r\n");
    let no_server = "is no taskqueue server: status 404 with a web page from nginx/1.25; name the server with --url";
    let no_http = format!("the server at {} does not speak plain HTTP; use https", shell.url());
    for line in COMMANDS {
        let other = run_at(&page.url(), line).refuses_with(1, &[no_server, &page.url()]);
        let encrypted = run_at(&shell.url(), line).refuses_with(3, &[&no_http]);
        for message in [other, encrypted] {
            assert!(message.matches(": ").count() <= 2, "{line}: {message}");
        }
    }
}

#[test]
fn an_older_server_is_warned_of_once_on_standard_error() {
    let old = answering(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTaskqueue-Server-Version: 0.0.1\r\nContent-Length: 2\r\n\
          Connection: close\r\n\r\n[]",
    );
    let ran = run_at(&old.url(), "queue list -o json");
    assert_eq!(ran.stderr.matches("warning: the server has version 0.0.1").count(), 1, "{ran:?}");
    assert_eq!(ran.ok(), "[]\n");
}
