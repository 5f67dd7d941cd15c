//! The trace of a run: its command knows it, the requests about the run have it, and it is not the one that the worker was started in.

use serde_json::json;

use super::server::{Server, task_id};
use super::support::{Setup, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The trace id and the span id in `00-<trace>-<span>-01`.
#[track_caller]
fn ids(parent: &str) -> (String, String) {
    let parts: Vec<&str> = parent.trim().split('-').collect();
    let [version, trace, span, _] = parts[..] else { panic!("{parent}") };
    assert_eq!((version, trace.len(), span.len()), ("00", 32, 16), "{parent}");
    (trace.to_owned(), span.to_owned())
}

#[test]
fn a_run_has_the_trace_of_its_task_or_one_of_its_own_and_so_have_its_requests() {
    let server = Server::with_log();
    let parent = |trace: &str| format!("00-{trace}-00f067aa0ba902b7-01");
    server.create(1, json!({}));
    server.create(2, json!({"metadata": {"traceparent": parent(TRACE)}}));
    server.create(3, json!({"metadata": {"traceparent": "nonsense"}}));
    let inherited = "0af7651916cd43dd8448eb211c80319c";
    let setup = Setup::new(&server).flags("--max-tasks 3").env("TRACEPARENT", &parent(inherited));
    let script = "echo $TRACEPARENT > $TASKQUEUE_TASK_ID; echo \"state $TRACESTATE\" > state";
    let mut worker = setup.env("TRACESTATE", "vendor=1").sh(script, &[]);
    worker.finish_well();
    let traces: Vec<(String, String)> = (1..=3).map(|n| ids(&worker.read(&task_id(n)))).collect();
    assert_eq!(traces[1].0, TRACE, "that of whoever created it");
    assert_ne!(traces[1].1, "00f067aa0ba902b7", "a span of its own");
    assert!(traces[0].0 != traces[2].0 && traces.iter().all(|(trace, _)| trace != inherited), "{traces:?}");
    assert_eq!(worker.read("state"), "state \n");
    let log = server.log();
    for (trace, _) in &traces {
        until("the line of the report", || {
            let line = |line: &str| line.contains("/complete") && line.contains(&format!("trace_id={trace}"));
            server.log().lines().any(line)
        });
    }
    assert!(!log.contains(inherited), "{log}");
}

#[test]
fn a_command_line_inside_a_run_calls_within_its_trace() {
    let server = Server::with_log();
    server.create(1, json!({}));
    let script =
        format!("{} task submit --arg x=1 > submitted; echo $TRACEPARENT > trace", env!("CARGO_BIN_EXE_taskqueue"));
    let mut worker = Setup::new(&server).flags("--max-tasks 1").sh(&script, &[]);
    worker.finish_well();
    let trace = ids(&worker.read("trace")).0;
    until("the line of the creation", || {
        server.log().lines().any(|line| line.contains("method=\"PUT\"") && line.contains(&trace))
    });
}
