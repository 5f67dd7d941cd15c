//! Where a task runs and ran: what observations and tasks say about the machine, the slot and the folder.

use std::path::Path;

use serde_json::{Value, json};

use super::server::{Server, task_id};
use super::support::{Setup, until};
use crate::support::run;

#[test]
fn observations_and_tasks_tell_where_a_run_is() {
    let server = Server::with_tasks(1);
    let script = "echo > begun; while [ ! -e go ]; do sleep 0.05; done; echo $TASKQUEUE_RUN_DIR > folder";
    let mut worker = Setup::new(&server).flags("--slots 7").begin(script);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let pid = worker.pid().as_raw_nonzero().get();
    until("a busy observation", || server.workers().iter().any(|worker| worker["status"] == "busy"));
    let observation = server.workers().remove(0);
    let version = env!("CARGO_PKG_VERSION");
    let place = json!({"host": host.trim(), "pid": pid, "slot": 7, "version": version});
    assert_eq!(observation["metadata"], place, "{observation}");

    let running = server.task(1);
    let last_run = &running["last_run"];
    assert_eq!((&last_run["attempt"], &last_run["run_id"]), (&json!(1), &Value::Null), "{running}");
    worker.write("go");
    let task = server.wait_for(1, "succeeded");
    let folder = worker.wait_for_file("folder");
    let by = &task["last_run"]["worker"];
    assert_eq!((&by["host"], &by["pid"], &by["slot"]), (&json!(host.trim()), &json!(pid), &json!(7)), "{task}");
    assert_eq!(by["id"], observation["id"], "{task}");
    // The folder of the run is in this one, under the ids of the task and of the run.
    let run_id = task["last_run"]["run_id"].as_str().unwrap();
    let expected = Path::new(by["folder"].as_str().unwrap()).join(task_id(1)).join(run_id);
    assert_eq!(folder.trim_end(), expected.to_str().unwrap());
    let url = server.url();
    let shown = run(&["task", "get", &task_id(1)], &[("TASKQUEUE_URL", &url), ("TASKQUEUE_QUEUE", "q")]);
    shown.ok_with(&[&format!("folder {}", expected.display()), host.trim()]);
    worker.stop();
}

#[test]
fn a_name_and_metadata_tell_workers_of_one_machine_apart() {
    let server = Server::with_tasks(1);
    let flags = "--jobs 2 --name left --metadata rack=7 --metadata cost.centre=ai";
    let mut worker = Setup::new(&server).flags(flags).sh("true", &[]);
    until("its observations", || server.workers().len() == 2);
    let mut slots: Vec<u64> = server.workers().iter().filter_map(|seen| seen["metadata"]["slot"].as_u64()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1]);
    for seen in server.workers() {
        let metadata = &seen["metadata"];
        assert_eq!((&metadata["name"], &metadata["rack"]), (&json!("left"), &json!(7)), "{metadata}");
        assert!(metadata["host"].is_string() && metadata["cost"] == json!({"centre": "ai"}), "{metadata}");
    }
    let by = server.wait_for(1, "succeeded")["last_run"]["worker"].clone();
    assert_eq!((&by["name"], &by["rack"]), (&json!("left"), &json!(7)), "{by}");
    worker.stop();
}

#[test]
fn what_the_worker_says_itself_cannot_be_given() {
    let server = Server::start();
    for flags in ["--metadata host=a", "--metadata slot=1", "--metadata rack"] {
        Setup::new(&server).flags(flags).sh("true", &[]).finish().fails_with(2, &["--metadata"]);
    }
}
