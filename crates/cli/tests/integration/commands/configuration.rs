//! Where values come from, and that the token stays secret. Which source wins is proven beside the sources, and for the token in
//! `destinations`.

use std::fs;

use serde_json::json;

use super::support::{Server, binary, finish, write};

#[test]
fn sources_are_named_in_every_format_and_the_token_in_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("taskqueue.toml");
    write(&path, "token = 'hush'\nqueue = 'project'", 0o600);
    // What is empty is as if it were not set.
    let empty = [("TASKQUEUE_QUEUE", ""), ("TASKQUEUE_TOKEN", "")];
    let show = |format| finish(binary(folder.path()).args(["config", "show", "-o", format]).envs(empty));
    let source = format!("file {}", path.display());
    assert_eq!(
        show("json").json(),
        json!([
            {"name": "url", "value": "http://127.0.0.1:8000", "source": "default"},
            {"name": "queue", "value": "project", "source": source},
            {"name": "token", "value": "sent to http://127.0.0.1:8000", "source": source},
            {"name": "allow_insecure_token", "value": "false", "source": "default"},
        ])
    );
    for format in ["table", "json", "jsonl", "quiet"] {
        assert!(!show(format).ok().contains("hush"));
    }
}

#[test]
fn tokens_come_from_the_environment_or_files_and_a_missing_one_is_told_from_a_wrong_one() {
    let server = Server::with_token("hush");
    assert_eq!(server.run("queue list -o quiet").ok(), "q\n");
    server.write("token", "hush\n");
    server.write("wrong", "other\n");
    let without = |flags: &[&str]| {
        finish(server.command(&["queue", "list", "-o", "quiet"]).args(flags).env_remove("TASKQUEUE_TOKEN"))
    };
    assert_eq!(without(&["--token-file", "token"]).ok(), "q\n");
    write(&server.write("open", "hush\n"), "hush\n", 0o644);
    assert!(!without(&["--token-file", "open"]).fails_with(2, &["run: chmod 600 "]).contains("hush"));
    let missing = without(&[]).fails_with(1, &["needs a token (unauthorized)", "TASKQUEUE_TOKEN", "--token-file"]);
    let wrong = finish(server.command(&["queue", "list"]).env("TASKQUEUE_TOKEN", "wrong"));
    let wrong = wrong.fails_with(1, &["does not accept the token of environment TASKQUEUE_TOKEN", "config show"]);
    assert!(!missing.contains("Bearer") && !wrong.contains("Bearer"), "{missing}{wrong}");
    let message = server
        .run("queue list --token-file wrong")
        .fails_with(1, &["does not accept the token of flag --token-file (unauthorized)"]);
    assert!(!message.contains("other"), "{message}");
    server.write("taskqueue.toml", "token_file = 'token'");
    assert_eq!(without(&[]).ok(), "q\n");
    without(&["--token-file", "missing"]).fails_with(1, &["missing"]);
    server.run("queue list --token hush").fails_with(2, &["--token"]);
}

#[test]
fn a_file_with_mistakes_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("taskqueue.toml"), "queue = 'q'\nport = 1").unwrap();
    finish(binary(folder.path()).args(["queue", "list"])).fails_with(2, &["taskqueue.toml", "line 2", "port"]);
}
