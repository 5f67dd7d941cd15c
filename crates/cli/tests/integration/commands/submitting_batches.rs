//! `task submit --from` and `task sweep` by batches: the same answers as one by one, whatever happens in between.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::lost_answers::{Fate, Proxy};
use super::support::{A, Ran, Server, numbered_lines, start_reading};

const LINES: usize = 2_500;
/// Tasks of a usual batch.
const BATCH: usize = 500;

fn is_batch(request: &str) -> bool {
    request.contains("/tasks/batch/create ")
}

/// Lines of which some are wrong: some here, some at the server, at the edges and in the middle of batches.
fn lines_with_wrong_ones() -> String {
    let line = |n: usize| match n {
        1 | 700 => "nonsense".to_owned(),
        500 | 501 => format!("{{\"lr\":{n}}}"),
        1200 | 2500 => format!("{{\"id\":\"t_aaaaaaaaaaaa\",\"priority\":{n}}}"),
        1300 => "{\"args\":{\"n\":99999999999999999999}}".to_owned(),
        n => format!("{{\"args\":{{\"n\":{n}}}}}"),
    };
    (1..=LINES).map(|n| line(n) + "\n").collect()
}

#[test]
fn wrong_lines_are_refused_by_line_and_the_others_created() {
    let server = Server::with_tasks(&[A]);
    server.write("tasks.jsonl", &lines_with_wrong_ones());
    let ran = server.run("task submit --from tasks.jsonl").printed(&format!("{} created, 7 refused\n", LINES - 7));
    assert_eq!(server.count("args.n > 0"), LINES as u64 - 7);
    let said = ran.fails(1);
    let places: Vec<&str> = said.lines().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(places, [1, 500, 501, 700, 1200, 1300, 2500].map(|n| format!("line {n}")));
    assert!(said.contains("line 1200: there is a task t_aaaaaaaaaaaa already, with another definition"), "{said}");
}

#[test]
fn the_first_refusals_are_told_by_line_and_the_others_counted() {
    let server = Server::with_tasks(&[A]);
    let large = format!("{{\"args\":{{\"text\":\"{}\"}}}}\n", "x".repeat(1_048_576));
    let others: String = (2..=25).map(|n| format!("{{\"id\":\"t_aaaaaaaaaaaa\",\"priority\":{n}}}\n")).collect();
    let message = server.run_reading("task submit --from -", &(large + &others)).fails_with(1, &["line 1: "]);
    let told: Vec<&str> = message.lines().collect();
    assert!((1..=20).zip(&told).all(|(n, line)| line.starts_with(&format!("warning: line {n}: "))), "{message}");
    assert!(told[0].contains("a task has at most 1 MiB of data"), "{message}");
    assert_eq!(told[20..], ["warning: 5 more were refused"]);
}

#[test]
fn a_server_that_fails_between_two_batches_has_what_was_told_and_the_next_try_goes_on() {
    let server = Server::start();
    server.write("tasks.jsonl", &numbered_lines(LINES));
    let mut batches = 0;
    let proxy = Proxy::start(&server, move |request| {
        batches += usize::from(is_batch(request));
        // From the third on nothing reaches the server.
        if batches > 2 { Fate::Missing } else { Fate::Passed }
    });
    let submit = ["task", "submit", "--from", "tasks.jsonl", "--url"];
    let message = server.run_with(&[&submit[..], &[&proxy.url]].concat()).printed("").fails(1);
    assert_eq!(server.count("args.n >= 0"), 2 * BATCH as u64);
    let note = format!("note: {} created so far; run the same command again to go on\n", 2 * BATCH);
    assert!(message.starts_with(&note) && message.lines().count() == 2, "{message}");
    let again = server.run_with(&[&submit[..], &[&server.url]].concat()).ok();
    assert_eq!(again, format!("{} created, {} already there\n", LINES - 2 * BATCH, 2 * BATCH));
}

#[test]
fn a_batch_whose_answer_is_lost_is_repeated_and_creates_nothing_twice() {
    let server = Server::start();
    server.write("tasks.jsonl", &numbered_lines(LINES));
    let proxy = Proxy::for_nth(&server, 2, Fate::Lost, is_batch);
    let ran = server.run_with(&["task", "submit", "--from", "tasks.jsonl", "--url", &proxy.url]).ok();
    assert_eq!(ran, format!("{} created, {BATCH} already there\n", LINES - BATCH));
    assert_eq!(server.run("task count -o quiet").ok(), format!("{LINES}\n"));
}

