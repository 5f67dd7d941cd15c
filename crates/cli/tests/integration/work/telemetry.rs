//! What a worker measures, with a real run and a stand-in for `nvidia-smi`.

use serde_json::{Value, json};

use super::server::Server;
use super::support::{Setup, until};

/// A worker that finds this script as `nvidia-smi`.
fn with_nvidia_smi(server: &Server, script: &str) -> Setup {
    let setup = Setup::new(server).file("bin/nvidia-smi", &format!("#!/bin/sh\n{script}\n"), 0o700);
    let path = format!("{}/bin:/usr/bin:/bin", setup.folder().display());
    setup.env("PATH", &path)
}

/// The telemetry of the only worker, when there is some.
#[track_caller]
fn telemetry(server: &Server) -> Value {
    let mut found = Value::Null;
    until("telemetry", || {
        found = server.workers().first().map_or(Value::Null, |worker| worker["telemetry"].clone());
        !found.is_null()
    });
    found
}

#[test]
fn a_run_its_machine_and_its_gpus_are_measured() {
    let server = Server::with_tasks(1);
    let two = "echo '0, NVIDIA A100, 97, 40536, 81920, 71'; echo '1, Tesla T4, [N/A], [Not Supported], 15360, 35'";
    let script = "sh -c 'while [ ! -e go ]; do :; done' & wait";
    let mut worker = with_nvidia_smi(&server, two).flags("--max-tasks 1").sh(script, &[]);
    let found = telemetry(&server);
    assert!(found["cpu_percent"].as_f64().unwrap() > 1.0, "{found}");
    assert!(found["memory_bytes"].as_u64().unwrap() > 100_000, "{found}");
    assert_eq!(found["processes"], 2, "{found}");
    assert!(found["host"]["cpus"].as_u64().unwrap() > 0 && found["host"]["load1"].is_number(), "{found}");
    assert!(found["host"]["memory_used_bytes"].as_u64() < found["host"]["memory_bytes"].as_u64(), "{found}");
    let gpus = json!([
        {"index": 0, "name": "NVIDIA A100", "utilization_percent": 97, "memory_used_bytes": 42_505_076_736_u64,
         "memory_total_bytes": 85_899_345_920_u64, "temperature_celsius": 71},
        {"index": 1, "name": "Tesla T4", "memory_total_bytes": 16_106_127_360_u64, "temperature_celsius": 35},
    ]);
    assert_eq!(found["gpus"], gpus);
    worker.let_go();
}

#[test]
fn nvidia_smi_does_not_get_the_token() {
    let server = Server::start();
    let script = r#"echo "0, token ${TASKQUEUE_TOKEN-none}, 1, 2, 3, 4""#;
    let setup = with_nvidia_smi(&server, script).env("TASKQUEUE_TOKEN", "secret");
    let mut worker = setup.sh("true", &[]);
    assert_eq!(telemetry(&server)["gpus"][0]["name"], "token none");
    worker.stop();
}

#[test]
fn an_nvidia_smi_that_does_not_work_costs_the_gpus_only() {
    let server = Server::start();
    let mut worker = with_nvidia_smi(&server, "exit 1").sh("true", &[]);
    let found = telemetry(&server);
    assert!(found["host"].is_object() && found["gpus"].is_null(), "{found}");
    assert!(found["cpu_percent"].is_null(), "an idle worker has no run: {found}");
    let stderr = worker.stop();
    assert!(stderr.contains("nvidia-smi: it failed: exit status: 1"), "{stderr}");
}

#[test]
fn telemetry_can_be_turned_off() {
    let server = Server::start();
    let mut worker = with_nvidia_smi(&server, "echo > $HOME/asked").flags("--telemetry off").sh("true", &[]);
    until("its observation", || server.workers().len() == 1);
    let mut measured = Setup::new(&server).sh("true", &[]);
    let found = || server.workers().iter().filter(|worker| worker["telemetry"].is_object()).count();
    until("the telemetry of a worker that began later", || found() > 0);
    assert_eq!((found(), server.workers().len(), worker.path("asked").exists()), (1, 2, false));
    for worker in [&mut worker, &mut measured] {
        worker.stop();
    }
}
