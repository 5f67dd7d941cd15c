//! The environment of a command: its variables, its files, and no token without `--pass-token`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::server::{Server, task_id};
use super::support::{Setup, Worker, until};

const TOKEN: &str = "a-token-that-nobody-sees";

#[test]
fn the_environment_has_the_task_and_the_run() {
    let server = Server::start();
    server.create(1, json!({"args": {"seed": 7}, "routes": ["gpu"]}));
    let script = "env > variables; cat $TASKQUEUE_ARGS_FILE > args";
    let setup = Setup::new(&server).flags("--max-tasks 1 --route gpu").env("OTHER", "kept");
    // Of another run: the task has no limit.
    let setup = setup.env("TASKQUEUE_TIMEOUT_SECONDS", "7");
    let mut worker = setup.sh(script, &[]);
    worker.finish_well();
    let variables = worker.read("variables");
    let value = |name: &str| variables.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    let [run] = &worker.runs(1)[..] else { panic!("one run") };
    let run_id = run.file_name().unwrap().to_str().unwrap();
    assert!(run_id.starts_with("r_"), "{run_id}");
    for (name, expected) in [
        ("URL", server.url().as_str()),
        ("QUEUE", "q"),
        ("ROUTE", "gpu"),
        ("TASK_ID", &task_id(1)),
        ("RUN_ID", run_id),
        ("ATTEMPT", "1"),
        ("SLOT", "0"),
        ("RUN_DIR", run.to_str().unwrap()),
        ("ARGS_FILE", run.join("args.json").to_str().unwrap()),
        ("RESULT_FILE", run.join("result.json").to_str().unwrap()),
        ("PROGRESS_FILE", run.join("progress.json").to_str().unwrap()),
    ] {
        assert_eq!(value(&format!("TASKQUEUE_{name}")), Some(expected), "{name} in\n{variables}");
    }
    assert!(value("TASKQUEUE_WORKER_ID").unwrap().starts_with("w_"), "{variables}");
    assert_eq!(value("OTHER"), Some("kept"));
    let known = variables.lines().filter(|line| line.starts_with("TASKQUEUE_")).count();
    assert_eq!(known, 12, "no other variable of ours:\n{variables}");
    assert_eq!(serde_json::from_str::<Value>(&worker.read("args")).unwrap(), json!({"seed": 7}));
    assert_eq!(run.metadata().unwrap().permissions().mode() & 0o777, 0o700, "nobody else's business");
}

#[test]
fn a_command_has_no_input_and_no_file_of_the_worker() {
    let server = Server::with_tasks(1);
    let script = "cat > input; ls -l /proc/$$/fd > files; echo done > done";
    let mut worker = Setup::new(&server).flags("--max-tasks 1").sh(script, &[]);
    worker.finish_well();
    assert_eq!((worker.read("input").as_str(), worker.read("done").as_str()), ("", "done\n"));
    assert!(!worker.read("files").contains("socket:"), "{}", worker.read("files"));
}

/// A worker that has the token from a file.
fn with_token_file(server: &Server) -> Setup {
    Setup::new(server).env_remove("TASKQUEUE_TOKEN").flags("--token-file secret").file("secret", TOKEN, 0o600)
}

/// Runs a command that waits, searches for the token in all places that the command can read, and lets it end.
fn looked_through(server: &Server, setup: Setup) -> Worker {
    server.create_once(1, json!({}));
    let script = "cat /proc/$$/environ /proc/$$/cmdline > seen.new; mv seen.new seen; env; \
                  while [ ! -e go ]; do sleep 0.02; done; exit 1";
    let mut worker = setup.flags("--max-tasks 1").sh(script, &[]);
    worker.wait_for_file("seen");
    for process in worker.alive() {
        assert!(!process.command.contains(TOKEN), "{process:?}");
    }
    worker.let_go();
    assert!(server.task(1)["last_error"].is_object());
    worker
}

/// Every file below a folder, with its text.
fn texts(folder: &std::path::Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: &std::path::Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    let of = |path: std::path::PathBuf| {
        if path.is_dir() { texts(&path) } else { vec![(path.display().to_string(), text(&path))] }
    };
    entries.flat_map(of).collect()
}

