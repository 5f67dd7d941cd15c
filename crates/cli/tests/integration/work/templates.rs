//! The command as a template: mistakes that are found before a task is claimed. What templates are filled with is proven in the crate
//! `worker`; that a command gets it, in many tests here.

use serde_json::json;

use super::server::Server;
use super::support::Setup;

#[test]
fn a_misspelt_name_is_found_at_the_first_task_which_is_given_back() {
    let server = Server::start();
    (1..=3).for_each(|n| server.create_once(n, json!({"batch_size": 32, "model": {"layers": n}})));
    for (jobs, name, advice) in [
        (1, "batch_sise", "did you mean batch_size?"),
        (2, "model.layer", "did you mean model.layers?"),
        (1, "prompt", "%{prompt:VALUE} gives a value to tasks without it"),
    ] {
        let setup = Setup::new(&server).flags(&format!("--jobs {jobs}"));
        let mut worker = setup.sh("echo > ran", &[&format!("%{{{name}}}")]);
        worker.finish().fails_with(2, &[&format!("error: the command needs {name}, and"), advice]);
        assert!(!worker.path("ran").exists());
        for n in 1..=3 {
            assert_eq!(server.assert_state(n, "pending", 0)["last_error"], json!(null));
        }
    }
}

#[test]
fn a_mistake_in_the_template_is_found_before_the_first_claim() {
    let server = Server::with_tasks(1);
    let mut worker = Setup::new(&server).start(&["echo", "fine %{x}", "ab%{a%{b}"]);
    worker.finish().fails_with(2, &["element 3 of the command, column 6:"]);
    let task = server.task(1);
    assert_eq!((&task["status"], &task["started_at"]), (&json!("pending"), &json!(null)));
}
