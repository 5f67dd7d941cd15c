//! Log lines: all are written at the end of the process, and requests never wait for standard error.

use std::fs::{self, File};
use std::io::{self, Read};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use crate::support::*;

/// Enough lines to fill a pipe (64 KiB on Linux) several times over.
const REQUESTS: usize = 3000;

/// All requests are answered and the stop is in good order.
#[track_caller]
fn assert_serves(mut server: Server, stderr: &str) {
    server.create_queue("q");
    for n in 0..REQUESTS {
        let answer = server.try_send(&Request::new("GET", "/api/v2/queues"));
        let answer = answer.unwrap_or_else(|error| panic!("{stderr}: request {n}: {error}"));
        answer.expect(200);
    }
    assert_eq!(server.terminate().code(), Some(0), "{stderr}");
}

#[test]
fn a_pipe_that_nobody_drains_does_not_hold_up_requests() {
    let (unread, stderr) = io::pipe().unwrap();
    assert_serves(Server::logging_to(stderr), "an unread pipe");
    drop(unread);
}

#[test]
fn a_pipe_without_a_reader_does_not_hurt_requests() {
    let (reader, stderr) = io::pipe().unwrap();
    drop(reader);
    assert_serves(Server::logging_to(stderr), "a closed pipe");
}

#[test]
fn a_full_disk_under_the_log_does_not_hurt_requests() {
    // Linux has a file that is always full.
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        assert_serves(Server::logging_to(full), "a full disk");
    }
    assert_serves(Server::logging_to(Stdio::null()), "no log at all");
}

#[test]
fn every_line_is_there_when_the_process_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    assert_serves(Server::logging_to(File::create(&path).unwrap()), "a file");
    let log = fs::read_to_string(path).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("answered")).count(), REQUESTS + 1, "{log}");
    assert!(log.lines().last().unwrap().ends_with("stopped"), "{log}");
}

#[test]
fn a_late_reader_gets_the_number_of_lost_lines() {
    let (mut reader, stderr) = io::pipe().unwrap();
    let mut server = Server::logging_to(stderr);
    // Unlike a pipe, the memory for lines is ours; this is more than both hold together.
    let mut connection = server.connect();
    let request = Request::new("GET", "/health").to_bytes();
    for _ in 0..400 {
        connection.write(&request.repeat(50)).unwrap();
        (0..50).for_each(|_| drop(connection.read_response(true).unwrap().expect(200)));
    }
    let reading = thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).map(|_| log)
    });
    assert_eq!(server.terminate().code(), Some(0));
    let log = reading.join().unwrap().unwrap();
    let (told, kept): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| line.contains("log lines were lost"));
    let lost = told.iter().map(|line| line.split_whitespace().find_map(|word| word.parse::<usize>().ok()).unwrap());
    // A few lines are about the start and the end of the server.
    let all = kept.len() + lost.sum::<usize>();
    assert!(!told.is_empty() && (20_001..20_010).contains(&all), "{told:?} and {} others", kept.len());
}

#[test]
fn lines_as_json_are_one_object_each() {
    let mut server = Server::with_arguments(&["--log-level", "info", "--log-format", "json"]);
    server.create_queue("q");
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "answered"), "{log}");
}