#[test]
fn the_token_reaches_no_command_and_no_file() {
    for from_file in [false, true] {
        let server = Server::with_token(TOKEN);
        let setup = if from_file { with_token_file(&server) } else { Setup::new(&server) };
        let worker = looked_through(&server, setup);
        for (file, text) in texts(&worker.path(".")) {
            assert_eq!(text.contains(TOKEN), from_file && file.ends_with("/secret"), "{file}");
        }
        assert!(!server.task(1).to_string().contains(TOKEN));
    }
}

/// As the unit of the package starts a worker: the token is a credential of systemd.
#[test]
fn no_variable_leads_a_command_to_the_credentials_of_the_worker() {
    let server = Server::with_token(TOKEN);
    let credentials = tempfile::tempdir().unwrap();
    let token = credentials.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let (folder, token) = (credentials.path().to_str().unwrap(), token.to_str().unwrap());
    let setup = Setup::new(&server).env_remove("TASKQUEUE_TOKEN").env("CREDENTIALS_DIRECTORY", folder);
    let setup = setup.env("TASKQUEUE_TOKEN_FILE", token).flags(&format!("--token-file {token}"));
    let worker = looked_through(&server, setup);
    let seen = worker.read("seen");
    assert!(!seen.contains(folder) && !seen.contains(TOKEN), "{seen}");
}

#[test]
fn a_command_gets_the_token_where_that_is_wanted() {
    let server = Server::with_token(TOKEN);
    let worker = looked_through(&server, with_token_file(&server).flags("--pass-token"));
    assert!(worker.read("seen").contains(&format!("TASKQUEUE_TOKEN={TOKEN}\0")));
}

/// Runs `config show` inside a run of a worker whose URL comes from a project file, and returns its output.
fn shown_in_a_run(server: &Server, project: &str, user: &str, flags: &str) -> String {
    server.create_once(1, json!({}));
    let setup = Setup::new(server).env_remove("TASKQUEUE_URL").env_remove("TASKQUEUE_TOKEN");
    let setup = setup.flags("--max-tasks 1").flags(flags).env("TASKQUEUE", env!("CARGO_BIN_EXE_taskqueue"));
    let setup = setup.file("taskqueue.toml", &format!("url = '{}'\n{project}", server.url()), 0o600);
    let setup = setup.file(".config/taskqueue/config.toml", user, 0o600);
    // Another folder, so that the command does not find the project file itself.
    let mut worker = setup.sh("here=$PWD; cd /; $TASKQUEUE config show -o quiet > $here/shown", &[]);
    worker.finish_well();
    worker.read("shown")
}

#[test]
fn the_url_of_a_project_file_gets_no_token_of_the_user_by_way_of_a_command() {
    let server = Server::start();
    let shown = shown_in_a_run(&server, "", &format!("token = '{TOKEN}'"), "--pass-token");
    assert!(shown.starts_with(&format!("url={}\n", server.url())), "{shown}");
    assert!(shown.contains("token=withheld: a project file names the URL\n"), "{shown}");
}

#[test]
fn a_command_gets_the_token_of_the_project_file_that_names_the_url_where_that_is_wanted() {
    let server = Server::with_token(TOKEN);
    let shown = shown_in_a_run(&server, &format!("token = '{TOKEN}'"), "token = 'other'", "--pass-token");
    assert!(shown.contains(&format!("token=sent to {}\n", server.url())), "{shown}");
    assert!(!shown.contains("withheld"), "{shown}");
}

#[test]
fn each_slot_sends_observations_and_withdraws_them_at_the_end() {
    let server = Server::with_tasks(1);
    let script = "echo $TASKQUEUE_WORKER_ID > id; while [ ! -e go ]; do sleep 0.02; done";
    let mut worker = Setup::new(&server).flags("--jobs 2").sh(script, &[]);
    let id = worker.wait_for_file("id").trim().to_owned();
    let busy = json!("busy");
    until("one busy and one idle slot", || {
        let workers = server.workers();
        workers.len() == 2 && workers.iter().filter(|worker| worker["status"] == busy).count() == 1
    });
    let workers = server.workers();
    let slot = workers.iter().find(|worker| worker["id"] == id).unwrap();
    assert_eq!((&slot["status"], &slot["task_id"]), (&busy, &json!(task_id(1))));
    assert!(workers.iter().all(|worker| worker["id"].as_str().unwrap().starts_with("w_")), "{workers:?}");
    worker.write("go");
    server.wait_for(1, "succeeded");
    until("two idle slots", || server.workers().iter().all(|worker| worker["status"] == "idle"));
    worker.stop();
    assert_eq!(server.workers(), Vec::<Value>::new());
}
