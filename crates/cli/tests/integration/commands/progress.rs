//! Progress of tasks and telemetry of workers, as the commands show them.

use serde_json::{Value, json};

use super::support::{A, B, Server, lines};

/// A task whose run reported this.
fn server_with(progress: &Value) -> Server {
    let server = Server::claimed();
    let body = json!({"run_id": "r_run000000001", "progress": progress});
    assert_eq!(server.post(&format!("tasks/{A}/progress"), &body.to_string()), 204);
    server
}

#[test]
fn a_task_shows_a_bar_with_what_else_its_run_said() {
    let server = server_with(&json!({"step": 30, "total": 120, "loss": 0.31, "note": "warm\u{1b}[31m up"}));
    let shown = lines(&server.run(&format!("task get {A}")).ok());
    let at = shown.iter().position(|line| line.starts_with("progress")).unwrap();
    assert!(shown[at].contains("[=======>                      ] 25 %  30/120"), "{shown:?}");
    assert_eq!(shown[at + 1].trim_start(), r"loss=0.31 note=warm\u{1b}[31m up");
    assert_eq!(shown[at + 2].trim_start(), "attempt 1, now");
    server.complete(A, 1);
    let ended = server.run(&format!("task get {A}")).ok();
    assert!(ended.contains("25 %  30/120") && !ended.contains("ETA"), "{ended}");
}

#[test]
fn lists_show_progress_and_its_members_in_every_format() {
    let server = server_with(&json!({"step": 30, "total": 120, "loss": 0.25}));
    server.submit(B, &[]);
    let shown = server.run("task list").ok();
    let row = shown.lines().find(|line| line.starts_with(A)).unwrap();
    assert!(shown.contains("PROGRESS") && row.contains("25 %"), "{shown}");
    let list = "task list --columns id,progress.step,progress.loss,progress --sort progress.loss";
    let shown = lines(&server.run(list).ok());
    assert_eq!(shown[0].split_whitespace().collect::<Vec<_>>(), ["id", "progress.step", "progress.loss", "progress"]);
    assert!(shown[1].starts_with(A) && shown[1].contains("30") && shown[1].contains("0.25"), "{shown:?}");
    assert!(shown[1].contains("25 %"), "{shown:?}");
    assert_eq!(shown[2].split_whitespace().collect::<Vec<_>>(), ["t_bbbbbbbbbbbb", "-", "-", "-"]);
    let columns = "progress.step,progress,progress_attempt";
    let csv = server.run(&format!("task list -o csv --columns {columns} --status running")).ok();
    assert_eq!(csv, format!("{columns}\n30,{},1\n", r#""{""loss"":0.25,""step"":30,""total"":120}""#));
    let listed = server.run("task list -o json --status running").json();
    assert_eq!(listed[0]["progress"], json!({"step": 30, "total": 120, "loss": 0.25}));
    assert_eq!(server.count("progress.loss > 0.2"), 1);
    assert_eq!(server.count("progress.loss > 0.3"), 0);
    server.complete(A, 1);
    assert!(!server.run("task list").ok().contains("PROGRESS"), "what has ended is no progress");
    server.run("task list --columns progress_updated_at.x").fails(2);
}

#[test]
fn workers_show_what_they_measure_where_that_is_asked_for() {
    let server = Server::start();
    let worker = |number: u32| format!("workers/w_worker00000{number}");
    let report =
        json!({"route": "gpu", "status": "idle", "task_id": null, "metadata": {"host": "gpu-3", "slot": 2, "pid": 7}});
    assert_eq!(server.post(&worker(1), &report.to_string()), 204);
    assert_eq!(server.post(&worker(2), r#"{"route":"a","status":"idle","task_id":null}"#), 204);
    assert_eq!(server.post(&worker(3), r#"{"route":"b","status":"idle","task_id":null}"#), 204);
    let gpu = json!({"index": 0, "name": "RTX", "utilization_percent": 97, "memory_used_bytes": 1_u64 << 34,
        "memory_total_bytes": 24_u64 << 30, "temperature_celsius": 71});
    let telemetry =
        json!({"cpu_percent": 250.5, "memory_bytes": 3_u64 << 29, "processes": 4, "host": {}, "gpus": [gpu]});
    let measured = |number, telemetry| {
        let body = json!({"telemetry": telemetry}).to_string();
        assert_eq!(server.post_to(&format!("{}/telemetry", worker(number)), &body), 204);
    };
    measured(1, telemetry.clone());
    measured(2, json!({"load": [1, 2]}));
    let narrow = server.run("worker list").ok();
    assert!(!narrow.contains("GPU"), "{narrow}");
    let wide = lines(&server.run("worker list --wide").ok());
    let head: Vec<&str> = wide[0].split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    assert_eq!(head[5..], ["WHERE", "CPU", "MEMORY", "GPUS", "TELEMETRY", "MEASURED"]);
    assert!(wide[1].contains("gpu-3, slot 2, pid 7"), "{wide:?}");
    assert!(wide[1].contains("250 %  1.5 GiB  0: 97 % 16 of 24 GiB 71 °C"), "{wide:?}");
    assert!(wide[2].contains(r#"{"load":[1,2]}"#), "{wide:?}");
    let listed = server.run("worker list -o json").json();
    assert_eq!((&listed[0]["telemetry"], listed[2].get("telemetry")), (&telemetry, None));
    let csv = server.run("worker list -o csv").ok();
    assert!(csv.lines().next().unwrap().ends_with(",expires_at,metadata.host,metadata.slot,metadata.pid"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().ends_with(",gpu-3,2,7"), "{csv}");
    let csv = server.run("worker list --wide -o csv").ok();
    assert!(csv.lines().nth(1).unwrap().contains(",gpu-3,2,7,250.5,1610612736,"), "{csv}");
    assert_eq!(server.run("worker list --filter telemetry.cpu_percent>200 -o quiet").ok(), "w_worker000001\n");
}
