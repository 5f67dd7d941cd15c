//! The output of commands: printed at once, stored in the folder of the run, and never blocking the worker.

use std::fs::File;
use std::process::Stdio;

use serde_json::json;

use super::server::Server;
use super::support::{Setup, until};

#[test]
fn output_is_relayed_while_it_is_made_and_kept_with_the_run() {
    let server = Server::with_tasks(1);
    let script = "echo said; echo warned >&2; printf half; while [ ! -e go ]; do sleep 0.02; done; echo ' done'";
    let mut worker = Setup::new(&server).flags("--max-tasks 1").sh(script, &[]);
    until("the output of a command that still runs", || worker.stdout() == "said\nhalf");
    worker.wait_for_line("warned\n");
    assert_eq!(server.task(1)["status"], "running");
    worker.let_go();
    assert_eq!(worker.stdout(), "said\nhalf done\n", "standard output is the command's alone");
    let log = std::fs::read_to_string(worker.runs(1)[0].join("output.log")).unwrap();
    assert!(log.contains("said\n") && log.contains("warned\n") && log.ends_with(" done\n"), "{log}");
}

#[test]
fn the_end_of_a_run_is_printed_after_its_output() {
    let server = Server::with_tasks(1);
    let mut worker = Setup::new(&server).flags("--max-tasks 1").sh("printf 'last words' >&2; exit 3", &[]);
    let stderr = worker.finish_saying(&["\nfailed t_"]);
    let (started, ended) = (stderr.find("started t_"), stderr.find("failed t_"));
    assert!(started < stderr.find("last words") && stderr.find("last words") < ended && ended.is_some(), "{stderr}");
}

#[test]
fn with_several_slots_each_line_begins_with_its_slot_and_task() {
    let server = Server::with_tasks(2);
    let script = "echo begin; echo >> begun; while [ $(wc -l < begun) -lt 2 ]; do sleep 0.02; done; printf end";
    let mut worker = Setup::new(&server).flags("--max-tasks 2 --jobs 2").sh(script, &[]);
    worker.finish_well();
    let stdout = worker.stdout();
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    let of_slot = |slot: usize| {
        let label = lines.iter().find(|line| line.starts_with(&format!("{slot} t_"))).unwrap();
        label.split(" | ").next().unwrap()
    };
    assert_ne!(of_slot(0)[2..], of_slot(1)[2..], "each has its own task: {stdout}");
    let expected = [0, 1].map(|slot| ["begin", "end"].map(|text| format!("{} | {text}", of_slot(slot))));
    assert_eq!(lines, expected.concat());
}

/// In one log file with what the worker says.
#[test]
fn progress_bars_of_several_slots_are_one_line_each_and_no_line_is_glued_to_another() {
    let server = Server::with_tasks(2);
    let bar = r"echo >> begun; while [ $(wc -l < begun) -lt 2 ]; do sleep 0.02; done; \
                i=0; while [ $i -lt 200 ]; do i=$((i+1)); printf '\r%d/200' $i >&2; printf '\rstep %d' $i; done";
    let setup = Setup::new(&server).flags("--max-tasks 2 --jobs 2");
    let mut worker = setup.start_to_one(&["sh", "-c", bar]);
    let stderr = worker.finish_well();
    for text in ["200/200", "step 200"] {
        let ends = stderr.lines().filter(|line| line.ends_with(&format!(" | {text}"))).count();
        assert_eq!((ends, stderr.matches(text).count()), (2, 2), "{stderr}");
    }
    assert!(!stderr.contains('\r') && !stderr.contains("100/200"), "{stderr}");
    let own = ["worker ", "started t_", "succeeded t_", "ended (", "0 t_", "1 t_"];
    assert!(stderr.lines().all(|line| own.iter().any(|begin| line.starts_with(begin))), "{stderr}");
}

#[test]
fn what_the_worker_says_is_not_glued_to_what_its_command_printed_to_the_same_file() {
    let server = Server::with_tasks(1);
    let mut worker = Setup::new(&server).flags("--max-tasks 1").start_to_one(&["sh", "-c", r"printf '\r50%%'"]);
    worker.finish_saying(&["50%\nsucceeded t_"]);
}

#[test]
fn a_log_keeps_the_first_100_mib_of_the_output_and_its_end() {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server).flags("--max-tasks 1");
    let mut worker = setup.start_to(Stdio::null(), &["sh", "-c", "head -c 105000000 /dev/zero; echo the end"]);
    worker.finish_saying(&["keeps the first 104857600 and the last 16384 bytes"]);
    let log = std::fs::read(worker.runs(1)[0].join("output.log")).unwrap();
    assert!(log.len() < 105_000_000 && log.ends_with(b"\0the end\n"), "{}", log.len());
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_work() {
    let server = Server::with_tasks(3);
    let setup = Setup::new(&server).flags("--max-tasks 3");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut worker = setup.start_to(writer, &["sh", "-c", "echo nobody hears this"]);
    worker.finish_well();
    assert_eq!(server.count("succeeded"), 3);
}

#[test]
fn a_reader_that_stops_reading_holds_up_the_command_and_not_the_end_of_the_worker() {
    let server = Server::with_tasks(1);
    let (reader, writer) = std::io::pipe().unwrap();
    let setup = Setup::new(&server).flags("--on-stop release --grace 1");
    let mut worker = setup.start_to(writer, &["sh", "-c", "trap '' TERM; echo > begun; yes"]);
    worker.wait_for_file("begun");
    worker.signal(rustix::process::Signal::TERM);
    worker.finish().ok();
    worker.assert_nothing_is_left();
    assert_eq!(server.task(1)["attempt"], 0, "given back");
    drop(reader);
}

#[test]
fn output_that_is_no_text_is_kept_as_it_is_and_reported_as_text() {
    let server = Server::with_tasks(1);
    let script = r"printf 'a\377b\000c\n'; printf 'e\377\033[31m!\n' >&2; exit 1";
    let setup = Setup::new(&server).flags("--max-tasks 1");
    let stdout = File::create(setup.folder().join("stdout")).unwrap();
    let mut worker = setup.start_to(stdout, &["sh", "-c", script]);
    worker.finish_well();
    assert_eq!(std::fs::read(worker.path("stdout")).unwrap(), b"a\xffb\0c\n");
    let traceback = server.task(1)["last_error"]["traceback"].as_str().unwrap().to_owned();
    assert!(traceback.starts_with("e\u{fffd}") && traceback.ends_with("!\n"), "{traceback:?}");
}

#[test]
fn a_command_that_never_stops_talking_does_not_drown_the_lines_of_the_worker() {
    let server = Server::start();
    server.create_once(1, json!({"talks": true}));
    let script = "if $1; then echo > begun; exec yes; fi";
    let flood = Setup::new(&server).flags("--jobs 2");
    let mut worker = flood.start_to(Stdio::null(), &["sh", "-c", script, "sh", "%{talks}"]);
    worker.wait_for_file("begun");
    for n in 2..=4 {
        server.create_once(n, json!({"talks": false}));
        worker.wait_for_line(&format!("succeeded {}", super::server::task_id(n)));
    }
    worker.signal(rustix::process::Signal::TERM);
    worker.wait_for_line("may finish");
    worker.stop();
}
