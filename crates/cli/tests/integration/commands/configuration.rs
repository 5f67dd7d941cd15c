//! Where values come from, which source wins, and that the token stays secret.

use std::fs;

use serde_json::json;

use super::support::{Server, binary, finish, write};

#[test]
fn config_show_prints_each_value_and_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let show = |flags: &[&str], environment: &[(&str, &str)]| {
        let mut command = binary(&at.join("deep"));
        command.env("HOME", at).args(["config", "show", "-o", "quiet"]).args(flags);
        finish(command.envs(environment.iter().copied())).ok()
    };
    fs::create_dir_all(at.join("deep")).unwrap();
    let built_in = "url=http://127.0.0.1:8000\nqueue=default\ntoken=not set\nallow_insecure_token=false\n";
    assert_eq!(show(&[], &[]), built_in);
    fs::create_dir_all(at.join(".config/taskqueue")).unwrap();
    fs::write(at.join(".config/taskqueue/config.toml"), "url = 'http://user:1'\nqueue = 'user'").unwrap();
    assert!(show(&[], &[]).starts_with("url=http://user:1\nqueue=user\n"));
    fs::write(at.join("taskqueue.toml"), "queue = 'project'").unwrap();
    assert!(show(&[], &[]).starts_with("url=http://user:1\nqueue=project\n"));
    let environment = [("TASKQUEUE_QUEUE", "env"), ("TASKQUEUE_TOKEN", "hush")];
    assert!(show(&[], &environment).starts_with("url=http://user:1\nqueue=env\ntoken=not sent: the connection "));
    assert!(show(&["-q", "flag"], &environment).contains("queue=flag\n"));
    let empty = [("TASKQUEUE_QUEUE", ""), ("TASKQUEUE_TOKEN", "")];
    assert!(show(&[], &empty).contains("queue=project\ntoken=not set\n"));
}

#[test]
fn sources_are_named_in_every_format_and_the_token_in_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("taskqueue.toml");
    write(&path, "token = 'hush'\nqueue = 'project'", 0o600);
    let show = |format| finish(binary(folder.path()).args(["config", "show", "-o", format]));
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
fn a_token_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskqueue.toml");
    write(&path, "token = 'hush'", 0o644);
    let refused = |flags: &[&str], advice: &str| {
        let message = finish(binary(folder.path()).args(["queue", "list"]).args(flags)).fails_with(2, &[advice]);
        assert!(!message.contains("hush"), "{flags:?}: {message}");
    };
    refused(&[], "chmod 600");
    // The same for files that hold nothing but the token. Behind a link the mode of its target counts.
    let token = folder.path().join("token");
    std::os::unix::fs::symlink("token", folder.path().join("link")).unwrap();
    fs::write(&path, "token_file = 'token'").unwrap();
    for mode in [0o640, 0o604] {
        write(&token, "hush", mode);
        for flags in [&[][..], &["--token-file", "token"], &["--token-file", "link"]] {
            refused(flags, "run: chmod 600 ");
        }
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
