//! The start of a command, and its exit status.

use rustix::process::Pid;

use super::*;

#[tokio::test]
async fn the_exit_code_or_the_signal_is_reported() {
    for (script, status) in [
        ("exit 0", Exit::Code(0)),
        ("exit 75", Exit::Code(75)),
        ("exit 255", Exit::Code(255)),
        ("kill -9 $$", Exit::Signal(9)),
        ("kill -TERM $$", Exit::Signal(15)),
    ] {
        let finished = Trial::shell(script).run().await;
        let ended = finished.end();
        assert_eq!((ended.status, ended.was_stopped), (status, false), "{script}");
        assert_eq!((&ended.log_note, &ended.process_note), (&None, &None));
        assert_eq!(finished.log, None, "a silent run has no log");
    }
}

async fn refusal(argv: &[&str]) -> StartError {
    Trial::new(argv).run().await.result.unwrap_err()
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_apart() {
    assert!(matches!(refusal(&["no-such-command-anywhere"]).await, StartError::NotFound(_)));
    assert!(matches!(refusal(&["/no/such/file"]).await, StartError::NotFound(_)));
    assert!(matches!(refusal(&[]).await, StartError::NotFound(_)));
    assert!(matches!(refusal(&["/etc/passwd"]).await, StartError::NotExecutable(..)));
    assert!(matches!(refusal(&["/etc/passwd/x"]).await, StartError::NotExecutable(..)));
    assert!(matches!(refusal(&["/"]).await, StartError::NotExecutable(..)));
    let long = "x".repeat(3 << 20);
    assert!(matches!(refusal(&["true", &long]).await, StartError::TooLong));
}

#[tokio::test]
async fn a_file_that_is_no_program_or_names_no_interpreter_is_not_executable() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    for text in ["#!/no/such/interpreter\n", "\u{1}\u{2}\u{3}\u{4}"] {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = refusal(&[file.to_str().unwrap()]).await;
        assert!(matches!(error, StartError::NotExecutable(..)), "{error}");
    }
}

#[tokio::test]
async fn the_environment_is_ours_with_what_is_added_and_removed() {
    let mut trial =
        Trial::shell("echo $PATH; echo $ADDED; echo ${HOME-none}; echo $TASKQUEUE_RUN_ID; cat; ps -o pgid= $$");
    trial.spec.environment.push(("ADDED".into(), "yes".into()));
    trial.spec.remove.push("HOME".into());
    let run_id = trial.spec.run_id.as_str().to_owned();
    let finished = trial.run().await;
    let output = finished.relayed(Stream::Stdout);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..4], [&std::env::var("PATH").unwrap(), "yes", "none", &run_id]);
    // Standard input was empty, or `cat` had not ended.
    assert_ne!(lines[4].trim(), Pid::as_raw(Some(rustix::process::getpgrp())).to_string());
}