/// What proxies usually take at most.
const PROXY_BODY_BYTES: usize = 1_048_576;

/// Lines of about 2 KB.
fn long_lines(count: usize) -> String {
    let text = "x".repeat(2_000);
    (0..count).map(|n| format!("{{\"args\":{{\"n\":{n},\"text\":\"{text}\"}}}}\n")).collect()
}

/// A proxy that notes the sizes of the batches.
fn measuring_proxy(server: &Server) -> (Proxy, Arc<Mutex<Vec<usize>>>) {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&sizes);
    let proxy = Proxy::start(server, move |request| {
        if is_batch(request) {
            noted.lock().unwrap().push(request.len());
        }
        Fate::Passed
    });
    (proxy, sizes)
}

#[test]
fn a_file_of_long_lines_is_sent_in_full_batches_that_pass_usual_proxies() {
    let server = Server::start();
    let path = server.write("long.jsonl", &long_lines(3_000));
    for (from, said) in [("long.jsonl", "3000 created\n"), ("-", "0 created, 3000 already there\n")] {
        let (proxy, sizes) = measuring_proxy(&server);
        let mut command = server.command(&["task", "submit", "--from", from, "--url", &proxy.url]);
        let child = start_reading(&mut command, std::fs::File::open(&path).unwrap());
        assert_eq!(Ran::of(child).ok(), said);
        let sizes = std::mem::take(&mut *sizes.lock().unwrap());
        assert!(sizes.iter().all(|size| *size <= PROXY_BODY_BYTES), "{sizes:?}");
        assert!(sizes.len() <= 8, "{sizes:?}");
    }
}

#[test]
fn batches_that_are_too_large_for_a_proxy_are_sent_one_by_one() {
    let server = Server::with_tasks(&[A]);
    let conflict = "{\"id\":\"t_aaaaaaaaaaaa\",\"priority\":1}\n";
    server.write("tasks.jsonl", &format!("{}{conflict}{}", numbered_lines(BATCH), numbered_lines(100)));
    let proxy = Proxy::start(&server, |request| if is_batch(request) { Fate::TooLarge } else { Fate::Passed });
    let ran = server.run_with(&["task", "submit", "--from", "tasks.jsonl", "--url", &proxy.url]);
    let message = ran.printed(&format!("{} created, 1 refused\n", BATCH + 100)).fails(1);
    let expected = format!("warning: line {}: there is a task t_aaaaaaaaaaaa already", BATCH + 1);
    assert!(message.starts_with(&expected) && message.lines().count() == 1, "{message}");
    assert_eq!(server.count("args.n >= 0"), BATCH as u64 + 100);
}

#[test]
fn what_the_last_batch_created_is_told_although_one_of_its_tasks_ends_the_command() {
    let server = Server::start();
    assert_eq!(server.run_reading("task submit --from -", &numbered_lines(1)).ok(), "1 created\n");
    server.write("tasks.jsonl", &numbered_lines(10));
    // The first task is there with another priority, and cannot be read to compare it.
    let proxy = Proxy::start(&server, |request| {
        if request.starts_with("GET /api/v2/queues/q/tasks/t_") { Fate::Missing } else { Fate::Passed }
    });
    let submit = ["task", "submit", "--from", "tasks.jsonl", "--priority", "5", "--url", &proxy.url];
    let message = server.run_with(&submit).fails(1);
    assert!(message.starts_with("note: 9 created so far; run the same command again to go on\n"), "{message}");
    assert_eq!(server.count("priority == 5"), 9);
}

#[test]
fn lines_that_come_slowly_are_not_held_back() {
    let server = Server::start();
    let mut command = server.command(&["task", "submit", "--from", "-", "-o", "json"]);
    let mut child = start_reading(&mut command, Stdio::piped());
    let mut input = child.stdin.take().unwrap();
    for n in 1..=3 {
        writeln!(input, "{{\"args\":{{\"n\":{n}}}}}").unwrap();
        while server.count("args.n > 0") < n {
            assert!(child.try_wait().unwrap().is_none(), "the command ended early");
        }
    }
    drop(input);
    assert_eq!(Ran::of(child).json(), json!({"created": 3, "already_there": 0, "different": 0, "refused": 0}));
}
